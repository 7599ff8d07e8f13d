"""Figures are drawn, in one style, and saved twice."""

import io
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.ground import paths
from flyrun.ground.errors import FlyrunError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


MOST_LINES = 10
# Text and axes are drawn in this colour, which a page replaces by its own.
INK = "#4d4d4c"


_STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.size": 9,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "flyrun",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def _matplotlib() -> ModuleType:
    """The library; it keeps its fonts in our cache where the home takes no files: else it complains."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    if "MPLCONFIGDIR" not in os.environ and not paths.writable(Path(base) / "matplotlib"):
        os.environ["MPLCONFIGDIR"] = str(paths.cache_dir("matplotlib"))
    import matplotlib.figure  # late: a worker that only summarises draws nothing

    return matplotlib


def new_figure(**settings: Any) -> Any:
    """A matplotlib Figure."""
    return _matplotlib().figure.Figure(**settings)


def drawn(
    plots: dict[str, partial], folder: Path, each: Callable[..., Iterable] = map, pdf: bool = False
) -> tuple[dict[str, tuple[str, str]], list[str], list[str]]:
    """Write each figure, by name, into a folder, as .png and .svg, and as .pdf where asked for.

    Returns name -> (caption, SVG text), why some are left out, and faults of some. each: `map`, or its like.
    """
    texts, left_out, against = dict[str, tuple[str, str]](), list[str](), list[str]()
    if plots:
        _matplotlib()  # once, before `each` may copy this process
    outcomes = each(partial(_drawn_or_not, folder, pdf), plots.items())
    for (name, plot), (text, reason, found) in zip(plots.items(), outcomes, strict=True):
        against += [f"figure {name}: {fault}" for fault in found]
        if text:
            texts[name] = caption(plot.func), text
        if reason:
            left_out.append(reason)
    return texts, left_out, against


def _drawn_or_not(
    folder: Path, pdf: bool, named: tuple[str, Callable[[], Any]]
) -> tuple[str, str, list[str]]:
    """A figure's SVG text, "" where there is none, why it is left out, if it is, and its faults."""
    name, plot = named
    try:
        text, found = _drawn(plot, folder / name, pdf)
        return text, "", found
    except FlyrunError as error:
        return "", f"figure {name} is left out: {error}.", []


def caption(plot: Callable[..., Any]) -> str:
    """What stands beneath a figure: the first paragraph of what its plot says of itself."""
    return " ".join((plot.__doc__ or "").partition("\n\n")[0].split())


def _drawn(plot: Callable[[], Any], path: Path, pdf: bool) -> tuple[str, list[str]]:
    """Write path.png (white), path.svg and path.pdf (transparent); the SVG's text, "" if none, and faults."""
    with _matplotlib().rc_context(_STYLE):
        figure = plot()
        if figure is None:
            return "", []
        image, text = saved(figure)
        page = as_pdf(figure) if pdf else b""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".png").write_bytes(image)
    if pdf:
        path.with_suffix(".pdf").write_bytes(page)
    path.with_suffix(".svg").write_text(text, encoding="utf-8")
    return text, faults(figure)


def saved(figure: "Figure") -> tuple[bytes, str]:
    """A figure as PNG and as the text of an SVG, which is transparent."""
    image, text = io.BytesIO(), io.StringIO()
    with _any_letter():
        figure.savefig(image, format="png", dpi=160)
        figure.set_layout_engine("none")  # as laid out for the PNG: a second search would take as long again
        # No date, so that the same run gives the same file.
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return image.getvalue(), text.getvalue()


def as_pdf(figure: "Figure") -> bytes:
    """The same as a PDF of vectors, its letters as fonts that a journal takes (TrueType)."""
    page = io.BytesIO()
    with _any_letter():
        figure.savefig(page, format="pdf", transparent=True, metadata={"CreationDate": None})
    return page.getvalue()


