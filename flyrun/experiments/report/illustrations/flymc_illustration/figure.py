"""Figures 1 to 3 of Maclaurin & Adams (2014): how Firefly Monte Carlo works, on data small enough to see.

Figure 2 runs a few iterations of a stored chain once more, for the brightness of each datum is not stored.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from flyrun.experiments.report.arms import Run
from flyrun.experiments.report.illustrations.flymc_illustration import one_datum, replay
from flyrun.experiments.runner import store
from flyrun.experiments.runner.store import CellInfo
from flyrun.ground.page.colours import BLUE, GREEN, ORANGE, PINK, SKY
from flyrun.ground.page.figures import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Blue and orange as in the paper: bound and remainder, or the two classes.
_WEIGHTS = (("x1", GREEN, "-"), ("x2", PINK, "--"), ("bias", SKY, "-."))
_MARKS = {1: (ORANGE, "o", "class +1"), -1: (BLUE, "s", "class −1")}
ITERATIONS = 60
_PATH, _SAMPLE = 60, 100_000  # the caption names both


def augmented_space(run: Run, run_dir: Path) -> Any:
    """One datum's likelihood, its bound, tight at θ = ±1.5, and the remainder (above; Maclaurin & Adams 2014,
    Figure 1). A simulated chain on (θ, z), 60 iterations as a path and 100,000 as histograms, follows the
    prior N(0, 3²) times the bound where the datum is dark and times the remainder where it is bright (below).
    """
    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    theta = np.linspace(-8, 8, 401)
    likelihood, bound = one_datum.likelihood(theta), one_datum.bound(theta)
    top.fill_between(theta, bound, color=BLUE, alpha=0.45, linewidth=0, label="bound $B_n$, dark")
    label = "remainder $L_n - B_n$, bright"
    top.fill_between(theta, bound, likelihood, color=ORANGE, alpha=0.6, linewidth=0, label=label)
    top.plot(theta, likelihood, color=INK, linewidth=1.6, label="likelihood $L_n$")
    top.set(ylabel="likelihood of one datum", ylim=(0, 1.05))
    top.legend(loc="upper left")

    chain = one_datum.chain(_SAMPLE)
    bins = np.linspace(-8, 8, 65)
    prior = one_datum.prior(theta)
    total = float(np.sum(prior * likelihood) * (theta[1] - theta[0]))
    parts = (prior * bound / total, prior * (likelihood - bound) / total)
    height = 0.8 / max(part.max() for part in parts)
    for z, (part, colour) in enumerate(zip(parts, (BLUE, ORANGE), strict=True)):
        density = np.histogram(chain.theta[chain.bright == bool(z)], bins)[0] / _SAMPLE / (bins[1] - bins[0])
        bottom.stairs(z + height * density, bins, baseline=z, fill=True, color=colour, alpha=0.45)
        bottom.plot(theta, z + height * part, color=INK, linewidth=1.0)
        bottom.axhline(z, color=INK, linewidth=0.6)
    steps, level = chain.theta[:_PATH], chain.bright[:_PATH] - 0.09
    bottom.plot(steps, level, color=INK, linewidth=0.6, alpha=0.6)
    for lit, colour, face in ((False, BLUE, "none"), (True, ORANGE, ORANGE)):
        here = chain.bright[:_PATH] == lit
        bottom.scatter(steps[here], level[here], s=16, facecolor=face, edgecolor=colour, zorder=3)
    bottom.set(xlabel="θ", xlim=(-8, 8), ylim=(-0.22, 1.4))
    bottom.set_yticks([0, 1], ["$z_n = 0$\ndark", "$z_n = 1$\nbright"])
    return figure


def trajectories(run: Run, run_dir: Path) -> Any:
    """One iteration of Firefly Monte Carlo in its two steps (above; Maclaurin & Adams 2014, Figure 2): the
    line is where both classes are equally likely (dotted: before), data that change their brightness are
    ringed. The components of θ, and which data are bright, over some tens of iterations of the same chain
    (below).

    None before a Firefly cell is done.
    """
    done = [
        cell for cell in store.open_cells(run_dir, run.info) if cell.state == "done" and _drawable(cell.info)
    ]
    if not done:
        return None
    cell = done[0]
    first = int(cell.info["burn_in"])
    n = min(ITERATIONS, int(cell.info["iterations"]) - first)
    stretch = replay.replay(cell, run_dir / "setup", first, n)
    at = telling_step(stretch.theta, stretch.bright)
    before, after = slice(at, at + 1), slice(at + 1, at + 2)
    figure = Figure(figsize=(6.8, 6.4), layout="constrained")
    names, above, below = figure.subfigures(3, 1, height_ratios=(0.1, 1, 1.25))  # type: ignore[misc]
    panels = above.subplots(1, 3, sharex=True, sharey=True)
    path, raster = below.subplots(2, 1, sharex=True, height_ratios=(1, 1.2))
    points, labels = stretch.dataset.features, stretch.dataset.target
    scenes = (
        (f"iteration {first + at}", before, before, None),
        ("θ is updated, z kept", after, before, before),
        ("z is updated, θ kept", after, after, None),
    )
    for panel, (title, theta_at, z_at, old) in zip(panels, scenes, strict=True):
        changed = stretch.bright[at] != stretch.bright[at + 1] if z_at == after else None
        _scene(panel, points, labels, stretch.bright[z_at][0], changed)
        if old is not None:
            _class_line(panel, stretch.theta[old][0], linewidth=1.0, linestyle=":")
        _class_line(panel, stretch.theta[theta_at][0], linewidth=1.6)
        panel.set_title(title, fontsize=9)
    panels[0].set_ylabel("$x_2$")
    _legend(names)
    iterations = first + np.arange(len(stretch.theta))
    for d, (name, colour, style) in enumerate(_WEIGHTS):
        path.plot(iterations, stretch.theta[:, d], color=colour, linestyle=style, label=name, linewidth=1.5)
    path.set(ylabel="θ")
    path.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    rows = np.argsort(-labels, kind="stable")
    for label, (colour, mark, _) in _MARKS.items():
        when, which = np.nonzero(stretch.bright[:, rows] & (labels[rows] == label))
        raster.scatter(iterations[when], which, s=7, color=colour, marker=mark, linewidth=0)
    raster.set(xlabel="iteration", ylabel="datum, marked\nwhile bright", ylim=(len(labels), -1))
    raster.set_xlim(iterations[0] - 0.5, iterations[-1] + 0.5)
    for axis in (path, raster):
        axis.axvspan(first + at, first + at + 1, color=INK, alpha=0.2, linewidth=0)
    return figure


def telling_step(theta: np.ndarray, bright: np.ndarray) -> int:
    """The first iteration that shows most: θ moves, some data darken, and few change. theta: (n+1, P)."""
    moved = np.abs(np.diff(theta, axis=0)).max(axis=1) > 0
    darkened = (bright[:-1] & ~bright[1:]).sum(axis=1)
    lit = (~bright[:-1] & bright[1:]).sum(axis=1)
    score = 4 * moved + 2 * (darkened > 0) + (lit > 0) - 0.1 * (darkened + lit)
    return int(np.argmax(score))


def _drawable(info: CellInfo) -> bool:
    """Whether this cell is a Firefly chain on two features and a bias."""
    names = info.get("facts", {}).get("feature_names") or []
    bright = (info.get("settings", {}).get("brightness") or {}).get("name", "none")
    return bright != "none" and len(names) == 3 and names[-1] == "bias"


def _scene(axis: "Axes", points: np.ndarray, labels: np.ndarray, bright: np.ndarray, changed: Any) -> None:
    for label, (colour, mark, _) in _MARKS.items():
        for filled, face in ((False, "none"), (True, colour)):
            x, y = points[(labels == label) & (bright == filled), :2].T
            axis.scatter(x, y, s=26, marker=mark, facecolor=face, edgecolor=colour, linewidth=1.1, zorder=2)
    if changed is not None:
        x, y = points[changed, :2].T
        axis.scatter(x, y, s=130, facecolor="none", edgecolor=INK, linewidth=1.0, zorder=3)
    reach = 1.1 * np.abs(points[:, :2]).max()
    axis.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="$x_1$")


def _class_line(axis: "Axes", theta: np.ndarray, **style: Any) -> None:
    """Where both classes are equally likely at θ, (3,): θ₁x₁ + θ₂x₂ + θ₃ = 0."""
    weights = theta[:2]
    foot = -theta[2] * weights / (weights @ weights)
    along = np.array([-weights[1], weights[0]]) / np.linalg.norm(weights)
    ends = foot + np.array([[-20.0], [20.0]]) * along
    axis.plot(ends[:, 0], ends[:, 1], color=INK, zorder=1, **style)


def _legend(figure: "Figure") -> None:
    """Four marks in a row that is theirs alone."""
    from matplotlib.lines import Line2D  # late

    marks = {
        f"{name}, {word}": Line2D([], [], linestyle="", color=colour, marker=mark, markerfacecolor=face)
        for colour, mark, name in _MARKS.values()
        for face, word in ((colour, "bright"), ("none", "dark"))
    }
    figure.legend(list(marks.values()), list(marks), loc="center", ncols=4, handletextpad=0.2)


def data_structure(run: Run, run_dir: Path) -> Any:
    """The data structure by which data brighten and darken in constant time (Maclaurin & Adams 2014, Figure
    3), four data of which 1 and 3 are bright: the list `arr` with the bright ones before B, `tab` with each
    datum's place in it; then datum 4 brightens. flyrun keeps the bright part of `arr` and a bit for each
    datum.
    """
    figure = Figure(figsize=(6.4, 2.6), layout="constrained")
    arrays = (([3, 1, 2, 4], 2), ([3, 1, 4, 2], 3))
    for axis, (listed, bright), title in zip(
        figure.subplots(1, 2), arrays, ("data 1 and 3 bright", "brighten(4)"), strict=True
    ):
        places = [listed.index(n) + 1 for n in range(1, 5)]
        for name, row, cells in (("arr", 1, listed), ("tab", 0, places)):
            axis.text(0.3, row + 0.35, name, ha="right", va="center")
            for k, value in enumerate(cells):
                lit = (value if row else k + 1) in listed[:bright]
                axis.add_patch(_cell(k + 0.5, row, ORANGE if lit else BLUE))
                axis.text(k + 1.0, row + 0.35, str(value), ha="center", va="center")
        axis.plot([bright + 0.5] * 2, [0.9, 1.85], color=INK, linewidth=2.0)
        axis.text(bright + 0.5, 1.9, f"B = {bright}", ha="center", va="bottom")
        for k in range(4):
            axis.text(k + 1.0, -0.15, str(k + 1), ha="center", va="top", fontsize=7)
        axis.set(xlim=(-0.4, 4.7), ylim=(-0.5, 2.3))
        axis.set_title(title, fontsize=9)
        axis.axis("off")
    return figure


def _cell(left: float, bottom: float, colour: str) -> Any:
    from matplotlib.patches import Rectangle  # late

    return Rectangle((left, bottom), 1.0, 0.7, facecolor=colour, edgecolor=INK, alpha=0.45, linewidth=1.0)


FIGURES = {
    "flymc_steps": trajectories,
    "flymc_augmented": augmented_space,
    "flymc_data_structure": data_structure,
}
