"""Loopy belief propagation on Ising models (Pearl 1988): EP whose sites are products of marginals (§2.4).

u_ij = artanh(tanh J_ij · tanh h_ij), h_ij = Σ_k u_ki over the neighbours k of i but j: half the log odds that
i tells j. Exact on trees; with loops what was told comes back, and counts as news (Minka 2001).
"""

from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.samplers.hogwild.graph_chain import GraphChain
from flyrun.experiments.samplers.method import Arm, Method, Records, State
from flyrun.ground.numerics.state import seeded

_FIRST = 0.1  # sd of the first messages: of equal ones none would ever prefer a value


def prepare(arm: Arm, folder: Path) -> Method:
    """The method of an arm; errors as the data's."""
    return BeliefPropagation(arm)


class BeliefPropagation(GraphChain):
    """A step is a round: every variable tells every neighbour, all at once."""

    answers = "density"
    unit = "round"
    shown = ("{queries} messages/round",)
    label, exact = "Loopy belief propagation", False

    def __init__(self, arm: Arm):
        super().__init__(arm)
        ends = self.graph.pairs.ends
        self.source, self.place = ends.T.ravel(), ends[:, ::-1].T.ravel()  # of messages, pair by pair
        self.coupling = 0.5 * self.graph.pairs.strength
        self.counts = {}

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Messages (2F,), those of pair f from i to j and, at F + f, from j to i."""
        return {"told": _FIRST * seeded(seed, self.arm.method()).standard_normal(len(self.source))}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        messages, damping = state["told"], self.arm.sampler.damping
        tanh = np.tanh(np.tile(self.coupling, 2))
        for _ in range(n):
            messages = messages + damping * (np.arctanh(tanh * np.tanh(self._known(messages))) - messages)
        spent = np.full(n, float(len(messages)))
        return {"told": messages}, {"queries": spent, "visits": spent}

    def _known(self, messages: np.ndarray) -> np.ndarray:
        """h, (2F,): what a message's source knows but for what it heard from that neighbour."""
        heard = np.bincount(self.place, messages, minlength=self.n)
        return heard[self.source] - np.roll(messages, len(self.coupling))

    def agreement(self, state: State) -> np.ndarray:
        """P(x_i = x_j) by the belief of each pair, (F,)."""
        first, other = np.split(self._known(state["told"]), 2)
        odds = (
            2 * self.coupling
            + np.logaddexp(first + other, -first - other)
            - np.logaddexp(first - other, other - first)
        )
        return 1 / (1 + np.exp(-odds))

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        return {"agreement": np.array(self.agreement(state).mean())}

    def result(self, state: State) -> dict[str, np.ndarray]:
        """log_odds: of each variable, (n,)."""
        return {"log_odds": 2 * np.bincount(self.place, state["told"], minlength=self.n)}
