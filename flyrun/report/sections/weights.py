"""What weighted draws are worth: their effective number, what one costs, and how even the weights are."""

import math

import numpy as np

from flyrun.diagnostics.psis import pareto_k
from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.draws import Draws
from flyrun.report.render import ARM, SEEDS, Column, measured, plain, table_view
from flyrun.report.section import Row, Section
from flyrun.report.table import put

HEAVY, LARGE = 0.7, 0.001


def summarise(draws: Draws) -> Row:
    """weighted_effective: (Σ w)²/Σ w².  weight_k_hat: Pareto's, of |w|.  largest: |w| over their sum.
    negative: share of draws.
    """
    log_weight, sign = (draws.values("weighted", name) for name in ("log_weight", "sign"))
    if log_weight is None or not np.isfinite(log_weight).any():
        return {}
    size = np.exp(log_weight - log_weight.max())
    signs = np.ones(len(size)) if sign is None else sign.astype(float)
    return {
        "weighted_draws": len(size),
        "weighted_effective": float((signs @ size) ** 2 / (size @ size)),
        "weight_k_hat": pareto_k(log_weight),
        "largest": float(size.max() / size.sum()),
        "negative": float(np.mean(signs < 0)),
    }


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {"weighted_draws": arm.each("weighted_draws").mean()}
    effective = arm.each("weighted_effective")
    queries = np.array([cell.total_queries for cell in arm.cells]) - arm.fact_mean("setup_queries")
    seconds = np.array([info["timings"]["sampling_s"] for info in arm.infos])
    put(row, "weighted_effective", effective)
    put(row, "queries_per_effective", queries / effective)
    put(row, "effective_per_s", effective / seconds)
    row["queries_per_effective_with_setup"] = float(
        (queries / effective).mean() + arm.fact_mean("setup_queries") / effective.mean()
    )
    for name in ("weight_k_hat", "largest", "negative"):
        row[name] = float(np.mean(arm.each(name)))
    row |= {name: arm.fact_mean(name) for name in ("kappa", "rate")}
    return row


_COLUMNS = [
    ARM,
    Column("draws", plain("weighted_draws")),
    Column("effective", measured("weighted_effective")),
    Column("queries/effective", measured("queries_per_effective")),
    Column("with set-up", plain("queries_per_effective_with_setup")),
    Column("effective/s", measured("effective_per_s")),
    Column("κ", plain("kappa")),
    Column("λ", plain("rate")),
    Column("k̂", plain("weight_k_hat", 2)),
    Column("largest", plain("largest", 2)),
    Column("negative", plain("negative", 2)),
    SEEDS,
]

_LEGEND = """
effective: (Σ w)²/Σ w² of weights w; queries/effective: likelihoods for each, once set up, and with set-up
spread over the draws of a seed; κ: sum of the data's sds of what the approximation leaves out, λ: data read a
draw near the centre, of arms that read few; k̂: Pareto's, of the weights' sizes; largest: the largest weight
over the sum of all; negative: share of weights below 0.
"""


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    if not SECTION.about(arm):
        return []
    k_hat, largest = arm.each("weight_k_hat").mean(), arm.each("largest").max()
    heavy = not math.isnan(k_hat) and k_hat > HEAVY and largest > LARGE
    text = f"k̂ of its weights is {k_hat:.2f} and one of them is {largest:.0%} of all: do not trust its means."
    return [text] if heavy else []


SECTION = Section(
    "weights",
    columns="""
        weighted_draws weighted_effective weighted_effective_sd queries_per_effective queries_per_effective_sd
        queries_per_effective_with_setup effective_per_s effective_per_s_sd kappa rate weight_k_hat largest
        negative
    """,
    reads=("weighted_effective", "total_queries"), summarise=summarise, row=_row, arm_caveats=_arm_caveats,
    views=lambda rows: [table_view("Weighted draws (mean ± sd over seeds)", _COLUMNS, rows)],
    legend=lambda run: words.lines(_LEGEND),
)  # fmt: skip
