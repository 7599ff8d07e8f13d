"""No bounds: every evaluation of the target visits all likelihoods."""

import numpy as np

from flyrun.experiments.config.bound import NoBound
from flyrun.experiments.samplers.chain.setup import Setup


def build(config: NoBound, setup: Setup, expects: bool) -> tuple[None, np.ndarray]:
    """None, and nothing to expect, (0,)."""
    return None, np.empty(0)
