"""How far answers of every kind are from the posterior, once an arm does not answer with draws.

Held against the stored reference of the posterior where there is one, else against the run's own exact arm.
"""

import contextlib
from typing import NamedTuple

import numpy as np

from flyrun.errors import DataError
from flyrun.gold import store
from flyrun.gold.reference import free
from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.draws import Draws
from flyrun.report.render import ARM, SEEDS, Column, measured, plain, table_view
from flyrun.report.section import Row, Section
from flyrun.report.table import put


def summarise(draws: Draws) -> Row:
    """total_queries, total_visits, total_seconds: set-up included.  final_mean, final_sd: as handed in at the
    end.  draws_mean, draws_sd: of the draws after burn-in, by coordinate; empty where there are none.
    """
    mean, queries, seconds = (draws.values("estimate", name) for name in ("mean", "queries", "seconds"))
    if mean is None or queries is None or seconds is None or not len(mean):
        return {}
    square, visits = draws.values("estimate", "square"), draws.values("estimate", "visits")
    positions = draws.positions() if draws.real() else None
    return {
        "total_visits": float("nan") if visits is None else float(visits[-1]),
        "final_sd": [] if square is None else np.ravel(_sd(mean[-1], square[-1])).tolist(),
        "total_queries": float(queries[-1]),
        "total_seconds": float(seconds[-1]),
        "final_mean": np.ravel(mean[-1]).tolist(),
        "draws_mean": [] if positions is None else positions.mean(axis=0).tolist(),
        "draws_sd": [] if positions is None else positions.std(axis=0).tolist(),
    }


def _sd(mean: np.ndarray, square: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(square - mean**2, 0.0))


def _with_draws(arm: ArmResult) -> bool:
    return SECTION.about(arm) and arm.has("ess") and all(cell.draws_mean for cell in arm.cells)


def reference(run: Run, of: ArmResult | None = None) -> ArmResult | None:
    """The arm whose posterior counts: the baseline, or the first exact one with draws; on the problem `of`
    an arm, where one is given.
    """
    exact = [arm for arm in run.arms if _with_draws(arm) and arm.exact is True]
    exact = [arm for arm in exact if of is None or arm.problem == of.problem]
    return next((arm for arm in exact if arm is run.baseline), exact[0] if exact else None)


class Truth(NamedTuple):
    """The posterior's moments by coordinate, (D,); error: of the mean, in sds; source: what they are from.

    classes: where more than one, coordinates are less their mean over so many (`free`).
    """

    mean: np.ndarray
    sd: np.ndarray
    error: np.ndarray
    source: str
    classes: int = 1


def truth(run: Run, arm: ArmResult) -> Truth | None:
    """What an arm is held against; None where nothing is known of its posterior."""
    with contextlib.suppress(DataError):
        name = store.matching(arm.infos[0].get("settings", {}))
        if name:
            gold = store.load(name)
            source, classes = f"the stored reference {name}", gold.facts["n_predictors"]
            return Truth(gold.mean, gold.sd, gold.mean_se / gold.sd, source, classes)
    base = reference(run, arm)
    return None if base is None else Truth(*posterior(base), f"arm {base.name}")


def _other_answers(run: Run) -> list[ArmResult]:
    return [arm for arm in run.done if arm.infos[0].get("answers", "draws") != "draws"]


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {"answers": arm.infos[0].get("answers", "draws")}
    put(row, "total_queries", arm.each("total_queries"))
    put(row, "total_seconds", arm.each("total_seconds"))
    put(row, "total_visits", arm.each("total_visits"))
    known = truth(run, arm)
    if known is None:
        return row
    row |= {
        "off_reference": known.source.removeprefix("arm "),
        "off_floor": float(_rms(known.error)),
        "off_floor_worst": float(np.max(known.error)),
    }
    if known.source == f"arm {arm.name}" or any(
        len(cell.final_mean) != len(known.mean) for cell in arm.cells
    ):
        return row
    off, share = errors(arm, known)
    put(row, "off", _rms(off))
    put(row, "off_worst", np.abs(off).max(axis=1))
    if share.size:
        row["sd_mean"] = float(share.mean())
        row |= {"sd_least": float(share.mean(axis=0).min()), "sd_most": float(share.mean(axis=0).max())}
    return row


