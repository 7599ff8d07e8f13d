"""The confidence sampler: a test by bounds that hold for any data (Bardenet, Doucet & Holmes 2014, 2017).

Angelino, Johnson & Adams (2016), Algorithm 7 and eq. 3.23 to 3.27. Stage k has m_k = min(N, ⌈γ m_{k−1}⌉) data
and may err with probability δ_k = (p − 1)ε/(p k^p), Σ δ_k ≤ ε: so the stationary distribution is near the
posterior where the chain with all data is uniformly ergodic, but it is not the posterior.

Algorithm 7 as printed is bound=serfling, growth=1, levels=size: b more data a stage, m in k's place in δ, and
eq. 3.23's 1 − (m − 1)/N. The bounds after Bardenet & Maillard have (1 − m/N)(1 + 1/m) there beyond N/2, which
is less. Mended: its c is min(b, N − m), not N − M. C_{θ,θ'}, left to the user there, is half the range.
"""

from math import sqrt

import numpy as np

from flyrun.experiments.config import acceptance as options
from flyrun.experiments.samplers.chain.acceptance.sequential import Sequential, target
from flyrun.experiments.samplers.chain.setup import Setup

__all__ = ["build", "target"]


def build(config: options.Confidence, setup: Setup) -> Sequential:
    """Stages that begin at config.batch and grow by config.growth, with the inequality config.bound."""
    by_size = config.levels == "size"
    stages = setup.n_data, config.batch, config.growth
    return confidence(*stages, config.epsilon, config.bound, config.power, by_size)


def confidence(
    n_data: int,
    batch: int,
    growth: float,
    epsilon: float,
    bound: str,
    power: float = 2.0,
    by_size: bool = False,
) -> Sequential:
    """The rule for N data. batch ≥ 2; growth γ ≥ 1, 1: by `batch`; 0 ≤ epsilon; bound: its name; power p.

    by_size: δ_m = (p − 1)ε/(p m^p), in place of δ_k of the k-th stage.

    The sd of the bounds divides by m, that of the test by m − 1.
    """
    stages = [min(batch, n_data)]
    while stages[-1] < n_data:
        more = batch + stages[-1] if growth == 1.0 else int(np.ceil(growth * stages[-1]))
        stages.append(min(n_data, more))
    sizes = np.array(stages)
    m = sizes.astype(float)
    k = m if by_size else np.arange(1.0, len(sizes) + 1.0)
    # Serfling (1974), and Bardenet & Maillard (2015) for the second half of the data
    serfling = 1.0 - (m - 1.0) / n_data
    left = np.where(m <= n_data / 2, serfling, (1.0 - m / n_data) * (1.0 + 1.0 / m))
    nothing = np.zeros(len(m))
    with np.errstate(divide="ignore", invalid="ignore"):  # level 0: nothing is ever sure
        log_inverse = -np.log((power - 1.0) * epsilon / (power * k**power))
        two, three, five = (log_inverse + np.log(sides) for sides in (2.0, 3.0, 5.0))
        by_sd, by_range = {
            "hoeffding": (nothing, np.sqrt(two / (2.0 * m))),
            "serfling": (nothing, np.sqrt(serfling * two / (2.0 * m))),
            "hoeffding_serfling": (nothing, np.sqrt(left * two / (2.0 * m))),
            "empirical_bernstein": (np.sqrt(2.0 * three / m), 3.0 * three / m),
            "bernstein_serfling": (np.sqrt(2.0 * left * five / m), (7.0 / 3.0 + 3.0 / sqrt(2.0)) * five / m),
        }[bound]
    return Sequential(sizes, by_sd * np.sqrt((m - 1.0) / m), by_range, epsilon == 0.0)
