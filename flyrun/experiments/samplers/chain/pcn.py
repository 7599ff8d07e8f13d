"""Preconditioned Crank-Nicolson (Cotter, Roberts, Stuart & White 2013) about the Gaussian at the MAP.

θ' = μ + ρ(θ − μ) + √(1 − ρ²)·N(0, P⁻¹), reversible for N(μ, P⁻¹): what is accepted or refused is only by how
much the posterior differs from that. With ρ = 0 proposals are its draws, whatever θ: independence
Metropolis-Hastings (Tierney 1994).
"""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import chain as options
from flyrun.experiments.samplers.chain.acceptance.exact import Exact
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.metric import Reference, precision_times, scale_noise
from flyrun.experiments.samplers.chain.targets.known_base import log_base_at
from flyrun.experiments.samplers.chain.update import tune, update
from flyrun.ground.numerics.compiled import implements, jit
from flyrun.ground.numerics.state import unsaved
from flyrun.ground.numerics.streams import Stream, normals, stream

LABEL = "Preconditioned Crank-Nicolson"
GRADIENTS = False


@unsaved(workspace=("work",))
class Pcn(NamedTuple):
    """Accepts by the ratio at θ' over the ratio at θ, each of target to Gaussian density."""

    persistence: float  # ρ
    reference: Reference
    stream: Stream  # of normals
    work: np.ndarray  # (4, P): workspace
    rule: Any = Exact()  # of acceptance


def build(config: options.Pcn | options.SurrogateTransition, n_params: int, reference: Reference) -> Pcn:
    """Kernel from its configuration (persistence) and the Gaussian."""
    return Pcn(float(config.persistence), reference, stream(n_params), np.zeros((4, n_params)))


@jit
def _square(reference, theta, away, pull):
    """(θ − μ)ᵀP(θ − μ)."""
    for d in range(theta.shape[0]):
        away[d] = theta[d] - reference.mean[d]
    precision_times(reference.metric, away, pull)
    total = 0.0
    for d in range(theta.shape[0]):
        total += away[d] * pull[d]
    return total


@implements(update, Pcn)
def _pcn(kernel, rng, target, theta):
    proposal, noise, away, pull = kernel.work[0], kernel.work[1], kernel.work[2], kernel.work[3]
    normals(kernel.stream, rng, noise)
    scale_noise(kernel.reference.metric, noise, proposal)
    kept, fresh = kernel.persistence, sqrt(1.0 - kernel.persistence * kernel.persistence)
    for d in range(theta.shape[0]):
        mean = kernel.reference.mean[d]
        proposal[d] = mean + kept * (theta[d] - mean) + fresh * proposal[d]
    log_ratio = log_base_at(target, proposal) - log_base_at(target, theta)
    log_ratio += 0.5 * _square(kernel.reference, proposal, away, pull)
    log_ratio -= 0.5 * _square(kernel.reference, theta, away, pull)
    return decide(kernel.rule, rng, target, theta, proposal, log_ratio)


implements(tune, Pcn)(lambda kernel, acceptance, iteration, burn_in: None)
