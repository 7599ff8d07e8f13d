"""Every pair of n variables: a graph whose factors come from their pair (models/graphs/edge_tables.py)."""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import dataset as options
from flyrun.ground.archive import no_file as fingerprint  # noqa: F401


class CompleteGraph(NamedTuple):
    """n variables.  ends: (n, 2) int32, the pairs i, i + 1 round a ring, whose agreement is watched."""

    n: int
    ends: np.ndarray


def load(config: options.graph_data.CompleteGraph) -> CompleteGraph:
    """The graph of config.n_variables."""
    ring = np.arange(config.n_variables, dtype=np.int32)
    return CompleteGraph(config.n_variables, np.stack([ring, np.roll(ring, -1)], axis=1))
