"""Random-walk Metropolis (Metropolis et al. 1953), the step tuned to accept 0.234 (Roberts et al. 1997).

Steps are round, or shaped by a Gaussian near the target (a metric), as Roberts & Rosenthal (2001) advise.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import chain as options
from flyrun.experiments.samplers.chain.acceptance.exact import Exact
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.metric import IDENTITY, Reference, scale_noise
from flyrun.experiments.samplers.chain.targets.known_base import log_base_at
from flyrun.experiments.samplers.chain.update import StepSize, step_size, tune, tune_step, update
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.state import unsaved
from flyrun.ground.numerics.streams import Stream, normals, stream

LABEL = "Metropolis-Hastings"
GRADIENTS = False


@unsaved(workspace=("noise", "proposal"), fixed=("metric",))
class RandomWalk(NamedTuple):
    """θ' = θ + step·N(0, P⁻¹), accepted by the ratio of target densities."""

    step: StepSize
    metric: Any  # P
    stream: Stream  # of normals
    noise: np.ndarray  # (P,): workspace, as is the next
    proposal: np.ndarray
    rule: Any = Exact()  # of acceptance


def build(config: options.RandomWalk, n_params: int, reference: Reference | None = None) -> RandomWalk:
    """Kernel from its configuration (target_accept, step); round steps without a reference."""
    step = step_size(config.target_accept, config.step, 2.38 / np.sqrt(n_params))  # Roberts et al.'s guess
    metric = reference.metric if reference else IDENTITY
    return RandomWalk(step, metric, stream(n_params), np.zeros(n_params), np.zeros(n_params))


@implements(update, RandomWalk)
def _random_walk(kernel, rng, target, theta):
    noise, proposal = kernel.noise, kernel.proposal
    step = kernel.step.current[0]
    normals(kernel.stream, rng, noise)
    scale_noise(kernel.metric, noise, proposal)
    for d in range(theta.shape[0]):
        proposal[d] = theta[d] + step * proposal[d]
    log_ratio = log_base_at(target, proposal) - log_base_at(target, theta)
    return decide(kernel.rule, rng, target, theta, proposal, log_ratio)


implements(tune, RandomWalk)(tune_step)
