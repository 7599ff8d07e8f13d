"""The approximate test of Korattikara, Chen & Welling (2014), by Student's t at level ε; biased for ε > 0.

Angelino, Johnson & Adams (2016), Algorithms 5 and 6, with the stop rule mended: Algorithm 6 prints "if ρ >
ε", which stops where it is least sure; its text, and Korattikara et al., have ρ ≤ ε. ρ = 1 − Φ_{m−1}(|t|),
one side of Student's distribution: ε ≥ ½ always stops after one batch and ε = 0 never before the last.
"""

import numpy as np
from scipy.stats import t as student_t

from flyrun.experiments.config import acceptance as options
from flyrun.experiments.samplers.chain.acceptance.sequential import Sequential, target
from flyrun.experiments.samplers.chain.setup import Setup

__all__ = ["build", "target"]


def build(config: options.Austerity, setup: Setup) -> Sequential:
    """Batches of config.batch until |Λ̂ − ψ| ≥ t⁻¹_{m−1}(1 − ε)·s/√m·√((N − m)/(N − 1))."""
    return austerity(setup.n_data, config.batch, config.epsilon)


def austerity(n_data: int, batch: int, epsilon: float) -> Sequential:
    """The rule for N data. batch ≥ 2; 0 ≤ epsilon ≤ ½."""
    sizes = np.minimum(np.arange(batch, n_data + batch, batch), n_data)
    left = (n_data - sizes) / max(n_data - 1, 1)
    quantile = student_t.ppf(1.0 - epsilon, sizes - 1) if epsilon > 0 else np.full(len(sizes), np.inf)
    by_sd = np.where(left > 0.0, np.maximum(quantile, 0.0), 0.0) * np.sqrt(left / sizes)
    return Sequential(sizes, by_sd, np.zeros(len(sizes)), epsilon == 0.0)
