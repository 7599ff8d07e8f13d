"""Hamiltonian Monte Carlo with the Gaussian part of the motion solved exactly.

Duane et al. (1987); the splitting is Shahbaba, Lan, Johnson & Neal's (2014). A reference Gaussian N(μ, P⁻¹)
stands near the target. With velocities v ~ N(0, P⁻¹) its motion is a rotation of (θ − μ, v), known in closed
form, and only what the target adds to the reference is left to half steps ("kicks"):
v ← v + ½ε·P⁻¹∇(log target − log reference).

Under Firefly Monte Carlo the reference is the pseudo-prior itself, Gaussian when the prior is: a kick is then
the gradient of the bright data's log L̃ alone, weak forces of few data, so that steps are long. On full data
the reference is the Gaussian that the bounds tight at the MAP collapse into. No whitened copy of the data is
made: a kick costs one product with P⁻¹.
"""

from math import cos, exp, sin
from typing import Any, NamedTuple

import numpy as np

from flyrun.compiled import dot_jit, implements
from flyrun.models.base import log_base
from flyrun.models.features import row_dot
from flyrun.models.likelihood import Quadratic
from flyrun.samplers.state import unsaved
from flyrun.samplers.target import keep, kept_log_data, log_data
from flyrun.samplers.update import StepSize, adapt, step_size, tune, update

LABEL = "Hamiltonian"
GRADIENTS = True
REFERENCE = True


@unsaved(workspace=("work",), fixed=("reference", "mean", "covariance", "root"))
class Hmc(NamedTuple):
    """Trajectories of about `n_steps` kicks and rotations by `step` radians, accepted on the total energy."""

    step: StepSize
    n_steps: int
    jitter: float
    """Each trajectory's step is drawn from (1 ± jitter)·step: no orbit of the rotation is locked into."""
    reference: Quadratic
    mean: np.ndarray
    """μ, (P,)."""
    covariance: np.ndarray
    """P⁻¹, (P, P)."""
    root: np.ndarray
    """Lower triangle with root·rootᵀ = P⁻¹: makes velocities."""
    work: np.ndarray
    """(5, P): workspace for position, velocity, gradient, kick and noise."""


def build(config: Any, n_params: int, reference: Quadratic) -> Hmc:
    """Kernel from its configuration (n_steps, jitter, target_accept, step) and the reference Gaussian."""
    covariance = np.linalg.inv(reference.precision)
    covariance = (covariance + covariance.T) / 2.0
    return Hmc(
        step=step_size(config.target_accept, config.step, 0.25),
        n_steps=config.n_steps,
        jitter=config.jitter,
        reference=reference,
        mean=covariance @ reference.linear,
        covariance=np.ascontiguousarray(covariance),
        root=np.ascontiguousarray(np.linalg.cholesky(covariance)),
        work=np.zeros((5, n_params)),
    )


@dot_jit
def _times(matrix, vector, out):
    """out = matrix·vector."""
    for d in range(out.shape[0]):
        out[d] = row_dot(matrix, d, vector)


@dot_jit
def _quadratic_form(matrix, vector):
    total = 0.0
    for d in range(vector.shape[0]):
        total += vector[d] * row_dot(matrix, d, vector)
    return total


@implements(update, Hmc)
def _hmc(kernel, rng, target, theta):
    work = kernel.work
    position, velocity, gradient, kick, noise = work[0], work[1], work[2], work[3], work[4]
    size = theta.shape[0]
    step = kernel.step.current[0] * (1.0 + kernel.jitter * (2.0 * rng.random() - 1.0))
    turn, swing = cos(step), sin(step)
    # trajectories of random length: a fixed one can return the slowest direction to where it was
    n_steps = rng.integers(1, 2 * kernel.n_steps)

    kinetic = 0.0
    for d in range(size):
        noise[d] = rng.standard_normal()
        kinetic += 0.5 * noise[d] * noise[d]
        velocity[d] = 0.0
    for d in range(size):
        for e in range(d + 1):
            velocity[d] += kernel.root[d, e] * noise[e]
        position[d] = theta[d]

    gradient[:] = 0.0
    log_here = log_base(target.base, theta, gradient) + kept_log_data(target, gradient)
    log_there = log_here
    for i in range(n_steps + 1):
        if i > 0:
            for d in range(size):
                away = position[d] - kernel.mean[d]
                position[d] = kernel.mean[d] + away * turn + velocity[d] * swing
                velocity[d] = velocity[d] * turn - away * swing
            gradient[:] = 0.0
            log_there = log_base(target.base, position, gradient) + log_data(target, position, gradient)
        for d in range(size):
            gradient[d] -= kernel.reference.linear[d] - row_dot(kernel.reference.precision, d, position)
        _times(kernel.covariance, gradient, kick)
        share = 0.5 * step if i in (0, n_steps) else step
        for d in range(size):
            velocity[d] += share * kick[d]

    log_ratio = log_there - log_here + kinetic - 0.5 * _quadratic_form(kernel.reference.precision, velocity)
    # a trajectory that overflowed is refused, as one that lost its energy is
    acceptance = exp(min(0.0, log_ratio)) if log_ratio == log_ratio else 0.0
    if rng.random() < acceptance:
        theta[:] = position
        keep(target)
    return acceptance


@implements(tune, Hmc)
def _tune(kernel, acceptance, iteration, burn_in):
    adapt(kernel.step, acceptance, iteration, burn_in)
