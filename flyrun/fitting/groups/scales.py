"""The normal distribution of a group's effects: an intercept's, or an intercept's and a slope's together.

b ~ N(0, TT'), T a lower triangle. h holds log T00 or (log T00, T10, log T11). Priors: usually a half-t of 3
degrees of freedom and scale 2.5 on each sd, in units of the predictor; the correlation is uniform, as LKJ(1)
of two effects is.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from flyrun.families.prior_densities import HalfT, Prior

_STEP = 1e-4  # of differences


def number(effects: int) -> int:
    """How many numbers h holds for 1 or 2 effects a group."""
    return effects * (effects + 1) // 2


def triangle(h: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """T00, T10 and T11 of h (S, 1) or (S, 3), (S,) each; of one effect T10 = 0 and T11 = 1."""
    if h.shape[1] == 1:
        return np.exp(h[:, 0]), np.zeros(len(h)), np.ones(len(h))
    return np.exp(h[:, 0]), h[:, 1], np.exp(h[:, 2])


class Priors(NamedTuple):
    """Of the intercepts' sd, the slopes' sd, and the eta of the correlation's LKJ prior."""

    sd: Prior = HalfT(3.0, 2.5)
    slope: Prior = HalfT(3.0, 2.5)
    eta: float = 1.0


USUAL = Priors()
#: of effects on the log of a number, where 1 is a factor of e
OF_LOG = Priors(HalfT(3.0, 1.0), HalfT(3.0, 1.0))


def log_prior(h: np.ndarray, priors: Priors = USUAL) -> np.ndarray:
    """(S,) of h (S, 1) or (S, 3), with the Jacobian."""
    _, t10, t11 = triangle(h)
    log_p = np.asarray(priors.sd.log_density(h[:, 0]))
    if h.shape[1] == 3:  # |d(T10, log T11)/d(log sd, correlation)| = sd³/T11², 1 − correlation² = T11²/sd²
        log_variance = np.log(t10**2 + t11**2)
        log_p = log_p + priors.slope.log_density(0.5 * log_variance)
        log_p = log_p - 0.5 * log_variance + priors.eta * (2.0 * h[:, 2] - log_variance)
    return log_p


def log_density_sum(h: np.ndarray, count: float, products: np.ndarray) -> np.ndarray:
    """Σ log N(b; 0, TT') of so many groups, (S,), without 2π. products: Σ bb', (q, q)."""
    t00, t10, t11 = triangle(h)
    total = -count * np.log(t00) - 0.5 * products[0, 0] / t00**2
    if h.shape[1] == 3:
        ratio = t10 / t00
        left = products[1, 1] - 2.0 * ratio * products[0, 1] + ratio**2 * products[0, 0]
        total = total - count * np.log(t11) - 0.5 * left / t11**2
    return total


def scores(h: np.ndarray, b: list[np.ndarray]) -> list[np.ndarray]:
    """Slopes of log N(b; 0, TT') by h (P,), each of the shape of the q arrays b."""
    t00, t10, t11 = (float(value[0]) for value in triangle(h[None]))
    v0 = b[0] / t00
    if len(b) == 1:
        return [v0**2 - 1.0]
    v1 = (b[1] - t10 * v0) / t11
    return [v0**2 - 1.0 - v0 * v1 * t10 / t11, v0 * v1 / t11, v1**2 - 1.0]


def precision(h: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(TT')⁻¹ of h (S, 1) or (S, 3): its first, mixed and last element, (S,) each."""
    t00, t10, t11 = triangle(h)
    mixed = t10 / (t00 * t11)
    return t00**-2 + mixed**2, -mixed / t11, t11**-2


def expanded(f: Callable[[np.ndarray], np.ndarray], h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope and minus the second derivatives of a function of h, (m,) and (m, m), by differences."""
    steps = _STEP * np.eye(len(h))
    slope = (f(h + steps) - f(h - steps)) / (2 * _STEP)
    curvature = np.empty((len(h), len(h)))
    wide = 10 * steps
    for j, a in enumerate(wide):
        four = f(h + a + wide) - f(h + a - wide) - f(h - a + wide) + f(h - a - wide)
        curvature[j] = -four / (4 * (10 * _STEP) ** 2)
    return slope, 0.5 * (curvature + curvature.T)
