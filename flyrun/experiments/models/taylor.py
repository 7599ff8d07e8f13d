"""Taylor polynomials of log likelihoods in the linear predictor, and bounds on what they leave out.

With f = log L_n as a function of η, T_k its polynomial of order k about η̂ and R_k = f − T_k, a constant κ
with |f'(η̂ + t) − T_k'(η̂ + t)| ≤ κ|t|^k/k! for all t bounds differences of R_k between any two positions.
The largest |f^(k+1)| is one, the same for all data (Cornish et al. 2019); for one predictor the smallest one
is a function of η̂ alone, tabulated here once: far from where f bends most it is many times smaller.
"""

from collections.abc import Callable
from math import factorial
from typing import NamedTuple

import numpy as np

from flyrun.ground.numerics.compiled import inlined

_STEP, _REACH = 0.02, 4.8  # nodes sinh(0), sinh(0.02), …: close where functions bend, 60 at the end


@inlined
def subtract_expansion(model, index, centres, eta, order, values):
    """values[i] −= T_k(η_i) − f(η̂_n), n = index[i], k = order; nothing for order 0.

    index: (n,); centres: η̂ of all data, (N, K); eta: (n, K); values: (n,). No query: what is known at η̂ is
    worked out from it.
    """


class Smallest(NamedTuple):
    """The smallest constants of one function, by |x̂|, between nodes sinh(0.02·i) the larger of the two."""

    values: np.ndarray

    def at(self, x: np.ndarray) -> np.ndarray:
        """κ at |x|, of any shape; beyond the last node that of the last, from where on it falls."""
        place = (np.arcsinh(np.abs(x)) / _STEP).astype(np.int64)
        return self.values[np.minimum(place, len(self.values) - 1)]


class BothSides(NamedTuple):
    """The same of a function that is not even: of its mirror image, for x̂ < 0, and of itself."""

    below: Smallest
    above: Smallest

    def at(self, x: np.ndarray) -> np.ndarray:
        """κ at x, of any shape."""
        return np.where(np.asarray(x) < 0.0, self.below.at(x), self.above.at(x))


def smallest_constants(derivatives: Callable[[np.ndarray], tuple], order: int) -> Smallest:
    """κ(x̂) = sup_t k!|f'(x̂ + t) − Σ_{j<k} f^(j+1)(x̂) t^j/j!|/|t|^k, k = order, with a margin of 0.1 %.

    derivatives(x): f', f'', f''' and f'''', each like x, of a function with |f''| etc. even in x,
    or of one side of another (`BothSides`). The margin covers what lies between nodes, 2 to 3 % of 1 or of x
    apart, whichever is more.
    """
    x = np.sinh(np.arange(0.0, _REACH + _STEP, _STEP))
    both = np.concatenate([-x[:0:-1], x])
    at = derivatives(x)
    # steps near 0, and ends near 0, where f bends
    steps = np.concatenate(np.broadcast_arrays(both, both - x[:, None]), axis=1)
    steps[np.abs(steps) < 1e-3] = 1e-3
    beyond, power = derivatives(x[:, None] + steps)[0], np.ones(steps.shape)
    for j in range(order):
        beyond = beyond - (at[j] / factorial(j))[:, None] * power
        power *= steps
    constants = factorial(order) * np.max(np.abs(beyond / power), axis=1)
    constants = np.maximum(constants, np.abs(at[order]))  # t → 0
    return Smallest(1.001 * np.maximum(constants, np.append(constants[1:], constants[-1])))
