"""Surrogate transition (Liu 2001, §9.4.3), ours with a last test that reads few data.

K moves of an update that leaves the surrogate prior × exp Σ T_k invariant and is reversible for it, no
data read; then one test whether to go to where they end. To the surrogate the way there is as likely as
the way back, so that the test is of the remainders alone, whatever the prior: a random walk that would
creep under a test a step makes near-independent proposals at the queries of one.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import chain as options
from flyrun.experiments.samplers.chain import pcn
from flyrun.experiments.samplers.chain.acceptance.exact import Exact
from flyrun.experiments.samplers.chain.acceptance.rule import settle
from flyrun.experiments.samplers.chain.metric import Reference
from flyrun.experiments.samplers.chain.targets.surrogate import (
    SurrogateData,
    SurrogateMemory,
    surrogate_memory,
)
from flyrun.experiments.samplers.chain.targets.target import kept_log_data, log_data
from flyrun.experiments.samplers.chain.update import tune, update
from flyrun.ground.numerics.compiled import copy_into, implements
from flyrun.ground.numerics.state import unsaved

LABEL = "Surrogate transition"
GRADIENTS = False


@unsaved(workspace=("proposal",))
class SurrogateTransition(NamedTuple):
    """Moves of an inner update, then a rule's test."""

    moves: int  # K
    inner: pcn.Pcn
    memory: SurrogateMemory  # of the surrogate along the way
    proposal: np.ndarray  # (P,): workspace
    rule: Any = Exact()  # of acceptance: one that settles


def build(config: options.SurrogateTransition, n_params: int, reference: Reference) -> SurrogateTransition:
    """Kernel from its configuration (moves, persistence) and the Gaussian at the MAP."""
    inner, memory = pcn.build(config, n_params, reference), surrogate_memory(n_params, False)
    return SurrogateTransition(config.moves, inner, memory, np.zeros(n_params))


@implements(update, SurrogateTransition)
def _surrogate_transition(kernel, rng, target, theta):
    memory, known = kernel.memory, kernel.memory.known
    proposal = kernel.proposal
    copy_into(proposal, theta)
    memory.kept[0] = target.memory.kept[0]
    copy_into(memory.phi[0], target.memory.phi[0])
    for slot in range(2):
        known.positions[slot, 0] = np.nan  # nothing known
    surrogate = SurrogateData(
        target.base, target.model, target.features, target.surrogate, target.work, target.slope, memory
    )
    for _ in range(kernel.moves):
        update(kernel.inner, rng, surrogate, proposal)
    moved = log_data(target, proposal, None) - kept_log_data(target, None)
    return settle(kernel.rule, rng, target, theta, proposal, -moved, moved)


implements(tune, SurrogateTransition)(lambda kernel, acceptance, iteration, burn_in: None)
