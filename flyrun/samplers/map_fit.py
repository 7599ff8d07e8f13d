"""The posterior mode by L-BFGS (scipy), every likelihood it looks at metered."""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from flyrun.compiled import jit
from flyrun.models.base import log_base
from flyrun.samplers.target import log_data


class MapFit(NamedTuple):
    """A posterior mode."""

    theta: np.ndarray
    """(P,)."""
    log_posterior: float
    queries: int
    """Likelihood queries spent."""


@jit
def _log_density(target, theta, gradient):
    return log_base(target.base, theta, gradient) + log_data(target, theta, gradient)


def log_density(target: Any, theta: np.ndarray) -> tuple[float, np.ndarray]:
    """Log density of a target and its gradient, (P,), at θ; metered by the target."""
    gradient = np.zeros(len(theta))
    return _log_density(target, theta, gradient), gradient


def find_map(target: Any, first: np.ndarray) -> MapFit:
    """Mode of a full-data target, from `first`, (P,).

    Stops where rounding stops it: a MAP only a few posterior sds away would multiply the bright data.
    """

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = log_density(target, theta)
        return -value, -gradient

    before = int(target.memory.queries[0])
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-6}
    found = minimize(negative, first, jac=True, method="L-BFGS-B", options=options)
    return MapFit(found.x, -float(found.fun), int(target.memory.queries[0]) - before)
