"""A pseudo-marginal chain on an unbiased estimate of the likelihood that is never negative.

Poisson's estimator (Wagner 1987; Papaspiliopoulos 2009; Fearnhead et al. 2010), which Angelino, Johnson &
Adams (2016), §3.6, name as the way from an unbiased estimate of the log likelihood to one of the likelihood.
With R_n what an expansion at the MAP leaves out of log L_n, |R_n(θ)| ≤ c_n M(θ), C = Σ c_n and Λ = C·M,

    exp Σ R_n = E Π_{j ≤ B} (1 + R_{n_j}/(c_{n_j} M)),  B ~ Poisson(Λ), n_j in proportion to c_n:

each factor lies in [0, 2], as bounds and a control variate are known; without them estimates would be
negative at times. The estimate at θ is kept until the chain moves (Andrieu & Roberts 2009), which makes it
exact, and a proposal costs its own B queries. Where Λ reaches N all data are read at once, without error.
With `intensity` i Λ is i times as large, and R_n is divided by i: estimates then vary less.
"""

from math import log
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import acceptance as options
from flyrun.experiments.models import passes
from flyrun.experiments.models.features import BLOCK
from flyrun.experiments.models.ranges import reach
from flyrun.experiments.samplers.chain.acceptance.rule import decide, probability, settle
from flyrun.experiments.samplers.chain.acceptance.thinned import target
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.chain.surrogate.remainder import Remainder
from flyrun.experiments.samplers.chain.surrogate.taylor import FAR
from flyrun.experiments.samplers.chain.targets.surrogate import fetch, left_out, sum_of_all
from flyrun.experiments.samplers.chain.targets.target import keep, log_data
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.alias import pick
from flyrun.ground.numerics.compiled import copy_into, implements, plain_jit
from flyrun.ground.numerics.poisson_count import poisson_count
from flyrun.ground.numerics.state import unsaved

__all__ = ["build", "target"]

TINY = 1e-300
"""Least factor: an estimate of 0 has a logarithm, too."""


@unsaved(workspace=("drawn", "there"), fixed=("known", "origin"))
class PoissonEstimator(NamedTuple):
    """Accepts by the ratio of two estimates."""

    intensity: float
    remainder: Remainder
    known: np.ndarray  # log L_n at the MAP, (N,)
    total: float  # their sum
    origin: np.ndarray  # (P,): 0, the MAP's φ
    kept: np.ndarray  # (1,): log of the estimate here, over that at the MAP; NaN before the first
    candidates: np.ndarray  # (1,) int64: how many data were read so far, none of them beyond its bound
    drawn: np.ndarray  # (BLOCK,) int64: workspace, as is the next
    there: np.ndarray


def build(config: options.PoissonEstimator, setup: Setup) -> PoissonEstimator:
    """The rule from its configuration (order, bounds, intensity): N queries for what is known at the MAP."""
    surrogate, problem, module = setup.surrogate(config.order), setup.problem, setup.module

    def work(block: slice) -> np.ndarray:
        eta = np.ascontiguousarray(surrogate.predictors[block])
        return passes.values_and_slopes(module.part(problem.model, block), eta)[0]

    setup.queries += setup.n_data
    known = passes.gathered(setup.n_data, work)
    return poisson_estimator(
        setup.remainder(config.order, config.bounds), known, setup.n_params, config.intensity
    )


def poisson_estimator(
    bounds: Remainder, known: np.ndarray, n_params: int, intensity: float = 1.0
) -> PoissonEstimator:
    """The rule with its bounds and log L_n at the MAP, (N,)."""
    memory = np.full(1, np.nan), np.zeros(1, np.int64)
    room = np.zeros(BLOCK, np.int64), np.zeros(BLOCK)
    return PoissonEstimator(intensity, bounds, known, float(known.sum()), np.zeros(n_params), *memory, *room)


@plain_jit
def estimate(rule, rng, target, theta, slot):
    """log of an estimate of Π L_n(θ)/L_n(θ̂); slot: the place of θ, (P,), in the target's memory."""
    memory, bounds, drawn = target.memory, rule.remainder, rule.drawn
    distance = reach(bounds.bounds, target.surrogate.mean, theta, rule.origin, memory.phi[slot])
    mean = rule.intensity * bounds.total * distance
    if not (mean < rule.known.shape[0] and abs(memory.kept[slot]) < FAR):
        memory.read[0] = rule.known.shape[0]
        return sum_of_all(target, drawn, theta) - rule.total
    value, left = memory.kept[slot], poisson_count(rng, mean)
    memory.read[0] = left
    rule.candidates[0] += left
    while left > 0:
        index = drawn[: min(left, BLOCK)]
        left -= index.shape[0]
        for i in range(index.shape[0]):
            index[i] = pick(bounds.table, rng, 0)
            fetch(target, index[i])
        left_out(target, index, theta, rule.there)
        for i in range(index.shape[0]):
            room, known = bounds.weights[index[i]] * distance, rule.known[index[i]]
            excess = rule.there[i] - known
            # beyond the bound by more than the rounding of what was subtracted
            if not abs(excess) <= room * (1.0 + 1e-9) + 1e-13 * (1.0 + abs(known)):
                raise DensityError(
                    "a remainder exceeds its bound, or is not a number: look for huge values in the data"
                )
            value += log(max(1.0 + max(-room, min(room, excess)) / (rule.intensity * room), TINY))
    return value


@plain_jit
def decide_by_estimates(rule, rng, target, theta, proposal, log_ratio):
    """As `decide`, where the surrogate has been evaluated at the proposal."""
    if rule.kept[0] != rule.kept[0]:
        rule.kept[0] = estimate(rule, rng, target, theta, 0)
    there = estimate(rule, rng, target, proposal, 1)
    acceptance = probability(log_ratio + there - rule.kept[0])
    if rng.random() < acceptance:
        copy_into(theta, proposal)
        keep(target)
        rule.kept[0] = there
    return acceptance


@implements(settle, PoissonEstimator)
def _settle(rule, rng, target, theta, proposal, log_ratio, data_ratio):
    return decide_by_estimates(rule, rng, target, theta, proposal, log_ratio)


@implements(decide, PoissonEstimator)
def _decide(rule, rng, target, theta, proposal, log_ratio):
    log_data(target, proposal, None)
    return decide_by_estimates(rule, rng, target, theta, proposal, log_ratio)
