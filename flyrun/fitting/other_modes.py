"""Modes beside the one that was found first, of families in which rows far off count little.

Such a family takes some rows for outliers, and other choices of these rows may be modes of their own. Where
the information of a column lies in few rows, each group of them that agrees makes one. So climbs begin where
a row that the mode takes for an outlier is fitted exactly, at least squares fits of all such rows (elemental
sets, Rousseeuw & Leroy 1987), without rows that alone hold a direction, at a wide and a narrow scale, and far
out. They are made on some thousand rows, among them all that carry information of their own.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from flyrun.fitting import gaussian_noise, mode
from flyrun.fitting.proposal import Mixture, Several
from flyrun.fitting.rows_posterior import Posterior

_EXPLORED = 4_096  # rows on which climbs are made, about
_ROWS = 8_192  # of a block
_OFF = 3.0  # scales from which on a row is taken for an outlier
_FITTED, _WITHOUT, _FAR = 16, 12, 8  # climbs of each kind, at most
_SEARCHED = 4  # modes about which others are searched
_HELD = 0.3  # leverage of equal rows that hold a direction nearly alone
_NARROW = 0.01  # times the residuals' spread: a scale from which a climb begins, at least
_AWAY = 6.0  # posterior sds, of climbs from far out
_APART = 1.0  # posterior sds between modes that are different ones
_EVALUATIONS, _DRAWS = 20_000_000, (50, 2_000)  # rows × draws, and draws about a mode, that tell its share
_ROUNDS = 3  # of these
_TELLS = 0.01  # of a variance, below which a mode is left out
_LEAST_SHARE = 0.1  # of proposals that go to all modes together, in equal parts
_MATTERS = (
    -10.0
)  # log of the part of a variance below which a mode does not count: Laplace's, with 3 nats spare


def leverage(posterior: Posterior) -> np.ndarray:
    """xᵢᵀ(XᵀWX)⁻¹xᵢ of each row, (N,): the part of its direction's information that one such row holds."""
    width = posterior.width
    gram = np.zeros((width, width))
    for block in posterior.by_blocks(lambda block: _gram(posterior, block), _ROWS):
        gram += block
    gram += 1e-9 * np.diag(np.maximum(np.diag(gram), 1e-300))
    values, vectors = np.linalg.eigh(gram)
    half = vectors / np.sqrt(np.maximum(values, 1e-12 * values.max()))

    def of(block: slice) -> np.ndarray:
        return ((posterior.rows.take(block).features @ half) ** 2).sum(axis=1)

    return np.concatenate(list(posterior.by_blocks(of, _ROWS)))


def _gram(posterior: Posterior, block: slice) -> np.ndarray:
    rows = posterior.rows.take(block)
    weights = rows.weights[:, None] if np.ndim(rows.weights) else rows.weights
    return rows.features.T @ (rows.features * weights)


def several(
    posterior: Posterior,
    at: np.ndarray,
    shape: np.ndarray,
    share: np.ndarray,
    rng: np.random.Generator,
    spent: Callable[[], bool] = lambda: False,
) -> Several:
    """What is about each mode that may matter, the highest first.

    at (P,), shape (P, P): of one of them. share: the leverage of each row, (N,). spent: whether the time is
    up, from when on no further climb is made.
    """
    cholesky = np.linalg.cholesky(shape + 1e-12 * np.diag(np.diag(shape)))
    with np.errstate(all="ignore"):  # steps too long, which are halved
        some = _some(posterior, share, rng)
        starts = list(at + _AWAY * rng.standard_normal((_FAR, len(at))) @ cholesky.T)
        modes, searched = [at], list[np.ndarray]()
        while (left := [point for point in modes if not _near(point, searched, cholesky)]) and len(
            searched
        ) < _SEARCHED:
            searched.append(left[0])
            starts += _starts(some, left[0])
            climbed = [mode.find(some, start)[0] for start in starts if not spent()]
            modes, starts = _distinct(some, modes + climbed, cholesky).modes, []
        if some is not posterior:
            modes = [at, *(mode.find(posterior, start)[0] for start in modes if not spent())]
            posterior.queries += some.queries
        distinct = _distinct(posterior, modes, cholesky)
        parts = list(map(Mixture.of, distinct.modes, map(mode.covariance, distinct.curvature)))
        return _that_count(posterior, parts, rng)


