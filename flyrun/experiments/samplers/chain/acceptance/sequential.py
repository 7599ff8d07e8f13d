"""What tests that read batches until they are sure share: Metropolis & Hastings' comparison by a sample.

With u drawn first, a proposal is accepted if Λ = (1/N) Σ [log L_n(θ') − log L_n(θ)] exceeds
ψ = (1/N) [log u − log ratio of all else] (Angelino, Johnson & Adams 2016, eq. 3.9 to 3.11); with proxies
their sum, which is known, goes from Λ to ψ. After m_k data, drawn without replacement, the mean Λ̂ decides if
|Λ̂ − ψ| ≥ A_k s + B_k R: s the sample's sd, R the width of the range of the differences. A rule is its sizes
m_k and its A_k and B_k. With all data read Λ itself decides, as in `exact`, and without proxies bit for bit.
"""

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config import acceptance as options
from flyrun.experiments.models.features import BLOCK
from flyrun.experiments.samplers.chain.acceptance.rule import decide, probability
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.chain.targets.proxies import UNAIDED, compare, proxies_of
from flyrun.experiments.samplers.chain.targets.subset import (
    read,
    subset,
    unaided_difference,
    whole_difference,
)
from flyrun.experiments.samplers.chain.targets.target import keep
from flyrun.ground.numerics.compiled import copy_into, implements, inline_jit
from flyrun.ground.numerics.state import unsaved


@unsaved(fixed=("sizes", "by_sd", "by_range"))
class Sequential(NamedTuple):
    """A test: after each stage it stops or reads on."""

    sizes: np.ndarray  # m_k, (K,) int64, ascending; the last is N
    by_sd: np.ndarray  # A_k, (K,)
    by_range: np.ndarray  # B_k, (K,)
    never_early: bool  # whether all data are read whatever they say


@inline_jit
def _with_more(differences, more, count, mean, squares):
    """Count, mean and Σ(x − mean)² of a sample and of `more` numbers besides (Chan, Golub & LeVeque 1979).

    Not Σx² − (Σx)²/m: differences of log likelihoods may share a part that is large beside their spread.
    """
    total, spread = 0.0, 0.0
    for i in range(more):
        total += differences[i]
    of_more = total / more
    for i in range(more):
        spread += (differences[i] - of_more) * (differences[i] - of_more)
    both, apart = count + more, of_more - mean
    squares += spread + apart * apart * count * more / both
    return both, mean + apart * more / both, squares


@inline_jit
def margin(rule, stage, sd, width):
    """How far a sample mean may be from the mean of all; where the rule does not look at the range, by sd."""
    by_range = rule.by_range[stage]
    return rule.by_sd[stage] * sd + (by_range * width if by_range > 0.0 else 0.0)


def target(config: options.Subsampled, setup: Setup, gradients: bool) -> Any:
    """The target that the rule reads."""
    problem = setup.problem
    proxies = proxies_of(setup, config.order) if config.at_map else UNAIDED
    return subset(problem.prior, problem.model, problem.features, setup.n_params, proxies)


@implements(decide, Sequential)
def _sequential(rule, rng, target, theta, proposal, log_ratio):
    n_data, n_stages = target.proposed.shape[0], rule.sizes.shape[0]
    u = rng.random()
    by_proxies, width = compare(target.proxies, theta, proposal)
    count, mean, squares = 0, 0.0, 0.0
    accepted, chance = False, 0.0
    if by_proxies != by_proxies:
        chance, n_stages = probability(log_ratio + unaided_difference(target, theta, proposal)), 0
        accepted = u < chance
    log_ratio += by_proxies
    level = (log(u) - log_ratio) / n_data if u > 0.0 else -np.inf
    for stage in range(n_stages):
        size = rule.sizes[stage]
        while count < size:
            more = min(BLOCK, size - count)
            read(target, rng, count, count + more, theta, proposal)
            count, mean, squares = _with_more(target.differences, more, count, mean, squares)
        if size == n_data:  # asked first: the sd of all data is of no use, and 0 may be divided by 0
            chance = probability(log_ratio + whole_difference(target))
            accepted = u < chance
        # not the other way round: what is not a number stops nothing before all data are read
        elif abs(mean - level) >= margin(rule, stage, sqrt(squares / (count - 1)), width):
            accepted = mean > level
            break
    if accepted:
        copy_into(theta, proposal)
        keep(target)
    if rule.never_early:
        return chance
    return 1.0 if accepted else 0.0
