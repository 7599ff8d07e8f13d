"""Firefly Monte Carlo as a pseudo-marginal chain (Maclaurin & Adams 2014, §5; Andrieu & Roberts 2009).

With every proposal θ' comes a z' of its own, z'_n ~ Bernoulli(q) whatever all else is, and

    π̂(θ, z) = p(θ) Π_n B_n^{1−z_n} (L_n − B_n)^{z_n} / (q^{z_n} (1 − q)^{1−z_n}),

whose mean over z is p(θ) Π_n L_n, stands for the posterior in Metropolis & Hastings' ratio. That is exact:
(θ, z) has FlyMC's own joint density, with B_n tight at the MAP. But z never moves without θ, and the spread
of log π̂ grows with N: the chain sticks, and is here for show. The paper has q = ½.

A proposal costs a query for each of its bright data; what the current state has for them is kept.
"""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import acceptance as options
from flyrun.experiments.samplers.chain.acceptance.rule import decide, probability
from flyrun.experiments.samplers.chain.brightness.base import skip_rate
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.chain.targets.firefly import Firefly, brighten, darken, firefly, query
from flyrun.experiments.samplers.chain.targets.full_data import add_up
from flyrun.experiments.samplers.chain.targets.target import kept_log_data
from flyrun.ground.numerics.compiled import copy_into, implements
from flyrun.ground.numerics.state import unsaved


@unsaved(workspace=("proposed",))
class PseudoMarginal(NamedTuple):
    """Accepts or refuses θ' and z' together."""

    log_odds: float  # log q/(1 − q)
    skip: float  # ⌊skip·Exponential⌋ data are passed over before one that is bright
    proposed: np.ndarray  # (N,) uint32: workspace, the bright data of the proposal


def build(config: options.PseudoMarginal, setup: Setup) -> PseudoMarginal:
    """The rule from its configuration (q)."""
    return pseudo_marginal(config.q, setup.n_data)


def pseudo_marginal(q: float, n_data: int) -> PseudoMarginal:
    """The rule for N data, each bright in a proposal with probability q, 0 < q < 1."""
    skip = 1.0 / float(skip_rate(q))
    return PseudoMarginal(float(np.log(q / (1.0 - q))), skip, np.zeros(n_data, np.uint32))


def target(config: options.PseudoMarginal, setup: Setup, gradients: bool) -> Firefly:
    """Firefly's, with bounds tight at the MAP; its first z is drawn given θ, at N queries."""
    problem = setup.problem
    bound = setup.touching(problem.fit.theta_map)
    return firefly(setup.collapse(bound), problem.model, bound, problem.features, gradients)


@implements(decide, PseudoMarginal)
def _pseudo_marginal(rule, rng, target, theta, proposal, log_ratio):
    memory, proposed, count = target.memory, rule.proposed, 0
    n = int(rule.skip * rng.standard_exponential())
    while n < proposed.shape[0]:
        proposed[count] = n
        count += 1
        n += 1 + int(rule.skip * rng.standard_exponential())
    query(target, proposed[:count], proposal)
    n_bright = memory.partition.n_bright[0]
    # what is left of log π̂ beside the base, in which the dark data's log B are: N log(1 − q) cancels
    log_ratio += add_up(memory.proposed_values, count) - kept_log_data(target, None)
    acceptance = probability(log_ratio - (count - n_bright) * rule.log_odds)
    if rng.random() < acceptance:
        copy_into(theta, proposal)
        for i in range(n_bright - 1, -1, -1):
            darken(target, i)
        for j in range(count):
            brighten(target, proposed[j], j)
    return acceptance
