"""MH with scalable subsampling (Prado, Nemeth & Sherlock 2024), here to order 3: see `thinned`."""

from typing import Any

from flyrun.samplers.chain.acceptance import thinned
from flyrun.samplers.chain.acceptance.thinned import target

__all__ = ["build", "target"]


def build(config: Any, setup: Any) -> thinned.Thinned:
    """The rule from its configuration (order, bounds)."""
    return thinned.thinned(thinned.SPARED, setup.remainder(config.order, config.bounds))
