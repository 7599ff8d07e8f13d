"""What weighted draws come from: a Gaussian or t about a centre, and a wider, heavier t beside it.

k̂ judges the weights that were drawn, not those that were not, and a proposal that is too narrow never visits
what it misses (Hesterberg 1995, defensive mixtures). The log of an sd of groups has an exponential tail to
the left, for its prior is flat at 0, of which the curvature at the mode says nothing: a share of draws has
one.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, logsumexp

WIDE = 0.2  # share of draws that are of the wide part
_WIDTH, _WIDE_FREEDOM = 2.0, 4.0
_FREEDOM, _FREEDOM_A_NUMBER, _FREEDOM_AN_OBSERVATION = 8.0, 2.0, 0.1
_TAILED = 0.05  # share of draws that are of an exponential tail, where there are any
TAIL = 1.5  # its scale, of the log of an sd: a half-t's has 1
_PARTS, _PART_FREEDOM, _PART_WIDE_FREEDOM = 8, 5.0, 3.0
_KNOWN, _MOST_PARTED = 10, 20_000  # draws a number that tell a part's shape; draws that are parted
_BESIDE = 0.1  # by the parts' share, of a mixture over all, and of those far out


@dataclass(frozen=True)
class Mixture:
    """The proposal. centre (P,), root (P, P) a lower triangle, shape root·rootᵀ.

    freedom, wide_freedom: of the narrow and the wide part; 0 is a Gaussian. tails: places of numbers that
    have an exponential tail to the left of the centre, and its scale; all others are as ever there.
    """

    centre: np.ndarray
    root: np.ndarray
    freedom: float = _FREEDOM
    wide_freedom: float = _WIDE_FREEDOM
    tails: tuple[tuple[int, float], ...] = ()

    @staticmethod
    def of(
        centre: np.ndarray,
        shape: np.ndarray,
        freedom: float = _FREEDOM,
        wide_freedom: float = _WIDE_FREEDOM,
        tails: tuple[tuple[int, float], ...] = (),
    ) -> "Mixture":
        """With this shape, (P, P)."""
        jitter = 1e-12 * np.diag(np.diag(shape))
        return Mixture(centre, np.linalg.cholesky(shape + jitter), freedom, wide_freedom, tails)

    @cached_property
    def _others(self) -> "list[Mixture]":
        """Of all numbers but one, for each tail."""
        parts, shape = [], self.root @ self.root.T
        for place, _ in self.tails:
            kept = np.delete(np.arange(len(self.centre)), place)
            its = self.centre[kept], shape[np.ix_(kept, kept)]
            parts.append(Mixture.of(*its, self.freedom, self.wide_freedom))
        return parts

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """n draws, (n, P), and which are of the wide part."""
        wide = rng.random(n) < WIDE
        noise = rng.standard_normal((n, len(self.centre)))
        stretch = np.ones(n)
        for part, dof, width in ((~wide, self.freedom, 1.0), (wide, self.wide_freedom, _WIDTH)):
            stretch[part] = width
            if dof:
                stretch[part] *= np.sqrt(dof / rng.chisquare(dof, part.sum()))
        x = self.centre + (noise * stretch[:, None]) @ self.root.T
        if self.tails:
            share = rng.random(n) * len(self.tails) / _TAILED
            for k, (place, scale) in enumerate(self.tails):
                tailed = (share >= k) & (share < k + 1)
                x[tailed, place] = self.centre[place] - scale * rng.exponential(size=tailed.sum())
                wide |= tailed
        return x, wide

    def square(self, x: np.ndarray) -> np.ndarray:
        """Squared distance of x (n, P) from the centre by the shape, (n,)."""
        return (solve_triangular(self.root, (x - self.centre).T, lower=True) ** 2).sum(axis=0)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n,) of x (n, P)."""
        size, mahalanobis_sq = len(self.centre), self.square(x)
        narrow = _log_t(mahalanobis_sq, size, self.freedom) + math.log(1.0 - WIDE)
        wide = _log_t(mahalanobis_sq / _WIDTH**2, size, self.wide_freedom) - size * math.log(_WIDTH)
        whole = np.logaddexp(narrow, wide + math.log(WIDE)) - np.log(np.diag(self.root)).sum()
        if not self.tails:
            return whole
        parts = [whole + math.log1p(-_TAILED)]
        for (place, scale), others in zip(self.tails, self._others, strict=True):
            away = (self.centre[place] - x[:, place]) / scale
            along = np.where(away >= 0.0, -away - math.log(scale), -np.inf)
            parts.append(
                along + others.log_density(np.delete(x, place, 1)) + math.log(_TAILED / len(self.tails))
            )
        return np.asarray(logsumexp(parts, axis=0))


