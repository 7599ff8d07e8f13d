"""The map of `level_map` for all coefficients and the effects of small terms at once: b = mean + Q(z + Q'r).

Their information is what is left once the effects of the largest term are integrated out, at its present T:
few levels' effects go with the intercept, and how far hangs on every sd.

Shapes: m numbers b in C chains; z, r, b: (m, C); information, T: (C, m, m). A largest term of J levels of q
effects has roots Q of its own, (q, q, J, C).
"""

from typing import NamedTuple

import numpy as np

MOST = 64  # numbers b of which matrices of each chain are factored at each point


class Followed(NamedTuple):
    """The likelihood to second order by b: information (m, m), score (m,), falls (m, A), by which the score
    falls with auxiliary numbers. across, (J, q, m), scores (q, J) and largest_falls (J·q, A): the largest
    term's, where this is not integrated out yet.
    """

    information: np.ndarray
    score: np.ndarray
    falls: np.ndarray
    across: np.ndarray | None = None
    scores: np.ndarray | None = None
    largest_falls: np.ndarray | None = None


class Left(NamedTuple):
    """Information (C, m, m) and r (m, C) with the largest term integrated out. b: Q'C, (C, qJ, m), y: Q'r of
    that term, (C, qJ); scores: r of it, (q, J, C).
    """

    information: np.ndarray
    r: np.ndarray
    b: np.ndarray | None
    y: np.ndarray | None
    scores: np.ndarray | None


def left(its: Followed, away: np.ndarray, c: np.ndarray, q: np.ndarray | None) -> Left:
    """At auxiliary numbers that are `away`, (A, C), from the reference's. q: the largest term's Q."""
    information = np.broadcast_to(its.information, (len(c), *its.information.shape))
    score = its.score[:, None] - its.falls @ away
    if its.across is None or its.scores is None or its.largest_falls is None or q is None:
        return Left(information, c * score, None, None, None)
    effects, _, levels, chains = q.shape
    fall = (its.largest_falls @ away).reshape(levels, effects, chains)
    scores = its.scores[..., None] - np.moveaxis(fall, 1, 0)
    b = np.einsum("ikjc,jim->ckjm", q, its.across).reshape(chains, -1, information.shape[-1])
    y = np.einsum("ikjc,ijc->ckj", q, scores).reshape(chains, -1)
    information = information - c[:, None, None] * (b.transpose(0, 2, 1) @ b)
    score = score - c * (b.transpose(0, 2, 1) @ y[..., None])[..., 0].T
    return Left(information, c * score, b, y, scores)


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
    if at.b is None or at.y is None or q is None or its.across is None or its.largest_falls is None:
        return LargestSlopes(None, by_aux, by_c)
    effects, _, levels, chains = q.shape
    products = at.b @ back.information
    along = (at.b @ by_score.T[..., None])[..., 0]
    by_c = by_c - (products * at.b).sum(axis=(1, 2)) - (along * at.y).sum(axis=1)
    by_b = -c[:, None, None] * (2.0 * products + at.y[..., None] * by_score.T[:, None])
    by_y = np.moveaxis((-c[:, None] * along).reshape(chains, effects, levels), 0, -1)
    by_q = np.einsum("jim,ckjm->ikjc", its.across, by_b.reshape(chains, effects, levels, -1))
    by_q += at.scores[:, None] * by_y[None]  # type: ignore[index]
    fall = np.moveaxis(np.einsum("ikjc,kjc->ijc", q, by_y), 0, 1).reshape(-1, chains)
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
