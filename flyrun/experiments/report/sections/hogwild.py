"""Many processors on one chain: what a round costs, and how far it ends from what is right."""

import math

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.metrics import EXACT, Value, table
from flyrun.experiments.report.section import Row, Section
from flyrun.ground.page.metrics import Metric, put
from flyrun.ground.page.render import NOTHING, View, known, spec

_COUNTS = ("workers", "updates_per_round", "critical_per_round", "bytes_per_worker")
_GAUSSIAN = (
    "rho", "dominance", "mean_off", "mean_z",
    "expected_sd_min", "expected_sd_max", "measured_sd_min", "measured_sd_max",
    "expected_covariance_off", "covariance_off", "expected_corrected_off", "corrected_off",
)  # fmt: skip


def summarise(draws: Draws) -> Row:
    """team_rounds: made, of those with workers.  correlation: mean of 2·agreement − 1 after burn-in.
    correlation_se: its Monte Carlo error, by 20 batches.  staleness: mean age, in rounds, of what
    workers know.  us_per_site: median microseconds of an update, where that is measured.
    """
    if "updates_per_round" not in draws.facts:
        return {}
    row: Row = {"team_rounds": int(draws.info["iterations"])}
    agreement, age = (draws.values("sample_stats", name) for name in ("agreement", "staleness"))
    if age is not None:
        row["staleness"] = float(age.mean())
    if (seconds := draws.values("sample_stats", "seconds")) is not None:
        row["us_per_site"] = 1e6 * float(np.median(seconds)) / draws.facts["updates_per_round"]
    if agreement is not None:
        means = np.array([2.0 * part.mean() - 1.0 for part in np.array_split(agreement, 20)])
        row |= {"correlation": float(2.0 * agreement.mean() - 1.0)}
        row |= {"correlation_se": float(means.std(ddof=1) / math.sqrt(len(means)))}
    return row


def _in_all(what: str) -> Value:
    return lambda run, arm: arm.fact_mean(f"{what}_per_round") * _rounds(run, arm)


def _rounds(run: Run, arm: ArmResult) -> int:
    return int(arm.each("team_rounds").mean())


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {name: arm.fact_mean(name) for name in (*_COUNTS, *_GAUSSIAN)}
    row["bytes_in_all"] = row["bytes_per_worker"] * _rounds(run, arm)
    row["right_correlation"] = arm.fact_mean("right_correlation")
    if arm.has("staleness"):
        row["staleness"] = float(arm.each("staleness").mean())
    for name in ("us_per_site", "correlation"):
        if arm.has(name):
            put(row, name, arm.each(name))
    if arm.has("correlation"):
        row["correlation_se"] = float(math.sqrt(np.mean(arm.each("correlation_se") ** 2) / arm.done))
        off = row["correlation"] - row["right_correlation"]
        row["correlation_z"] = off / row["correlation_se"] if row["correlation_se"] else math.nan
    return row


def _between(name: str, head: str, means: str) -> Metric:
    def text(row: Row) -> str:
        low, high = row[f"{name}_min"], row[f"{name}_max"]
        return f"{spec(low, '.3f')} to {spec(high, '.3f')}" if known(low) else NOTHING

    return Metric("", head, text=text, means=means)


_COSTS = [
    EXACT,
    Metric("workers", "workers"),
    Metric("rounds", "rounds", _rounds),
    Metric("updates_in_all", "updates", _in_all("updates"), "variables drawn anew, in burn-in too"),
    Metric(
        "critical_in_all", "on the critical path", _in_all("critical"),
        "those of the busiest worker of each round",
    ),
    Metric(
        "bytes_in_all", "bytes per worker", means="of its own variables sent and of the others' received"
    ),
    Metric("staleness", "age (rounds)", means="of what workers know of each other", digits=2),
    Metric(
        "us_per_site", "µs/update", by_seed=True, means="median over rounds, without what watching costs"
    ),
]  # fmt: skip
_THEORY = [
    Metric("rho", "ρ(M)", means="spectral radius of a round in lockstep: from 1 on it diverges"),
    Metric(
        "dominance", "ρ(|I − 𝒥|)",
        means="below 1 where the precision is generalised diagonally dominant (Theorem 7.6.6)",
    ),
    Metric("mean_off", "mean off (sds)", means="of the worst coordinate, in its sd", digits=2),
    Metric("mean_z", "largest z", means="the same in its Monte Carlo error, known for lockstep", digits=2),
    _between("expected_sd", "sd ratio by theory", "from the discrete Lyapunov equation, for lockstep"),
    _between("measured_sd", "sd ratio", "sds over the exact ones, least and largest"),
    Metric("expected_covariance_off", "covariance off by theory"),
    Metric("covariance_off", "covariance off", means="Frobenius norm, over the exact one's"),
    Metric("expected_corrected_off", "corrected, by theory"),
    Metric(
        "corrected_off", "corrected",
        means="of (I + B⁻¹A)Σ_hog (Proposition 7.7.4), which is exact for infinitely many local sweeps",
    ),
]  # fmt: skip
_PAIRS = [
    Metric(
        "correlation", "pair correlation", spread="correlation_se",
        means="mean of s_i s_j over neighbours ± its Monte Carlo error (20 batches a chain)",
    ),
    Metric("correlation_sd"),
    Metric("correlation_se"),
    Metric(
        "right_correlation", "right", means="in closed form (Kac and Ward 1952)", digits=4
    ),
    Metric("correlation_z", "off (se)", means="their difference in these errors", digits=2),
]  # fmt: skip
METRICS = [*_COSTS, *(Metric(name) for name in (*_GAUSSIAN, *_COUNTS[1:])), *_PAIRS]


def _views(rows: list[Row]) -> list[View]:
    """What rounds cost; beside it, of Gaussians theory, of graphs pairs."""
    with_team = [row for row in rows if known(row.get("workers"))]
    views = [table("Rounds of many workers", _COSTS, with_team)]
    if gaussian := [row for row in with_team if known(row["rho"])]:
        views.append(table("Beside theory", _THEORY, gaussian))
    if pairs := [row for row in with_team if known(row.get("correlation"))]:
        views.append(table("Correlation of neighbours", _PAIRS, pairs))
    return views


SECTION = Section(
    "hogwild", place=130, metrics=METRICS, reads=("team_rounds",), summarise=summarise, row=_row, views=_views
)
