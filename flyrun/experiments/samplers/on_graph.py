"""What chains on a graph share: the graph, and what is watched of their positions."""

import time
from typing import Any

import numpy as np

from flyrun.experiments.models.graphs.graph import total_energy
from flyrun.experiments.samplers.method import Arm, Method, first_step
from flyrun.ground.numerics.compiled import jit


def neighbours(data: Any) -> np.ndarray:
    """(E, 2) int32: the pairs whose agreement is watched; those of two-variable factors for a Network."""
    ends = getattr(data, "ends", None)
    if ends is None:
        ends = sorted({scope for scope in data.scopes if len(scope) == 2})
    return np.ascontiguousarray(np.asarray(ends, np.int32).reshape(-1, 2))


@jit
def observe(graph, ends, states, energy, agreement):
    """ζ and the share of the pairs `ends` that agree, of positions states (m, n), into arrays (m,)."""
    for k in range(states.shape[0]):
        x = states[k]
        energy[k] = total_energy(graph, x)
        n_equal = 0
        for e in range(ends.shape[0]):
            if x[ends[e, 0]] == x[ends[e, 1]]:
                n_equal += 1
        agreement[k] = n_equal / max(1, ends.shape[0])


class OnGraph(Method):
    """A chain on a graph, from whose model and data it is bound. A step is a sweep."""

    unit = "sweep"
    warm_up = first_step

    def __init__(self, arm: Arm):
        started = time.perf_counter()
        self.arm, data = arm, arm.dataset.code.load(arm.dataset)
        self.graph = arm.model.code.bind(arm.model, data)
        self.ends, self.n = neighbours(data), len(self.graph.bounds.sizes)
        self._setup_s = time.perf_counter() - started

    @property
    def parts(self) -> tuple[Any, ...]:
        return (self.graph,)

    def watched(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ζ and the share of neighbours that agree, of positions (m, n)."""
        energy, agreement = np.empty(len(states)), np.empty(len(states))
        observe(self.graph, self.ends, np.ascontiguousarray(states, np.int32), energy, agreement)
        return energy, agreement

    def trace(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """ζ of stored positions, theta (G, n): the log density up to a constant."""
        return {"log_posterior": self.watched(theta)[0]}
