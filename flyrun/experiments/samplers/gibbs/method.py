"""The family of Gibbs samplers: a chain of single-variable updates. One iteration is a sweep of n updates.

The chain begins with all variables equal, as in the paper.
"""

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.samplers.gibbs.loop import (
    begin_chain,
    empty_sweeps,
    no_marginals,
    run_sweeps,
    scan_of,
)
from flyrun.experiments.samplers.method import Arm, Facts, Records, State
from flyrun.experiments.samplers.on_graph import OnGraph
from flyrun.ground.numerics.state import arrays_of, generator, generator_state, seeded, with_arrays


def prepare(arm: Arm, folder: Path) -> "SingleSite":
    """Load the graph of an arm and bind model and sampler to it. DataError or ConfigError, one line each."""
    return SingleSite(arm)


class SingleSite(OnGraph):
    """One arm, ready to run chains from any seed."""

    shown = ("accepted {accepted:.2f}", "{nominal} factors/update ({actual} looked at)")

    def __init__(self, arm: Arm):
        super().__init__(arm)
        started, self.sampler = time.perf_counter(), arm.sampler.code
        self._kernel = self.sampler.build(arm.sampler, self.graph)
        self._scan = scan_of(self.n, arm.sampler.scan)
        self._marginals = no_marginals(self.n, self.graph.bounds.n_values)
        self._setup_s += time.perf_counter() - started

    @property
    def parts(self) -> tuple[Any, ...]:
        """What is set up before any chain: the graph, and what updates are made of."""
        return self.graph, self._kernel

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """First state of a chain: all variables 0. Arms of one seed share their start, not their luck."""
        rng = seeded(seed, self.arm.method())
        memory = with_arrays(self._kernel.memory, arrays_of(self._kernel.memory, ""), "")
        kernel = self._kernel._replace(memory=memory)
        x = np.zeros(self.n, np.int32)
        begin_chain(rng, self.graph, kernel, x)
        return self._state(rng, kernel, self._marginals, x, np.zeros(1, np.int64))

    def _state(self, rng, kernel, marginals, x, clock) -> State:
        return {
            "x": x,
            "clock": clock,
            "rng": generator_state(rng),
            **arrays_of(kernel.memory, "memory"),
            **arrays_of(marginals, "marginals"),
        }

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more sweeps from `state`, which stays as it is.

        Draws: theta (n // thin, variables) int32, and by sweep error, nominal, actual, accepted, changed (see
        SweepDraws), energy ζ(x), agreement of neighbours, and seconds spent sampling, without what watching
        costs. All but the seconds are the same wherever chunks are cut.
        """
        rng, x, clock = generator(state["rng"]), state["x"].copy(), state["clock"].copy()
        kernel = self._kernel._replace(memory=with_arrays(self._kernel.memory, state, "memory"))
        marginals = with_arrays(self._marginals, state, "marginals")
        draws = empty_sweeps(n, self.n)
        first = int(clock[0]) // self.n
        started = time.perf_counter()
        run_sweeps(rng, self.graph, kernel, x, marginals, clock, draws, self._scan)
        seconds = (time.perf_counter() - started) / n
        by_sweep = draws._asdict()
        states = by_sweep.pop("states")
        energy, agreement = self.watched(states)
        thin = self.arm.protocol.thin
        kept = states[(np.arange(first, first + n) + 1) % thin == 0]
        watched = {"energy": energy, "agreement": agreement, "seconds": np.full(n, seconds)}
        watched["queries"] = by_sweep["actual"] * self.n
        return self._state(rng, kernel, marginals, x, clock), {"theta": kept, **by_sweep, **watched}

    def of_draws(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Indicators of each variable's values, (k, variables, values): their means are the marginals."""
        return {"marginals": theta[..., None] == np.arange(self.graph.bounds.n_values)}

    def facts(self, state: State | None = None) -> Facts:
        """What the report says of this arm: the graph's constants, exactness, batches, cost of setting up."""
        bounds, scan = self.graph.bounds, self.arm.sampler.scan
        return Facts(
            update=self.sampler.LABEL + ("" if scan == "random" else f", {scan} scan"),
            exact=self.sampler.EXACT and all(getattr(part, "exact", True) for part in _parts(self._kernel)),
            coordinates=tuple(f"x{i}" for i in range(self.n)),
            setup_s=self._setup_s,
            more={
                "n_variables": self.n,
                "n_values": bounds.n_values,
                "largest_degree": bounds.largest_degree,
                "local_energy_bound": bounds.largest_local,
                "total_energy_bound": bounds.total,
                "neighbour_pairs": len(self.ends),
                "start_error": float(np.sqrt(1.0 - 1.0 / bounds.sizes).mean()),
                "estimator": _estimator(self._kernel),
                "batches": _batches(self._kernel),
            },
        )


def _parts(kernel: NamedTuple) -> list[Any]:
    return [getattr(kernel, name) for name in ("proposal", "estimator") if hasattr(kernel, name)]


def _estimator(kernel: NamedTuple) -> str:
    """How batches are drawn: "faithful", "superposed", "biased", "subset", or two where they differ."""
    names = [type(part).__name__ for part in _parts(kernel)]
    kinds = (
        next((kind for kind in ("superposed", "biased", "subset") if kind in name.lower()), "")
        for name in names
    )
    return " + ".join(dict.fromkeys(kind or "faithful" for kind in kinds)) or "none"


def _batches(kernel: NamedTuple) -> list[float]:
    """Mean batch sizes λ (or B)."""
    holders = [kernel, *_parts(kernel)]
    return [float(part.batch) for part in holders if hasattr(part, "batch")]
