"""Stochastic gradient Langevin proposals with a test of acceptance: what may "fix up" SGLD.

Angelino, Johnson & Adams (2016), §3.6, after Korattikara, Chen & Welling (2014), §6.4. g_b(θ) is the prior's
gradient and N/b times that of b rows, drawn anew for each proposal:

    θ' = θ + ½ step²·P⁻¹g_b(θ) + step·N(0, P⁻¹).

Both ways have the same batch, and batches do not look at θ: given one it is a Metropolis-Hastings step, exact
under an exact rule. A batch costs b queries at either end, also where the rule reads a row again.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import chain as options
from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.models.features import BLOCK, predict, pull_back
from flyrun.experiments.models.likelihood import log_likelihood
from flyrun.experiments.samplers.chain.acceptance.exact import Exact
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.metric import IDENTITY, Reference, covariance_times, scale_noise
from flyrun.experiments.samplers.chain.update import StepSize, step_size, tune, tune_step, update
from flyrun.ground.numerics.compiled import implements, jit
from flyrun.ground.numerics.state import unsaved
from flyrun.ground.numerics.streams import Stream, normals, stream

LABEL = "Langevin by batches"
GRADIENTS = False


@unsaved(workspace=("batch", "work"), fixed=("metric",))
class SgldTested(NamedTuple):
    """Accepted with the Metropolis-Hastings ratio of a Langevin step on the batch's gradient."""

    step: StepSize
    metric: Any  # P
    stream: Stream  # of normals
    batch: np.ndarray  # (b,) int64: workspace
    work: np.ndarray  # (7, P): workspace
    rule: Any = Exact()  # of acceptance


def build(config: options.SgldTested, n_params: int, reference: Reference | None = None) -> SgldTested:
    """Kernel from its configuration (batch, target_accept, step); first guesses as MALA's."""
    guess = (1.0 if reference else 0.1) * n_params ** (-1 / 6)
    step = step_size(config.target_accept, config.step, guess)
    metric = reference.metric if reference else IDENTITY
    room = np.zeros(config.batch, np.int64), np.zeros((7, n_params))
    return SgldTested(step, metric, stream(n_params), *room)


@jit
def _gradient(target, index, theta, total, out):
    """out, (P,), becomes g_b(θ); b queries. total: (P,), workspace. Returns the base's log density."""
    work, factor = target.work, target.features.rows.shape[0] / index.shape[0]
    out[:] = 0.0
    total[:] = 0.0
    value = log_base(target.base, theta, out)
    for first in range(0, index.shape[0], BLOCK):
        part = index[first : first + BLOCK]
        predict(target.features, part, theta, work.eta)
        log_likelihood(target.model, part, work.eta, work.values, work.slopes)
        pull_back(target.features, part, work.slopes, total)
    target.memory.queries[0] += index.shape[0]
    for d in range(theta.shape[0]):
        out[d] += factor * total[d]
    return value


@implements(update, SgldTested)
def _sgld_tested(kernel, rng, target, theta):
    index, work = kernel.batch, kernel.work
    proposal, noise, here, there, drift, way_back = work[0], work[1], work[2], work[3], work[4], work[5]
    step = kernel.step.current[0]
    half = 0.5 * step * step
    for i in range(index.shape[0]):
        index[i] = int(rng.random() * target.features.rows.shape[0])
    log_ratio = -_gradient(target, index, theta, work[6], here)
    covariance_times(kernel.metric, here, drift)
    normals(kernel.stream, rng, noise)
    scale_noise(kernel.metric, noise, proposal)
    for d in range(theta.shape[0]):
        proposal[d] = theta[d] + half * drift[d] + step * proposal[d]
    log_ratio += _gradient(target, index, proposal, work[6], there)
    covariance_times(kernel.metric, there, way_back)
    for d in range(theta.shape[0]):  # as in mala.py
        log_ratio -= 0.5 * (proposal[d] - theta[d]) * (here[d] + there[d])
        log_ratio += 0.25 * half * (here[d] * drift[d] - there[d] * way_back[d])
    return decide(kernel.rule, rng, target, theta, proposal, log_ratio)


implements(tune, SgldTested)(tune_step)
