"""Slice sampling along random directions, with stepping out and shrinkage (Neal 2003, figures 3 and 5)."""

from math import sqrt
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import chain as options
from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.samplers.chain.targets.target import keep, kept_log_data, log_data
from flyrun.experiments.samplers.chain.update import StepSize, adapt, step_size, tune, update
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.compiled import copy_into, implements, jit
from flyrun.ground.numerics.state import unsaved
from flyrun.ground.numerics.streams import Stream, normals, stream

LABEL = "Slice"
GRADIENTS = False
BALANCE = 0.5
"""Share of the steps that widen the interval, among those that widen or narrow it, that tuning aims at."""

MOST_NARROWINGS = 200  # the interval is then about 1e−30 of what it was


@unsaved(workspace=("direction", "point"))
class Slice(NamedTuple):
    """A uniform draw from the part of a random line on which the density exceeds a random level.

    The start's density is kept; every other point looked at costs one evaluation of the target.
    """

    # width of the first interval. Tuned until widening and narrowing steps are in balance (Karamanis &
    # Beutler 2021), which needs fewest evaluations
    step: StepSize
    # Neal's m: bounds the interval at most_widenings + 1 widths, shared at random between its ends
    most_widenings: int
    counts: np.ndarray  # (2,): widening and narrowing steps of the last update
    stream: Stream  # of normals
    direction: np.ndarray  # (P,): workspace
    point: np.ndarray  # (P,): workspace


def build(config: options.Slice, n_params: int) -> Slice:
    """Kernel from its configuration (width; None is tuned from a first guess)."""
    step = step_size(BALANCE, config.width, 0.1)
    room = np.zeros(n_params), np.zeros(n_params)
    return Slice(step, config.most_widenings, np.zeros(2), stream(n_params), *room)


@jit
def _log_density_along(kernel, target, theta, shift):
    """Log density at θ + shift·direction, which becomes kernel.point; one evaluation of the target."""
    for d in range(theta.shape[0]):
        kernel.point[d] = theta[d] + shift * kernel.direction[d]
    value = log_base(target.base, kernel.point, None) + log_data(target, kernel.point, None)
    _refuse_nan(value)
    return value


@jit
def _refuse_nan(value):
    # NaN is neither above nor below the level: a slice would never end, or end anywhere
    if value != value:
        raise DensityError("the density is not a number on a slice: look for huge values in the data")


@implements(update, Slice)
def _slice(kernel, rng, target, theta):
    width = kernel.step.current[0]
    square = 0.0
    normals(kernel.stream, rng, kernel.direction)
    for d in range(theta.shape[0]):
        square += kernel.direction[d] * kernel.direction[d]
    length = sqrt(square)
    for d in range(theta.shape[0]):
        kernel.direction[d] /= length
    level = log_base(target.base, theta, None) + kept_log_data(target, None) - rng.standard_exponential()
    _refuse_nan(level)

    left = -width * rng.random()
    right = left + width
    to_left = int(rng.random() * (kernel.most_widenings + 1))
    to_right = kernel.most_widenings - to_left
    widened, narrowed = 0, 0
    while to_left > 0 and _log_density_along(kernel, target, theta, left) > level:
        left -= width
        to_left -= 1
        widened += 1
    while to_right > 0 and _log_density_along(kernel, target, theta, right) > level:
        right += width
        to_right -= 1
        widened += 1

    shift = left + (right - left) * rng.random()
    value = _log_density_along(kernel, target, theta, shift)
    while value <= level:
        if narrowed == MOST_NARROWINGS:
            # nothing but the start is left, which lies above the level, if only by rounding
            if level - value > 1e-9 * (1.0 + abs(level)):
                raise DensityError("a slice shrank to its start, whose density is not the one that was kept")
            return 1.0
        if shift < 0.0:
            left = shift
        else:
            right = shift
        narrowed += 1
        shift = left + (right - left) * rng.random()
        value = _log_density_along(kernel, target, theta, shift)
    kernel.counts[0], kernel.counts[1] = widened, narrowed
    # the point accepted is the last one evaluated, so it is what the target keeps
    copy_into(theta, kernel.point)
    keep(target)
    return 1.0


@implements(tune, Slice)
def _tune(kernel, acceptance, iteration, burn_in):
    widened, narrowed = kernel.counts[0], kernel.counts[1]
    if kernel.most_widenings == 0:  # nothing ever widens: an interval that was not narrowed might have been
        widened = 1.0 if narrowed == 0.0 else 0.0
    steps = widened + narrowed
    adapt(kernel.step, widened / steps if steps > 0.0 else BALANCE, iteration, burn_in)
