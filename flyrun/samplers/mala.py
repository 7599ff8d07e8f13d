"""Metropolis-adjusted Langevin (Roberts & Tweedie 1996), the step tuned to accept 0.57.

Roberts & Rosenthal (1998) give 0.574 as the best acceptance rate in many dimensions.
"""

from math import exp
from typing import Any, NamedTuple

import numpy as np

from flyrun.compiled import implements
from flyrun.errors import DensityError
from flyrun.models.base import log_base
from flyrun.samplers.state import unsaved
from flyrun.samplers.target import keep, kept_log_data, log_data
from flyrun.samplers.update import StepSize, adapt, step_size, tune, update

LABEL = "Langevin"
GRADIENTS = True


@unsaved(workspace=("proposal", "gradient", "proposed_gradient"))
class Mala(NamedTuple):
    """θ' = θ + ½ step²·∇ + step·N(0, I), accepted with the Metropolis-Hastings ratio."""

    step: StepSize
    proposal: np.ndarray
    """(P,): workspace, as are the next two: the gradients here and at the proposal."""
    gradient: np.ndarray
    proposed_gradient: np.ndarray


def build(config: Any, n_params: int) -> Mala:
    """Kernel from its configuration (target_accept, step); the first guess scales as the best step does."""
    step = step_size(config.target_accept, config.step, 0.1 * n_params ** (-1 / 6))
    return Mala(step, np.zeros(n_params), np.zeros(n_params), np.zeros(n_params))


@implements(update, Mala)
def _mala(kernel, rng, target, theta):
    proposal, here, there = kernel.proposal, kernel.gradient, kernel.proposed_gradient
    step = kernel.step.current[0]
    drift = 0.5 * step * step
    # The gradient here comes from what is kept, also after a change of brightness: it costs no query.
    here[:] = 0.0
    log_here = log_base(target.base, theta, here) + kept_log_data(target, here)
    log_ratio = 0.0
    for d in range(theta.shape[0]):
        noise = rng.standard_normal()
        proposal[d] = theta[d] + drift * here[d] + step * noise
        log_ratio += 0.5 * noise * noise
    there[:] = 0.0
    log_ratio += log_base(target.base, proposal, there) + log_data(target, proposal, there) - log_here
    for d in range(theta.shape[0]):
        noise = (theta[d] - proposal[d] - drift * there[d]) / step  # what would lead back
        log_ratio -= 0.5 * noise * noise
    if log_ratio != log_ratio:
        raise DensityError("the density is not a number at a proposal: look for huge values in the data")
    acceptance = exp(min(0.0, log_ratio))
    if rng.random() < acceptance:
        theta[:] = proposal
        keep(target)
    return acceptance


@implements(tune, Mala)
def _tune(kernel, acceptance, iteration, burn_in):
    adapt(kernel.step, acceptance, iteration, burn_in)
