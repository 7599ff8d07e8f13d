"""What a small table's posterior is, by long chains on all rows from far apart, until they have settled."""

from typing import NamedTuple

import numpy as np

from flyrun.fitting import hmc_on_rows, mode, other_modes
from flyrun.fitting.rows_posterior import Posterior

CHAINS = 64
ERROR = 0.015  # standard error of the log of an sd, and of a mean in sds, at which a run has settled
_WARM_UP, _PILOT, _FIRST, _MOST = 100, 150, 100, 19_200  # iterations
_APART, _FREEDOM = 2.0, 4.0  # of the t from which chains begin, by the shape at the mode
_DEEP = 12.0  # nats below the mode: from farther down no step leads anywhere, and a chain begins nearer


class Settled(NamedTuple):
    """mean, sd (P,) each; error: the largest standard error; iterations: of each chain."""

    mean: np.ndarray
    sd: np.ndarray
    error: float
    iterations: int

    @property
    def is_so(self) -> bool:
        """Whether the run settled before it ended."""
        return self.error <= ERROR


def sample(posterior: Posterior, seed: int = 0) -> Settled:
    """By Hamiltonian Monte Carlo, whitened by the covariance that a first run of all chains had.

    Errors are of the spread between chains, whatever their autocorrelation is.
    """
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        at, likelihood = mode.find(posterior)
        shape = mode.covariance(likelihood.curvature + posterior.prior_at(at).curvature)
        root = np.linalg.cholesky(shape)
        stretch = _APART * np.sqrt(_FREEDOM / rng.chisquare(_FREEDOM, (CHAINS, 1)))
        starts = at + stretch * (rng.standard_normal((CHAINS, len(at))) @ root.T)
        if posterior.family.outliers:
            several = other_modes.several(posterior, at, shape, other_modes.leverage(posterior), rng).centres
            starts[: len(several)] = several[:CHAINS]
        top = posterior.log_density(at[None])[0]
        while (deep := ~(posterior.log_density(starts) > top - _DEEP)).any():
            starts[deep] = at + 0.7 * (starts[deep] - at)
        pilot = hmc_on_rows.Sampler(posterior, starts, root, rng, CHAINS, _WARM_UP)
        last = pilot.draw(_PILOT)[:, _PILOT // 2 :]
        root = np.linalg.cholesky(np.cov(last.reshape(-1, len(at)).T).reshape(len(at), len(at)))
        chains = hmc_on_rows.Sampler(posterior, last[:, -1], root, rng, CHAINS, _WARM_UP)
        x = chains.draw(_FIRST)
        while (found := _moments(x)).error > ERROR and x.shape[1] < _MOST:
            x = np.concatenate([x, chains.draw(x.shape[1] // 2)], axis=1)
    return found


def _moments(x: np.ndarray) -> Settled:
    """Of draws (C, T, P)."""
    mean = x.mean(axis=(0, 1))
    square = ((x - mean) ** 2).mean(axis=1)
    variance = square.mean(axis=0)
    by_root = np.sqrt(len(x))
    of_mean = x.mean(axis=1).std(axis=0, ddof=1) / by_root / np.sqrt(variance)
    of_sd = 0.5 * square.std(axis=0, ddof=1) / by_root / variance
    return Settled(mean, np.sqrt(variance), float(max(of_mean.max(), of_sd.max())), x.shape[1])
