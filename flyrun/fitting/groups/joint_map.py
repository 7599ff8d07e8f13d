"""The map of `level_map` for all coefficients and the effects of small terms at once: b = mean + Q(z + Q'r).

Their information is what is left once the effects of the largest term are integrated out, at its present T:
few levels' effects go with the intercept, and how far hangs on every sd.

Shapes: m numbers b in C chains; z, r, b: (m, C); information, T: (C, m, m). A largest term of J levels of q
effects has roots Q of its own, (q, q, J, C), and the covariance S = QQ' of its effects given all else.
"""

from typing import NamedTuple

import numpy as np

from flyrun.fitting.groups import level_map

MOST = 64  # numbers b of which matrices of each chain are factored at each point


class Followed(NamedTuple):
    """The likelihood to second order by b: information (m, m), score (m,), falls (m, A), by which the score
    falls with auxiliary numbers. across, (q·J, m), scores (q, J) and largest_falls (J·q, A): the largest
    term's, where this is not integrated out yet; pairs, (q·q·J, m·m): products of two of a level's `across`.
    """

    information: np.ndarray
    score: np.ndarray
    falls: np.ndarray
    across: np.ndarray | None = None
    pairs: np.ndarray | None = None
    scores: np.ndarray | None = None
    largest_falls: np.ndarray | None = None


class Left(NamedTuple):
    """Information (C, m, m) and r (m, C) with the largest term integrated out, of which these lack taken,
    (C, m, m), and taken_score, (m, C). scores: r of that term, y: Q'r, (q, J, C).
    """

    information: np.ndarray
    r: np.ndarray
    taken: np.ndarray | None = None
    taken_score: np.ndarray | None = None
    scores: np.ndarray | None = None
    y: np.ndarray | None = None


def pairs_of(across: np.ndarray) -> np.ndarray:
    """As of `Followed`, of across (q, J, m)."""
    q, levels, m = across.shape
    return np.einsum("ijm,kjn->ikjmn", across, across).reshape(q * q * levels, m * m)


def left(its: Followed, away: np.ndarray, c: np.ndarray, q: np.ndarray | None) -> Left:
    """At auxiliary numbers that are `away`, (A, C), from the reference's. q: the largest term's Q."""
    information = np.broadcast_to(its.information, (len(c), *its.information.shape))
    score = its.score[:, None] - its.falls @ away
    if (
        its.across is None
        or its.pairs is None
        or its.largest_falls is None
        or its.scores is None
        or q is None
    ):
        return Left(information, c * score)
    effects, _, levels, chains = q.shape
    fall = (its.largest_falls @ away).reshape(levels, effects, chains)
    scores = its.scores[..., None] - np.moveaxis(fall, 1, 0)
    y = level_map.turned(q, scores)
    covariance = level_map.product(q, q.swapaxes(0, 1)).reshape(-1, chains)
    taken = (its.pairs.T @ covariance).T.reshape(information.shape)
    taken_score = its.across.T @ level_map.times(q, y).reshape(-1, chains)
    information = information - c[:, None, None] * taken
    return Left(information, c * (score - c * taken_score), taken, taken_score, scores, y)


class Mapped(NamedTuple):
    """b less its mean, and what the reverse pass needs; v, (m, C), with b = Tv; level: as of level_map."""

    b: np.ndarray
    level: np.ndarray
    w: np.ndarray
    q: np.ndarray
    drawn: np.ndarray
    score: np.ndarray
    v: np.ndarray


