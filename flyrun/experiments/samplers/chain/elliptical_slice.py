"""Elliptical slice sampling (Murray, Adams & MacKay 2010, figure 2): no step to tune, no gradients.

A target that is a Gaussian N(μ, P⁻¹) times a rest moves along the ellipse through the position and a draw of
that Gaussian, shrinking towards the position until the rest exceeds a random level. Under Firefly Monte Carlo
the Gaussian is the pseudo-prior and the rest the bright data's L̃ (with a Laplace prior's corners). On full
data it is a Gaussian at the MAP, and the rest is what divides the posterior from it (Nishihara, Murray &
Adams 2014).
"""

from math import cos, pi, sin
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import chain as options
from flyrun.experiments.samplers.chain.metric import Reference, log_base_over, precision_times, scale_noise
from flyrun.experiments.samplers.chain.targets.target import keep, kept_log_data, log_data
from flyrun.experiments.samplers.chain.update import tune, update
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.compiled import copy_into, implements
from flyrun.ground.numerics.state import unsaved
from flyrun.ground.numerics.streams import Stream, normals, stream

LABEL = "Elliptical slice"
GRADIENTS = False

MOST_NARROWINGS = 200  # the bracket is then about 1e−30 of the ellipse


@unsaved(workspace=("work",))
class EllipticalSlice(NamedTuple):
    """A point drawn from the part of a random ellipse on which the rest exceeds a random level.

    The start's value is kept; every other point looked at costs one evaluation of the target.
    """

    reference: Reference
    stream: Stream  # of normals
    work: np.ndarray  # (7, P): workspace


def build(config: options.EllipticalSlice, n_params: int, reference: Reference) -> EllipticalSlice:
    """Kernel about the reference Gaussian."""
    return EllipticalSlice(reference, stream(n_params), np.zeros((7, n_params)))


@implements(update, EllipticalSlice)
def _elliptical_slice(kernel, rng, target, theta):
    work, reference = kernel.work, kernel.reference
    position, away, pull = work[0], work[1], work[2]  # θ', θ' − μ and P(θ' − μ)
    start, start_pull = work[3], work[4]  # the same of where it starts
    other, other_pull = work[5], work[6]  # and of the draw that spans the ellipse with it
    size = theta.shape[0]
    normals(kernel.stream, rng, position)
    for d in range(size):
        start[d] = theta[d] - reference.mean[d]
    scale_noise(reference.metric, position, other)
    precision_times(reference.metric, other, other_pull)
    precision_times(reference.metric, start, start_pull)
    level = log_base_over(reference.kind, target.base, theta, start, start_pull, None)
    level += kept_log_data(target, None) - rng.standard_exponential()

    angle = 2.0 * pi * rng.random()
    low, high = angle - 2.0 * pi, angle
    narrowed = 0
    while True:
        turn, swing = cos(angle), sin(angle)
        for d in range(size):
            away[d] = start[d] * turn + other[d] * swing
            position[d] = reference.mean[d] + away[d]
            pull[d] = start_pull[d] * turn + other_pull[d] * swing
        value = log_base_over(reference.kind, target.base, position, away, pull, None)
        value += log_data(target, position, None)
        if value > level:
            break
        # NaN is neither above nor below the level; and only the start is left of the ellipse at last, which
        # lies above the level, if only by rounding
        if value != value or level != level:
            raise DensityError("the density is not a number on an ellipse: look for huge values in the data")
        if narrowed == MOST_NARROWINGS:
            if level - value > 1e-9 * (1.0 + abs(level)):
                raise DensityError(
                    "an ellipse shrank to its start, whose density is not the one that was kept"
                )
            return 1.0
        if angle < 0.0:
            low = angle
        else:
            high = angle
        narrowed += 1
        angle = low + (high - low) * rng.random()
    copy_into(theta, position)
    # the point accepted is the last one evaluated, so it is what the target keeps
    keep(target)
    return 1.0


implements(tune, EllipticalSlice)(lambda kernel, acceptance, iteration, burn_in: None)
