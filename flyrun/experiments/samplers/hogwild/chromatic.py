"""Chromatic Gibbs (Gonzalez et al. 2011; Figure 4.1 of the survey): a class of a colouring at once.

Variables of a class share no factor, so that drawing them together is drawing them one by one: exact. Draws
are made of uniforms by (sweep, variable), and are the same for any number of threads. `at_once: all` draws
every variable given the last sweep: Synchronous Gibbs, which is biased.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.models.graphs.graph import local_energies
from flyrun.experiments.samplers.gibbs.single_site import value_at
from flyrun.experiments.samplers.hogwild.graph_chain import GraphChain
from flyrun.experiments.samplers.method import Arm, Method, Records, State
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.compiled import jit
from flyrun.ground.numerics.counters import uniform
from flyrun.ground.numerics.state import seeded


def classes(graph: Any, n: int) -> list[np.ndarray]:
    """Variables by colour, each (size,) int64, coloured greedily in their order: two classes for a lattice.

    graph: one of listed pairs (models/graphs/pair_factors.py). ConfigError where every pair has a factor, so
    that each class is one variable.
    """
    if not hasattr(graph.pairs, "first"):
        raise ConfigError(
            "sampler=chromatic: every pair of variables has a factor, so none can be drawn at once; choose "
            "sampler=gibbs, or dataset=lattice"
        )
    colour = np.full(n, -1, np.int64)
    seen = np.full(int(graph.bounds.degree.max(initial=0)) + 2, -1, np.int64)
    _colour(graph.pairs.first, graph.pairs.neighbour, colour, seen)
    return [np.flatnonzero(colour == shade) for shade in range(int(colour.max(initial=0)) + 1)]


@jit
def _colour(first, neighbour, colour, seen):
    """The least colour that no neighbour has. seen: (D + 2,), the last variable with a neighbour of it."""
    for i in range(colour.shape[0]):
        for k in range(first[i], first[i + 1]):
            if colour[neighbour[k]] >= 0:
                seen[colour[neighbour[k]]] = i
        c = 0
        while seen[c] == i:
            c += 1
        colour[i] = c


def prepare(arm: Arm, folder: Path) -> Method:
    """The method of an arm; ConfigError, one line, of a graph whose colours would be its variables."""
    return Chromatic(arm)


@jit
def draw_sites(graph, sites, x, out, key, first, energies, weights):
    """out[i] drawn given x, of each of the sites i, by the uniform number first + i. out: x, of a class."""
    for s in range(sites.shape[0]):
        i = sites[s]
        local_energies(graph, i, x, energies)
        out[i] = value_at(uniform(key, first + np.uint64(i)), energies, graph.bounds.sizes[i], weights)


class Chromatic(GraphChain):
    """A step is a sweep, class by class. The chain begins with all variables 0."""

    def __init__(self, arm: Arm):
        super().__init__(arm)
        started, (threads, self._all) = (
            time.perf_counter(),
            (arm.sampler.threads, arm.sampler.at_once == "all"),
        )
        groups = [np.arange(self.n)] if self._all else classes(self.graph, self.n)
        self._shares = [np.array_split(group, threads) for group in groups]
        self._room = [
            (np.zeros(self.graph.bounds.n_values), np.zeros(self.graph.bounds.n_values))
            for _ in range(threads)
        ]
        self.label, self.exact = ("Synchronous Gibbs", False) if self._all else ("Chromatic Gibbs", True)
        self.counts = {
            "workers": threads,
            "colours": len(groups),
            "updates_per_round": self.n,
            "critical_per_round": sum(max(map(len, share)) for share in self._shares),
            "bytes_per_worker": 0,
        }
        self._setup_s += time.perf_counter() - started

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        key = seeded(seed, self.arm.method()).integers(1 << 62, size=1).astype(np.uint64)
        return {"x": np.zeros(self.n, np.int32), "key": key, "clock": np.zeros(1, np.int64)}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more sweeps. seconds: of a sweep, without what watching costs; no two runs have the same."""
        x, first, thin = state["x"].copy(), int(state["clock"][0]), self.arm.protocol.thin
        kept, energy, agreement, seconds = (
            [np.empty((0, self.n), np.int32)],
            np.empty(n),
            np.empty(n),
            np.empty(n),
        )
        with ThreadPoolExecutor(self.arm.sampler.threads) as pool:
            for t in range(n):
                started = time.perf_counter()
                x = self.sweep(pool, x, state["key"][0], first + t)
                seconds[t] = time.perf_counter() - started
                energy[t : t + 1], agreement[t : t + 1] = self.watched(x[None])
                if (first + t + 1) % thin == 0:
                    kept.append(x[None].copy())
        after = {"x": x, "key": state["key"], "clock": state["clock"] + n}
        return after, self.records(np.concatenate(kept), energy, agreement) | {"seconds": seconds}

    def sweep(self, pool: ThreadPoolExecutor | None, x: np.ndarray, key: np.uint64, t: int) -> np.ndarray:
        """The position, (n,), after sweep t: x itself, changed; a new one where all are drawn at once."""
        out, first = x.copy() if self._all else x, np.uint64(t * self.n)
        for shares in self._shares:
            if pool is None or len(shares) == 1:
                for sites, room in zip(shares, self._room, strict=True):
                    draw_sites(self.graph, sites, x, out, key, first, *room)
            else:
                done = [
                    pool.submit(draw_sites, self.graph, sites, x, out, key, first, *room)
                    for sites, room in zip(shares, self._room, strict=True)
                ]
                for share in done:
                    share.result()
        return out
