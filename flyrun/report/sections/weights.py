"""What weighted draws are worth: their effective number, what one costs, and how even the weights are."""

import numpy as np

from flyrun.diagnostics.psis import heavy, pareto_k
from flyrun.report.arms import ArmResult, Run
from flyrun.report.draws import Draws
from flyrun.report.metrics import Metric, fact, k_hat, mean, of_cells
from flyrun.report.section import Row, Section


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


def _spent(arm: ArmResult) -> np.ndarray:
    """Queries of a seed's draws, set-up left out, (S,)."""
    return arm.each("total_queries") - arm.fact_mean("setup_queries")


def queries_per_effective(run: Run, arm: ArmResult) -> np.ndarray:
    """What an effective draw costs once set up, (S,)."""
    return _spent(arm) / arm.each("weighted_effective")


def _with_setup(run: Run, arm: ArmResult) -> float:
    setup = arm.fact_mean("setup_queries") / arm.each("weighted_effective").mean()
    return float(queries_per_effective(run, arm).mean() + setup)


def _per_second(run: Run, arm: ArmResult) -> np.ndarray:
    return arm.each("weighted_effective") / np.array([info["timings"]["sampling_s"] for info in arm.infos])


METRICS = [
    Metric("weighted_draws", "draws", mean("weighted_draws")),
    of_cells("weighted_effective", "effective", "(Σ w)²/Σ w² of weights w"),
    Metric(
        "queries_per_effective", "queries/effective", queries_per_effective,
        "likelihood queries for an effective draw, once set up", by_seed=True,
    ),
    Metric(
        "queries_per_effective_with_setup", "with set-up", _with_setup, "set-up spread over a seed's draws"
    ),
    Metric("effective_per_s", "effective/s", _per_second, by_seed=True),
    Metric("kappa", "κ", fact("kappa"), "sum over the data of the sd of what the approximation leaves out"),
    Metric("rate", "λ", fact("rate"), "data read for a draw near the centre"),
    k_hat("weight_k_hat", mean("weight_k_hat")),
    Metric("largest", "largest", mean("largest"), "the largest weight over the sum of all", digits=2),
    Metric("negative", "negative", mean("negative"), "share of weights below 0", digits=2),
]  # fmt: skip


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    if not SECTION.about(arm):
        return []
    shape, largest = arm.each("weight_k_hat").mean(), arm.each("largest").max()
    text = f"k̂ of its weights is {shape:.2f} and one of them is {largest:.0%} of all: do not trust its means."
    return [text] if heavy(shape, largest) else []


SECTION = Section(
    "weights", metrics=METRICS, title="Weighted draws (mean ± sd over seeds)",
    reads=("weighted_effective", "total_queries"), summarise=summarise, arm_caveats=_arm_caveats,
)  # fmt: skip
