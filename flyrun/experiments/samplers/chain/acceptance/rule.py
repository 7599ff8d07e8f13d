"""What an acceptance rule must offer: a proposal of any update is accepted or refused.

A rule is a file here: a NamedTuple with what it needs, `build(config, setup)`, and its `decide`. Under one
that reads few data a proposal costs few queries; the update that made it need not know.

A rule that does not evaluate all data at once has a target of its own, `target(config, setup, gradients)`.
"""

from math import exp

from flyrun.experiments.samplers.chain.targets.target import keep
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.compiled import copy_into, inlined, plain_jit


@inlined
def decide(rule, rng, target, theta, proposal, log_ratio):
    """Accept or refuse a proposal, (P,); returns the probability with which it was accepted.

    log_ratio: of the target's densities at the proposal and at theta, (P,), but for their data part, and of
    the densities of the ways back and there. Where it is accepted theta moves there and the target keeps it.
    DensityError where the density is not a number.
    """


@inlined
def settle(rule, rng, target, theta, proposal, log_ratio, data_ratio):
    """As `decide` where the target's data part is already evaluated at the proposal: for updates that asked
    for it, with its gradient. data_ratio: what it is there less what it is at theta, not in log_ratio.
    Rules that have none serve no such update."""


@plain_jit
def probability(log_ratio):
    """min(1, e^log_ratio); DensityError where it is not a number."""
    if log_ratio != log_ratio:
        raise DensityError("the density is not a number at a proposal: look for huge values in the data")
    return exp(min(0.0, log_ratio))


@plain_jit
def metropolis(rng, target, theta, proposal, log_ratio):
    """Accept with probability min(1, e^log_ratio), all in log_ratio; else as `decide`.

    What rules end in.
    """
    acceptance = probability(log_ratio)
    if rng.random() < acceptance:
        copy_into(theta, proposal)
        keep(target)
    return acceptance
