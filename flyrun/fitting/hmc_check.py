"""A run of Hamiltonian Monte Carlo beside weighted draws whose weights alone do not tell what they missed."""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import stdtrit

from flyrun.fitting import hmc_on_rows
from flyrun.fitting.rows_posterior import Posterior

_ITERATIONS = 250  # of each chain, four times as many where noise leaves doubt
_MOST_CHAINS, _ROWS = 32, 20_000  # so many rows evaluated together cost little more than few
_WIDE = 2.0  # sds from where chains begin that may find another mode
_SHIFTED, _WIDENED = 0.15, 0.05  # how far a mean, in sds, and the log of an sd may differ
_TOLERANCE = 1.25  # times these, noise and all
_BATCHES, _CHANCE = 5, 0.1  # batches per chain; probability that noise alone exceeds its bound, anywhere


def differs(
    posterior: Posterior,
    mean: np.ndarray,
    covariance: np.ndarray,
    rng: np.random.Generator,
    spent: Callable[[], bool],
    missed: Callable[[np.ndarray], np.ndarray],
) -> tuple[str, str]:
    """Why a posterior is not of this mean (P,) and covariance (P, P), and why that was not checked; "" else.

    The run goes on until its noise, by its batches, leaves no doubt: all differences are below _TOLERANCE
    times what is asked for, or one is above it. Where doubt stays at its end, what it found decides. spent:
    whether the time is up, which ends the run. missed: which of points (S, P) would weigh more than any of
    the draws that are checked, (S,): where they carry a variance, the draws missed a region.
    """
    cholesky = np.linalg.cholesky(covariance + 1e-12 * np.diag(np.diag(covariance)))
    several = min(_MOST_CHAINS, max(hmc_on_rows.CHAINS, _ROWS // len(posterior.rows)))
    wide = _WIDE if posterior.family.outliers else 1.0
    chains = hmc_on_rows.Sampler(posterior, mean[None], cholesky, rng, several, wide=wide, spent=spent)
    draws, why = np.empty((several, 0, posterior.size)), ""
    read = _read(posterior)
    sd = np.sqrt(np.diag(read @ covariance @ read.T))
    for length in (_ITERATIONS, 3 * _ITERATIONS):
        more = chains.draw(length)
        if more.shape[1] < length:
            return "", "the chains that check these draws did not end within the --budget"
        draws = np.concatenate([draws, more], axis=1)
        off, shrunk, noise = apart(draws @ read.T, read @ mean, sd)
        asked = np.concatenate([np.abs(off) / _SHIFTED, np.abs(shrunk) / _WIDENED])
        noise = noise / np.repeat([_SHIFTED, _WIDENED], len(off))
        worst = shrunk[np.abs(shrunk).argmax()]
        why = (
            f"an sd is {math.exp(worst):.2f} times and a mean {np.abs(off).max():.2f} sds from that of a "
            "short run of HMC"
        )
        if (unseen := _unseen(draws @ read.T, missed(draws.reshape(-1, posterior.size)))) > _WIDENED:
            where = f"is {math.exp(unseen):.2f} times theirs"
            return f"a short run of HMC reaches where no draw is, by which an sd {where}", ""
        if (asked + noise).max() <= _TOLERANCE:
            return "", ""
        if (asked - noise).max() > 1.0:
            break
    return ("", "") if asked.max() <= 1.0 else (why, "")


def _unseen(draws: np.ndarray, missed: np.ndarray) -> float:
    """The largest log of what sds of chains' draws (C, T, P) are, by what they are without some, (C·T,)."""
    squares = (draws.reshape(-1, draws.shape[-1]) - draws.mean(axis=(0, 1))) ** 2
    part = squares[missed].sum(axis=0) / np.maximum(squares.sum(axis=0), 1e-300)
    return float(-0.5 * np.log1p(-np.minimum(part, 0.99)).min())


def _read(posterior: Posterior) -> np.ndarray:
    """(P, P): what takes x to numbers as people read them, of classes differences from the first."""
    matrix = np.eye(posterior.size)
    if posterior.family.contrasts is not None:
        n = posterior.n_coefficients
        matrix[:n, :n] = np.kron(posterior.family.contrasts(posterior.levels), np.eye(posterior.width))
    return matrix


def apart(draws: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How far chains' draws (C, T, P) are from mean and sd, (P,) each.

    The means' difference in sds and the log of sd by theirs, (P,) each; and how large both may be by chance,
    (2P,), by batches of draws.
    """
    of_mean = draws.mean(axis=(0, 1))
    z = draws.reshape(-1, draws.shape[1] // _BATCHES, draws.shape[2]) - of_mean
    batches, squares = z.mean(axis=1), (z * z).mean(axis=1)
    sds = np.sqrt(squares.mean(axis=0))
    beyond = stdtrit(len(z) - 1, 1.0 - 0.5 * _CHANCE / (2 * len(mean))) / math.sqrt(len(z))
    error = np.concatenate([batches.std(axis=0, ddof=1) / sd, 0.5 * squares.std(axis=0, ddof=1) / sds**2])
    return (of_mean - mean) / sd, np.log(sd / sds), beyond * error
