"""Where chains start, without what it costs to begin one: to compile its kernel, and N queries."""

import numpy as np
import pytest

from flyrun.experiments.samplers.chain.method import Chain


def starts(method, n):
    """θ of the seeds 0 … n − 1, (n, P)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chain, "_begin", lambda self, theta, *rest: {"theta": theta})
        return np.array([method.init(seed)["theta"] for seed in range(n)])
