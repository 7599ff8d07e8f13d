"""Metropolis-adjusted Langevin (Roberts & Tweedie 1996), the step tuned to accept 0.57.

Roberts & Rosenthal (1998) give 0.574 as the best acceptance rate in many dimensions. Steps are round, or
shaped by a Gaussian near the target (a metric), as Roberts & Stramer (2002) do.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import chain as options
from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.samplers.chain.acceptance.exact import Exact
from flyrun.experiments.samplers.chain.acceptance.rule import settle
from flyrun.experiments.samplers.chain.metric import IDENTITY, Reference, covariance_times, scale_noise
from flyrun.experiments.samplers.chain.targets.target import kept_log_data, log_data
from flyrun.experiments.samplers.chain.update import StepSize, step_size, tune, tune_step, update
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.state import unsaved
from flyrun.ground.numerics.streams import Stream, normals, stream

LABEL = "Langevin"
GRADIENTS = True


@unsaved(workspace=("work",), fixed=("metric",))
class Mala(NamedTuple):
    """θ' = θ + ½ step²·P⁻¹∇ + step·N(0, P⁻¹), accepted with the Metropolis-Hastings ratio."""

    step: StepSize
    metric: Any  # P
    stream: Stream  # of normals
    work: np.ndarray  # (6, P): workspace
    rule: Any = Exact()  # of acceptance


def build(config: options.Mala, n_params: int, reference: Reference | None = None) -> Mala:
    """Kernel from its configuration (target_accept, step); round steps without a reference.

    The first guess scales with the number of parameters as the best step does, and for round steps, in units
    of θ, is a tenth.
    """
    guess = (1.0 if reference else 0.1) * n_params ** (-1 / 6)
    metric = reference.metric if reference else IDENTITY
    step = step_size(config.target_accept, config.step, guess)
    return Mala(step, metric, stream(n_params), np.zeros((6, n_params)))


@implements(update, Mala)
def _mala(kernel, rng, target, theta):
    work = kernel.work
    proposal, noise, here, there, drift, way_back = work[0], work[1], work[2], work[3], work[4], work[5]
    step = kernel.step.current[0]
    half = 0.5 * step * step
    # The gradient here comes from what is kept, also after a change of brightness: it costs no query.
    here[:] = 0.0
    log_ratio = -log_base(target.base, theta, here)
    data_ratio = -kept_log_data(target, here)
    covariance_times(kernel.metric, here, drift)
    normals(kernel.stream, rng, noise)
    scale_noise(kernel.metric, noise, proposal)
    for d in range(theta.shape[0]):
        proposal[d] = theta[d] + half * drift[d] + step * proposal[d]
    there[:] = 0.0
    log_ratio += log_base(target.base, proposal, there)
    data_ratio += log_data(target, proposal, there)
    covariance_times(kernel.metric, there, way_back)
    # log of the density of the way back over that of the way there; P itself drops out
    for d in range(theta.shape[0]):
        log_ratio -= 0.5 * (proposal[d] - theta[d]) * (here[d] + there[d])
        log_ratio += 0.25 * half * (here[d] * drift[d] - there[d] * way_back[d])
    return settle(kernel.rule, rng, target, theta, proposal, log_ratio, data_ratio)


implements(tune, Mala)(tune_step)
