"""Hamiltonian Monte Carlo with the Gaussian part of the motion solved exactly.

Duane et al. (1987); the splitting is Shahbaba, Lan, Johnson & Neal's (2014). A reference Gaussian N(μ, P⁻¹)
stands near the target. With velocities v ~ N(0, P⁻¹) its motion is a rotation of (θ − μ, v), known in closed
form, and only what the target adds to the reference is left to half steps ("kicks"):
v ← v + ½ε·P⁻¹∇(log target − log reference).

Under Firefly Monte Carlo the reference is the pseudo-prior itself, Gaussian when the prior is: a kick is then
the gradient of the bright data's log L̃ alone, weak forces of few data, so that steps are long. What else the
pseudo-prior has, a Laplace prior's corners, goes into the kick. On full data the reference is the Gaussian
that the bounds tight at the MAP collapse into, or the one of the posterior's curvature there.

Rotations keep the reference's energy ½(θ − μ)ᵀP(θ − μ) + ½vᵀPv and a kick of g changes it by v·g + ½g·P⁻¹g,
so none is worked out anew. A step costs one product with P⁻¹, or none where no datum pulls, and no whitened
copy of the data is needed. A reference other than the pseudo-prior enters the forces: only then P(θ − μ) is
carried along, with Pv, for they rotate as θ − μ and v do.
"""

from math import cos, inf, nan, pi, sin
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import chain as options
from flyrun.experiments.samplers.chain.acceptance.rule import metropolis
from flyrun.experiments.samplers.chain.dual_averaging import DualAveraging, dual_averaging, learn
from flyrun.experiments.samplers.chain.metric import (
    Reference,
    covariance_times,
    log_base_over,
    precision_times,
    scale_noise,
)
from flyrun.experiments.samplers.chain.targets.target import data_gradient, kept_log_data, log_data
from flyrun.experiments.samplers.chain.update import tune, update
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.compiled import dot_jit, implements, jit
from flyrun.ground.numerics.state import unsaved
from flyrun.ground.numerics.streams import Stream, normals, stream

LABEL = "Hamiltonian"
GRADIENTS = True
FAR = 1e100  # squared distance from μ, in the reference's sds, beyond which sums of squares may overflow

QUARTER_TURN = pi / 2
"""The longest step. It makes velocity of all position: longer ones turn back, and where the target is the
reference, so that every step is accepted, tuning would never end."""


@unsaved(workspace=("work",))
class Hmc(NamedTuple):
    """Trajectories of ½ to 1½ n_steps kicks and rotations by `step` radians, accepted on the total energy."""

    step: DualAveraging
    n_steps: int
    # each trajectory's step is drawn from (1 ± jitter)·step: no orbit of the rotation is locked into
    jitter: float
    reference: Reference
    stream: Stream  # of normals
    work: np.ndarray  # (8, P): workspace


def chosen(config: options.Hmc, bright: float) -> tuple[int, float]:
    """n_steps, and the longest step. bright: Σ E L̃_n, NaN where that is not known."""
    if config.n_steps != "auto":
        return config.n_steps, QUARTER_TURN
    # as measured by the worse of means and squares, docs/chains.md
    if bright < 0.5:
        return 1, QUARTER_TURN
    # beyond a quarter turn in all the few bright data hold little back: means go over to the other side, and
    # squares come back
    return (3, QUARTER_TURN / 3.0) if bright < 5.0 else (4, QUARTER_TURN)


def build(
    config: options.Hmc, n_params: int, reference: Reference, steps: tuple[int, float] | None = None
) -> Hmc:
    """Kernel from its configuration (jitter, target_accept, step), reference Gaussian and `chosen` steps."""
    n_steps, longest = steps or chosen(config, nan)
    step = dual_averaging(config.target_accept, config.step, 0.25, longest)
    return Hmc(step, n_steps, config.jitter, reference, stream(n_params), np.zeros((8, n_params)))


@dot_jit
def _dot(u, v):
    total = 0.0
    for d in range(u.shape[0]):
        total += u[d] * v[d]
    return total


@jit
def _rotate(away, velocity, turn, swing):
    """(away, velocity) on the circle that the reference makes them run."""
    for d in range(away.shape[0]):
        here = away[d]
        away[d] = here * turn + velocity[d] * swing
        velocity[d] = velocity[d] * turn - here * swing


@jit
def _refuse_nan(value, square):
    # a trajectory that ran away may overflow into NaN, and is refused as one; nothing else may
    if value != value and square < FAR:
        raise DensityError("the density is not a number on a trajectory: look for huge values in the data")


@implements(update, Hmc)
def _hmc(kernel, rng, target, theta):
    work, reference = kernel.work, kernel.reference
    position, gradient, kick, noise = work[0], work[1], work[2], work[3]
    away, pull = work[4], work[5]  # θ − μ and P(θ − μ)
    velocity, momentum = work[6], work[7]  # v and Pv
    size = theta.shape[0]
    step = kernel.step.current[0] * (1.0 + kernel.jitter * (2.0 * rng.random() - 1.0))
    turn, swing = cos(step), sin(step)
    # trajectories of random length: a fixed one can return some direction to where it was; but short ones, of
    # which a wider range has many, pay for a new velocity and a change of brightness and lead nowhere
    spread = kernel.n_steps // 2
    n_steps = kernel.n_steps - spread + int(rng.random() * (2 * spread + 1))

    normals(kernel.stream, rng, noise)
    for d in range(size):
        away[d] = theta[d] - reference.mean[d]
    scale_noise(reference.metric, noise, velocity)
    if reference.kind.pulls:
        precision_times(reference.metric, velocity, momentum)
        precision_times(reference.metric, away, pull)

    gradient[:] = 0.0
    log_ratio = -log_base_over(reference.kind, target.base, theta, away, pull, gradient)
    log_ratio -= kept_log_data(target, gradient)
    _refuse_nan(log_ratio, 0.0)
    log_there = 0.0
    for i in range(n_steps + 1):
        if i > 0:
            _rotate(away, velocity, turn, swing)
            if reference.kind.pulls:
                _rotate(pull, momentum, turn, swing)
            for d in range(size):
                position[d] = reference.mean[d] + away[d]
            gradient[:] = 0.0
            log_there = log_base_over(reference.kind, target.base, position, away, pull, gradient)
            if i < n_steps:
                data_gradient(target, position, gradient)
            else:
                log_there += log_data(target, position, gradient)
        force = _dot(gradient, gradient)
        if log_there + force != log_there + force:
            precision_times(reference.metric, away, pull)
            _refuse_nan(nan, _dot(away, pull))
        if force == 0.0:
            continue
        covariance_times(reference.metric, gradient, kick)
        share = 0.5 * step if i in (0, n_steps) else step
        log_ratio -= share * (_dot(gradient, velocity) + 0.5 * share * _dot(gradient, kick))
        for d in range(size):
            velocity[d] += share * kick[d]
        if reference.kind.pulls:
            for d in range(size):
                momentum[d] += share * gradient[d]

    log_ratio += log_there
    # a trajectory that overflowed is refused, as one that lost its energy is
    return metropolis(rng, target, theta, position, log_ratio if log_ratio == log_ratio else -inf)


@implements(tune, Hmc)
def _tune(kernel, acceptance, iteration, burn_in):
    learn(kernel.step, acceptance, iteration, burn_in)
