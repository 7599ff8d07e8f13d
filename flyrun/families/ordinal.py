"""Ordered classes 0 … A by a cumulative logit: P(y ≤ k) = σ(c_k − η), c_0 = a_0 and c_k = c_{k−1} + e^{a_k}.

With u = c_y − η and l = c_{y−1} − η: log L = log(1 − e^{l−u}) + log σ(u) + log σ(−l), without the terms of an
end that a class does not have. Rows have no column of ones: the cutpoints stand in for it.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains
from flyrun.families.family import Auxiliary, Derivatives, Family, Normal
from flyrun.ground.numerics.special import Numbers, sigmoid, softplus


def _ends(y: Numbers, p: Sequence[Numbers]) -> tuple[Numbers, Numbers, Numbers]:
    """u, l and their distance; those that a class does not have are numbers that nobody reads."""
    upper: Numbers = p[1] - p[0] + 0.0 * y
    lower: Numbers = upper
    apart = 1.0 + 0.0 * y
    for k in range(1, len(p) - 1):
        gap = np.exp(p[k + 1])
        upper = upper + (y >= k) * gap
        lower = lower + (y > k) * gap
        apart = apart + (y == k) * (gap - 1.0)
    return upper, lower, apart


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of class numbers y."""
    upper, lower, apart = _ends(y, p)
    below, above = 1.0 * (y < len(p) - 1), 1.0 * (y > 0)
    return below * above * np.log(-np.expm1(-apart)) - below * softplus(-upper) - above * softplus(lower)


def _pulls(y: Numbers, p: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """Slopes by u and l."""
    upper, lower, apart = _ends(y, p)
    below, above = 1.0 * (y < len(p) - 1), 1.0 * (y > 0)
    between = below * above / np.expm1(apart)
    return between + below * sigmoid(-upper), -between - above * sigmoid(lower)


def slopes_into(y: Numbers, trials: Numbers, p: Sequence[Numbers], out: np.ndarray) -> None:
    """Slopes by η and a into out[0] … out[A], (A + 1, ...)."""
    by_upper, by_lower = _pulls(y, p)
    out[0], out[1] = -by_upper - by_lower, by_upper + by_lower
    for k in range(1, len(p) - 1):
        out[k + 1] = np.exp(p[k + 1]) * ((y >= k) * by_upper + (y > k) * by_lower)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η and a; the cutpoints' own second derivatives are part of the curvature."""
    upper, lower, apart = _ends(y, p)
    below, above = 1.0 * (y < len(p) - 1), 1.0 * (y > 0)
    q = 1.0 / np.expm1(apart)
    across = below * above * q * (1.0 + q)
    of_upper = across + below * sigmoid(upper) * sigmoid(-upper)
    of_lower = across + above * sigmoid(lower) * sigmoid(-lower)
    by_upper, by_lower = _pulls(y, p)
    gaps = [np.exp(p[k + 1]) for k in range(1, len(p) - 1)]
    rises = [-1.0, 1.0, *((y >= k) * gap for k, gap in enumerate(gaps, 1))]  # of u
    falls = [-1.0, 1.0, *((y > k) * gap for k, gap in enumerate(gaps, 1))]  # of l
    slopes = tuple(by_upper * u + by_lower * v for u, v in zip(rises, falls, strict=True))
    curvatures = tuple(
        tuple(
            of_upper * rises[j] * rises[m]
            + of_lower * falls[j] * falls[m]
            - across * (rises[j] * falls[m] + falls[j] * rises[m])
            - (slopes[j] if j == m and j > 1 else 0.0)
            for m in range(len(p))
        )
        for j in range(len(p))
    )
    return slopes, curvatures


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """η = 0, and the cutpoints of all rows together, (A + 1,)."""
    each = np.bincount(y.astype(int), weights)
    below = np.cumsum(each + 0.5)[:-1] / (weights.sum() + 0.5 * len(each))
    cuts = np.log(below / (1.0 - below)) + np.average(offset, weights=weights)
    return np.concatenate([[0.0], cuts[:1], np.log(np.maximum(np.diff(cuts), 1e-3))])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Class numbers."""
    noisy = p[0] + rng.logistic(size=np.shape(p[0]))
    cut, above = p[1], 1.0 * (noisy > p[1])
    for log_gap in p[2:]:
        cut = cut + np.exp(log_gap)
        above = above + (noisy > cut)
    return above


def read(a: np.ndarray) -> np.ndarray:
    """The cutpoints, (..., A), of a (..., A)."""
    return np.cumsum(np.concatenate([a[..., :1], np.exp(a[..., 1:])], axis=-1), axis=-1)


def unread(cutpoints: np.ndarray) -> np.ndarray:
    """The first cutpoint, and the logs of the distances, (..., A)."""
    return np.concatenate([cutpoints[..., :1], np.log(np.diff(cutpoints))], axis=-1)


def auxiliary(levels: int, sd: float) -> tuple[Auxiliary, ...]:
    """The first cutpoint, and the logs of the distances between the others."""
    others = (
        Auxiliary(f"cut_{k}", Normal(0.0, 1.5), f"log_gap_{k}", f"of log(cut_{k} - cut_{k - 1})")
        for k in range(2, levels)
    )
    return (Auxiliary("cut_1", Normal(0.0, 5.0), of="where numbers are at their means"), *others)


FAMILY = Family(
    "ordinal",
    "ordinal regression",
    domains.ORDERED,
    "logit",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=auxiliary,
    slopes_into=slopes_into,
    read=read,
    unread=unread,
    intercept=False,
)