def _that_count(posterior: Posterior, parts: list[Mixture], rng: np.random.Generator) -> Several:
    """Of modes, those whose share of the posterior, by importance sampling, tells in its variance.

    Each round's weighted draws about a mode shape the next round's there (Cappé et al. 2004).
    """
    many = len(parts)
    proposal = Several(tuple(parts), np.full(many, 1.0 / many))
    if many == 1:
        return proposal
    count = many * int(np.clip(_EVALUATIONS // len(posterior.rows), *_DRAWS))
    for _ in range(_ROUNDS):
        x = proposal.draw(rng, count)
        log_weight = posterior.log_density(x) - proposal.log_density(x)
        weight, near = np.exp(log_weight - log_weight.max()), proposal.nearest(x)
        mass = np.bincount(near, weight, minlength=many) / weight.sum()
        masks = [near == k for k in range(many)]
        parts = [_shaped(part, x[at], weight[at]) for part, at in zip(proposal.parts, masks, strict=True)]
        share = np.maximum(mass, _LEAST_SHARE / many)
        proposal = Several(tuple(parts), share / share.sum())
    main = int(mass.argmax())
    away = parts[main].square(proposal.centres)
    kept = np.flatnonzero((mass * np.maximum(away, 1.0) > _TELLS) | (np.arange(many) == main))
    share = proposal.share[kept]
    return Several(tuple(parts[k] for k in kept), share / share.sum())


def _shaped(part: Mixture, x: np.ndarray, weight: np.ndarray) -> Mixture:
    """About the mean of draws x (S, P) in their covariance; as before where too few are effective."""
    total, size = weight.sum(), len(part.centre)
    if not total**2 >= 10.0 * size * (weight**2).sum() or not total > 0.0:
        return part
    weight = weight / total
    centre = weight @ x
    away = x - centre
    return Mixture.of(centre, (away * weight[:, None]).T @ away)


def _some(posterior: Posterior, share: np.ndarray, rng: np.random.Generator) -> Posterior:
    """Of some rows, each drawn with a chance by its leverage, (N,), and weighted by the inverse of that."""
    n = len(share)
    if n <= _EXPLORED:
        return posterior
    chance = np.minimum(1.0, _EXPLORED * (0.5 / n + 0.5 * share / share.sum()))
    chance = np.where(share > 1.0 / _EXPLORED, 1.0, chance)
    which = np.flatnonzero(rng.random(n) < chance)
    rows = posterior.rows.take(which)
    return replace(posterior, rows=replace(rows, weights=rows.weights / chance[which]), queries=0)


def _starts(posterior: Posterior, at: np.ndarray) -> list[np.ndarray]:
    """Where climbs begin that other choices of outliers than a mode's lead to, (P,) each. at: the mode."""
    n, rows, of_noise = posterior.width, posterior.rows, posterior.family.of_noise
    every = rows.take(slice(None))
    features, share = every.features, leverage(posterior)
    residual = rows.target - rows.offset - features @ at[:n]
    scale = math.exp(gaussian_noise.log_sd(posterior, at))
    log_scale = posterior.predictors(every, at[None])[posterior.linear] if of_noise else np.log([scale])
    off = np.abs(residual) > _OFF * np.exp(log_scale[:, 0] if log_scale.ndim > 1 else log_scale)
    gram = _gram(posterior, slice(None)) + np.diag(scale**2 / posterior.prior.sd**2)

    def moved(theta: np.ndarray) -> np.ndarray:
        return np.concatenate([theta, at[n:]])

    starts, seen = list[np.ndarray](), list[np.ndarray]()
    for i in np.argsort(-share * residual**2 * off)[: 8 * _FITTED]:
        if not off[i] or len(seen) >= _FITTED:
            break
        step = np.linalg.solve(gram, features[i])
        step *= residual[i] / max(float(features[i] @ step), 1e-300)
        fitted = features @ step
        if all(np.abs(fitted - other).max() > scale for other in seen):  # equal rows of near targets are one
            seen.append(fitted)
            starts.append(moved(at[:n] + step))
    for group in (off, off & (residual > 0.0), off & (residual < 0.0)):
        if group.sum() > n:
            precision = np.diag(scale**2 / posterior.prior.sd**2) + features[group].T @ features[group]
            starts.append(moved(at[:n] + np.linalg.solve(precision, features[group].T @ residual[group])))
    for group in _held(features, share):
        if len(posterior.rows) > group.sum():
            without = replace(posterior, rows=rows.take(~group), queries=0)
            starts.append(mode.find(without, at)[0])
            posterior.queries += without.queries
    spread = float(np.sqrt(np.mean(residual**2)))
    for level in (
        (spread, max(float(np.quantile(np.abs(residual), 0.1)), _NARROW * spread)) if of_noise else ()
    ):
        starts.append(at.copy())
        starts[-1][gaussian_noise.place_of(posterior)] = math.log(max(level, 1e-300))
    return starts


def _held(features: np.ndarray, share: np.ndarray) -> list[np.ndarray]:
    """Groups of equal rows, (N,) booleans each, that hold a direction nearly alone."""
    (large,) = np.nonzero(share > _HELD / 20.0)
    if not len(large):
        return []
    _, place = np.unique(features[large], axis=0, return_inverse=True)
    total = np.bincount(place.ravel(), share[large])
    groups = []
    for group in np.argsort(-total)[:_WITHOUT]:
        if total[group] >= _HELD:
            groups.append(np.zeros(len(share), bool))
            groups[-1][large[place.ravel() == group]] = True
    return groups


def _near(x: np.ndarray, others: list[np.ndarray], cholesky: np.ndarray) -> bool:
    return any(_away(x, other, cholesky) <= _APART**2 for other in others)


def _away(x: np.ndarray, other: np.ndarray, cholesky: np.ndarray) -> float:
    """Squared distance of two points (P,), in posterior sds."""
    return float((solve_triangular(cholesky, x - other, lower=True) ** 2).sum())


class _Distinct(NamedTuple):
    """Modes, (P,) each, the highest first; minus the log density's second derivatives there; and the log of
    what is about each, by Laplace's approximation.
    """

    modes: list[np.ndarray]
    curvature: list[np.ndarray]
    log_mass: list[float]


def _distinct(posterior: Posterior, ends: list[np.ndarray], cholesky: np.ndarray) -> _Distinct:
    """Those of the points (P,) to which climbs led that are modes of their own and may matter."""
    log_p = posterior.log_density(np.array(ends))
    kept, lowest = _Distinct([], [], []), gaussian_noise.lowest(posterior)
    for k in np.argsort(-np.nan_to_num(log_p, nan=-np.inf)):
        if not np.isfinite(log_p[k]):
            break
        # rows of equal targets are fitted ever more closely as σ and ν fall: a spike, which no prior bounds
        if not gaussian_noise.log_sd(posterior, ends[k]) > lowest:
            continue
        if _near(ends[k], kept.modes, cholesky):
            continue
        curvature = posterior.likelihood_at(ends[k]).curvature + posterior.prior_at(ends[k]).curvature
        log_mass = log_p[k] - 0.5 * float(np.log(np.abs(np.linalg.eigvalsh(curvature))).sum())
        distance = min((_away(ends[k], other, cholesky) for other in kept.modes), default=1.0)
        if kept.modes and log_mass - max(kept.log_mass) + math.log(distance) < _MATTERS:
            continue
        kept.modes.append(ends[k])
        kept.curvature.append(curvature)
        kept.log_mass.append(log_mass)
    return kept
