"""The posterior mode by L-BFGS (scipy), for models of several predictors under a smooth prior."""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models import passes
from flyrun.experiments.models.base_density import Penalty
from flyrun.experiments.models.features import Features, Model


class MapFit(NamedTuple):
    """A posterior mode."""

    theta: np.ndarray  # (P,)
    log_posterior: float
    queries: int  # likelihood queries spent


def find_map(
    module: Any, model: Model, features: Features, penalty: Penalty, normaliser: float, first: np.ndarray
) -> MapFit:
    """Mode of Π L_n × prior from `first`, (P,); arguments as in `find_newton_map`.

    Stops where rounding stops it: a MAP only a few posterior sds away would multiply the bright data.
    """
    from scipy.optimize import minimize  # late: a third of a second, which a model with Newton's steps saves

    n_passes = 0

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal n_passes
        n_passes += 1
        value, gradient = passes.slope(module, model, features, theta)
        return 0.5 * penalty.ridge * theta @ theta - value, penalty.ridge * theta - gradient

    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-6}
    fit = minimize(negative, first, jac=True, method="L-BFGS-B", options=options)
    return MapFit(fit.x, normaliser - float(fit.fun), n_passes * len(features.rows))
