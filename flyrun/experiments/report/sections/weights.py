"""What weighted draws are worth: their effective number, what one costs, and how even the weights are."""

import math

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.metrics import fact, k_hat, mean, of_cells
from flyrun.experiments.report.section import Row, Section
from flyrun.experiments.report.sections.ess import FEW_DRAWS
from flyrun.ground.diagnostics.psis import heavy, pareto_k
from flyrun.ground.page import words
from flyrun.ground.page.metrics import Metric


def summarise(draws: Draws) -> Row:
    """weighted_effective: (Σ w)²/Σ w², 0 where Σ w is below 0.  weight_k_hat: Pareto's, of |w|.  largest: |w|
    over their sum.  negative: share of draws.
    """
    log_weight, sign = (draws.values("weighted", name) for name in ("log_weight", "sign"))
    if log_weight is None or not np.isfinite(log_weight).any():
        return {}
    size = np.exp(log_weight - log_weight.max())
    signs = np.ones(len(size)) if sign is None else sign.astype(float)
    return {
        "weighted_draws": len(size),
        "weighted_effective": max(float(signs @ size), 0.0) ** 2 / float(size @ size),
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


_ARM_CAVEATS = """
{% if heavy %}
{% if k_hat == k_hat %}
k̂ of its weights is {{ k_hat | spec(".2f") }} and
{% endif %}
one of its weights is {{ largest | spec(".0%") }} of all: do not trust its means.

{% endif %}
{% if few %}
its weighted draws are worth {{ total | spec(",.3g") }} in all ({{ n_runs }}
{{ "seed" if n_runs == 1 else "seeds" }}): treat its means as rough.

{% endif %}
{% if noisy %}
a draw reads λ = {{ rate | spec(".3g") }} data where κ = {{ kappa | spec(".3g") }}: weights have a relative
variance of about exp(κ²/λ), which so few draws do not show; leave out sampler.queries, whose default is
about κ².
{% endif %}
"""


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    if not SECTION.about(arm):
        return []
    each = zip(*map(arm.each, ("weight_k_hat", "largest", "weighted_draws")), strict=True)
    # the worst seed: one that fails is no less of a failure beside others
    k_hat, largest = max(
        ((k, top) for k, top, n in each if heavy(k, top, n)), key=_worst, default=(None, 0.0)
    )
    total = float(arm.each("weighted_effective").sum())
    rate, kappa = arm.fact_mean("rate"), arm.fact_mean("kappa")
    # what is known of the noise by design: as many draws as there are are worth so few
    shown = arm.each("weighted_draws").sum() * math.exp(-(kappa**2) / rate) if rate < _rows(arm) else math.inf
    return words.lines(
        _ARM_CAVEATS, heavy=k_hat is not None, k_hat=k_hat, largest=largest, total=total,
        few=not total >= FEW_DRAWS, n_runs=arm.done, noisy=shown < FEW_DRAWS, rate=rate, kappa=kappa,
    )  # fmt: skip


def _rows(arm: ArmResult) -> float:
    return float(arm.fact("n_data") or 0)  # where every draw reads them all, nothing is noise


def _worst(estimate: tuple[float, float]) -> float:
    return math.inf if math.isnan(estimate[0]) else estimate[0]


SECTION = Section(
    "weights", place=170, metrics=METRICS, title="Weighted draws (mean ± sd over seeds)",
    reads=("weighted_effective", "total_queries"), summarise=summarise, arm_caveats=_arm_caveats,
)  # fmt: skip
