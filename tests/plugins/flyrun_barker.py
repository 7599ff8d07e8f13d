"""Another package's sampler. [project.entry-points."flyrun.samplers"]: barker = "flyrun_barker:Barker"."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from flyrun.extend import StepSize, ThetaUpdate, adapt, implements, kept_log_data, log_base, log_data

# isort: split
from flyrun.extend import metropolis, option, setting, step_size, tune, unsaved, update

FLYRUN_CONTRACT = "1.0"  # of flyrun.extend, that this was written for
LABEL, GRADIENTS = "Barker", True


@option("sampler", "barker")
class Barker(ThetaUpdate):
    """Barker's proposal: each coordinate's step turned towards the gradient; step null is tuned."""

    paper: ClassVar[str] = "Livingstone and Zanella 2022"
    exact: ClassVar[bool] = True
    target_accept: float = setting(0.57, above=0, at_most=1)
    step: float | None = setting(None, above=0)


@unsaved(workspace=("work",))
class Kernel(NamedTuple):
    step: StepSize
    work: np.ndarray  # (3, P): proposal, gradient here, gradient there


def build(config: Any, n_params: int) -> Kernel:
    return Kernel(step_size(config.target_accept, config.step, n_params ** (-1 / 6)), np.zeros((3, n_params)))


@implements(update, Kernel)
def _barker(kernel, rng, target, theta):
    kernel.work[1:] = 0.0
    proposal, here, there = kernel.work[0], kernel.work[1], kernel.work[2]
    log_ratio = -log_base(target.base, theta, here) - kept_log_data(target, here)
    for d in range(theta.shape[0]):
        move = kernel.step.current[0] * rng.standard_normal()
        proposal[d] = theta[d] + (move if rng.random() < 1 / (1 + np.exp(-move * here[d])) else -move)
    log_ratio += log_base(target.base, proposal, there) + log_data(target, proposal, there)
    for d in range(theta.shape[0]):
        move = proposal[d] - theta[d]
        log_ratio += np.logaddexp(0.0, -move * here[d]) - np.logaddexp(0.0, move * there[d])
    return metropolis(rng, target, theta, proposal, log_ratio)


@implements(tune, Kernel)
def _tune(kernel, acceptance, iteration, burn_in):
    adapt(kernel.step, acceptance, iteration, burn_in)