def roots(information: np.ndarray, t: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W and Q; NaN where there are none."""
    bent = c[:, None, None] * (t.transpose(0, 2, 1) @ information @ t)
    w = np.linalg.inv(choleskys(np.eye(t.shape[-1]) + bent))
    return w, t @ w.transpose(0, 2, 1)


def choleskys(matrices: np.ndarray) -> np.ndarray:
    """Of matrices (C, m, m), NaN where there is none."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.full_like(matrices, np.nan)
        return np.concatenate([choleskys(matrix[None]) for matrix in matrices])


def forward(z: np.ndarray, r: np.ndarray, w: np.ndarray, q: np.ndarray) -> Mapped:
    """b of z."""
    score = _turned(q, r)
    drawn = z + score
    v = _turned(w, drawn)
    level = np.log(np.diagonal(w, axis1=1, axis2=2)).sum(axis=1) - 0.5 * (v * v).sum(axis=0)
    return Mapped(_times(q, drawn), level, w, q, drawn, score, v)


def backward(v: np.ndarray, r: np.ndarray, w: np.ndarray, q: np.ndarray) -> np.ndarray:
    """z of v."""
    return np.linalg.solve(w.transpose(0, 2, 1), v.T[..., None])[..., 0].T - _turned(q, r)


class Slopes(NamedTuple):
    """By z and r, (m, C), T and information, (C, m, m), and c beside r's part, (C,)."""

    z: np.ndarray
    r: np.ndarray
    t: np.ndarray
    information: np.ndarray
    c: np.ndarray


def reverse(
    mapped: Mapped, r: np.ndarray, information: np.ndarray, c: np.ndarray, by_b: np.ndarray
) -> Slopes:
    """Slopes of what has the slopes by_b (m, C) by b."""
    w, q = mapped.w, mapped.q
    z = _turned(q, by_b) - _times(w, mapped.v)
    both = np.tril(_outer(mapped.drawn, z) + _outer(z, mapped.score))
    both = -(both + np.tril(both, -1).transpose(0, 2, 1)) - np.eye(len(z))
    turned = q @ both
    factor = c[:, None, None]
    t = (_outer(by_b, mapped.drawn) + _outer(r, z) + factor * (information @ turned)) @ w
    by_information = 0.5 * factor * (turned @ q.transpose(0, 2, 1))
    by_c = 0.5 * (np.einsum("cii->c", both) - ((both @ w) * w).sum(axis=(1, 2))) / c
    return Slopes(z, _times(q, z), t, by_information, by_c)


class LargestSlopes(NamedTuple):
    """By Q of the largest term, (q, q, J, C), by auxiliary numbers, (A, C), and c, (C,)."""

    q: np.ndarray | None
    aux: np.ndarray
    c: np.ndarray


def reverse_left(its: Followed, at: Left, back: Slopes, c: np.ndarray, q: np.ndarray | None) -> LargestSlopes:
    """What `left` gives on of slopes by information and r."""
    by_score = c * back.r
    by_aux, by_c = -its.falls.T @ by_score, (back.r * at.r).sum(axis=0) / c
    if at.taken is None or at.taken_score is None or at.scores is None or at.y is None or q is None:
        return LargestSlopes(None, by_aux, by_c)
    assert its.across is not None
    assert its.pairs is not None
    assert its.largest_falls is not None
    chains = len(c)
    by_c = by_c - (at.taken * back.information).sum(axis=(1, 2)) - (at.taken_score * by_score).sum(axis=0)
    by_covariance = (-c * (its.pairs @ back.information.reshape(chains, -1).T)).reshape(q.shape)
    by_mean = (-c * (its.across @ by_score)).reshape(at.y.shape)
    by_y = level_map.turned(q, by_mean)
    by_q = 2.0 * level_map.product(by_covariance, q)
    by_q += by_mean[:, None] * at.y[None] + at.scores[:, None] * by_y[None]
    fall = np.moveaxis(level_map.times(q, by_y), 0, 1).reshape(-1, chains)
    return LargestSlopes(by_q, by_aux - its.largest_falls.T @ fall, by_c)


def _times(matrices: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(m, C) of (C, m, m) and (m, C)."""
    return (matrices @ values.T[..., None])[..., 0].T


def _turned(matrices: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The same of transposed matrices."""
    return (values.T[:, None] @ matrices)[:, 0].T


def _outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(C, m, m) of (m, C) each."""
    return a.T[:, :, None] * b.T[:, None]
