"""The prior on auxiliary numbers a = log s or a plain, independent of that on the coefficients beside them.

s ~ Gamma(shape, rate) makes log p(a) = shape·a − rate·eᵃ + constant, the Jacobian of the logarithm in it.
"""

from collections.abc import Sequence
from math import exp
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.base_density import draw_base, log_base
from flyrun.families.prior_densities import LogGamma, Normal, Prior
from flyrun.ground.numerics.compiled import implements


class AuxPrior(NamedTuple):
    """log p(a_k) = linear_k·a_k − rate_k·e^{a_k} − ½·precision_k·a_k² + constant_k."""

    linear: np.ndarray  # (A,): the shape of a gamma, the mean times the precision of a normal
    rate: np.ndarray  # (A,); 0 of a normal
    precision: np.ndarray  # (A,); 0 of the logarithm of a gamma
    constant: np.ndarray  # (A,)

    def log_density(self, a: np.ndarray) -> np.ndarray:
        """Of each at a, (..., A)."""
        with np.errstate(over="ignore"):
            return self.linear * a - self.rate * np.exp(a) - 0.5 * self.precision * a**2 + self.constant

    def slopes(self, a: np.ndarray) -> np.ndarray:
        """Derivatives at a, (..., A)."""
        return self.linear - self.rate * np.exp(a) - self.precision * a

    def bends(self, a: np.ndarray) -> np.ndarray:
        """Minus the second derivatives at a, (..., A): at least 0."""
        return self.rate * np.exp(a) + self.precision

    def mode(self) -> np.ndarray:
        """Where each is highest, (A,)."""
        normal = self.precision > 0.0
        return np.where(normal, self.linear / np.where(normal, self.precision, 1.0), np.log(self._ratio()))

    def _ratio(self) -> np.ndarray:
        gamma = self.rate > 0.0
        return np.where(gamma, self.linear, 1.0) / np.where(gamma, self.rate, 1.0)

    def power(self, exponent: float) -> "AuxPrior":
        """The density to a power, not normalised."""
        return AuxPrior(*(exponent * np.asarray(part) for part in self))

    @classmethod
    def of_each(cls, priors: Sequence[Prior]) -> "AuxPrior":
        """Of auxiliary numbers' priors as families have them, (A,). TypeError for one not compiled."""
        rows = []
        for prior in priors:
            if isinstance(prior, LogGamma):
                rows.append((prior.shape, prior.rate, 0.0))
            elif isinstance(prior, Normal):
                rows.append((prior.mean / prior.sd**2, 0.0, prior.sd**-2))
            else:
                raise TypeError(f"{prior}: chains have no such prior")
        linear, rate, precision = (np.array(column, float) for column in zip(*rows, strict=True))
        bare = cls(linear, rate, precision, np.zeros(len(rows)))
        at_none = np.array([float(prior.log_density(0.0)) for prior in priors])
        return bare._replace(constant=at_none - bare.log_density(np.zeros(len(rows))))

    # -- as factors of one number each, for sites (models/factors.py) --

    def of(self, which: np.ndarray) -> "AuxPrior":
        """Those of some of the numbers: indices or a mask, (A,)."""
        return AuxPrior(*(part[which] for part in self))

    def look(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log densities, (A,), slopes (A, 1), curvatures (A, 1, 1), at u, (A, 1)."""
        a = u[:, 0]
        return self.log_density(a), self.slopes(a)[:, None], self.bends(a)[:, None, None]

    def values(self, u: np.ndarray) -> np.ndarray:
        """Log densities, (A,), at u, (A, 1)."""
        return self.log_density(u[:, 0])


class Beside(NamedTuple):
    """The coefficients' prior times that of the auxiliary numbers, the last components of θ."""

    coefficients: Any
    aux: AuxPrior
    size: int  # D


@implements(log_base, Beside)
def _log_base(base, theta, gradient):
    size, aux = base.size, base.aux
    if gradient is None:
        value = log_base(base.coefficients, theta[:size], None)
    else:
        value = log_base(base.coefficients, theta[:size], gradient[:size])
    for k in range(aux.linear.shape[0]):
        a = theta[size + k]
        rise = aux.rate[k] * exp(min(a, 700.0)) if aux.rate[k] > 0.0 else 0.0
        value += (aux.linear[k] - 0.5 * aux.precision[k] * a) * a - rise + aux.constant[k]
        if gradient is not None:
            gradient[size + k] += aux.linear[k] - aux.precision[k] * a - rise
    return value


@implements(draw_base, Beside)
def _draw_base(base, rng, out):
    size, aux = base.size, base.aux
    draw_base(base.coefficients, rng, out[:size])
    for k in range(aux.linear.shape[0]):
        if aux.rate[k] > 0.0:
            out[size + k] = np.log(max(rng.standard_gamma(aux.linear[k]), 1e-300) / aux.rate[k])
        else:
            out[size + k] = aux.linear[k] / aux.precision[k] + rng.standard_normal() / np.sqrt(
                aux.precision[k]
            )
