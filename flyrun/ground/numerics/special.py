"""Special functions of numbers or arrays that families share."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy  # which loads scipy.special where it is first used: a package's module need not wait for it

#: what works element by element: a number, or arrays that broadcast together
Numbers = float | np.ndarray


def choose(condition: bool | np.ndarray, yes: Numbers, no: Numbers) -> Numbers:
    """`yes` where the condition holds, else `no`; both are worked out."""
    return np.where(condition, yes, no)


def log_gamma(x: Numbers) -> Numbers:
    """log Γ(x), x > 0."""
    return scipy.special.gammaln(x)


def digamma(x: Numbers) -> Numbers:
    """ψ(x), the slope of log Γ, x > 0."""
    return scipy.special.psi(x)


def trigamma(x: Numbers) -> Numbers:
    """ψ'(x), x > 0."""
    return scipy.special.zeta(2.0, x)


def softplus(x: Numbers) -> Numbers:
    """log(1 + eˣ), which overflows nowhere."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def log_normal_cdf(x: Numbers) -> Numbers:
    """log Φ(x)."""
    return scipy.special.log_ndtr(x)


def mills(x: Numbers) -> Numbers:
    """φ(x)/Φ(x), the slope of log Φ."""
    return np.sqrt(2.0 / np.pi) / scipy.special.erfcx(-x / np.sqrt(2.0))


def sigmoid(x: Numbers) -> Numbers:
    """1/(1 + e⁻ˣ), which overflows nowhere."""
    small = np.exp(-np.abs(x))
    return np.where(x > 0.0, 1.0, small) / (1.0 + small)


def erf(x: Numbers) -> Numbers:
    """2/√π·∫₀ˣ e^(−t²) dt."""
    return scipy.special.erf(x)


def erfc(x: Numbers) -> Numbers:
    """1 − erf(x)."""
    return scipy.special.erfc(x)


#: sds to which Wright's sum goes, and its step, in sds, where (1 + α)·j at the largest term is at least
#: SMOOTH: there a sum in larger steps is the sum, as of an integral
FAR, STEP, SMOOTH = 9.0, 0.7, 36.0

#: what `wright_moments` gives, of weights that sum to 1
Moments = tuple[Numbers, Numbers, Numbers, Numbers, Numbers, Numbers]


class _Wright(NamedTuple):
    """Sums over j of e^(jz)/(j!·Γ(jα)), those of most terms first, (n,) each.

    where: places in the arrays of this shape; top: the largest term's j, about; level: the log of it; first,
    step, number: of the j that are summed.
    """

    shape: tuple[int, ...]
    where: np.ndarray
    z: np.ndarray
    alpha: np.ndarray
    slope: np.ndarray
    top: np.ndarray
    level: np.ndarray
    first: np.ndarray
    step: np.ndarray
    number: np.ndarray

    @classmethod
    def of(cls, *given: Numbers) -> "_Wright":
        """Of z, α and slope where z is a number."""
        all_z, all_alpha, all_slope = (each.ravel() for each in np.broadcast_arrays(*given))
        where = np.flatnonzero(np.isfinite(all_z) & np.isfinite(all_alpha))
        z, alpha = all_z[where], all_alpha[where]
        top = np.exp(np.minimum((z - alpha * np.log(alpha)) / (1.0 + alpha), 300.0))
        sd = np.sqrt(top / (1.0 + alpha))
        single = ((1.0 + alpha) * top < SMOOTH) | (sd * STEP <= 1.0)
        half, step = math.floor(FAR / STEP), np.where(single, 1.0, sd * STEP)
        top = np.where(single, np.maximum(np.rint(top), 1.0), top)
        first = np.where(single, np.maximum(1.0, np.floor(top - FAR * sd - 2.0)), top - half * step)
        number = np.where(single, np.ceil(top + FAR * sd + 6.0 - first), 2.0 * half + 3.0)
        order = np.argsort(-number, kind="stable")
        z, alpha, top = z[order], alpha[order], top[order]
        # of α large the term next to `top` may be thousands of nats away
        near = (np.maximum(top + away, 1.0) for away in (-1.0, 0.0, 1.0))
        level = np.max([j * z - log_gamma(j + 1.0) - log_gamma(j * alpha) for j in near], axis=0)
        where = where[order]
        sums = (z, alpha, all_slope[where], top, level, first[order], step[order], number[order])
        return cls(np.broadcast_shapes(*map(np.shape, given)), where, *sums)

    def terms(self) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """The first sums (m,) that have a k-th term, k = 0, 1 …: m, and of each j, jα and the term."""
        for k in range(int(self.number.max(initial=0.0))):
            m = int(np.searchsorted(-self.number, -float(k)))
            j = self.first[:m] + k * self.step[:m]
            at = j * self.alpha[:m]
            yield m, j, at, np.exp(j * self.z[:m] - log_gamma(j + 1.0) - log_gamma(at) - self.level[:m])

    def placed(self, values: np.ndarray) -> np.ndarray:
        """Values (n,) where they belong, else 0."""
        out = np.zeros(math.prod(self.shape))
        out[self.where] = values
        return out.reshape(self.shape)


def log_wright(z: Numbers, alpha: Numbers) -> Numbers:
    """log of the sum of e^(jz)/(j!·Γ(jα)) over j = 1, 2 …; 0 where z is NaN."""
    sums = _Wright.of(z, alpha, 0.0)
    total = np.zeros(len(sums.z))
    for m, _, _, term in sums.terms():
        total[:m] += term
    return sums.placed(sums.level + np.log(total * sums.step))


def wright_moments(z: Numbers, alpha: Numbers, slope: Numbers) -> Moments:
    """Under weights e^(jz)/(j!·Γ(jα)): E j, E q, Var j, Cov(j, q), Var q and E j²ψ'(jα).

    q = j(slope + αψ(jα)).
    """
    sums = _Wright.of(z, alpha, slope)
    middle = sums.top * (sums.slope + sums.alpha * digamma(sums.top * sums.alpha))
    total = np.zeros((7, len(sums.z)))
    for m, j, at, term in sums.terms():
        away, q = j - sums.top[:m], j * (sums.slope[:m] + sums.alpha[:m] * digamma(at)) - middle[:m]
        for k, value in enumerate((1.0, away, q, away * away, away * q, q * q, j * j * trigamma(at))):
            total[k, :m] += term * value
    by_j, by_q, of_j, both, of_q, of_psi = total[1:] / total[0]
    spread = of_j - by_j * by_j, both - by_j * by_q, of_q - by_q * by_q
    return tuple(map(sums.placed, (sums.top + by_j, middle + by_q, *spread, of_psi)))  # type: ignore[return-value]
