"""The compiled loop that every chain runs: update θ, resample brightness, record."""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.samplers.chain.brightness.base import resample
from flyrun.experiments.samplers.chain.targets.known_base import log_base_at
from flyrun.experiments.samplers.chain.targets.target import bright_count, kept_log_data, start
from flyrun.experiments.samplers.chain.update import tune, update
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.compiled import copy_into, jit
from flyrun.ground.numerics.generator_argument import uncounted

MOST = 1e13
"""Nats that a pseudo-prior may take and bright data give back: of their difference rounding leaves 10⁻³."""


class Draws(NamedTuple):
    """What n iterations leave behind."""

    theta: np.ndarray  # (n // thin, P): every thin-th position
    queries: np.ndarray  # (n,) int64: likelihood queries of each iteration
    bright: np.ndarray  # (n,) int64: bright data after each iteration; N for the full-data target
    log_joint: np.ndarray  # (n,): log density of the state, θ alone or θ and z, up to a constant
    accepted: np.ndarray  # (n,): acceptance probability of the θ-update


def empty_draws(n: int, thin: int, first: int, n_params: int) -> Draws:
    """Room for iterations first … first + n − 1; those k with (k+1) % thin = 0 keep their position."""
    kept = (first + n) // thin - first // thin
    counts = np.empty(n, np.int64), np.empty(n, np.int64)
    return Draws(np.empty((kept, n_params)), *counts, np.empty(n), np.empty(n))


def begin_chain(rng, target, kernel, brightness, theta):
    """Let the target look at the first position, theta (P,)."""
    _run(uncounted(rng), target, kernel, brightness, theta, 0, 0, 1, empty_draws(0, 1, 0, theta.size), True)


def run_chain(rng, target, kernel, brightness, theta, first, burn_in, thin, draws):
    """Run iterations first … first + n − 1 in place, n = draws.queries.shape[0].

    Steps are tuned only while the iteration is below burn_in. theta: (P,), the position, moved in place.
    """
    _run(uncounted(rng), target, kernel, brightness, theta, first, burn_in, thin, draws, False)


@jit
def _run(rng, target, kernel, brightness, theta, first, burn_in, thin, draws, begin):
    # beginning is part of this one function: what takes a target is costly to compile, whatever it does
    if begin:
        start(target, rng, theta)
    meter = target.memory.queries
    row = 0
    has_digits = True
    for i in range(draws.queries.shape[0]):
        iteration = first + i
        before = meter[0]
        acceptance = update(kernel, rng, target, theta)
        if iteration < burn_in:
            tune(kernel, acceptance, iteration, burn_in)
        resample(brightness, rng, target, theta)
        draws.queries[i] = meter[0] - before
        draws.bright[i] = bright_count(target)
        of_base, of_data = log_base_at(target, theta), kept_log_data(target, None)
        if iteration >= burn_in and of_base < -MOST and of_data > MOST:
            has_digits = False
        draws.log_joint[i] = of_base + of_data
        draws.accepted[i] = acceptance
        if (iteration + 1) % thin == 0:
            copy_into(draws.theta[row], theta)
            row += 1
    if not has_digits:  # after the loop, within which it slows all steps; nothing of this chunk is kept
        raise DensityError(
            "the bounds lie so far below the likelihoods here that what is left of both has no digits; "
            "choose bound=none brightness=none acceptance=exact"
        )
