"""The table as people read it: the same cells for the terminal, Markdown and HTML."""

import io
import math
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

NOTHING = "-"
_WIDEST_FIXED = 1e12  # what a format may write in full
_WIDEST = 1e15  # what is larger, or smaller than 1e-4, is written with a power of ten
_PIPE = 400


@dataclass(frozen=True)
class View:
    """A table of text: title, header and rows of equal length; the first column names the arm.

    deltas: (row, column) -> how ours differs from the value there, and whether that is within uncertainty.
    notes: (heading, what the column means), of those that need words.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    deltas: dict[tuple[int, int], tuple[str, bool]] = field(default_factory=dict)
    notes: tuple[tuple[str, str], ...] = ()


def number(value: Any, digits: int = 3) -> str:
    """A number for a table: thousands marked, `digits` significant figures below 1000, powers of ten for what
    is tiny or huge, "-" for none."""
    if not known(value):
        return NOTHING
    value = float(value)
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size < -4:
        return f"{value:.1e}"
    if abs(value) >= _WIDEST:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(digits - 1 - size, 0)}f}"


def spec(value: object, form: str) -> str:
    """A number by a format, as ".2f"; as `number` has it where that would be too wide for a page."""
    if isinstance(value, Real) and not abs(float(value)) < _WIDEST_FIXED:
        return number(value)
    return format(value, form)


def plus_minus(value: Any, sd: Any) -> str:
    """ "178.3 ± 2.1": as many decimals as two figures of the sd need; no sd is shown when there is none."""
    if not known(value):
        return NOTHING
    if not known(sd) or math.isinf(float(value)):
        return number(value)
    value, sd = float(value), float(sd)
    if abs(value) >= _WIDEST or not (sd == 0 or 1 / _WIDEST < sd < _WIDEST):
        return f"{number(value)} ± {number(sd)}"
    if sd == 0:
        return f"{value:,.0f} ± 0" if value == round(value) else f"{number(value)} ± 0"
    size = math.floor(math.log10(abs(value))) if value else 0
    decimals = min(max(1 - math.floor(math.log10(sd)), 0), max(4 - size, 0))
    return f"{value:,.{decimals}f} ± {sd:,.{decimals}f}"


def known(value: Any) -> bool:
    """Whether a value of the table is one."""
    try:
        return value is not None and not math.isnan(float(value))
    except (TypeError, ValueError):
        return False


def measured(name: str, sd: str | None = None) -> Callable[[dict[str, Any]], str]:
    """A column's value ± its sd, the column `sd` or <name>_sd."""
    spread = sd or f"{name}_sd"

    # The baseline against itself is 1.
    def text(row: dict[str, Any]) -> str:
        value, error = row.get(name), row.get(spread)
        return "1" if (value, error) == (1, 0) else plus_minus(value, error)

    return text


def bounded(name: str) -> Callable[[dict[str, Any]], str]:
    """As `measured`, of a ratio that the column `ratio_bound` says is a bound: ≥, ≤, or ~ for neither."""
    text = measured(name)

    def shown(row: dict[str, Any]) -> str:
        bound = row.get("ratio_bound")
        return f"{bound} {text(row)}" if isinstance(bound, str) and bound and known(row[name]) else text(row)

    return shown


def plain(name: str, digits: int = 3) -> Callable[[dict[str, Any]], str]:
    """A column's value alone; the paper's as printed there."""
    if name.startswith("paper_"):
        return lambda row: f"{float(row[name]):,.10g}" if known(row[name]) else NOTHING
    return lambda row: number(row.get(name), digits)


def delta_from_paper(name: str) -> Callable[[dict[str, Any]], tuple[str, bool] | None]:
    """Ours less the paper's in per cent of the paper's, and whether our mean ± 2 sd over seeds holds it.

    The paper gives no uncertainty of its own.
    """

    def delta(row: dict[str, Any]) -> tuple[str, bool] | None:
        ours, papers, sd = row[name], row[f"paper_{name}"], row.get(f"{name}_sd")
        if not (known(ours) and known(papers)) or float(papers) == 0 or not math.isfinite(ours - papers):
            return None
        off = float(ours) - float(papers)
        spread = float(sd) if known(sd) else 0.0  # type: ignore[arg-type]
        return f"{100 * off / float(papers):+.0f} %".replace("-", "\N{MINUS SIGN}"), abs(off) <= 2 * spread

    return delta


