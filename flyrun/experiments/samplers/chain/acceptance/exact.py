"""Metropolis & Hastings' rule (Hastings 1970): all that the target evaluates decides, with min(1, ratio)."""

from typing import NamedTuple

from flyrun.experiments.config import acceptance as options
from flyrun.experiments.samplers.chain.acceptance.rule import decide, metropolis, settle
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.chain.targets.target import kept_log_data, log_data
from flyrun.ground.numerics.compiled import implements


class Exact(NamedTuple):
    """One evaluation of the target for each proposal."""

    unused: int = 0

    @property
    def is_nothing(self) -> bool:
        """It adds nothing to what a kernel is without rules, so that no digest of set-ups takes it in."""
        return True


def build(config: options.Exact, setup: Setup) -> Exact:
    """The rule; nothing to configure."""
    return Exact()


@implements(decide, Exact)
def _exact(rule, rng, target, theta, proposal, log_ratio):
    log_ratio += log_data(target, proposal, None) - kept_log_data(target, None)
    return metropolis(rng, target, theta, proposal, log_ratio)


@implements(settle, Exact)
def _settle(rule, rng, target, theta, proposal, log_ratio, data_ratio):
    return metropolis(rng, target, theta, proposal, log_ratio + data_ratio)
