"""TunaMH (Zhang, Cooper & De Sa 2020), from order 1 on with control variates: see `thinned`."""

from typing import Any

from flyrun.samplers.chain.acceptance import thinned
from flyrun.samplers.chain.acceptance.thinned import target

__all__ = ["build", "target"]


def build(config: Any, setup: Any) -> thinned.Thinned:
    """The rule from its configuration (order, bounds, chi)."""
    return thinned.thinned(thinned.POISSON, setup.remainder(config.order, config.bounds), config.chi)