@contextmanager
def _any_letter() -> Iterator[None]:
    """A letter that the font lacks is a box, without a warning: the page's tables have the name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        warnings.filterwarnings("ignore", "Matplotlib currently does not support .* natively")
        yield


def grid(size: tuple[float, float], title: str = "", rows: int = 1, columns: int = 1, **shared: Any) -> Any:
    """A figure of this size in inches with panels under one title, and these, row by row, (rows·columns,)."""
    figure = new_figure(figsize=size, layout="constrained")
    if title:  # which is text, never mathematics: "$" from a config stays a dollar
        figure.suptitle(title, parse_math=False, fontsize=10)
    return figure, figure.subplots(rows, columns, squeeze=False, **shared).ravel()


def axes(rows: int, title: str, height: float = 3.4):
    """A figure of so many panels, one above the other, and its axes."""
    figure = new_figure(figsize=(6.4, height), layout="constrained")
    panels = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    # A title is text, never mathematics: "$" from a config stays a dollar.
    panels[0].set_title(title, parse_math=False, wrap=True)
    return figure, list(panels)


def legend_below(figure: "Figure", *panels: "Axes") -> None:
    """One legend of these panels under the figure, which grows by it: lines may run anywhere."""
    lines: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        lines |= dict(zip(labels, handles, strict=True))
    width = 0.75 + 0.055 * max(map(len, lines), default=0)  # inches that the longest takes, roughly
    rows = math.ceil(len(lines) / min(4, max(1, int(figure.get_figwidth() / width))))
    columns = math.ceil(len(lines) / rows) if rows else 1  # of even length
    figure.set_figheight(figure.get_figheight() + 0.2 * rows)
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=columns, fontsize=8)


def round_numbers(axis: "Axis") -> None:
    """Ticks of a logarithmic axis at 1, 2 and 5 times powers of ten, on a long one at these, on a short one
    spaced evenly; written out.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter  # late

    low, high = axis.get_view_interval()
    few = LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,))
    axis.set_major_locator(few if high > 3 * low else MaxNLocator(5))
    whole = FuncFormatter(
        lambda value, _: f"{value:,.0f}" if value >= 10 and value == round(value) else f"{value:g}"
    )
    axis.set_major_formatter(whole)
    axis.set_minor_formatter(NullFormatter())


def faults(figure: "Figure") -> list[str]:
    """The faults of a drawn figure, a phrase each."""
    shown = [axis for axis in figure.axes if axis.axison]
    empty = [k for k, axis in enumerate(shown, 1) if not _shows_data(axis)]
    found = [f"axis {k} of {len(shown)} shows no data" for k in empty]
    found += [f"axis {k} of {len(shown)} has lines that look alike" for k in _alike(shown)]
    labels = {label for axis in shown for label in axis.get_legend_handles_labels()[1]}
    if len(labels) > MOST_LINES:
        found.append(f"{len(labels)} labelled lines, of which {MOST_LINES} at most can be told apart")
    return found


def _alike(shown: list["Axes"]) -> Iterator[int]:
    """Numbers of the axes with two labelled lines of one colour, line, marker and paleness."""
    for k, axis in enumerate(shown, 1):
        lines = [line for line in axis.lines if not str(line.get_label()).startswith("_")]
        looks = [(one.get_color(), one.get_linestyle(), one.get_marker(), one.get_alpha()) for one in lines]
        if len(set(looks)) < len(looks):
            yield k


def _shows_data(axis: "Axes") -> bool:
    """Whether something measured lies within the axis' limits; a line across all of it is no data."""
    if axis.images or axis.texts:
        return True
    points: list[Any] = [line.get_xydata() for line in axis.lines if _in_data(line, axis)]
    points += [path.vertices for drawn in axis.collections for path in _paths(drawn, axis)]
    points += [patch.get_path().transformed(patch.get_patch_transform()).vertices for patch in axis.patches]
    return any(_within(axis, np.ma.filled(np.ma.asarray(one, dtype=float), np.nan)) for one in points)


def _within(axis: "Axes", points: np.ndarray) -> bool:
    """Whether one of these points, (n, 2), lies within the axis' limits; what is no number does not."""
    (left, right), (low, high) = sorted(axis.get_xlim()), sorted(axis.get_ylim())
    x, y = points.reshape(-1, 2).T
    return bool(((x >= left) & (x <= right) & (y >= low) & (y <= high)).any())


def _in_data(artist: Any, axis: "Axes") -> bool:
    return all(artist.get_transform().contains_branch_seperately(axis.transData))


def _paths(drawn: Any, axis: "Axes") -> list[Any]:
    """Outlines in the axis' own numbers: of markers, where they stand."""
    from matplotlib.path import Path  # late, as in figures

    if not _in_data(drawn, axis):  # markers are drawn in points about their places
        return [Path(np.ma.filled(drawn.get_offsets(), np.nan))]
    return list(drawn.get_paths())