@dataclass(frozen=True)
class Several:
    """Mixtures about several modes, (m,), each taken with its share, (m,) of sum 1."""

    parts: tuple[Mixture, ...]
    share: np.ndarray

    @staticmethod
    def of_draws(
        x: np.ndarray, weights: np.ndarray, others: list[Mixture], rng: np.random.Generator
    ) -> "Several":
        """A t about each of a few parts of draws x (S, P) of weights (S,), and others, the first over all.

        Parts are of draws near one another (k-means), so that together they follow a bent ridge.
        """
        from scipy.cluster.vq import kmeans2  # late: a tenth of a second

        many = min(_MOST_PARTED, len(x))
        at = (rng.random() + np.arange(many)) / many * weights.sum()
        place = np.minimum(np.searchsorted(np.cumsum(weights), at), len(x) - 1)
        y = x[place]
        z = (y - y.mean(axis=0)) / y.std(axis=0)
        _, label = kmeans2(z, z[rng.choice(many, _PARTS, replace=False)], minit="matrix", missing="warn")
        count = np.bincount(label, minlength=_PARTS)
        different = np.bincount(label[np.unique(place, return_index=True)[1]], minlength=_PARTS)
        kept = np.flatnonzero(different > _KNOWN * x.shape[1])
        parts = [
            Mixture.of(y[label == k].mean(axis=0), np.cov(y[label == k].T), _PART_FREEDOM, _PART_WIDE_FREEDOM)
            for k in kept
        ]
        beside = np.full(len(others), _BESIDE / max(len(others) - 1, 1))
        beside[0] = _BESIDE
        share = np.append(beside, count[kept] / max(count[kept].sum(), 1))
        return Several((*others, *parts), share / share.sum())

    @property
    def centres(self) -> np.ndarray:
        """The modes, (m, P)."""
        return np.array([part.centre for part in self.parts])

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """n draws, (n, P)."""
        which = rng.choice(len(self.parts), n, p=self.share)
        each = np.stack([part.draw(rng, n)[0] for part in self.parts])
        return each[which, np.arange(n)]

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n,) of x (n, P)."""
        return logsumexp([part.log_density(x) for part in self.parts], axis=0, b=self.share[:, None])

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """The place of the mode that each of x (n, P) is nearest to, by that mode's shape, (n,)."""
        return np.argmin([part.square(x) for part in self.parts], axis=0)

    def connected(self, chains: np.ndarray) -> bool:
        """Whether chains (C, T, P) have crossed between all modes: one was near two of them, and so on."""
        visited = [set(self.nearest(chain).tolist()) for chain in chains]
        joined, left = visited[0], visited[1:]
        while others := [seen for seen in left if seen & joined]:
            joined = joined.union(*others)
            left = [seen for seen in left if not seen & joined]
        return len(joined) == len(self.parts)


def _log_t(mahalanobis_sq: np.ndarray, size: int, dof: float) -> np.ndarray:
    """Log density (n,) of a standard t in `size` dimensions at squared distances (n,); dof 0: Gaussian."""
    if not dof:
        return -0.5 * mahalanobis_sq - 0.5 * size * math.log(2 * math.pi)
    level = gammaln((dof + size) / 2) - gammaln(dof / 2) - 0.5 * size * math.log(dof * math.pi)
    return level - 0.5 * (dof + size) * np.log1p(mahalanobis_sq / dof)


def freedom(size: int, observations: float = 0.0) -> float:
    """Degrees of freedom of the near part, of so many numbers.

    Against a Gaussian of 4 dimensions 92 draws of 100 from a t of 8 are effective, of 20 dimensions 69, from
    a t of 40 94; and the posterior of many observations is near a Gaussian.
    """
    return max(_FREEDOM, _FREEDOM_A_NUMBER * size, _FREEDOM_AN_OBSERVATION * observations)
