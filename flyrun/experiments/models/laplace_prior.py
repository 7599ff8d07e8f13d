"""The Laplace prior (what makes the lasso), and the pseudo-prior that it makes with collapsed bounds."""

from math import log
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.base_density import (
    Penalty,
    about,
    add_gaussian,
    dense,
    draw_base,
    log_base,
    log_beyond,
)
from flyrun.experiments.models.kronecker import Kronecker
from flyrun.experiments.models.likelihood import Quadratic
from flyrun.ground.numerics.compiled import implements

SMOOTH = False


class Laplace(NamedTuple):
    """θ_d ~ e^{−|θ_d|/scale}/(2·scale), independent; variance 2·scale²."""

    scale: float
    log_twice_scale: float


class LaplaceTimesBounds(NamedTuple):
    """Prior × Π B_n: the bounds' quadratic with a ridge of absolute values."""

    prior: Laplace
    bounds: Quadratic | Kronecker


def prior(scale: float) -> Laplace:
    """The Laplace prior with mean absolute value `scale` in every coordinate."""
    return Laplace(float(scale), log(2.0 * scale))


def power(scale: float, exponent: float) -> float:
    """The scale of the prior raised to a power."""
    return scale / exponent


def penalty(prior: Laplace) -> Penalty:
    """What the prior takes off the log density."""
    return Penalty(ridge=0.0, rate=1.0 / prior.scale)


@implements(log_base, Laplace)
def _log_laplace(base, theta, gradient):
    rate = 1.0 / base.scale
    total = 0.0
    for d in range(theta.shape[0]):
        total += abs(theta[d])
        if gradient is not None:
            # at 0, which has probability 0, the middle of the slopes
            gradient[d] -= rate * np.sign(theta[d])
    return -rate * total - theta.shape[0] * base.log_twice_scale


@implements(draw_base, Laplace)
def _draw_laplace(base, rng, out):
    for d in range(out.shape[0]):
        size = base.scale * rng.standard_exponential()
        out[d] = size if rng.random() < 0.5 else -size


def pseudo_prior(prior: Laplace, bounds: Quadratic | Kronecker) -> LaplaceTimesBounds:
    """Laplace prior times collapsed bounds."""
    gaussian = gaussian_in_place(LaplaceTimesBounds(prior, bounds))
    return LaplaceTimesBounds(prior, about(bounds, gaussian.top()))


def gaussian_in_place(base: LaplaceTimesBounds) -> Any:
    """The bounds times the Gaussian of the prior's variance."""
    return add_gaussian(base.bounds, 0.5 / base.prior.scale**2, 0.0)


@implements(log_base, LaplaceTimesBounds)
def _log_product(base, theta, gradient):
    return log_base(base.prior, theta, gradient) + log_base(base.bounds, theta, gradient)


@implements(log_beyond, LaplaceTimesBounds)
def _ridge_of_absolute_values(base, theta, gradient):
    precision = 0.5 / (base.prior.scale * base.prior.scale)  # of the Gaussian of the same variance
    value = log_base(base.prior, theta, gradient)
    for d in range(theta.shape[0]):
        value += 0.5 * precision * theta[d] * theta[d]
        if gradient is not None:
            gradient[d] += precision * theta[d]
    return value


implements(dense, LaplaceTimesBounds)(lambda base: dense(gaussian_in_place(base)))
