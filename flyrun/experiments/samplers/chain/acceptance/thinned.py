"""Rules that read a few data drawn in proportion to the bounds of their remainders: what they share.

The target is the surrogate prior × exp Σ T_k; what is left, Σ (R_k,n(θ') − R_k,n(θ)), enters by thinning a
Poisson process whose intensity the bounds know. With C = Σ c_n and M the `reach` of θ and θ', a step draws
B ~ Poisson(λ + CM) *candidates*, n in proportion to c_n, and reads each at both positions: 2B queries.

With dU_n = R_k,n(θ) − R_k,n(θ') in [−c_nM, c_nM], the three rules are

- FACTORISED (Cornish et al. 2019, Scalable Metropolis-Hastings): the surrogate's ratio decides first; then a
  candidate refuses with probability max(0, dU)/(c_nM), and the first that does ends the step.
- POISSON (Zhang, Cooper & De Sa 2020, TunaMH, Algorithm 2): φ = ½(dU + c_nM), φ' = φ − dU, λ = χ(CM)². A
  candidate is kept with probability (λc_n + Cφ)/(λc_n + C c_nM), and then multiplies the ratio by
  (λc_n + Cφ')/(λc_n + Cφ).
- SPARED (Prado, Nemeth & Sherlock 2024, MH-SS): the same with φ = min(0, dU) + c_nM and λ = 0, which accepts
  at least as often as FACTORISED with the same candidates.

All leave the posterior invariant while no bound is exceeded. Where CM + λ is N or more, or Σ T_k so large
at either position that its rounding counts, both of which the two positions know alike, a step of Metropolis
& Hastings on all data takes their place, in which the surrogate has no part.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import acceptance as options
from flyrun.experiments.models.features import BLOCK
from flyrun.experiments.models.ranges import reach
from flyrun.experiments.samplers.chain.acceptance.rule import decide, metropolis, settle
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.chain.surrogate.remainder import Remainder
from flyrun.experiments.samplers.chain.surrogate.taylor import FAR
from flyrun.experiments.samplers.chain.targets.surrogate import (
    SurrogateData,
    fetch,
    left_out,
    sum_of_all,
    surrogate_data,
)
from flyrun.experiments.samplers.chain.targets.target import kept_log_data, log_data
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.alias import pick
from flyrun.ground.numerics.compiled import implements, plain_jit
from flyrun.ground.numerics.poisson_count import poisson_count
from flyrun.ground.numerics.state import unsaved

FACTORISED, POISSON, SPARED = 0, 1, 2
KINDS = {"smh": FACTORISED, "tuna": POISSON, "mh_ss": SPARED}


@unsaved(workspace=("drawn", "here", "there"))
class Thinned(NamedTuple):
    """One of the three rules."""

    kind: int
    chi: float  # χ: λ = χ(CM)²
    remainder: Remainder
    candidates: np.ndarray  # (1,) int64: how many were read so far, none of them beyond its bound
    drawn: np.ndarray  # (BLOCK,) int64: workspace, as are the next two
    here: np.ndarray
    there: np.ndarray


def thinned(kind: int, bounds: Remainder, chi: float = 0.0) -> Thinned:
    """A rule with its bounds."""
    count = np.zeros(1, np.int64)
    return Thinned(kind, chi, bounds, count, np.zeros(BLOCK, np.int64), np.zeros(BLOCK), np.zeros(BLOCK))


def build(config: options.Thinned, setup: Setup) -> Thinned:
    """The rule of a configuration's name (order, bounds, chi)."""
    chi = config.chi if isinstance(config, options.Tuna) else 0.0
    return thinned(KINDS[config.name], setup.remainder(config.order, config.bounds), chi)


def target(config: options.Thinned, setup: Setup, gradients: bool) -> SurrogateData:
    """The surrogate of config.order, which the update then sees."""
    problem = setup.problem
    surrogate = setup.surrogate(config.order)
    return surrogate_data(problem.prior, problem.model, problem.features, surrogate, gradients)


@plain_jit
def _log_factor(kind, rng, room, spare, excess):
    """Log of what one candidate multiplies the ratio by: 0 where it is not kept, −∞ where it refuses."""
    if kind == FACTORISED:
        return -np.inf if rng.random() * room < excess else 0.0
    if kind == POISSON:
        forward, back = spare + 0.5 * (room + excess), spare + 0.5 * (room - excess)
    else:
        forward, back = room + min(0.0, excess), room - max(0.0, excess)
    if rng.random() * (spare + room) >= forward:
        return 0.0
    return log(back / forward) if back > 0.0 else -np.inf


@plain_jit
def _candidates(rule, rng, target, theta, proposal, distance, count):
    """Σ of `count` candidates' log factors; the first that refuses alone ends it where each decides."""
    bounds, added, first = rule.remainder, 0.0, 0
    spare = rule.chi * bounds.total * distance * distance  # λ/C
    most = 1 if rule.kind == FACTORISED else BLOCK
    while first < count and added > -np.inf:
        index = rule.drawn[: min(most, count - first)]
        first += index.shape[0]
        for i in range(index.shape[0]):
            index[i] = pick(bounds.table, rng, 0)
            fetch(target, index[i])
        left_out(target, index, theta, rule.here)
        left_out(target, index, proposal, rule.there)
        rule.candidates[0] += index.shape[0]
        target.memory.read[0] += index.shape[0]
        for i in range(index.shape[0]):
            weight = bounds.weights[index[i]]
            room = weight * distance
            excess = rule.here[i] - rule.there[i]
            # beyond the bound by more than the rounding of what was subtracted
            if not abs(excess) <= room * (1.0 + 1e-9) + 1e-13 * (1.0 + abs(rule.here[i])):
                raise DensityError(
                    "a remainder exceeds its bound, or is not a number: look for huge values in the data"
                )
            added += _log_factor(rule.kind, rng, room, weight * spare, max(-room, min(room, excess)))
    return added


@plain_jit
def thin(rule, rng, target, theta, proposal, log_ratio, data_ratio):
    """As `settle`: data_ratio is the surrogate's."""
    memory, bounds = target.memory, rule.remainder
    distance = reach(bounds.bounds, theta, proposal, memory.phi[0], memory.phi[1])
    memory.read[0] = 0
    mean = bounds.total * distance
    mean += rule.chi * mean * mean
    # both ways alike, and also where one is not a number: far out a polynomial overflows
    if not (mean < target.features.rows.shape[0] and max(abs(memory.kept[0]), abs(memory.kept[1])) < FAR):
        if memory.sums[0] != memory.sums[0]:
            memory.sums[0] = sum_of_all(target, rule.drawn, theta)
        memory.sums[1] = sum_of_all(target, rule.drawn, proposal)
        memory.read[0] = target.features.rows.shape[0]
        return metropolis(rng, target, theta, proposal, log_ratio + (memory.sums[1] - memory.sums[0]))
    log_ratio += data_ratio
    if log_ratio != log_ratio:
        raise DensityError("the density is not a number at a proposal: look for huge values in the data")
    if rule.kind == FACTORISED:
        if rng.random() >= exp(min(0.0, log_ratio)):
            return 0.0  # no data were needed
        log_ratio = 0.0
    log_ratio += _candidates(rule, rng, target, theta, proposal, distance, poisson_count(rng, mean))
    return metropolis(rng, target, theta, proposal, log_ratio)


implements(settle, Thinned)(thin)


@implements(decide, Thinned)
def _decide(rule, rng, target, theta, proposal, log_ratio):
    data_ratio = log_data(target, proposal, None) - kept_log_data(target, None)
    return thin(rule, rng, target, theta, proposal, log_ratio, data_ratio)
