"""Posterior means with their Monte Carlo standard errors, and whether two sets of chains agree on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flyrun.ground.diagnostics import ess


class Means(NamedTuple):
    """Posterior mean, Monte Carlo standard error of it, posterior sd and the ESS behind them: each (D,)."""

    mean: np.ndarray
    error: np.ndarray
    sd: np.ndarray
    size: np.ndarray


def means(chains: np.ndarray) -> Means:
    """Means of (C, T, D) or (T, D) draws; the error is sd / sqrt(ESS), infinite where nothing moved."""
    chains = np.asarray(chains, dtype=np.float64)
    if chains.ndim == 2:
        chains = chains[None]
    size = mean_size(chains)
    sd = chains.reshape(-1, chains.shape[2]).std(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(size > 0, sd / np.sqrt(size), np.inf)
    return Means(chains.mean(axis=(0, 1)), error, sd, size)


def mean_size(chains: np.ndarray) -> np.ndarray:
    """ESS behind the means of (C, T, D) draws, (D,); unlike ess.summary's bulk on the draws themselves."""
    chains, usable, moving = ess._checked(chains)
    values = np.where(usable, 0.0, np.nan)
    if moving.any():
        values[moving] = ess._ess(ess._thinned(chains[:, :, moving]), method="mean")
    return values


def differences(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Difference of posterior means over its Monte Carlo standard error, (D,); about N(0, 1) when equal."""
    a, b = means(first), means(second)
    return (a.mean - b.mean) / np.hypot(a.error, b.error)
