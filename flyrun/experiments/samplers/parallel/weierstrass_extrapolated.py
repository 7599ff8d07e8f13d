"""Weierstrass Gibbs at h → 0: its bias is linear in h² (Rendell et al. 2021, §3), so two chains tell it.

With kernels of r and of r/2, E f at 0 is 2·E_{r/2} f − E_r f: draws of the narrow chain with weight 2, of the
wide one with weight −1. Handed in are draws of each an autocorrelation time, (2 + r)/r rounds, apart.
"""

from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.models.problem import bind, of_positions
from flyrun.experiments.samplers.method import Arm, Method, Records, State
from flyrun.experiments.samplers.on_data import OnData

_WEIGHTS = (-1.0, 2.0)


def prepare(arm: Arm, folder: Path) -> Method:
    """The method of an arm; errors as bind's."""
    return Extrapolated(arm, bind(arm, folder, needs_map=False))


class Extrapolated(OnData):
    """One step, which costs what both chains did, set-up included."""

    answers, label = "weighted", "Weierstrass Gibbs, extrapolated"
    shown = ("{queries} queries",)

    warm_up = Method.warm_up  # the first state needs both chains' cells

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Draws, weights and costs of both cells."""
        draws, spent, sent = [], np.zeros(3), np.zeros(2)
        for cell in needed:
            with cell.file() as file:
                draws.append(file["posterior/theta"][0])
                spent += [file["estimate"][name][-1] for name in ("queries", "span", "seconds")]
            sent += [cell.info["facts"][name] for name in ("rounds", "bytes")]
        weight = [np.full(len(part), w / len(part)) for part, w in zip(draws, _WEIGHTS, strict=True)]
        both = {"theta": np.concatenate(draws), "weight": np.concatenate(weight)}
        return {**both, "spent": spent, "told": sent, "first": np.array([len(draws[0])])}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """The cost of both chains, at the first step."""
        names = ("queries", "span", "seconds")
        costs = {
            name: np.append(cost, np.zeros(n - 1)) for name, cost in zip(names, state["spent"], strict=True)
        }
        return {**state, "spent": np.zeros(3)}, costs

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        return of_positions(self.arm, self.problem, state["theta"], state["weight"])

    def result(self, state: State) -> dict[str, np.ndarray]:
        """Draws (M, P) of each chain as far apart as it takes to forget, logs of weights, (M,), and signs."""
        wide, first, thin = self.arm.sampler.bandwidth, int(state["first"][0]), self.arm.protocol.thin
        kept = []
        for low, high, r in ((0, first, wide), (first, len(state["theta"]), wide / 2)):
            kept.append(np.arange(low, high, max(1, round((2.0 + r) / r / thin))))
        weight = np.concatenate(
            [np.full(len(index), w / len(index)) for index, w in zip(kept, _WEIGHTS, strict=True)]
        )
        sign = np.sign(weight).astype(np.int8)
        return {
            "theta": state["theta"][np.concatenate(kept)],
            "log_weight": np.log(np.abs(weight)),
            "sign": sign,
        }

    def more(self, state: State | None) -> dict[str, Any]:
        """Rounds and bytes of both chains."""
        totals = [] if state is None else zip(("rounds", "bytes"), state["told"].tolist(), strict=True)
        return {"workers": self.arm.sampler.shards, **dict(totals)}
