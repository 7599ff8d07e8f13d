"""MGPMH's spectral gap on two binary variables, beside the bound recalled for it and the one derived here.

**The bound for MGPMH.** Write ζ_w for the energy of variable i's factors at value w, ε_w for its minibatch
estimate, a_w = ε_w − ζ_w, p_w for the Gibbs conditional, and t = L²/λ. For states x ≠ y that differ at i,

    T(x, y)/G(x, y) = E[ min(e^{a_x}, e^{a_y}) / Σ_w p_w e^{a_w} ] ≥ 1/E[Y],
    Y = Σ_w p_w e^{a_w} · max(e^{−a_x}, e^{−a_y}),

with T MGPMH's and G Gibbs' transitions; the inequality is Jensen's for 1/Y. A difference a_w − a_x is
Σ (L/(λM))·d·s_φ − d over Poisson s_φ of mean λM/L, with |d| ≤ M, so for k = 1, 2 and z = kLd/(λM), of size
at most kL/λ ≤ 1:

    E e^{k(a_w − a_x)} = exp Σ (λM/L)(e^z − 1 − z) ≤ exp Σ (λM/L) z² ≤ e^{k² t}     (λ ≥ 2L).

(1) max ≤ sum gives E[Y] ≤ 2e^t. (2) max(u, v) = (u + v)/2 + |u − v|/2 gives, with P = Σ p_w e^{a_w − a_x} and
Q the same for y, E[Y] ≤ e^t + ½E|P − Q|. Here E(P − Q)² = E P² + E Q² − 2 E PQ ≤ 2e^{4t} − 2: P² and Q² by
the line above with k = 2 and Jensen over w, and E PQ ≥ 1 since each of its exponents has mean 0. Hence

    T ≥ c·G off the diagonal,  c = max( ½e^{−t}, 1/(e^t + √((e^{4t} − 1)/2)) ),

and as both chains have the same π, gap(MGPMH) ≥ c·gap(Gibbs), by comparing Dirichlet forms.

The bound recalled for Theorem 4, e^{−t}, does not hold: with two binary variables and one factor 1[x₁ = x₂]
the ratio of gaps is 0.905 at λ = 16 where e^{−t} is 0.939. Rejection costs to first order in the noise, there
about √(t/(2π)).
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from flyrun.experiments.report.arms import Run
from flyrun.ground.page.colours import BLUE, ORANGE
from flyrun.ground.page.figures import INK, grid

BATCHES = np.geomspace(1.0, 1024.0, 31)


def gap_ratio(batch: float) -> float:
    """Gap of MGPMH over that of Gibbs, with two binary variables and one factor 1[x₁ = x₂], so L = 1.

    E[(1 + e)/(1 + e^ε) · min(1, e^{ε−1})] over ε = Poisson(λ)/λ: the states that agree exchange with those
    that do not, at a rate that is Gibbs' times this.
    """
    counts = np.arange(stats.poisson.isf(1e-15, batch) + 1)
    estimate = counts / batch
    kept = (1 + math.e) / (1 + np.exp(estimate)) * np.exp(np.minimum(0.0, estimate - 1))
    return float(stats.poisson.pmf(counts, batch) @ kept)


def mgpmh_bound(largest_local: float, batch: float) -> float:
    """c as derived above: gap(MGPMH) ≥ c·gap(Gibbs) for batch ≥ 2L; 0 below, as nothing is shown."""
    if batch < 2.0 * largest_local:
        return 0.0
    t = largest_local**2 / batch
    return max(0.5 * math.exp(-t), 1.0 / (math.exp(t) + math.sqrt(0.5 * math.expm1(4.0 * t))))


def recalled_mgpmh_bound(largest_local: float, batch: float) -> float:
    """e^{−L²/λ}, Theorem 4 as it is recalled. It does not hold."""
    return math.exp(-(largest_local**2) / batch)


def gap_against_batch(run: Run, run_dir: Path) -> Any:
    """Two binary variables and one factor 1[x₁ = x₂]: spectral gap of MGPMH relative to Gibbs, by its exact
    series, against the mean batch. From λ = 7 on the bound recalled for Theorem 4 is above the measured ratio
    and so fails; the one derived here is below throughout.
    """
    figure, (top, bottom) = grid((6.4, 5.2), rows=2, sharex=True)
    measured = np.array([gap_ratio(batch) for batch in BATCHES])
    recalled = np.array([recalled_mgpmh_bound(1.0, batch) for batch in BATCHES])
    shown = BATCHES[BATCHES >= 2.0]
    derived = np.array([mgpmh_bound(1.0, batch) for batch in shown])
    for axis, of in ((top, lambda ratio: ratio), (bottom, lambda ratio: 1.0 - ratio)):
        axis.plot(BATCHES, of(measured), color=INK, marker="o", markersize=3, linewidth=1.2, label="measured")
        label = "bound as recalled, exp(−L²/λ): fails where the measured ratio is below"
        axis.plot(BATCHES, of(recalled), color=ORANGE, linestyle="--", label=label)
        label = "bound derived here, for λ ≥ 2L: holds"
        axis.plot(shown, of(derived), color=BLUE, linestyle="-.", label=label)
    top.set(ylabel="gap of MGPMH / gap of Gibbs", xscale="log", ylim=(0.0, 1.02))
    bottom.plot(
        BATCHES, np.sqrt(1.0 / (2.0 * np.pi * BATCHES)), color=INK, linewidth=0.8, linestyle=":",
        label="√(L²/(2πλ)), first order in the noise",
    )  # fmt: skip
    bottom.set(xlabel="mean batch λ (L = 1)", ylabel="1 − ratio", yscale="log")
    top.legend(*bottom.get_legend_handles_labels(), loc="lower right", fontsize=8)
    return figure


FIGURES = {"mgpmh_gap": gap_against_batch}
