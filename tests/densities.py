"""The log density of a target at any position, for tests to compare with."""

import numpy as np

from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.samplers.chain.targets.target import log_data
from flyrun.ground.numerics.compiled import jit


@jit
def _log_density(target, theta, gradient):
    return log_base(target.base, theta, gradient) + log_data(target, theta, gradient)


def log_density(target, theta):
    """Log density of a target and its gradient, (P,), at θ; metered by the target."""
    gradient = np.zeros(len(theta))
    return _log_density(target, theta, gradient), gradient
