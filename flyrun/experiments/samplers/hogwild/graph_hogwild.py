"""Hogwild Gibbs of a graph: what is handed in is each processor's own variables, put together."""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.graphs.graph import Graph, local_energies
from flyrun.experiments.samplers.gibbs.single_site import draw_value
from flyrun.experiments.samplers.hogwild import loop
from flyrun.experiments.samplers.hogwild.graph_chain import GraphChain
from flyrun.experiments.samplers.hogwild.loop import redraw, run_rounds, team
from flyrun.experiments.samplers.method import Arm, Records, State
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.state import arrays_of, generator, generator_state, seeded, with_arrays


class GraphField(NamedTuple):
    """A graph and room for a variable's conditional."""

    graph: Graph
    energies: np.ndarray  # (D,): workspace
    weights: np.ndarray  # (D,): workspace


@implements(redraw, GraphField)
def _redraw(field, rng, x, i):
    local_energies(field.graph, i, x, field.energies)
    x[i] = draw_value(rng, field.energies, field.graph.bounds.sizes[i], field.weights)


class HogwildSites(GraphChain):
    """A step is a round. The chain begins with all variables 0."""

    unit = "round"

    def __init__(self, arm: Arm):
        super().__init__(arm)
        self.options, room = arm.sampler, (np.zeros(self.graph.bounds.n_values) for _ in range(2))
        self.owner = loop.owners(self.options, self.n)
        self._plan = loop.schedule(self.options)
        self._team = team(self.owner, np.zeros(self.n, np.int32), self._plan.late, self.options.most_late)
        self._field = GraphField(self.graph, *room)
        self.label, self.exact = f"{loop.LABEL}, {self.options.schedule}", self.options.processors == 1
        self.counts = loop.counts(self.options, self.owner, 4)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        rng = seeded(seed, self.arm.method())
        start = {"x": np.zeros(self.n, np.int32), "rng": generator_state(rng)}
        return start | arrays_of(self._team, "team")

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        rng, members = generator(state["rng"]), with_arrays(self._team, state, "team")
        states, counts = np.empty((n, self.n), np.int32), np.empty((n, 3))
        first = int(members.clock[0])
        run_rounds(rng, self._field, members, self._plan, states, counts)
        after = {"x": states[-1].copy(), "rng": generator_state(rng)} | arrays_of(members, "team")
        kept = states[(np.arange(first, first + n) + 1) % self.arm.protocol.thin == 0]
        return after, self.records(kept, *self.watched(states)) | loop.records(counts)
