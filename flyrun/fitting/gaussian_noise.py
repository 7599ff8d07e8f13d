"""Independent draws of a regression with normal noise, its sd σ sampled, from sums over rows alone.

With X'X, X'y and y'y all of the posterior is known: given σ the coefficients are normal; the density of log σ
is a function of one number, worked out on a grid and inverted. Exact for any number of rows and columns.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from flyrun.fitting.rows_posterior import Posterior
from flyrun.ground.errors import FlyrunError

_POINTS = 400  # of the grid of log σ
_NARROWED = 6  # times that the grid closes in on where the mass is
_DEPTH = 40.0  # nats below the top, from where on nothing counts
_BLOCK = 8_192
_LOWEST = 16.0  # below the log of sd_y, where the grid begins
_SAFE = 9.0  # nats that the density must have fallen by there
# Sums of squares have so many digits: what they leave below is rounding, and would be mass where σ is small.
_DIGITS = 1e-9
_NONE = 1e-7  # of a target's sd: squares of such a noise are rounding
_LEAST_SIZE = 1e-8  # of an eigenvalue, by the largest, that the split below divides by


class Sums(NamedTuple):
    """Of rows x and what a target is beyond the prior's mean, y − x·mean: Σxxᵀ, (D, D), Σx(y − x·mean), (D,),
    Σ(y − x·mean)² and Σ1."""

    gram: np.ndarray
    product: np.ndarray
    square: float
    rows: float


def draw(posterior: Posterior, rng: np.random.Generator, n: int) -> np.ndarray:
    """n draws, (n, P): the coefficients and log σ. FlyrunError where σ is too small for the sums' digits."""
    return draw_from(_sums(posterior), posterior, rng, n)


def _sums(posterior: Posterior) -> Sums:
    """By all rows."""
    prior, width = posterior.prior, posterior.width
    gram, product = np.zeros((width, width)), np.zeros(width)
    square, count = 0.0, 0.0
    for block in posterior.blocks(_BLOCK):
        rows = posterior.rows.take(block)
        left = rows.target - rows.offset - rows.features @ prior.mean
        weighted = np.broadcast_to(rows.weights, left.shape)
        each = rows.features * weighted[:, None]
        gram += each.T @ rows.features
        product += each.T @ left
        square += float(weighted @ left**2)
        count += float(weighted.sum())
    posterior.queries += len(posterior.rows)
    return Sums(gram, product, square, count)


def about(mean: np.ndarray, products: np.ndarray, count: float) -> Sums:
    """From Σ of products of columns and target, the last, (D + 1, D + 1), and how many rows; mean: (D,)."""
    gram, product = products[:-1, :-1], products[:-1, -1]
    square = float(products[-1, -1] - 2.0 * mean @ product + mean @ gram @ mean)
    return Sums(gram, product - gram @ mean, square, count)


