"""Adaptive Metropolis (Haario, Saksman & Tamminen 2001): a random walk shaped by the draws so far.

Angelino, Johnson & Adams (2016), §3.6: with γ_t = (t + 1)^−α a running Gaussian follows the chain,

    μ ← μ + γ (θ − μ),  Σ ← Σ + γ ((θ − μ)(θ − μ)ᵀ − Σ),

and proposals are N(θ, step²·Σ). The survey's γ_t = t^−α is 1 at t = 1, which would leave a Σ of rank one. The
step is tuned in burn-in (Andrieu & Thoms 2008, Algorithm 4).

While Σ moves with the draws, no step leaves the posterior invariant: averages converge to its own because γ_t
vanishes, for α in (½, 1] (Andrieu & Moulines 2006). With adapts=burn_in Σ is fixed from then on.
"""

from math import hypot, sqrt
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import chain as options
from flyrun.experiments.samplers.chain.acceptance.exact import Exact
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.targets.known_base import log_base_at
from flyrun.experiments.samplers.chain.update import StepSize, adapt, step_size, tune, update
from flyrun.ground.numerics.compiled import copy_into, implements, jit
from flyrun.ground.numerics.rows import add_row
from flyrun.ground.numerics.state import unsaved
from flyrun.ground.numerics.streams import Stream, normals, stream

LABEL = "Adaptive Metropolis"
GRADIENTS = False


@unsaved(workspace=("noise", "proposal"))
class AdaptiveMetropolis(NamedTuple):
    """θ' = θ + step·N(0, Σ), accepted by the ratio of target densities."""

    step: StepSize
    decay: float  # α
    throughout: bool  # whether Σ goes on moving after burn-in
    seen: np.ndarray  # (1,) int64: t, the draws that Σ has seen
    mean: np.ndarray  # μ, (P,)
    root: np.ndarray  # U, (P, P), upper triangle: UᵀU = Σ, at first I
    last: np.ndarray  # (P,): where the chain is, for `tune`
    stream: Stream  # of normals
    noise: np.ndarray  # (P,): workspace, as is the next
    proposal: np.ndarray
    rule: Any = Exact()  # of acceptance


def build(config: options.AdaptiveMetropolis, n_params: int) -> AdaptiveMetropolis:
    """Kernel from its configuration (decay, adapts, target_accept, step)."""
    step = step_size(config.target_accept, config.step, 2.38 / np.sqrt(n_params))
    room = [np.zeros(n_params) for _ in range(4)]
    shape = np.zeros(1, np.int64), room[0], np.eye(n_params), room[1]
    throughout = config.adapts == "throughout"
    return AdaptiveMetropolis(step, config.decay, throughout, *shape, stream(n_params), *room[2:])


@jit
def learn(kernel, theta):
    """Move μ and Σ towards θ, (P,): O(P²), U by its rank-one update (Golub & Van Loan 2013, §6.5.4)."""
    root, away, size = kernel.root, kernel.noise, theta.shape[0]
    kernel.seen[0] += 1
    gain = (kernel.seen[0] + 1.0) ** -kernel.decay
    if kernel.seen[0] == 1:
        copy_into(kernel.mean, theta)
    for d in range(size):
        away[d] = sqrt(gain) * (theta[d] - kernel.mean[d])
        kernel.mean[d] += gain * (theta[d] - kernel.mean[d])
    kept = sqrt(1.0 - gain)
    for k in range(size):
        before = kept * root[k, k]
        root[k, k] = hypot(before, away[k])
        turn, swing = root[k, k] / before, away[k] / before
        for d in range(k + 1, size):
            root[k, d] = (kept * root[k, d] + swing * away[d]) / turn
            away[d] = turn * away[d] - swing * root[k, d]


@implements(update, AdaptiveMetropolis)
def _adaptive_metropolis(kernel, rng, target, theta):
    noise, proposal = kernel.noise, kernel.proposal
    normals(kernel.stream, rng, noise)
    copy_into(proposal, theta)
    for k in range(theta.shape[0]):
        add_row(kernel.root, k, kernel.step.current[0] * noise[k], proposal)
    log_ratio = log_base_at(target, proposal) - log_base_at(target, theta)
    acceptance = decide(kernel.rule, rng, target, theta, proposal, log_ratio)
    if kernel.throughout:
        learn(kernel, theta)
    copy_into(kernel.last, theta)
    return acceptance


@implements(tune, AdaptiveMetropolis)
def _tune(kernel, acceptance, iteration, burn_in):
    if not kernel.throughout:
        learn(kernel, kernel.last)
    adapt(kernel.step, acceptance, iteration, burn_in)
