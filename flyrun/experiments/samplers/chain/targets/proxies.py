"""Proxies of log likelihoods: subtracted from them, few data tell of all (Bardenet, Doucet & Holmes 2017).

log L_n is read as R_n = log L_n − T_n, T_n its Taylor polynomial at the MAP; the sum of all T_n is known
without reading any. What R_n changes by from one position to another varies little from datum to datum, and
lies in a range that is known beforehand too.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.ranges import range_width
from flyrun.experiments.models.taylor import subtract_expansion
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.chain.surrogate.remainder import leverage_reach
from flyrun.experiments.samplers.chain.surrogate.taylor import FAR, Surrogate, summed, to_phi
from flyrun.ground.numerics.compiled import generic, implements, inlined, jit
from flyrun.ground.numerics.state import unsaved


@generic
def compare(proxies, theta, proposal):
    """Σ_n [T_n(proposal) − T_n(theta)], and the width of the range of what R_n changes by. Both (P,).

    NaN where the sums are so large that their rounding counts: proxies are of no use then.
    """


@inlined
def subtract(proxies, model, index, eta, values):
    """values[i] = log L_n becomes R_n, up to a constant of the datum, n = index[i]. eta: (n, K). No query."""


@inlined
def sum_is_whole(proxies):
    """Whether Σ R_n is Σ log L_n."""


class Unaided(NamedTuple):
    """No proxies, and nobody asks for the range."""

    unused: int = 0


UNAIDED = Unaided()

implements(compare, Unaided)(lambda proxies, theta, proposal: (0.0, np.inf))
implements(sum_is_whole, Unaided)(lambda proxies: True)


@implements(subtract, Unaided)
def _subtract_nothing(proxies, model, index, eta, values):
    pass


@unsaved(workspace=("phi",), fixed=("surrogate", "ranges"))
class Proxies(NamedTuple):
    """Polynomials of surrogate.order, for 0 none, and what tells the range."""

    surrogate: Surrogate
    ranges: Any
    phi: np.ndarray  # (2, P): both positions, whitened


class LeverageRange(NamedTuple):
    """|R_n changes by| ≤ c_n·M(φ, φ') for all data, by their leverages (surrogate/remainder.py)."""

    order: int
    largest: float  # max c_n


@implements(range_width, LeverageRange)
def _by_leverages(ranges, theta, proposal, phi, proposed_phi):
    return 2.0 * ranges.largest * leverage_reach(ranges.order, False, phi, proposed_phi)


def proxies_of(setup: Setup, order: int) -> Proxies:
    """Of an arm's likelihood at its MAP. The model's own range where it has a closer one than leverages'."""
    surrogate, problem = setup.surrogate(order), setup.problem
    if hasattr(setup.module, "data_range"):
        ranges = setup.module.data_range(problem.model, problem.features, surrogate.mean, order)
    else:
        ranges = LeverageRange(order, float(setup.remainder(order).weights.max()))
    return Proxies(surrogate, ranges, np.zeros((2, setup.n_params)))


@jit
def _sum_at(surrogate, theta, phi):
    to_phi(surrogate, theta, phi)
    return summed(surrogate, phi, None)


@implements(compare, Proxies)
def _compare(proxies, theta, proposal):
    here, there = proxies.phi[0], proxies.phi[1]
    after, before = _sum_at(proxies.surrogate, proposal, there), _sum_at(proxies.surrogate, theta, here)
    total = after - before if max(abs(after), abs(before)) < FAR else np.nan
    return total, range_width(proxies.ranges, theta, proposal, here, there)


@implements(subtract, Proxies)
def _subtract(proxies, model, index, eta, values):
    subtract_expansion(model, index, proxies.surrogate.predictors, eta, proxies.surrogate.order, values)


implements(sum_is_whole, Proxies)(lambda proxies: proxies.surrogate.order == 0)
