"""What arms of graphs share: their graph, what is watched of a chain, the right pair correlation."""

import time
from typing import Any

import numpy as np

from flyrun.models.graphs import planar
from flyrun.samplers.gibbs.method import observe
from flyrun.samplers.method import Arm, Facts, Method, Records, State, first_step

MOST_NAMED = 10_000


class GraphChain(Method):
    """A chain on a graph. label, exact, counts: what a subclass says of itself."""

    unit = "sweep"
    shown = ("{queries} updates/sweep",)
    label, exact = "", True
    counts: dict[str, float]

    def __init__(self, arm: Arm):
        started = time.perf_counter()
        self.arm, data = arm, arm.dataset.code.load(arm.dataset)
        self.graph = arm.model.code.bind(arm.model, data)
        self.ends, self.n = np.ascontiguousarray(data.ends, np.int32), data.n
        self.right = planar.of_lattice(arm.dataset, arm.model)
        self._setup_s = time.perf_counter() - started

    @property
    def parts(self) -> tuple[Any, ...]:
        return (self.graph,)

    def warm_up(self) -> float:
        return first_step(self)

    def watched(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ζ and the share of neighbours that agree, of positions (m, n)."""
        energy, agreement = np.empty(len(states)), np.empty(len(states))
        observe(self.graph, self.ends, np.ascontiguousarray(states, np.int32), energy, agreement)
        return energy, agreement

    def records(self, kept: np.ndarray, energy: np.ndarray, agreement: np.ndarray) -> Records:
        """Of n steps: kept positions, and by step, (n,), ζ and the share of neighbours that agree."""
        n = len(energy)
        return {
            "theta": kept,
            "queries": np.full(n, float(self.counts["updates_per_round"])),
            "span": np.full(n, float(self.counts["critical_per_round"])),
            "energy": energy,
            "agreement": agreement,
        }

    def trace(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """ζ of stored positions, theta (G, n): the log density up to a constant."""
        return {"log_posterior": self.watched(theta)[0]}

    def of_draws(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Agreement of neighbours, in which a symmetric model's bias is seen."""
        return {"agreement": self.watched(theta)[1]}

    def facts(self, state: State | None = None) -> Facts:
        """As in the base class. right_correlation: E s_i s_j of neighbours, in closed form."""
        known = {} if self.right is None else {"right_correlation": self.right}
        more = {"total_energy_bound": self.graph.bounds.total, "neighbour_pairs": len(self.ends)}
        return Facts(
            update=self.label,
            exact=self.exact,
            coordinates=tuple(f"x{i}" for i in range(self.n)) if self.n <= MOST_NAMED else (),
            setup_s=self._setup_s,
            more={**self.counts, **more, **known},
        )
