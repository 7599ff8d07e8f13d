"""Another package's sampler. [project.entry-points."flyrun.samplers"]: barker = "flyrun_barker:Barker"."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from flyrun.config.sampler import ThetaUpdate
from flyrun.config.schema import option, setting
from flyrun.models.base_density import log_base
from flyrun.numerics.compiled import implements
from flyrun.numerics.state import unsaved
from flyrun.samplers.chain.acceptance.rule import metropolis
from flyrun.samplers.chain.targets.target import kept_log_data, log_data
from flyrun.samplers.chain.update import StepSize, adapt, step_size, tune, update

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
