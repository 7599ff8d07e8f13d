"""No bounds: every evaluation of the target visits all likelihoods."""

import numpy as np

from flyrun.config.bound import NoBound
from flyrun.samplers.chain.setup import Setup


def build(config: NoBound, setup: Setup, expects: bool) -> tuple[None, np.ndarray]:
    """None, and nothing to expect."""
    return None, np.empty(0)
