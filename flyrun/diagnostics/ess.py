"""Rank-normalised bulk and tail ESS and split R-hat (Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021).

The values are those of `arviz_stats` (methods "bulk", "tail" at 5 % and 95 %, "sd", "mean" and "rank"), which
the tests compare to 1e-8. arviz_stats walks each coordinate's autocorrelations lag by lag in Python, half a
minute for a table of sticky chains; here a coordinate is sorted once and transformed once.
One value differs: a coordinate that never moves has ESS 0, not T.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from scipy import fft, special

TAIL_PROBABILITIES = (0.05, 0.95)
MIN_DRAWS = 4


class Summary(NamedTuple):
    """Per coordinate, each (D,): ESS in draws of all chains together, and R-hat (NaN for a single chain)."""

    bulk: np.ndarray
    tail: np.ndarray
    square: np.ndarray
    rhat: np.ndarray


def summary(chains: np.ndarray, workers: int | None = None) -> Summary:
    """Diagnostics of (C, T, D) draws; `square`: ESS of (θ - mean)², which antithetic chains cannot flatter.

    All NaN with fewer than 4 draws a chain or a value that is not finite (per coordinate).
    """
    return Summary(*_each_coordinate(_coordinate, chains, workers, 4))


def mean_size(chains: np.ndarray, workers: int | None = None) -> np.ndarray:
    """ESS behind the posterior means of (C, T, D) draws, (D,); unlike `bulk` on the draws themselves."""

    def one(draws: np.ndarray) -> tuple[float]:
        return (0.0,) if _at_rest(draws) else (float(_geyer(_split(draws)[None])[0]),)

    return _each_coordinate(one, chains, workers, 1)[0]


def _each_coordinate(function, chains: np.ndarray, workers: int | None, n_values: int) -> np.ndarray:
    """function((C, T)) -> n_values numbers, for every coordinate of (C, T, D): (n_values, D)."""
    chains = np.asarray(chains, dtype=np.float64)
    if chains.ndim != 3:
        raise ValueError(f"chains must have shape (C, T, D), not {chains.shape}")

    def one(d: int) -> tuple[float, ...]:
        draws = np.ascontiguousarray(chains[:, :, d])
        if draws.shape[1] < MIN_DRAWS or not np.isfinite(draws).all():
            return (np.nan,) * n_values
        return function(draws)

    # Sorting and FFTs release the interpreter lock, so threads are enough.
    with ThreadPoolExecutor(workers or min(4, os.cpu_count() or 1)) as pool:
        values = list(pool.map(one, range(chains.shape[2])))
    return np.array(values, dtype=np.float64).reshape(-1, n_values).T


def _coordinate(draws: np.ndarray) -> tuple[float, float, float, float]:
    """Bulk, tail and square ESS and R-hat of (C, T) draws of one coordinate."""
    several = draws.shape[0] > 1
    if _at_rest(draws):
        # Chains at rest at different places disagree without end; at one place they say nothing.
        return 0.0, 0.0, 0.0, np.inf if several and np.ptp(draws) > 0 else np.nan
    halves = _split(draws)
    order = np.argsort(halves, axis=None)
    z = _normal_scores(halves, order)
    low, high = (_split(draws <= q) for q in np.quantile(draws, TAIL_PROBABILITIES))
    squares = (halves - draws.mean()) ** 2
    bulk, tail_low, tail_high, square = _geyer(np.stack([z, low, high, squares]))
    rhat = np.nan
    if several:
        folded = np.abs(halves - np.median(halves))
        # In that order folded values fall, then rise: two runs, which a merge sort joins in one pass.
        order = order[np.argsort(folded.ravel()[order], kind="stable")]
        rhat = max(_rhat(z), _rhat(_normal_scores(folded, order)))
    return bulk, min(tail_low, tail_high), square, rhat


def _at_rest(draws: np.ndarray) -> bool:
    return bool((np.ptp(draws, axis=1) == 0).all())


def _split(draws: np.ndarray) -> np.ndarray:
    """(C, T) -> (2C, T // 2): first halves, then last halves; the middle draw of an odd T is left out."""
    half = draws.shape[1] // 2
    return np.vstack((draws[:, :half], draws[:, -half:]))


def _normal_scores(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Normal quantiles of the average ranks, with Blom's offset 3/8; order sorts the flattened values."""
    flat = values.ravel()
    ordered = flat[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(starts, append=flat.size)
    rank = starts + (counts + 1) / 2
    scores = np.empty(flat.size)
    scores[order] = np.repeat(special.ndtri((rank - 0.375) / (flat.size + 0.25)), counts)
    return scores.reshape(values.shape)


def _rhat(values: np.ndarray) -> float:
    """Potential scale reduction of (M, n) values."""
    n = values.shape[1]
    within = values.var(axis=1, ddof=1).mean()
    between = n * values.mean(axis=1).var(ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.sqrt((between / within + n - 1) / n))


def _geyer(batch: np.ndarray) -> np.ndarray:
    """ESS of each (M, n) set of chains in (B, M, n), by Geyer's initial monotone sequence: (B,)."""
    n_sets, n_chains, n = batch.shape
    batch = batch.astype(np.float64)
    means = batch.mean(axis=2)
    # The mean over chains is taken before the inverse transform: one instead of M.
    power = np.abs(fft.rfft(batch - means[:, :, None], fft.next_fast_len(2 * n, real=True), axis=2)) ** 2
    covariance = fft.irfft(power.mean(axis=1), fft.next_fast_len(2 * n, real=True), axis=1)[:, :n] / n
    pooled = covariance[:, 0] + means.var(axis=1, ddof=1)
    sizes = np.full(n_sets, float(n_chains * n))
    for b in np.flatnonzero(np.ptp(batch, axis=(1, 2)) > 0):
        rho = 1 - (covariance[b, 0] * n / (n - 1) - covariance[b]) / pooled[b]
        rho[0] = 1
        sizes[b] /= max(_autocorrelation_time(rho), 1 / np.log10(n_chains * n))
    return sizes


def _autocorrelation_time(rho: np.ndarray) -> float:
    """Integrated autocorrelation time of (n,) autocorrelations, cut where a pair's sum turns negative."""
    last = max((rho.size - 3) // 2, 0)
    pairs = rho[: 2 * last + 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    cut = int(negative[0]) if negative.size else last
    monotone = np.minimum.accumulate(pairs[:cut]).sum()
    even = rho[2 * cut]
    return -1 + 2 * monotone + (even if even > 0 or pairs[cut] >= 0 else 0.0)
