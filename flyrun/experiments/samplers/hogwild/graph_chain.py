"""What arms of graphs share: their graph, what is watched of a chain, the right pair correlation."""

import time

import numpy as np

from flyrun.experiments.models.graphs import planar
from flyrun.experiments.samplers.method import Arm, Facts, Records, State
from flyrun.experiments.samplers.on_graph import OnGraph

MOST_NAMED = 10_000


class GraphChain(OnGraph):
    """A chain on a graph. label, exact, counts: what a subclass says of itself."""

    shown = ("{queries} updates/sweep",)
    label, exact = "", True
    counts: dict[str, float]

    def __init__(self, arm: Arm):
        super().__init__(arm)
        started = time.perf_counter()
        self.right = planar.of_lattice(arm.dataset, arm.model)
        self._setup_s += time.perf_counter() - started

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

    def of_draws(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Agreement of neighbours in draws (T, n), in which a symmetric model's bias is seen."""
        return {"agreement": self.watched(theta)[1]}

    def facts(self, state: State | None = None) -> Facts:
        """right_correlation: E s_i s_j of neighbours, in closed form; known_agreement: how often alike."""
        right = self.right
        known = {} if right is None else {"right_correlation": right, "known_agreement": 0.5 + 0.5 * right}
        more = {"total_energy_bound": self.graph.bounds.total, "neighbour_pairs": len(self.ends)}
        return Facts(
            update=self.label,
            exact=self.exact,
            coordinates=tuple(f"x{i}" for i in range(self.n)) if self.n <= MOST_NAMED else (),
            setup_s=self._setup_s,
            more={**self.counts, **more, **known},
        )
