"""Wright's function W(z, α), the sum of e^(jz)/(j!·Γ(jα)) over j = 1, 2 …, and moments of j by its terms.

Terms are those of j about the largest one's, FAR sds to each side. Sums of one α that are many share their j:
with w = e^(z − z₀), z₀ the largest z, each is a polynomial in w, whose coefficients are above 0, so that no
digits are lost. Others have j of their own, and what Γ gives of jα from a table where that is smaller.
"""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from flyrun.ground.numerics.special import Numbers, digamma, log_gamma, trigamma

#: sds to which the sum goes, and its step, in sds, where (1 + α)·j at the largest term is at least SMOOTH:
#: there a sum in larger steps is the sum, as of an integral
FAR, STEP, SMOOTH = 9.0, 0.7, 36.0
_ALIKE = 250  # sums of one α from which on they share terms
_SHARED = 80  # terms that they share in any case, else at most twice as many as each has
_RANGE = 600.0  # nats from the first of these to the largest
_LEAST = 1e-290  # a power of w below is slow to work with, and counts nothing
_PART = 8_192  # sums at a time: they stay in a core's cache

#: what `wright_moments` gives, of weights that sum to 1
Moments = tuple[Numbers, Numbers, Numbers, Numbers, Numbers, Numbers, Numbers]


def log_wright(z: Numbers, alpha: Numbers) -> Numbers:
    """log W(z, α); 0 where z is NaN."""
    return _of_all(_log_shared, _log_each, 1, alpha, z)[0]


def wright_moments(z: Numbers, alpha: Numbers, slope: Numbers) -> Moments:
    """log W and, under weights e^(jz)/(j!·Γ(jα)): E j, E q, Var j, Cov(j, q), Var q and E j²ψ'(jα).

    q = j(slope + αψ(jα)). 0 where z is NaN.
    """
    return tuple(_of_all(_moments_shared, _moments_each, 7, alpha, z, slope))  # type: ignore[return-value]


def _of_all(
    shared: Callable[..., np.ndarray], each: Callable[..., np.ndarray], k: int, alpha: Numbers, *of: Numbers
) -> np.ndarray:
    """k numbers of each sum, (k, …): by shared(terms, α, z, …), or by each(all α, which of them, z, …)."""
    shape = np.broadcast_shapes(np.shape(alpha), *map(np.shape, of))
    values, place = np.unique(alpha, return_inverse=True)
    place = np.broadcast_to(place.reshape(np.shape(alpha)), shape).ravel()
    z, *slope = (np.broadcast_to(value, shape).ravel() for value in of)
    out, left = np.zeros((k, len(z))), np.isfinite(z) & np.isfinite(values)[place]
    if len(values) * _ALIKE <= len(z):
        for number, its_alpha in enumerate(values):
            (which,) = np.nonzero(left & (place == number) if len(values) > 1 else left)
            its = [value[which] for value in (z, *slope)]
            sums, rest = np.empty((k, len(which))), np.zeros(len(which), bool)
            for some, terms in _parts(its[0], its_alpha):
                if terms is None:
                    rest[some] = True
                else:
                    sums[:, some] = shared(terms, its_alpha, *(value[some] for value in its))
            out[:, which] = sums
            left[which] = rest
    if left.any():
        out[:, left] = each(values, place[left], *(value[left] for value in (z, *slope)))
    return out.reshape(k, *shape)


def _window(z: Numbers, alpha: Numbers) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The largest term's j, about, the first j, the step and the number of terms."""
    top = np.exp(np.minimum((z - alpha * np.log(alpha)) / (1.0 + alpha), 300.0))
    sd = np.sqrt(top / (1.0 + alpha))
    step = np.where((1.0 + alpha) * top < SMOOTH, 1.0, np.maximum(1.0, np.floor(sd * STEP)))
    first = np.maximum(1.0, np.floor(top - FAR * sd - 2.0))
    return top, first, step, np.floor((top + FAR * sd + 6.0 - first) / step) + 1.0


def _log_terms(j: np.ndarray, at: np.ndarray, z: Numbers) -> np.ndarray:
    """Of the terms of these j, at = jα."""
    return j * z - log_gamma(j + 1.0) - log_gamma(at)


_Terms = tuple[np.ndarray, np.ndarray]


