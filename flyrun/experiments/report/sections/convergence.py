"""Whether densities that are come to by steps had settled when they ended."""

import numpy as np

from flyrun.experiments.accuracy.posterior_errors import rms
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.metrics import fact, of_cells, table
from flyrun.experiments.report.section import Row, Section
from flyrun.experiments.report.sections.arena import falling
from flyrun.ground.page.metrics import Metric
from flyrun.ground.page.render import NOTHING, number

UNSETTLED = 0.05
"""sds that the second half of the steps may move an answer before it counts as not settled."""


def summarise(draws: Draws) -> Row:
    """moved_last_half, coordinates_moved: from half of the steps to their end, in sds of the answer, and how
    many moved more than UNSETTLED; {} of a single step.
    """
    step, mean, square = (draws.values("estimate", name) for name in ("step", "mean", "square"))
    if draws.info.get("answers") != "density" or step is None or mean is None or square is None:
        return {}
    half = int(np.searchsorted(step, step[-1] / 2, side="right")) - 1
    if mean.ndim != 2 or half < 0:
        return {}
    moved = _moved(mean, square, half)
    far = (np.abs(np.nan_to_num(moved)) > UNSETTLED).any(axis=0)
    return {"moved_last_half": float(np.fmax(*rms(moved))), "coordinates_moved": int(far.sum())}


def _moved(mean: np.ndarray, square: np.ndarray, half: int) -> np.ndarray:
    """Of (k, D) from the step half to the last: means, in sds at the end, and log sds, (2, D)."""
    before, after = (np.sqrt(np.maximum(square[k] - mean[k] ** 2, 0.0)) for k in (half, -1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.stack([(mean[-1] - mean[half]) / after, np.log(after / before)])


def settled(arm: ArmResult) -> bool:
    """Whether every seed had; also where an answer takes one step. None had whose error, where it is known,
    still fell in the last half of the steps, however little they moved it.
    """
    return not arm.has("moved_last_half") or (_seeds(arm) == arm.done and not falling(arm))


def _seeds(arm: ArmResult) -> int:
    """How many seeds moved no more than UNSETTLED in the last half of their steps."""
    return int((arm.each("moved_last_half") <= UNSETTLED).sum())


_SAID = {True: "yes", False: "no"}
METRICS = [
    of_cells(
        "moved_last_half", "moved in the last half",
        "from half of an answer's steps to their end: means in its sds, or log sds, the larger root "
        f"mean square over coordinates; above {UNSETTLED} it had not settled, nor where a reference shows "
        "that its error still fell by a quarter",
    ),
    Metric("settled", "settled", text=lambda row: _SAID.get(row["settled"], NOTHING)),
    Metric("seeds_settled", "seeds that had", means="of all seeds"),
    of_cells(
        "coordinates_moved", "coordinates that moved", digits=4,
        means=f"mean or log sd by more than {UNSETTLED} sds in the last half, of a seed; of n_params",
    ),
    Metric(
        "kept_sites", "sites kept", fact("kept_sites"), digits=4,
        means="how often, over passes and rows, a site stayed as it was, as its cavity was no Gaussian",
    ),
    Metric(
        "damping", "damping", fact("damping"), "share of the way that sites moved at the end", digits=2,
    ),
]  # fmt: skip


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    if settled(arm):
        return []
    n, far = arm.done - _seeds(arm), number(arm.each("moved_last_half").max(), 2)
    moved = (
        f"{n} of {arm.done} seeds had not settled: the last half of their steps moved them up to {far} sds"
    )
    fell = f"its error still fell in the last half of its steps, by up to {far} sds"
    return [f"{moved if n else fell}, so errors are those after so many steps, and no limit of the method."]


SECTION = Section(
    "convergence", place=180, metrics=METRICS, reads=("moved_last_half",), summarise=summarise,
    row=lambda run, arm: {"settled": settled(arm), "seeds_settled": _seeds(arm)}, arm_caveats=_arm_caveats,
    views=lambda rows: [table("Whether answers had settled (mean ± sd over seeds)", METRICS, rows)],
)  # fmt: skip