def errors(arm: ArmResult, known: Truth) -> tuple[np.ndarray, np.ndarray]:
    """(E θ − μ)/σ and sd/σ as handed in at the end, (S, D); of sds (S, 0) where σ is of other numbers."""
    share = np.empty((len(arm.cells), 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        means = free(np.array([cell.final_mean for cell in arm.cells]), known.classes)
        if known.classes == 1 and all(len(cell.final_sd) == len(known.sd) for cell in arm.cells):
            share = np.array([cell.final_sd for cell in arm.cells]) / known.sd
        return (means - known.mean) / known.sd, share


def posterior(arm: ArmResult) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and sd of the draws of all seeds of an arm, and that mean's Monte Carlo error in sds, (D,)."""
    means, sds = np.array([[cell.draws_mean, cell.draws_sd] for cell in arm.cells]).swapaxes(0, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = 1 / np.sqrt(np.sum([cell.ess for cell in arm.cells], axis=0))
    return means.mean(axis=0), np.sqrt((sds**2).mean(axis=0) + means.var(axis=0)), error


def _rms(values: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(values**2, axis=-1))


_COLUMNS = [
    ARM,
    Column("answers", lambda row: str(row["answers"] or "-")),
    Column("queries", plain("total_queries")),
    Column("visits", plain("total_visits")),
    Column("seconds", measured("total_seconds")),
    Column("off (sds)", measured("off")),
    Column("worst", measured("off_worst")),
    Column("sd ×", plain("sd_mean")),
    Column("least", plain("sd_least")),
    Column("most", plain("sd_most")),
    Column("reference's error", plain("off_floor", 2)),
    Column("worst", plain("off_floor_worst", 2)),
    SEEDS,
]


_LEGEND = """
{% if reference %}
off: how far E θ is from that of {{ reference }}, in sds of its posterior, root mean square over coordinates
and the worst one; sd ×: sds over the posterior's, mean over coordinates, least and most; reference's error:
the Monte Carlo error of its mean, below which nothing is seen. queries, visits (rows read), seconds: of a
seed, set-up included.
{% else %}
off: not known, as no exact arm with draws is finished.
{% endif %}
"""


def _legend(run: Run) -> list[str]:
    sources = list(dict.fromkeys(known.source for arm in run.done if (known := truth(run, arm))))
    return words.lines(_LEGEND, reference=" and ".join(sources))


def _caveats(run: Run) -> list[str]:
    biased = [arm.name for arm in _other_answers(run) if arm.fact("exact") is False]
    found = (
        [f"Approximations, however long they run not the posterior: {', '.join(biased)}."] if biased else []
    )
    if any(truth(run, arm) for arm in run.done):
        return found
    unknown = "No exact arm of this run has draws, so how far the others are from the posterior is not known."
    return [*found, unknown]


SECTION = Section(
    "estimates",
    columns="""
        experiment dataset model update arm n_data n_params seeds iterations exact seeds_wanted note
        setup_queries setup_s answers total_queries total_queries_sd total_visits total_visits_sd
        total_seconds total_seconds_sd off off_sd off_worst off_worst_sd sd_mean sd_least sd_most
        off_reference off_floor off_floor_worst
    """,
    reads=("final_mean",), when=lambda run: bool(_other_answers(run)), summarise=summarise,
    row=_row, views=lambda rows: [table_view("Moments at the end (mean ± sd over seeds)", _COLUMNS, rows)],
    legend=_legend, caveats=_caveats,
)  # fmt: skip
