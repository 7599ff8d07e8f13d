"""R-CODA's effective sample size (Plummer, Best, Cowles & Vines 2006): effectiveSize and spectrum0.ar.

An AR(p) model is fitted to each chain by Yule-Walker, its order chosen by AIC; the effective size is
T · variance / (spectral density at frequency 0). The numbers follow R's `ar.yw` and `coda::spectrum0.ar`
line by line in what they compute, but all columns are worked on together.
"""

from typing import NamedTuple

import numpy as np

# R's all.equal(sd, 0): an absolute tolerance of sqrt(machine epsilon), 1.5e-8.
_ALL_EQUAL_TOLERANCE = 1.5e-8


class Spectrum(NamedTuple):
    """Spectral density at frequency 0 and the AR order behind it, each of shape (D,)."""

    density: np.ndarray
    order: np.ndarray


def effective_size(draws: np.ndarray) -> np.ndarray:
    """Effective number of draws of each column, (T, D) -> (D,) or (T,) -> scalar; 0 for a constant one."""
    columns, shape = _as_columns(draws)
    spectra = spectrum(columns)
    size = np.zeros(columns.shape[0])
    moving = spectra.density > 0
    size[moving] = columns.shape[1] * columns[moving].var(axis=1, ddof=1) / spectra.density[moving]
    return size.reshape(shape)


def autocovariance(columns: np.ndarray, max_lag: int) -> np.ndarray:
    """Biased autocovariances (divisor T) of each row of (D, T), at lags 0..max_lag: (D, max_lag + 1)."""
    from scipy import fft  # late: a tenth of a second, which a fit by weighted draws does without

    n_draws = columns.shape[1]
    centred = columns - columns.mean(axis=1, keepdims=True)
    # max_lag zeros are enough padding: the lags that would wrap around are not used.
    length = fft.next_fast_len(n_draws + max_lag, real=True)
    power = np.abs(fft.rfft(centred, length, axis=1)) ** 2
    return fft.irfft(power, length, axis=1)[:, : max_lag + 1] / n_draws


def yule_walker(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All AR fits up to order P by Levinson and Durbin's recursion, for (D, P + 1) autocovariances.

    Returns the innovation variances by order, (D, P + 1), and for each order the sum of its coefficients,
    (D, P + 1). covariance[:, 0] must be positive.
    """
    n_columns, n_orders = covariance.shape
    variance = np.empty((n_columns, n_orders))
    total = np.zeros((n_columns, n_orders))
    variance[:, 0] = covariance[:, 0]
    phi = np.zeros((n_columns, n_orders - 1))
    for order in range(1, n_orders):
        known = phi[:, : order - 1]
        past = covariance[:, order - 1 : 0 : -1]
        partial = (covariance[:, order] - np.einsum("dp,dp->d", known, past)) / variance[:, order - 1]
        phi[:, : order - 1] = known - partial[:, None] * known[:, ::-1]
        phi[:, order - 1] = partial
        variance[:, order] = variance[:, order - 1] * (1 - partial**2)
        total[:, order] = phi[:, :order].sum(axis=1)
    return variance, total


def _as_columns(draws: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """(T,) or (T, D) as contiguous (D, T), and the shape that a result should have."""
    draws = np.asarray(draws, dtype=np.float64)
    if draws.ndim not in (1, 2):
        raise ValueError(f"draws must have shape (T,) or (T, D), not {draws.shape}")
    if draws.shape[0] < 3:
        raise ValueError(f"an AR fit needs 3 draws or more, got {draws.shape[0]}")
    if not np.isfinite(draws).all():
        raise ValueError("draws hold NaN or infinity")
    shape = draws.shape[1:]
    return np.ascontiguousarray(draws.reshape(draws.shape[0], -1).T), shape


def spectrum(columns: np.ndarray) -> Spectrum:
    """Spectral density at frequency 0 by an AR fit, of rows (D, T); 0 for a constant or linear one."""
    n_columns, n_draws = columns.shape
    density = np.zeros(n_columns)
    order = np.zeros(n_columns, dtype=np.int64)
    moving = np.flatnonzero(_detrended_sd(columns) > _ALL_EQUAL_TOLERANCE)
    if moving.size == 0:
        return Spectrum(density, order)
    # R: floor(10 log10 T), and never more than T - 1.
    max_order = min(n_draws - 1, int(np.floor(10 * np.log10(n_draws))))
    variance, total = yule_walker(autocovariance(columns[moving], max_order))
    with np.errstate(divide="ignore", invalid="ignore"):
        aic = n_draws * np.log(variance) + 2 * np.arange(max_order + 1)
    best = np.argmin(np.where(np.isnan(aic), np.inf, aic), axis=1)
    rows = np.arange(moving.size)
    innovation = variance[rows, best] * n_draws / (n_draws - (best + 1))
    density[moving] = innovation / (1 - total[rows, best]) ** 2
    order[moving] = best
    return Spectrum(density, order)


def _detrended_sd(columns: np.ndarray) -> np.ndarray:
    """Sd, (D,), of residuals of rows (D, T) about least-squares lines: coda's test for a chain at rest."""
    time = np.arange(columns.shape[1]) - (columns.shape[1] - 1) / 2
    centred = columns - columns.mean(axis=1, keepdims=True)
    slope = centred @ time / (time @ time)
    return (centred - slope[:, None] * time).std(axis=1, ddof=1)