def seeds_text(row: dict[str, Any]) -> str:
    """ "5", "3/5" where some are missing, "not run"."""
    if not known(row["seeds_wanted"]):
        return "not run"
    done, wanted = int(row["seeds"]), int(row["seeds_wanted"])
    return str(done) if done == wanted else f"{done}/{wanted}"


def decimals(name: str, places: int) -> Callable[[dict[str, Any]], str]:
    """A column's value with so many decimals."""

    def text(row: dict[str, Any]) -> str:
        value = row[name]
        return spec(float(value), f".{places}f") if known(value) else NOTHING

    return text


def markdown(view: View) -> str:
    """A GitHub table under its title."""
    header, *rows = ("| " + " | ".join(map(escape_markdown, row)) + " |" for row in (view.header, *view.rows))
    rule = "|---" + "|---:" * (len(view.header) - 1) + "|"
    notes = [f"- *{escape_markdown(head)}*: {escape_markdown(text)}" for head, text in view.notes]
    return "\n".join([f"**{view.title}**", "", header, rule, *rows, "", *notes, *([""] if notes else [])])


def escape_markdown(text: str) -> str:
    """Text of a config or a message that stays text in Markdown: no markup, no table border, one line."""
    text = " ".join(text.split())
    return "".join("\\" + letter if letter in "\\`*_{}[]<>#|~!" else letter for letter in text)


def screen(**settings: Any) -> Console:
    """A console that shows text as it is: names hold what rich takes for styles, and `a:b:c` for an emoji."""
    return Console(highlight=False, markup=False, emoji=False, **settings)


def print_views(console: Console, tables: list[View]) -> None:
    """Print the tables; piped output is as wide as they are, whatever the pipe says its width is."""
    for view in tables:
        if console.is_terminal:
            console.print(*_rich_tables(view, console.width), sep="\n")
        else:
            buffer = io.StringIO()
            screen(file=buffer, width=_PIPE, no_color=True).print(*_rich_tables(view, _PIPE))
            text = "".join(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())
            console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True, end="")


def print_page(console: Console, title: str, tables: list[View], caveats: Iterable[str]) -> None:
    """Print a title, tables, and what to know before trusting them, a line each."""
    console.print(Text(title, style="bold"), soft_wrap=True)
    print_views(console, tables)
    for text in caveats:
        console.print(Text.assemble(("! ", "yellow"), text), soft_wrap=not console.is_terminal)


def _rich_tables(view: View, width: int) -> list[Table]:
    """The table or, where no line has room for its words and numbers, blocks of its columns."""
    columns = [[row[index] for row in view.rows] for index in range(len(view.header))]
    whole = [max(map(cell_len, column), default=0) for column in columns]
    # A heading folds to the width of what is under it.
    heads = [
        textwrap.fill(head, max(8, one), break_long_words=False)
        for head, one in zip(view.header, whole, strict=True)
    ]
    least = [
        max(map(cell_len, " ".join([head, *column]).split()), default=1)
        for head, column in zip(heads, columns, strict=True)
    ]
    folded = _wide(least) > width
    blocks = [[*range(len(columns))]]
    if folded:
        least = [max(one) for one in zip(whole, least, strict=True)]
        least[0] = min(least[0], max(width // 3, width - _wide([max(least[1:], default=0), 0])))  # names fold
        least[1:] = [max(min(one, width - _wide([least[0], 0])), 1) for one in least[1:]]
        blocks = [[0]]
        for index in range(1, len(columns)):
            if blocks[-1] != [0] and _wide([least[k] for k in (*blocks[-1], index)]) > width:
                blocks.append([0])
            blocks[-1].append(index)
    tables = []
    for block in blocks:
        title = Text(view.title, style="table.title") if block is blocks[0] and view.title else None
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        # A value and its ± sd belong on one line where there is room; digits are never cut off.
        roomy = _wide([max(whole[index], 8) for index in block]) <= width
        for index in block:
            table.add_column(
                Text(heads[index]), justify="right" if index else "left", no_wrap=roomy, vertical="bottom",
                style="dim" if view.header[index] == "paper" else None, overflow="fold",
                min_width=least[index], width=least[index] if folded else None,
            )  # fmt: skip
        for row in view.rows:
            table.add_row(*(Text(row[index]) for index in block))
        tables.append(table)
    return tables


def _wide(columns: list[int]) -> int:
    """How wide a table of columns so wide is, with what is between them."""
    return sum(columns) + 2 * len(columns) + 1
