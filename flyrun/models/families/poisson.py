"""Counts of mean μ = e^η: log L = yη − e^η."""

from typing import Any

import numpy as np

from flyrun.models.family import Derivatives, Family


def log_density(y: Any, trials: Any, p: Any) -> Any:
    """Of counts y."""
    return y * p[0] - np.exp(p[0])


def derivatives(y: Any, trials: Any, p: Any) -> Derivatives:
    """By η."""
    mean = np.exp(p[0])
    return (y - mean,), ((mean,),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log of the mean count, by e^offset."""
    return np.array([np.log((weights @ y + 0.1) / (weights @ np.exp(offset) + 0.1))])


def draw(rng: np.random.Generator, trials: Any, p: Any) -> Any:
    """Counts."""
    return rng.poisson(np.exp(p[0]))


FAMILY = Family("poisson", "Poisson regression", "counts", "log", log_density, derivatives, start, draw)
