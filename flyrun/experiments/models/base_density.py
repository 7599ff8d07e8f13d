"""Base densities: the part of a target that costs no likelihood query.

For full-data sampling the base is the prior; for Firefly Monte Carlo it is the pseudo-prior, the prior times
the collapsed bounds (Maclaurin & Adams 2014, eq. 2).
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.likelihood import Quadratic
from flyrun.ground.numerics.compiled import generic, implements, inlined
from flyrun.ground.numerics.rows import first_dot, first_four_dots, row_dot


class Penalty(NamedTuple):
    """A log prior density as ½·ridge·|θ|² + rate·Σ|θ_d| below its value at 0, and that of auxiliary numbers.

    It is of the first `size` components of θ (None: of all); of the others `aux` is the log density.
    """

    ridge: float
    rate: float
    size: int | None = None
    aux: Any = None  # aux_prior.AuxPrior

    def of(self, theta: np.ndarray) -> float:
        """What it takes off at θ, (P,), less the log density of the auxiliary numbers."""
        coefficients = theta[: self.size]
        lost = float(0.5 * self.ridge * coefficients @ coefficients + self.rate * np.abs(coefficients).sum())
        return lost if self.aux is None else lost - float(self.aux.log_density(theta[self.size :]).sum())

    def score(self, theta: np.ndarray) -> np.ndarray:
        """Minus its gradient at θ, (..., P)."""
        slopes = self.smooth_score(theta)
        slopes[..., : self.size] -= self.rate * np.sign(theta[..., : self.size])
        return slopes

    def smooth_score(self, theta: np.ndarray) -> np.ndarray:
        """The same without the absolute values, (…, P)."""
        slopes = -self.ridge * theta[..., : self.size]
        if self.aux is None:
            return slopes
        return np.concatenate([slopes, self.aux.slopes(theta[..., self.size :])], axis=-1)

    def ridges(self, theta: np.ndarray) -> np.ndarray:
        """Its second derivatives at θ, (P,): they are along the components. Of absolute values none."""
        bends = self.gaussian_ridges(len(theta))
        if self.aux is not None:
            bends[self.size :] = self.aux.bends(theta[self.size :])
        return bends

    def gaussian_ridges(self, n_params: int) -> np.ndarray:
        """The ridge of every component, (P,)."""
        return self._own(self.ridge, n_params)

    def rates(self, n_params: int) -> np.ndarray:
        """The rate of every component, (P,)."""
        return self._own(self.rate, n_params)

    def _own(self, value: float, n_params: int) -> np.ndarray:
        """(P,): the value, and 0 of auxiliary numbers."""
        values = np.full(n_params, value)
        values[n_params if self.size is None else self.size :] = 0.0
        return values

    def sites(self, n_params: int) -> tuple[np.ndarray, np.ndarray]:
        """Gaussians that stand in for what is none: precisions (P, 1, 1), linear terms (P, 1).

        Of absolute values the one of their variance, of auxiliary numbers the one at their prior's mode.
        """
        precision, linear = np.full((n_params, 1, 1), 0.5 * self.rate**2), np.zeros((n_params, 1))
        if self.aux is not None:
            top = self.aux.mode()
            precision[self.size :, 0, 0] = self.aux.bends(top)
            linear[self.size :, 0] = self.aux.bends(top) * top
        return precision, linear

    @property
    def gaussian(self) -> bool:
        """Whether the prior is Gaussian."""
        return self.rate == 0.0 and self.aux is None

    def beyond_ridge(self, thetas: np.ndarray) -> np.ndarray:
        """The log density without the ridge and up to a constant of the coefficients, (n,), at (n, P)."""
        coefficients = thetas[:, : self.size]
        total = -self.rate * np.abs(coefficients).sum(axis=1)
        return total if self.aux is None else total + self.aux.log_density(thetas[:, self.size :]).sum(axis=1)

    def weakened(self, share: float) -> "Penalty":
        """Of the prior to the power `share`."""
        aux = None if self.aux is None else self.aux.power(share)
        return Penalty(share * self.ridge, share * self.rate, self.size, aux)


@inlined
def log_base(base, theta, gradient):
    """Log density of the base at θ; adds its gradient to gradient, (P,), unless that is None."""


@generic
def log_beyond(base, theta, gradient):
    """What a pseudo-prior's log density adds to that of its Gaussian part (samplers/chain/metric.py), up to a
    constant: 0 for a Gaussian prior. Adds its gradient unless None."""


@generic
def draw_base(base, rng, out):
    """Fill out, (P,), with a draw from a base that is a proper prior."""


def add_gaussian(base: Any, precision: float, log_normaliser: float) -> Any:
    """Collapsed bounds times N(0, I/precision), whose log density is −½·precision·θᵀθ + log_normaliser."""
    return base.with_ridge(precision)._replace(
        linear=base.linear - precision * base.centre,
        constant=base.constant + log_normaliser - 0.5 * precision * base.centre @ base.centre,
    )


def about(base: Any, centre: np.ndarray) -> Any:
    """The same collapsed bounds held about another centre, (P,)."""
    step = centre - base.centre
    pulled = base.curvature_times(step)
    height = base.constant + step @ (base.linear - 0.5 * pulled)
    return base._replace(centre=centre, linear=base.linear - pulled, constant=height)


def at_top(base: Any) -> Any:
    """The same function held about its top, where it is evaluated to most digits."""
    return about(base, base.top())


@generic
def dense(base):
    """Collapsed bounds or a pseudo-prior as a Quadratic about 0, whatever structure they have; for what is
    not smooth a Gaussian of the same variance stands in. Python only."""


@implements(log_base, Quadratic)
def _log_quadratic(base, theta, gradient):
    matrix, linear, away, size = base.precision, base.linear, base.away, theta.shape[0]
    value = base.constant[0]
    for d in range(size):
        away[d] = theta[d] - base.centre[d]
    if gradient is not None:
        for d in range(size):
            pulled = row_dot(matrix, d, away)
            value += away[d] * (linear[d] - 0.5 * pulled)
            gradient[d] += linear[d] - pulled
        return value
    # half of a symmetric matrix says it all: what is left of the diagonal, four rows at once, and half of it
    for d in range(0, size & -4, 4):
        p, q, r, s = first_four_dots(matrix, d, d + 1, d + 2, d + 3, away, d)
        t, u, v, w = away[d], away[d + 1], away[d + 2], away[d + 3]
        p += 0.5 * matrix[d, d] * t
        q += matrix[d + 1, d] * t + 0.5 * matrix[d + 1, d + 1] * u
        r += matrix[d + 2, d] * t + matrix[d + 2, d + 1] * u + 0.5 * matrix[d + 2, d + 2] * v
        s += matrix[d + 3, d] * t + matrix[d + 3, d + 1] * u + matrix[d + 3, d + 2] * v
        s += 0.5 * matrix[d + 3, d + 3] * w
        value += t * (linear[d] - p) + u * (linear[d + 1] - q)
        value += v * (linear[d + 2] - r) + w * (linear[d + 3] - s)
    for d in range(size & -4, size):
        pulled = first_dot(matrix, d, away, d) + 0.5 * matrix[d, d] * away[d]
        value += away[d] * (linear[d] - pulled)
    return value


@implements(log_beyond, Quadratic)
def nothing_beyond(base, theta, gradient):
    """`log_beyond` of what is a Gaussian itself."""
    return 0.0


implements(dense, Quadratic)(lambda base: about(base, np.zeros(len(base.linear))))
