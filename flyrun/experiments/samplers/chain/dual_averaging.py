"""A step learnt by dual averaging during burn-in (Hoffman & Gelman 2014, Algorithm 5), for trajectories.

The other updates keep Robbins-Monro's scheme (update.py): tried on them, this one came no nearer to the
acceptance asked for (random walk and MALA on MNIST, CIFAR-10 and QM9).
"""

from math import exp, log
from typing import NamedTuple

import numpy as np

from flyrun.ground.numerics.compiled import jit

SHRINKAGE, DELAY, FORGETTING = 0.2, 10.0, 0.85
"""γ, t₀ and κ. Hoffman & Gelman (§3.2.1) take γ = 0.05: steps then swing so widely that the acceptance at
their average is not the average acceptance (Firefly-HMC on QM9 for a target of 0.8: 0.83 after 2,000
iterations, 0.93 after 100); with a γ above 0.2 the first guess is still felt after hundreds. κ = 0.85 instead
of their 0.75 averages over more of the burn-in."""

REACH = 30.0  # steps are at least e^−REACH of ten first guesses: where none is accepted they stay numbers


class DualAveraging(NamedTuple):
    """A step that is learnt during burn-in and then frozen."""

    current: np.ndarray  # (1,): the step in use
    # (1,): weighted mean of log step, late iterations counting most; what the step is frozen at
    average: np.ndarray
    shortfall: np.ndarray  # (1,): H̄, mean of target less seen acceptance
    target_acceptance: float
    centre: float  # μ, log of ten times the first guess: where few iterations tell, steps are rather too long
    longest: float  # log of the longest step
    fixed: bool  # whether the person gave the step, so that nothing is tuned


def dual_averaging(
    target_acceptance: float, step: float | None, guess: float, longest: float
) -> DualAveraging:
    """A step tuned to target_acceptance from a first guess and at most `longest`, or fixed at `step`."""
    current, fixed = np.array([float(guess if step is None else step)]), step is not None
    ends = log(10.0 * guess), log(longest)
    return DualAveraging(current, np.zeros(1), np.zeros(1), target_acceptance, *ends, fixed)


@jit
def learn(step, acceptance, iteration, burn_in):
    """Take in the acceptance probability of iteration < burn_in; the last freezes the step at the average."""
    if step.fixed:
        return
    count = iteration + 1.0
    step.shortfall[0] += (step.target_acceptance - acceptance - step.shortfall[0]) / (count + DELAY)
    log_step = step.centre - count**0.5 / SHRINKAGE * step.shortfall[0]
    log_step = min(max(log_step, step.centre - REACH), step.longest)
    step.average[0] += count**-FORGETTING * (log_step - step.average[0])
    step.current[0] = exp(step.average[0] if iteration == burn_in - 1 else log_step)
