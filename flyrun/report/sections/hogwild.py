"""Many processors on one chain: what a round costs, and how far it ends from what is right."""

import math

import numpy as np

from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.draws import Draws
from flyrun.report.render import ARM, SEEDS, Column, View, exact, known, measured, plain, table_view
from flyrun.report.section import Row, Section
from flyrun.report.table import put

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
    found: Row = {"team_rounds": int(draws.info["iterations"])}
    agreement, age = (draws.values("sample_stats", name) for name in ("agreement", "staleness"))
    if age is not None:
        found["staleness"] = float(age.mean())
    if (seconds := draws.values("sample_stats", "seconds")) is not None:
        found["us_per_site"] = 1e6 * float(np.median(seconds)) / draws.facts["updates_per_round"]
    if agreement is not None:
        means = np.array([2.0 * part.mean() - 1.0 for part in np.array_split(agreement, 20)])
        found |= {"correlation": float(2.0 * agreement.mean() - 1.0)}
        found |= {"correlation_se": float(means.std(ddof=1) / math.sqrt(len(means)))}
    return found


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {name: arm.fact_mean(name) for name in (*_COUNTS, *_GAUSSIAN)}
    rounds = row["rounds"] = int(arm.each("team_rounds").mean())
    row |= {f"{what}_in_all": row[f"{what}_per_round"] * rounds for what in ("updates", "critical")}
    row["bytes_in_all"] = row["bytes_per_worker"] * rounds
    row["right_correlation"] = arm.fact_mean("right_correlation")
    if arm.has("staleness"):
        row["staleness"] = float(arm.each("staleness").mean())
    if arm.has("us_per_site"):
        put(row, "us_per_site", arm.each("us_per_site"))
    if arm.has("correlation"):
        put(row, "correlation", arm.each("correlation"))
        row["correlation_se"] = float(math.sqrt(np.mean(arm.each("correlation_se") ** 2) / arm.done))
        off = row["correlation"] - row["right_correlation"]
        row["correlation_z"] = off / row["correlation_se"] if row["correlation_se"] else math.nan
    return row


def _between(name: str) -> Column:
    def text(row: Row) -> str:
        low, high = row[f"{name}_min"], row[f"{name}_max"]
        return f"{low:.3f} to {high:.3f}" if known(low) else "-"

    return Column("sd × by theory" if name.startswith("expected") else "sd ×", text)


_COSTS = [
    ARM,
    exact("no"),
    Column("workers", plain("workers")),
    Column("rounds", plain("rounds")),
    Column("updates", plain("updates_in_all")),
    Column("on the critical path", plain("critical_in_all")),
    Column("bytes per worker", plain("bytes_in_all")),
    Column("age (rounds)", plain("staleness", 2)),
    Column("µs/update", measured("us_per_site")),
    SEEDS,
]
_THEORY = [
    ARM,
    Column("ρ(M)", plain("rho")),
    Column("ρ(|I − 𝒥|)", plain("dominance")),
    Column("mean off (sds)", plain("mean_off", 2)),
    Column("largest z", plain("mean_z", 2)),
    _between("expected_sd"),
    _between("measured_sd"),
    Column("covariance off by theory", plain("expected_covariance_off")),
    Column("covariance off", plain("covariance_off")),
    Column("corrected, by theory", plain("expected_corrected_off")),
    Column("corrected", plain("corrected_off")),
]
_PAIRS = [
    ARM,
    Column("pair correlation", measured("correlation", "correlation_se")),
    Column("right", plain("right_correlation", 4)),
    Column("off (se)", plain("correlation_z", 2)),
]


def _views(rows: list[Row]) -> list[View]:
    """What rounds cost; beside it, of Gaussians theory, of graphs pairs."""
    with_team = [row for row in rows if known(row.get("workers"))]
    views = [table_view("Rounds of many workers", _COSTS, with_team)]
    if gaussian := [row for row in with_team if known(row["rho"])]:
        views.append(table_view("Beside theory", _THEORY, gaussian))
    if pairs := [row for row in with_team if known(row.get("correlation"))]:
        views.append(table_view("Correlation of neighbours", _PAIRS, pairs))
    return views


_LEGEND = """
updates: variables drawn anew, burn-in's too; on the critical path: by the busiest worker of each round; bytes
per worker: of its own variables sent and the others' received. age: of what workers know of each other.
µs/update: median over rounds, without what watching costs.

{% if gaussian %}
ρ(M): of a round in lockstep, which diverges from 1 on; ρ(|I − 𝒥|): below 1 where the precision is generalised
diagonally dominant (Theorem 7.6.6). mean off: worst coordinate, in its sd; largest z: in its Monte Carlo
error, known for lockstep. sd ×: by the exact sd, least and largest; by theory: from the discrete Lyapunov
equation for lockstep. covariance off: Frobenius, by the exact one's norm; corrected: of (I + B⁻¹A)Σ_hog
(Proposition 7.7.4), which is exact for infinitely many local sweeps.
{% endif %}

{% if pairs %}
pair correlation: mean of s_i s_j over neighbours ± its Monte Carlo error (20 batches a chain); right: in
closed form (Kac and Ward 1952); off: in these errors.
{% endif %}
"""


def _legend(run: Run) -> list[str]:
    arms = SECTION.arms(run)
    pairs = any(arm.has("correlation") for arm in arms)
    return words.lines(_LEGEND, gaussian=any(arm.fact("rho") is not None for arm in arms), pairs=pairs)


SECTION = Section(
    "hogwild",
    columns=" ".join((
        "exact workers rounds updates_in_all critical_in_all bytes_in_all",
        "staleness us_per_site us_per_site_sd",
        *_GAUSSIAN,
        *_COUNTS[1:],
        "correlation correlation_sd correlation_se correlation_z right_correlation",
    )),
    reads=("team_rounds",), summarise=summarise, row=_row, views=_views, legend=_legend,
)  # fmt: skip
