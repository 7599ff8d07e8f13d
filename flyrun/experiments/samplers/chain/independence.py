"""Independence Metropolis-Hastings with a Student-t proposal about the posterior (Tierney 1994, §2.3).

Proposals do not depend on where the chain is: θ' = μ + R·z·√(ν/χ²_ν), a t with the centre and shape of a
Gaussian near the posterior, or that Gaussian. Tails heavier than the posterior's keep the ratio of target to
proposal bounded.
"""

from math import log1p, sqrt
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import chain as options
from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.samplers.chain.acceptance.exact import Exact
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.metric import Reference, precision_times, scale_noise
from flyrun.experiments.samplers.chain.update import tune, update
from flyrun.ground.numerics.compiled import implements, jit
from flyrun.ground.numerics.state import unsaved
from flyrun.ground.numerics.streams import Stream, normals, stream

LABEL = "Independence Metropolis-Hastings"
GRADIENTS = False


@unsaved(workspace=("work",))
class Independence(NamedTuple):
    """Accepts by the ratio at θ' over the ratio at θ, each of target to proposal density."""

    freedom: float  # ν; 0: a Gaussian
    reference: Reference
    stream: Stream  # of normals
    work: np.ndarray  # (3, P): workspace
    rule: Any = Exact()  # of acceptance


def build(config: options.Independence, n_params: int, reference: Reference) -> Independence:
    """Kernel from its configuration (freedom) and the Gaussian that it proposes about."""
    return Independence(float(config.freedom or 0.0), reference, stream(n_params), np.zeros((3, n_params)))


@jit
def _log_proposed(kernel, theta):
    """Log density of the proposal at θ, up to a constant."""
    away, pull = kernel.work[1], kernel.work[2]
    size = theta.shape[0]
    for d in range(size):
        away[d] = theta[d] - kernel.reference.mean[d]
    precision_times(kernel.reference.metric, away, pull)
    square = 0.0
    for d in range(size):
        square += away[d] * pull[d]
    if kernel.freedom == 0.0:
        return -0.5 * square
    return -0.5 * (kernel.freedom + size) * log1p(square / kernel.freedom)


@implements(update, Independence)
def _independence(kernel, rng, target, theta):
    proposal, noise = kernel.work[0], kernel.work[1]
    size = theta.shape[0]
    normals(kernel.stream, rng, noise)
    scale_noise(kernel.reference.metric, noise, proposal)
    stretch = sqrt(kernel.freedom / rng.chisquare(kernel.freedom)) if kernel.freedom > 0.0 else 1.0
    for d in range(size):
        proposal[d] = kernel.reference.mean[d] + stretch * proposal[d]
    log_ratio = log_base(target.base, proposal, None) - log_base(target.base, theta, None)
    log_ratio += _log_proposed(kernel, theta) - _log_proposed(kernel, proposal)
    return decide(kernel.rule, rng, target, theta, proposal, log_ratio)


implements(tune, Independence)(lambda kernel, acceptance, iteration, burn_in: None)
