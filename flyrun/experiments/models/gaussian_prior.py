"""The Gaussian prior, and the pseudo-prior that it makes with collapsed bounds."""

from math import log, pi
from typing import Any, NamedTuple

from flyrun.experiments.models.base_density import Penalty, add_gaussian, at_top, draw_base, log_base
from flyrun.ground.numerics.compiled import dot_jit, implements

SMOOTH = True


class IsotropicGaussian(NamedTuple):
    """θ ~ N(0, scale² I)."""

    scale: float
    log_scale: float


def prior(scale: float) -> IsotropicGaussian:
    """The Gaussian prior with standard deviation `scale` in every coordinate."""
    return IsotropicGaussian(float(scale), log(scale))


def power(scale: float, exponent: float) -> float:
    """The scale of the prior raised to a power."""
    return scale / exponent**0.5


def penalty(prior: IsotropicGaussian) -> Penalty:
    """What the prior takes off the log density."""
    return Penalty(ridge=1.0 / prior.scale**2, rate=0.0)


@dot_jit
def _sum_of_squares(vector):
    total = 0.0
    for d in range(vector.shape[0]):
        total += vector[d] * vector[d]
    return total


@implements(log_base, IsotropicGaussian)
def _log_isotropic(base, theta, gradient):
    precision = 1.0 / (base.scale * base.scale)
    if gradient is not None:
        for d in range(theta.shape[0]):
            gradient[d] -= precision * theta[d]
    normaliser = theta.shape[0] * (base.log_scale + 0.5 * log(2.0 * pi))
    return -0.5 * precision * _sum_of_squares(theta) - normaliser


@implements(draw_base, IsotropicGaussian)
def _draw_isotropic(base, rng, out):
    for d in range(out.shape[0]):
        out[d] = base.scale * rng.standard_normal()


def pseudo_prior(prior: IsotropicGaussian, bounds: Any) -> Any:
    """Gaussian prior times collapsed bounds: of the bounds' own kind, Quadratic or Kronecker."""
    normaliser = bounds.linear.size * (prior.log_scale + 0.5 * log(2.0 * pi))
    return at_top(add_gaussian(bounds, 1.0 / prior.scale**2, -normaliser))
