"""Hogwild Gibbs (Niu et al. 2011; Johnson, Saunderson & Willsky 2013): what its arms are called and cost.

It is plain Gibbs sampling, and exact, where one processor owns all variables.
"""

from typing import Any

import numpy as np

from flyrun.errors import ConfigError
from flyrun.samplers.hogwild.rounds import blocks

LABEL = "Hogwild Gibbs"


def owners(config: Any, n: int) -> np.ndarray:
    """(n,): the processor of each variable. ConfigError where there are more processors than variables."""
    if config.processors > n:
        raise ConfigError(
            f"sampler.processors={config.processors}: there are {n} variables, each of one processor; "
            f"choose sampler.processors={n} or fewer"
        )
    return blocks(n, config.processors)


def lateness(config: Any) -> float:
    """The probability that a post is late."""
    return config.late if config.schedule == "asynchronous" else 0.0


def counts(config: Any, owner: np.ndarray, itemsize: int) -> dict[str, float]:
    """Of a round: updates, in all and on the longest path, and bytes that a worker sends and is sent."""
    largest = int(np.bincount(owner).max())
    return {
        "workers": config.processors,
        "updates_per_round": config.sweeps * len(owner),
        "critical_per_round": config.sweeps * largest,
        "bytes_per_worker": itemsize * len(owner) if config.processors > 1 else 0,
    }
