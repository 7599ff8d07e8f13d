"""Errors of posterior means and sds, in the posterior's own units."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from flyrun.experiments.gold.store import Gold


class Truth(NamedTuple):
    """The posterior's moments by coordinate, (D,).  error: Monte Carlo error of the mean, in sds.

    source: what they are from.  classes: where more than one, θ is less its mean over so many classes.
    """

    mean: np.ndarray
    sd: np.ndarray
    error: np.ndarray
    source: str
    classes: int = 1


class Answer(NamedTuple):
    """Means and sds that a method hands in, (…, D).

    error: Monte Carlo error of the mean, in the answer's own sds; sd_error: of log sd; 0 where not known.
    """

    mean: np.ndarray
    sd: np.ndarray
    error: np.ndarray | float = 0.0
    sd_error: np.ndarray | float = 0.0


class Errors(NamedTuple):
    """off: (E θ − μ)/σ.  ratio: sd/σ, (…, 0) where an answer has no sds.  error: of `off`, ratio_error: of
    log `ratio`, both sides' Monte Carlo errors together.  All (…, D).
    """

    off: np.ndarray
    ratio: np.ndarray
    error: np.ndarray
    ratio_error: np.ndarray

    @property
    def rms(self) -> np.ndarray:
        """Of `off`, (…, D), over coordinates: (…)."""
        return rms(self.off)

    @property
    def worst(self) -> np.ndarray:
        """The largest size of `off`, (…, D), over coordinates: (…)."""
        return np.abs(self.off).max(axis=-1)

    @property
    def sd_ratio(self) -> np.ndarray:
        """Geometric mean of `ratio`, (…, D), over coordinates: (…)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.exp(np.log(self.ratio).mean(axis=-1))


def errors(answer: Answer, truth: Truth) -> Errors:
    """How far an answer is from the truth; infinite or NaN where the truth does not vary."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = answer.sd / truth.sd if answer.sd.shape[-1] else answer.sd
        relative = answer.error * ratio if answer.sd.shape[-1] else 0.0
        off = (answer.mean - truth.mean) / truth.sd
        of_sd = np.hypot(answer.sd_error, truth.error / np.sqrt(2.0))  # the truth's draws are independent
        return Errors(off, ratio, np.hypot(relative, truth.error) + 0.0 * off, of_sd + 0.0 * off)


def rms(values: np.ndarray) -> np.ndarray:
    """Root mean square over the last axis of (…, D)."""
    return np.sqrt(np.mean(np.square(values), axis=-1))


def of_moments(mean: np.ndarray, variance: np.ndarray, gold: Gold) -> tuple[np.ndarray, np.ndarray]:
    """Errors (…, D) of means, (m − μ)/σ, and of variances, (v/σ² − 1)/√(κ − 1), κ the kurtosis.

    Their mean squares are 1/n for n independent exact draws.
    """
    scale = np.sqrt(gold.kurtosis - 1)
    return (mean - gold.mean) / gold.sd, (variance / gold.variance - 1) / scale


def at_budget(spent: np.ndarray, budgets: ArrayLike, values: np.ndarray) -> np.ndarray:
    """What was at hand by each budget: the last of values (T, …) of costs (T,); NaN before the first."""
    budgets = np.asarray(budgets, float)
    place = np.searchsorted(spent, budgets * (1 + 1e-9), side="right") - 1
    there = (place >= 0).reshape(*budgets.shape, *[1] * (values.ndim - 1))
    return np.where(there, values[np.maximum(place, 0)], np.nan)