def _parts(z: np.ndarray, alpha: float) -> Iterator[tuple[slice | np.ndarray, _Terms | None]]:
    """All sums, (n,), some at a time, with the j that these share, and their terms' logs at the largest z."""
    parts: list[slice | np.ndarray] = [slice(k, k + _PART) for k in range(0, len(z), _PART)]
    while parts:
        some = parts.pop()
        its = z[some]
        if len(its) < _ALIKE:
            yield some, None
            continue
        ends = np.array([its.min(), its.max()])
        _, first, step, number = _window(ends, alpha)
        many = np.ceil((first[1] + (number[1] - 1.0) * step[1] - first[0]) / step[0]) + 1.0
        if many <= max(_SHARED, 2.0 * number.max()):
            j = first[0] + step[0] * np.arange(many)
            logs = _log_terms(j, alpha * j, ends[1])
            if logs[0] > logs.max() - _RANGE:
                yield some, (j, logs)
                continue
        order = np.argsort(its)
        order = some.start + order if isinstance(some, slice) else some[order]
        parts += [order[: len(its) // 2], order[len(its) // 2 :]]


def _log_shared(terms: _Terms, alpha: float, z: np.ndarray) -> np.ndarray:
    """log W, (n,), by Horner's rule."""
    j, logs = terms
    step, level, away = j[1] - j[0], logs.max(), z - z.max()
    w, total = np.exp(step * away), np.zeros(len(z))
    for term in np.exp(logs - level)[::-1]:
        total *= w
        total += term
    return level + j[0] * away + np.log(step * total)


def _moments_shared(terms: _Terms, alpha: float, z: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """(7, n), of products of w's powers with what they stand before: of j and q less their middles."""
    (j, logs), away_z = terms, z - z.max()
    w, middle = np.exp((j[1] - j[0]) * away_z), slope[len(z) // 2]
    powers = np.ones((len(j), len(z)))
    for before, power in itertools.pairwise(powers):
        np.maximum(np.multiply(before, w, out=power), _LEAST, out=power)
    q = j * (middle + alpha * digamma(alpha * j))
    top = logs.argmax()
    middle_q, away, q = q[top], j - j[top], q - q[top]
    values = np.array([np.ones(len(j)), away, q, away * away, away * q, q * q, j * j * trigamma(alpha * j)])
    total, *sums = (values * np.exp(logs - logs[top])) @ powers
    log_w = logs[top] + j[0] * away_z + np.log((j[1] - j[0]) * total)
    by_j, by_q, of_j, both, of_q, of_psi = _central(total, *sums)
    by_j, by_q, left = j[top] + by_j, by_q + middle_q, slope - middle
    of_q = of_q + left * (2.0 * both + left * of_j)
    return np.array([log_w, by_j, by_q + left * by_j, of_j, both + left * of_j, of_q, of_psi])


def _central(total: np.ndarray, *sums: np.ndarray) -> tuple[np.ndarray, ...]:
    """Means and central moments by sums of weights and of these times powers; the last as a mean."""
    by_j, by_q, of_j, both, of_q, of_psi = (value / total for value in sums)
    return by_j, by_q, of_j - by_j * by_j, both - by_j * by_q, of_q - by_q * by_q, of_psi


class _Each:
    """Sums that have j of their own, those of most terms first. order: their places in what is given."""

    def __init__(self, values: np.ndarray, place: np.ndarray, z: np.ndarray):
        """Of z (n,) at α = values[place]."""
        top, first, step, number = _window(z, values[place])
        self.order = np.argsort(-number, kind="stable")
        self.values, self.place, self.z = values, place[self.order], z[self.order]
        self.alpha, self.top = values[self.place], np.maximum(np.rint(top[self.order]), 1.0)
        self.first, self.step, self.number = first[self.order], step[self.order], number[self.order]
        most = float(np.max(self.first + (self.number - 1.0) * self.step))
        tabled = len(values) * most <= self.number.sum()
        self.j = np.arange(1.0, most + 1.0) if tabled else None
        self.row = self.place * int(most) - 1 if tabled else self.place
        self.log_gammas = self._of_terms(lambda j, at: log_gamma(j + 1.0) + log_gamma(at))
        # of α large the term next to `top` may be thousands of nats away
        near = (np.maximum(self.top + away, 1.0) for away in (-1.0, 0.0, 1.0))
        self.level = np.max([j * self.z - self.log_gammas(j) for j in near], axis=0)

    def _of_terms(self, function: Callable[[np.ndarray, np.ndarray], Numbers]) -> Callable[..., np.ndarray]:
        """What gives function(j, jα) of the first sums at j, (m,): read off a table, where there is one."""
        if self.j is None:
            return lambda j: np.asarray(function(j, j * self.alpha[: len(j)]))
        table = np.asarray(function(self.j, self.values[:, None] * self.j))
        return lambda j: table.take(self.row[: len(j)] + j.astype(int))

    def terms(
        self, *functions: Callable[[Numbers], Numbers]
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray, list[np.ndarray]]]:
        """The first sums (m,) that have a k-th term, k = 0, 1 …: m, and j, the term and these of jα."""
        others = [self._of_terms(lambda j, at, f=f: f(at)) for f in functions]  # type: ignore[misc]
        for k in range(int(self.number[0])):
            m = int(np.searchsorted(-self.number, -float(k)))
            j = self.first[:m] + k * self.step[:m]
            term = np.exp(j * self.z[:m] - self.log_gammas(j) - self.level[:m])
            yield m, j, term, [of(j) for of in others]

    def placed(self, sums: np.ndarray) -> np.ndarray:
        """Of what is given, (k, n), of numbers (k, n) of these."""
        out = np.empty(sums.shape)
        out[:, self.order] = sums
        return out


def _log_each(values: np.ndarray, place: np.ndarray, z: np.ndarray) -> np.ndarray:
    """(1, n) of z at α = values[place]."""
    sums, total = _Each(values, place, z), np.zeros(len(z))
    for m, _, term, _ in sums.terms():
        total[:m] += term
    return sums.placed((sums.level + np.log(sums.step * total))[None])


def _moments_each(values: np.ndarray, place: np.ndarray, z: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """(7, n) of z at α = values[place]."""
    sums, total = _Each(values, place, z), np.zeros((7, len(z)))
    top, alpha, slope = sums.top, sums.alpha, slope[sums.order]
    middle = top * (slope + alpha * digamma(alpha * top))
    for m, j, term, (rise, bend) in sums.terms(digamma, trigamma):
        away, q = j - top[:m], j * (slope[:m] + alpha[:m] * rise) - middle[:m]
        for k, value in enumerate((1.0, away, q, away * away, away * q, q * q, j * j * bend)):
            total[k, :m] += term * value
    by_j, by_q, *others = _central(*total)
    log_w = sums.level + np.log(sums.step * total[0])
    return sums.placed(np.array([log_w, top + by_j, middle + by_q, *others]))
