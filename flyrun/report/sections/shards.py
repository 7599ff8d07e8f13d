"""Draws that several workers make together: what an effective one costs, and whether they can be trusted."""

import math
from statistics import NormalDist

import numpy as np

from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.draws import Draws
from flyrun.report.render import ARM, SEEDS, Column, View, known, measured, plain, table_view
from flyrun.report.section import Row, Section
from flyrun.report.sections import ess
from flyrun.report.sections.estimates import posterior, reference, truth

_FEW = 8  # coordinates, whose quantiles are kept
_LEVELS = (np.arange(200) + 0.5) / 200
_BEYOND = NormalDist().cdf(-3.0)  # what of a normal distribution is above 3 sds


def summarise(draws: Draws) -> Row:
    """shards_span: mean queries of an iteration on the longest path, after burn-in.  shards_quantiles: of
    draws of few coordinates, (Q, D).
    """
    span, found = draws.values("sample_stats", "span"), Row()
    if draws.real() and draws.shape[1] <= _FEW:
        found["shards_quantiles"] = np.quantile(draws.positions(), _LEVELS, axis=0).tolist()
    if span is not None and {"workers", "rounds", "bytes"} <= draws.facts.keys():
        found["shards_span"] = float(np.mean(span))
    return found


def _row(run: Run, arm: ArmResult) -> Row:
    size = ess.per_seed(arm, "ess_worse_per_1000").mean() / 1000.0
    drawn = size * np.mean([cell.n_iterations for cell in arm.cells])
    found: Row = {
        "shards": arm.fact("workers"),
        "shards_queries_per_draw": ess.ratio(arm.each("queries_per_iter").mean(), size),
        "shards_span_per_draw": ess.ratio(arm.each("shards_span").mean(), size),
        "shards_rounds_per_draw": ess.ratio(arm.fact_mean("rounds"), drawn),
        "shards_bytes_per_draw": ess.ratio(arm.fact_mean("bytes"), drawn),
    }
    return found | {"shards_ks": _kolmogorov_smirnov(run, arm)} | _distance(run, arm)


def _distance(run: Run, arm: ArmResult) -> Row:
    """How far means and sds are from the reference's, in its sds and in their own standard errors, and
    whether that is far: more than as many as one of D normal numbers is beyond as rarely as one beyond 3.
    """
    right = truth(run, arm)
    if right is None or right.classes > 1 or right.source == f"arm {arm.name}":
        return {}
    mean, sd, error = posterior(arm)
    with np.errstate(divide="ignore", invalid="ignore"):
        off, se = (mean - right.mean) / right.sd, np.hypot(error * sd / right.sd, right.error)
        of_mean = off / se
        # of a normal distribution the logarithm of an sd has half the variance of a mean in sds
        of_sd = np.log(sd / right.sd) / (np.hypot(error, right.error) / math.sqrt(2.0))
    limit = -NormalDist().inv_cdf(_BEYOND / (2 * len(mean)))
    both = {"mean": of_mean, "sd": of_sd}
    what = max(both, key=lambda name: np.nanmax(np.abs(both[name])))
    worst, farthest = int(np.nanargmax(np.abs(both[what]))), int(np.argmax(np.abs(off)))
    return {
        "shards_off": float(np.sqrt(np.mean(off**2))),
        "shards_off_se": float(np.sqrt(np.mean(se**2))),
        "shards_worst": float(off[farthest]),
        "shards_worst_of": arm.pooled.names[farthest],
        "shards_z": float(both[what][worst]),
        "shards_z_of": f"{what} of {arm.pooled.names[worst]}",
        "off_the_reference": bool(abs(both[what][worst]) > limit),
        "shards_sd_least": float((sd / right.sd).min()),
        "shards_sd_most": float((sd / right.sd).max()),
    }


def _kolmogorov_smirnov(run: Run, arm: ArmResult) -> float:
    """Distance of draws' distribution functions from those of the exact arm, to 0.005: the largest over
    coordinates, mean over seeds; NaN where it is not known.
    """
    base = reference(run, arm)
    if base is None or base is arm or not (base.has("shards_quantiles") and arm.has("shards_quantiles")):
        return math.nan
    right = np.mean([cell.shards_quantiles for cell in base.cells], axis=0)
    found = []
    for cell in arm.cells:
        columns = zip(np.array(cell.shards_quantiles).T, right.T, strict=True)
        found.append(max(np.abs(np.interp(ours, other, _LEVELS) - _LEVELS).max() for ours, other in columns))
    return float(np.mean(found))


def _verdict(row: Row) -> str:
    if not known(row.get("shards_z")):
        return "-"
    far = "off the reference: " if row["off_the_reference"] else ""
    return f"{far}{row['shards_z']:+.1f}, {row['shards_z_of']}"


def _worst(row: Row) -> str:
    value = row.get("shards_worst")
    return f"{value:+.2f}, {row['shards_worst_of']}" if known(value) else "-"


def _range(row: Row) -> str:
    low, high = row.get("shards_sd_least"), row.get("shards_sd_most")
    return f"{low:.2f} to {high:.2f}" if known(low) else "-"


_COLUMNS = [
    ARM,
    Column("workers", lambda row: f"{row['shards']:.0f}" if known(row.get("shards")) else "-"),
    Column("queries/draw", plain("shards_queries_per_draw")),
    Column("critical/draw", plain("shards_span_per_draw")),
    Column("rounds/draw", plain("shards_rounds_per_draw", 2)),
    Column("bytes/draw", plain("shards_bytes_per_draw")),
    Column("off (sds)", measured("shards_off", "shards_off_se")),
    Column("worst", _worst),
    Column("sd ×", _range),
    Column("farthest (its se)", _verdict),
    SEEDS,
]
_KS = Column("KS", plain("shards_ks", 2))


def _views(rows: list[Row]) -> list[View]:
    few = [_KS] if any(known(row.get("shards_ks")) for row in rows) else []
    return [table_view("What workers do together", [*_COLUMNS[:-2], *few, *_COLUMNS[-2:]], rows)]


_LEGEND = """
queries/draw: likelihood queries of all workers for an effective draw, by the worse of means and squares;
critical/draw: of the busiest worker; rounds: messages that somebody waits for; bytes: that workers send and
are sent. off: of means, in sds of the posterior, root mean square over coordinates ± its Monte Carlo error,
and the worst one's with its sign; sd ×: sds over the posterior's, least and most; KS: Kolmogorov-Smirnov
distance from the exact arm's draws, where coordinates are few. farthest: of means and sds
the one that is most of its own standard errors from {{ sources }}; off the reference: by more than 3, or as
is as rare for the largest of so many.
"""


def _legend(run: Run) -> list[str]:
    found = {right.source for arm in SECTION.arms(run) if (right := truth(run, arm))}
    return words.lines(_LEGEND, sources=" and ".join(sorted(found)) or "a reference")


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    shards, alike = arm.fact("workers"), arm.fact_mean("one_class")
    if not alike > 0:
        return []
    return [
        f"{alike:.3g} of its {shards} shards have rows of one class alone: there the prior says most, and "
        "averages of draws are worth little."
    ]


SECTION = Section(
    "shards",
    columns="""
        shards shards_queries_per_draw shards_span_per_draw shards_rounds_per_draw shards_bytes_per_draw
        shards_off shards_off_se shards_worst shards_worst_of shards_sd_least shards_sd_most shards_ks
        shards_z shards_z_of off_the_reference
    """,
    reads=("shards_span", "ess"), summarise=summarise, row=_row, views=_views,
    legend=_legend, arm_caveats=_arm_caveats, replaces=("bias",),
)  # fmt: skip
