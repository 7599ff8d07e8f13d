"""Base densities: the part of a target that costs no likelihood query.

For full-data sampling the base is the prior; for Firefly Monte Carlo it is the pseudo-prior, the prior times
the collapsed bounds (Maclaurin & Adams 2014, eq. 2).
"""

from flyrun.compiled import generic, implements
from flyrun.models.features import row_dot
from flyrun.models.likelihood import Quadratic


@generic
def log_base(base, theta, gradient):
    """Log density of the base at θ; adds its gradient to gradient, (P,), unless that is None."""


@generic
def draw_base(base, rng, out):
    """Fill out, (P,), with a draw from a base that is a proper prior."""


@implements(log_base, Quadratic)
def _log_quadratic(base, theta, gradient):
    value = base.constant[0]
    for d in range(theta.shape[0]):
        pulled = row_dot(base.precision, d, theta)
        value += theta[d] * (base.linear[d] - 0.5 * pulled)
        if gradient is not None:
            gradient[d] += base.linear[d] - pulled
    return value
