"""Delayed acceptance (Christen & Fox 2005): a surrogate's ratio first, all data only where that accepts.

Accepted with min(1, surrogate ratio)·min(1, posterior ratio/surrogate ratio): exact, at N queries for
each proposal that the first factor lets pass. Here the surrogate is the prior times the likelihood's
Taylor polynomial.
"""

from math import exp
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import acceptance as options
from flyrun.experiments.samplers.chain.acceptance.rule import decide, metropolis
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.chain.surrogate.taylor import Surrogate, summed, to_phi
from flyrun.experiments.samplers.chain.targets.target import kept_log_data, log_data
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.state import unsaved


@unsaved(workspace=("phi",), fixed=("surrogate",))
class Delayed(NamedTuple):
    """Two stages."""

    surrogate: Surrogate
    phi: np.ndarray  # (P,): workspace


def build(config: options.Delayed, setup: Setup) -> Delayed:
    """The rule from its configuration (order)."""
    surrogate = setup.surrogate(config.order)
    return Delayed(surrogate, np.zeros(len(surrogate.mean)))


@implements(decide, Delayed)
def _delayed(rule, rng, target, theta, proposal, log_ratio):
    to_phi(rule.surrogate, theta, rule.phi)
    here = summed(rule.surrogate, rule.phi, None)
    to_phi(rule.surrogate, proposal, rule.phi)
    first = log_ratio + summed(rule.surrogate, rule.phi, None) - here
    if first != first:
        raise DensityError("the density is not a number at a proposal: look for huge values in the data")
    if rng.random() >= exp(min(0.0, first)):
        return 0.0
    log_ratio += log_data(target, proposal, None) - kept_log_data(target, None)
    return metropolis(rng, target, theta, proposal, log_ratio - first)
