"""How far answers of every kind are from the posterior mean, once an arm does not answer with draws."""

import numpy as np

from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.draws import Draws
from flyrun.report.render import ARM, SEEDS, Column, measured, plain, table_view
from flyrun.report.section import Row, Section
from flyrun.report.table import put


def summarise(draws: Draws) -> Row:
    """total_queries, total_seconds: set-up included.  final_mean: E θ as handed in at the end.  draws_mean,
    draws_sd: of the draws after burn-in, by coordinate; empty where there are none.
    """
    mean, queries, seconds = (draws.values("estimate", name) for name in ("mean", "queries", "seconds"))
    if mean is None or queries is None or seconds is None or not len(mean):
        return {}
    positions = draws.positions() if draws.real() else None
    return {
        "total_queries": float(queries[-1]),
        "total_seconds": float(seconds[-1]),
        "final_mean": np.ravel(mean[-1]).tolist(),
        "draws_mean": [] if positions is None else positions.mean(axis=0).tolist(),
        "draws_sd": [] if positions is None else positions.std(axis=0).tolist(),
    }


def _with_draws(arm: ArmResult) -> bool:
    return SECTION.about(arm) and arm.has("ess") and all(cell.draws_mean for cell in arm.cells)


def reference(run: Run, of: ArmResult | None = None) -> ArmResult | None:
    """The arm whose posterior counts: the baseline, or the first exact one with draws; on the problem `of`
    an arm, where one is given.
    """
    exact = [arm for arm in run.arms if _with_draws(arm) and arm.fact("exact") is not False]
    exact = [arm for arm in exact if of is None or arm.problem == of.problem]
    return next((arm for arm in exact if arm is run.baseline), exact[0] if exact else None)


def _other_answers(run: Run) -> list[ArmResult]:
    return [arm for arm in run.done if arm.infos[0].get("answers", "draws") != "draws"]


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {"answers": arm.infos[0].get("answers", "draws")}
    put(row, "total_queries", arm.each("total_queries"))
    put(row, "total_seconds", arm.each("total_seconds"))
    base = reference(run, arm)
    if base is None:
        return row
    mean, sd, error = posterior(base)
    with np.errstate(divide="ignore", invalid="ignore"):
        row |= {"off_reference": base.name, "off_floor": _rms(error), "off_floor_worst": float(np.max(error))}
        if arm is not base and all(len(cell.final_mean) == len(mean) for cell in arm.cells):
            off = np.array([(np.array(cell.final_mean) - mean) / sd for cell in arm.cells])
            put(row, "off", np.array([_rms(one) for one in off]))
            put(row, "off_worst", np.abs(off).max(axis=1))
    return row


def posterior(arm: ArmResult) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and sd of the draws of all seeds of an arm, and that mean's Monte Carlo error in sds, (D,)."""
    means, sds = np.array([[cell.draws_mean, cell.draws_sd] for cell in arm.cells]).swapaxes(0, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = 1 / np.sqrt(np.sum([cell.ess for cell in arm.cells], axis=0))
    return means.mean(axis=0), np.sqrt((sds**2).mean(axis=0) + means.var(axis=0)), error


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


_COLUMNS = [
    ARM,
    Column("answers", lambda row: str(row["answers"] or "-")),
    Column("queries", plain("total_queries")),
    Column("seconds", measured("total_seconds")),
    Column("off (sds)", measured("off")),
    Column("worst", measured("off_worst")),
    Column("reference's error", plain("off_floor", 2)),
    Column("worst", plain("off_floor_worst", 2)),
    SEEDS,
]


_LEGEND = """
{% if reference %}
off: how far E θ is from that of {{ reference }}, in sds of its posterior, root mean square over coordinates
and the worst one; reference's error: the Monte Carlo error of that mean itself, likewise, below which nothing
is seen. queries, seconds: of a seed, set-up included.
{% else %}
off: not known, as no exact arm with draws is finished.
{% endif %}
"""


def _legend(run: Run) -> list[str]:
    base = reference(run)
    return words.lines(_LEGEND, reference=base and base.name)


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    biased = arm.fact("exact") is False and arm in _other_answers(run)
    text = f"{arm.fact('update')} is an approximation: however long it runs, it is not the posterior."
    return [text] if biased else []


def _caveats(run: Run) -> list[str]:
    if reference(run) is not None:
        return []
    return ["No exact arm of this run has draws, so how far the others are from the posterior is not known."]


SECTION = Section(
    "estimates",
    columns="""
        experiment dataset model update arm n_data n_params seeds iterations exact seeds_wanted note
        setup_queries setup_s answers total_queries total_queries_sd total_seconds total_seconds_sd off off_sd
        off_worst off_worst_sd off_reference off_floor off_floor_worst
    """,
    reads=("final_mean",), when=lambda run: bool(_other_answers(run)), summarise=summarise,
    row=_row, views=lambda rows: [table_view("E θ at the end (mean ± sd over seeds)", _COLUMNS, rows)],
    legend=_legend, arm_caveats=_arm_caveats, caveats=_caveats,
)  # fmt: skip
