"""Scalable Metropolis-Hastings (Cornish et al. 2019), on the surrogate of order 1 or 2: see `thinned`."""

from typing import Any

from flyrun.samplers.chain.acceptance import thinned
from flyrun.samplers.chain.acceptance.thinned import target

__all__ = ["build", "target"]


def build(config: Any, setup: Any) -> thinned.Thinned:
    """The rule from its configuration (order, bounds)."""
    return thinned.thinned(thinned.FACTORISED, setup.remainder(config.order, config.bounds))
