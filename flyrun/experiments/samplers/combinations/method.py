"""The family of rules on subposteriors' draws: cells read, the rule applied, and what all of it cost.

A rule is one of the RULES of the module that the option names; it has draws (J, T, P) in an order of no
meaning. Draw t costs what the shards' draws t cost, on the longest path what the slowest of them does; there
is one round, at the end.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.models.problem import Problem, bind, scores
from flyrun.experiments.samplers.method import Arm, Facts, Method, Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.numerics.state import seeded
from flyrun.tables.shards import one_class, split

_NUMBER = 8  # bytes
_SPENT = ("setup_queries", "setup_span", "setup_s", "combining_s", "one_class")


def prepare(arm: Arm, folder: Path) -> Method:
    """The method of an arm; errors as bind's."""
    problem = bind(arm, folder, needs_map=False)
    split(len(problem.dataset.target), arm.dataset, arm.sampler.shards)
    return Combination(arm, problem)


class Combination(OnData):
    """One rule. The state has all draws that it made, the last handed out, and how many were.

    What comes in burn-in is the mean of the shards' own.
    """

    unit = "iteration"
    shown = ("{queries} queries/iter", "{span} of the busiest worker")

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        self.workers, self.rule = arm.sampler.shards, arm.sampler.code.RULES[arm.sampler.name]
        self.label, self.exact = self.rule.label, self.workers == 1

    warm_up = Method.warm_up  # the first state needs the shards' cells

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Combine the stored draws of the cells that are needed."""
        parts = [_Part(cell) for cell in needed]
        draws = np.stack([part.draws for part in parts])
        rng, self._looked = seeded(seed, self.arm.method()), 0
        began = time.perf_counter()
        if self.workers > 1:
            # Draws of the same number have nothing to do with each other but the start's luck.
            draws = np.stack([rng.permutation(shard) for shard in draws])
            learnt = [self._scores] if self.rule.learns else []
            combined = self.rule.combine(draws, self.arm.sampler, rng, *learnt)
        else:
            (combined,) = draws
        combining = time.perf_counter() - began
        setup = [part.info["facts"] for part in parts]
        queries = np.stack([part.queries for part in parts])
        positions = np.concatenate([np.mean([part.burn_in for part in parts], axis=0), combined])
        return {
            "theta": positions[0],
            "made": positions,
            "iteration": np.zeros(1, np.int64),
            "queries": queries.sum(axis=0),
            "span": queries.max(axis=0),
            "seconds": np.array([sum(part.seconds_a_step for part in parts)]),
            "spent": np.array(
                [
                    sum(facts["setup_queries"] for facts in setup) + self._looked * self.n_data,
                    max(facts["setup_queries"] for facts in setup)
                    + self._looked * -(-self.n_data // self.workers),
                    sum(facts["setup_s"] for facts in setup),
                    combining,
                    one_class(self.problem.dataset, self.arm.dataset, self.workers, seed),
                ]
            ),
        }

    def _scores(self, theta: np.ndarray) -> np.ndarray:
        """∇ log posterior, (S, P), at positions (S, P): N queries each, of all workers."""
        self._looked += len(theta)
        return scores(self.arm, self.problem, theta)

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more of the draws. By step queries of all workers, span of the busiest one, seconds of all."""
        first, thin = int(state["iteration"][0]), self.arm.protocol.thin
        seconds = np.repeat(state["seconds"], n)
        if first == 0:
            seconds[0] += state["spent"][_SPENT.index("combining_s")]
        steps = slice(first, first + n)
        theta = state["made"][first // thin : (first + n) // thin]
        last = theta[-1] if len(theta) else state["theta"]
        return {**state, "theta": last, "iteration": state["iteration"] + n}, {
            "theta": theta,
            "queries": state["queries"][steps],
            "span": state["span"][steps],
            "seconds": seconds,
        }

    def more(self, state: State | None) -> dict[str, Any]:
        """Every seed has a split of its own."""
        return {"workers": self.workers, "one_target": self.workers == 1}

    def facts(self, state: State | None = None) -> Facts:
        """What the shards' set-up cost once their cells are read."""
        known = super().facts(state)
        if state is None:
            return known
        spent = dict(zip(_SPENT, state["spent"].tolist(), strict=True))
        protocol, size = self.arm.protocol, self.n_params
        asked = self.arm.sampler.steps if self.rule.learns else 0  # rounds of slopes
        more = {"rounds": 1 + asked, "one_class": int(spent["one_class"])}
        sent = (protocol.iterations - protocol.burn_in) // protocol.thin * size
        if self.rule.moments:
            sent = size + size * (size + 1) // 2
        if asked:
            sent += asked * self.arm.sampler.draws * size
        return replace(
            known,
            setup_queries=int(spent["setup_queries"]),
            setup_span=int(spent["setup_span"]),
            setup_s=spent["setup_s"],
            more={**known.more, **more, "bytes": _NUMBER * self.workers * sent},
        )


class _Part:
    """What is read of a shard's cell."""

    def __init__(self, cell: Any):
        self.info = cell.info
        # without burn-in there is no such group
        *burn_in, self.draws = cell.arrays("warmup_posterior/theta", "posterior/theta")
        self.burn_in = np.concatenate([self.draws[:0], *burn_in])
        queries = cell.arrays("warmup_sample_stats/queries", "sample_stats/queries")
        self.queries = np.concatenate(queries).astype(float)
        timings = self.info["timings"]
        self.seconds_a_step = (timings["burn_in_s"] + timings["sampling_s"]) / len(self.queries)
