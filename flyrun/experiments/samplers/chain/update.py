"""What a θ-update must offer, and the tuning of its step during burn-in.

An update moves the position under whatever target it is given: full data or Firefly. It returns its
acceptance probability in [0, 1], which both is reported and drives the tuning.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np

from flyrun.ground.numerics.compiled import inlined, jit


@inlined
def update(kernel, rng, target, theta):
    """Move theta, (P,), in place by a transition that leaves the target invariant; acceptance probability."""


@inlined
def tune(kernel, acceptance, iteration, burn_in):
    """Learn from the acceptance probability of iteration < burn_in. Never called after burn-in."""


class StepSize(NamedTuple):
    """A step that is learnt during burn-in and then frozen."""

    current: np.ndarray  # (1,): the step in use
    average: np.ndarray  # (1,): mean of log step over the second half of burn-in; what the step is frozen at
    target_acceptance: float
    fixed: bool  # whether the person gave the step, so that nothing is tuned


def step_size(target_acceptance: float, step: float | None, guess: float) -> StepSize:
    """A step tuned to target_acceptance from a first guess, or fixed at `step`."""
    first = guess if step is None else step
    return StepSize(np.array([float(first)]), np.zeros(1), target_acceptance, step is not None)


@jit
def adapt(step, acceptance, iteration, burn_in):
    """Robbins-Monro on log step with gains (k+1)^−0.6, averaged over the second half of burn-in.

    Andrieu & Thoms (2008), Algorithm 4's scale update. The last call freezes the step at the average.
    """
    if step.fixed:
        return
    gain = (iteration + 1.0) ** -0.6
    log_step = log(step.current[0]) + gain * (acceptance - step.target_acceptance)
    step.current[0] = exp(log_step)
    half = burn_in // 2
    if iteration >= half:
        step.average[0] += (log_step - step.average[0]) / (iteration - half + 1)
    if iteration == burn_in - 1:
        step.current[0] = exp(step.average[0])


def tune_step(kernel, acceptance, iteration, burn_in):
    """`tune` of updates whose acceptance alone tells of their step."""
    adapt(kernel.step, acceptance, iteration, burn_in)