def draw_from(sums: Sums, posterior: Posterior, rng: np.random.Generator, n: int) -> np.ndarray:
    """n draws, (n, P), of priors and these sums; as `draw`."""
    prior, width = posterior.prior, posterior.width
    gram, product, square, count = sums
    size, basis = np.linalg.eigh(gram * np.outer(prior.sd, prior.sd))
    # A vector's sign hangs on rounding: chosen, a seed makes the same draws. Square roots, for coordinates of
    # standardised columns are often as large as one another.
    basis *= np.where(np.sqrt(np.arange(1.0, width + 1.0)) @ basis < 0.0, -1.0, 1.0)
    size, along = np.maximum(size, 0.0), basis.T @ (prior.sd * product)
    large = size > _LEAST_SIZE * max(float(size.max(initial=0.0)), 1e-300)
    # of y'(XX' + σ²)⁻¹y, what large directions explain keeps its digits as σ falls, if divided by them first
    explained, other = along[large] ** 2 / size[large], along[~large] ** 2
    left = square - explained.sum()
    left = left if left > _DIGITS * square else 0.0  # as where there are more columns than rows

    def log_density(a: np.ndarray) -> np.ndarray:
        variance = np.exp(2.0 * a)[:, None]
        form = (explained / (size[large] + variance)).sum(axis=1)
        form += np.maximum(left - (other / (size[~large] + variance)).sum(axis=1), 0.0) / variance[:, 0]
        log_p = -count * a - 0.5 * form - 0.5 * np.log1p(size / variance).sum(axis=1)
        return log_p + posterior.auxiliary[0].prior.log_density(a)

    middle = 0.5 * np.log(max(square, 1e-300) / count)
    low, high = middle - _LOWEST, middle + 6.0
    at_floor = log_density(np.array([low]))[0]
    for _ in range(_NARROWED):
        grid = np.linspace(low, high, _POINTS)
        log_p = log_density(grid)
        kept = np.flatnonzero(log_p > log_p.max() - _DEPTH)
        low, high = grid[max(kept[0] - 1, 0)], grid[min(kept[-1] + 1, _POINTS - 1)]
    if at_floor > log_p.max() - _SAFE:
        raise _refused(posterior)
    density = np.exp(log_p - log_p.max())
    below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    a = np.interp(rng.random(n), below / below[-1], grid)
    variance = np.exp(2.0 * a)[:, None]
    precision = size / variance + 1.0
    away = along / variance / precision + rng.standard_normal((n, width)) / np.sqrt(precision)
    return np.column_stack([prior.mean + (away @ basis.T) * prior.sd, a])


def log_likelihood(sums: Sums, posterior: Posterior, x: np.ndarray) -> np.ndarray:
    """(S,) of x (S, P), by sums over rows, up to a constant."""
    away, a = x[:, : posterior.width] - posterior.prior.mean, x[:, place_of(posterior)]
    square = sums.square - 2.0 * away @ sums.product + ((away @ sums.gram) * away).sum(axis=1)
    return -sums.rows * a - 0.5 * np.maximum(square, 0.0) * np.exp(-2.0 * a)


def place_of(posterior: Posterior) -> int:
    """Where the log of the noise's sd is in x; of an sd that has columns, the intercept of that."""
    return posterior.places[posterior.linear].stop - 1


def log_sd(posterior: Posterior, x: np.ndarray) -> float:
    """The log of the noise's sd at x, (P,), or as it is known."""
    known = posterior.family.known
    return float(x[place_of(posterior)] if posterior.family.of_noise or known is None else known.sampled[0])


def lowest(posterior: Posterior) -> float:
    """The log of the noise's sd below which it cannot be told from 0."""
    target = posterior.rows.target
    spread = float(np.std(target[:_BLOCK])) if len(target) > 1 else 1.0
    return float(np.log(max(_NONE * spread, 1e-300)))


def refuse_none(posterior: Posterior, log_sigma: float) -> None:
    """Raise FlyrunError where the noise's sd, of this log, cannot be told from 0, or is no number."""
    if not log_sigma > lowest(posterior):
        raise _refused(posterior)


def refuse_unbounded(
    posterior: Posterior,
    at: np.ndarray,
    place: int | None = None,
    log_density: Callable[[np.ndarray], np.ndarray] | None = None,
) -> None:
    """Raise FlyrunError where a density rises on from its mode, (P,), as the noise's sd falls to 0.

    place: of the log of that sd in x; log_density: (S,) of x (S, P); by default the posterior's.
    """
    if not posterior.family.of_noise:  # that sd is known
        return
    place, log_density = place_of(posterior) if place is None else place, log_density or posterior.log_density
    x = np.stack([at, at, at])
    x[1:, place] = lowest(posterior), 0.5 * (at[place] + lowest(posterior))
    here, *below = log_density(x)
    if not max(below) < here:
        raise _refused(posterior)


def _refused(posterior: Posterior) -> FlyrunError:
    """Where the target is a function of what explains it."""
    what, remedy = "columns", "leave out the column that holds the answer with --drop"
    if posterior.size > posterior.n_coefficients + len(posterior.auxiliary):
        what, remedy = "columns and groups", "leave the group out, or keep one of the rows that are alike"
    return FlyrunError(
        f"the {what} explain the target to its last digits, so that no noise is left to fit; {remedy}"
    )
