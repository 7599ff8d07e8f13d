"""Prefetching: one chain's next steps evaluated side by side, before it is known which of them it takes.

Or by scheme=divided its next step alone, each worker with a share of the rows (section 4.1.1).
Angelino, Johnson & Adams (2016), section 4.1.2, after Brockwell (2006), Byrd et al. (2008), Strid (2010)
and Angelino et al. (2014); and a path foretold by the quadratic at the MAP. Every scheme, however many and
whatever its workers are, gives the draws of the chain of one worker, bit for bit; scheme=delayed has a chain
of its own, of the same posterior.
"""

import math
import time
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import Problem, log_priors, prior_curvature
from flyrun.experiments.samplers.method import Arm, Method, Records, State, first_step
from flyrun.experiments.samplers.on_data import OnData
from flyrun.experiments.samplers.parallel.blocks import Blocks, problem_of
from flyrun.experiments.samplers.parallel.foresight import Memory, Quadratic
from flyrun.experiments.samplers.parallel.hub import COUNTS, Hub
from flyrun.experiments.samplers.parallel.schemes import SCHEMES, Delayed, Foretold, depth, expected_steps
from flyrun.experiments.samplers.parallel.team import Real, Simulated, sums_of
from flyrun.experiments.samplers.parallel.tree import Point, Tree
from flyrun.experiments.samplers.parallel.walk import Step, Walk, key_of
from flyrun.experiments.samplers.pools import pool
from flyrun.ground.children import cores
from flyrun.ground.errors import ConfigError, FlyrunError

_TEAMS = 4  # that are started before it is given up


def prepare(arm: Arm, folder: Path) -> Method:
    """The method of an arm. ConfigError where the data have fewer rows than there are to be blocks."""
    problem = problem_of(arm, folder)
    if arm.sampler.batches > (n_data := len(problem.features.rows)):
        raise ConfigError(
            f"sampler.batches={arm.sampler.batches}: the data have {n_data:,} rows; take at most as many"
        )
    return Prefetching(arm, problem, folder)


class Prefetching(OnData):
    """A step is an iteration of the chain. What a round costs is told of the first step that it decides.

    The state has the chain's position, its likelihood by blocks and its step, what earlier tests tell, and
    the nodes ahead of which sums are known, so that a round may be cut anywhere.
    """

    unit = "iteration"
    shown = ("accepted {accepted:.2f}, {queries} queries/iter",)
    label, exact = "Prefetching", True

    def __init__(self, arm: Arm, problem: Problem, folder: Path):
        super().__init__(arm, problem)
        self.folder = folder
        self.blocks = Blocks(problem, self.config.batches, self.config.pause)
        self.scheme = SCHEMES[self.config.scheme]
        self.root: np.ndarray = np.eye(self.n_params)
        self.quadratic: Quadratic | None = None
        began = time.perf_counter()
        if self.config.at_map:
            peak = passes.look(arm.model.code, problem.model, problem.features, problem.fit.theta_map)
            self.own_queries += self.n_data
            if self.config.metric == "hessian":
                curvature = peak.curvature + prior_curvature(arm, problem)
                self.root = np.linalg.cholesky(np.linalg.inv(curvature))
            if self.scheme in (Foretold, Delayed):
                self.quadratic = Quadratic(problem.fit.theta_map, peak.gradient, peak.curvature)
        self.evaluation_s = self._timed()
        self.own_queries += 2 * self.n_data
        self.own_seconds += time.perf_counter() - began

    def _timed(self) -> float:
        """Seconds of an evaluation of the likelihood, the second one: the first compiles."""
        for _ in range(2):
            began = time.perf_counter()
            self.blocks.sums(np.zeros(self.n_params), 0, self.blocks.count)
        return time.perf_counter() - began

    @property
    def parts(self) -> tuple[Any, ...]:
        """The shape of the steps, and the MAP."""
        return self.root, self.problem.fit.theta_map

    @cached_property
    def real(self) -> Real | None:
        """The workers, started; None where they are simulated."""
        workers, team = self.config.workers, self.config.team
        if team == "simulated":
            return None
        sums = self.blocks.sums if team == "threads" else partial(sums_of, self.arm, self.folder.absolute())
        return Real(workers, pool(team, workers), sums)

    @cached_property
    def message_s(self) -> float | None:
        """Seconds that real workers take for a round without work."""
        return None if self.real is None else self.real.message_s(np.zeros(self.n_params))

    def warm_up(self) -> float:
        """Workers are started, and wait."""
        began = time.perf_counter()
        first_step(self)
        _ = self.message_s
        return time.perf_counter() - began

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The starting point, and the key of the chain's random numbers."""
        step = self.config.step or 2.38 / np.sqrt(self.n_params)  # Roberts et al.'s guess
        chain = replace(self.arm, sampler=self.config.alone())
        return {
            "theta": self.starting_point(seed), "sums": np.zeros(0), "step": np.array([np.log(step), 0.0]),
            "iteration": np.zeros(1, np.int64), "key": key_of(seed, chain.method()),
            "memory": np.zeros(5), "counts": np.zeros(len(COUNTS)), "clock": np.zeros(1),
            "after": np.zeros(3),
            "ahead_path": np.zeros(0, "U1"), "ahead_sums": np.zeros((0, self.blocks.count)),
        }  # fmt: skip

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more iterations. Draws: theta (n // thin, P); by step, (n,): accepted, what the hub counts, and
        how long it took in evaluations (simulated) or seconds; with a quadratic, whether it was wrong, and by
        scheme=delayed whether the likelihood was asked for.

        A worker process that dies takes its team along; another one does these iterations again.
        """
        for _ in range(_TEAMS):
            try:
                return self._advance(state, n)
            except BrokenExecutor:
                del self.real
        raise FlyrunError(
            f"workers died in {_TEAMS} teams; out of memory? fewer need less: sampler.workers=1"
        )

    def _advance(self, state: State, n: int) -> tuple[State, Records]:
        tree, memory, team = self._tree(state), Memory(state["memory"]), self._team(state)
        scheme = self.scheme(self.config.workers, memory, self.quadratic)
        hub = Hub(tree, scheme, team, self.blocks, state["counts"])
        after, thin, burn_in = state["after"].copy(), self.arm.protocol.thin, self.arm.protocol.burn_in
        accepted, tested, wrong, kept = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n), []
        counted, clock = [state["counts"]], [float(state["clock"][0])]
        began, before = time.perf_counter(), clock[0]

        def now() -> float:
            return team.clock if isinstance(team, Simulated) else before + time.perf_counter() - began

        hub.know(tree.root.current)
        for k in range(n):
            accepted[k] = hub.decide()
            root = tree.root
            tested[k] = root.passes
            if tested[k]:
                memory.learn(root, accepted[k])
            if self.quadratic is not None:
                wrong[k] = scheme.chance(tree, root) != accepted[k]
            if root.t >= burn_in:
                after += (1.0, accepted[k], wrong[k])
            tree.advance(bool(accepted[k]))
            counted.append(hub.counts())
            clock.append(now())
            if (root.t + 1) % thin == 0:
                kept.append(tree.root.current.theta)
        hub.drain()
        counted[-1], clock[-1] = hub.counts(), now()  # with what real workers were still at
        records = dict(zip(COUNTS, np.diff(counted, axis=0).T, strict=True))
        records["evaluations" if isinstance(team, Simulated) else "seconds"] = np.diff(clock)
        if self.quadratic is not None:
            records |= {"wrong": wrong} if self.scheme is Foretold else {"wrong": wrong, "tested": tested}
        new = {
            "memory": memory.values(),
            "counts": counted[-1],
            "clock": np.array([clock[-1]]),
            "after": after,
        }
        draws = np.array(kept).reshape(-1, self.n_params)
        return state | new | self._of_tree(tree), {"theta": draws, "accepted": accepted, **records}

    def _team(self, state: State) -> Simulated | Real:
        if self.real is not None:
            return self.real
        clock, config = float(state["clock"][0]), self.config
        return Simulated(config.workers, self.blocks.sums, self.blocks.count, config.latency, clock)

    def _tree(self, state: State) -> Tree:
        config, burn_in = self.config, self.arm.protocol.burn_in
        walk = Walk(state["key"], self.root, config.target_accept, burn_in, config.step is not None)
        start = Point(state["theta"].copy(), self._log_prior(state["theta"]), state["sums"].tolist())
        t = int(state["iteration"][0])
        cheap = self.quadratic.log_ratio if self.quadratic and self.scheme is Delayed else None
        tree = Tree(walk, self._log_prior, self.blocks.count, t, start, Step(*state["step"].tolist()), cheap)
        for path, sums in zip(state["ahead_path"], state["ahead_sums"], strict=True):
            tree.at(str(path)).proposal.sums = sums[~np.isnan(sums)].tolist()
        return tree

    def _of_tree(self, tree: Tree) -> State:
        root, ahead = tree.root, dict(tree.ahead())
        paths = np.array(list(ahead), str) if ahead else np.zeros(0, "U1")
        known = np.full((len(ahead), self.blocks.count), np.nan)
        for row, point in zip(known, ahead.values(), strict=True):
            row[: len(point.sums)] = point.sums
        return {
            "theta": root.current.theta, "sums": np.array(root.current.sums),
            "step": np.array(root.step), "iteration": np.array([root.t]),
            "ahead_path": paths, "ahead_sums": known,
        }  # fmt: skip

    def _log_prior(self, theta: np.ndarray) -> float:
        return float(log_priors(self.problem.prior, theta[None])[0])

    def notes(self) -> list[str]:
        """Where workers have nothing to do, or gain less than their messages cost."""
        workers, lines = self.config.workers, []
        whole = 2 ** depth(workers) - 1
        if self.config.scheme == "naive" and whole < workers:
            lines.append(f"sampler.workers={workers}: scheme=naive uses {whole}, one less than a power of 2")
        if self.config.scheme == "divided" and (rest := self.config.batches % workers):
            even = self.config.batches + workers - rest
            lines.append(f"sampler.batches={even} would give {workers} workers of scheme=divided even shares")
        if self.message_s is None or workers == 1:
            return lines
        if workers > cores():
            lines.append(f"sampler.workers={workers}: there are {cores()} cores, which they will share")
        least = (
            self.config.shares
            * self.message_s
            / max(self.expected(self.config.target_accept, 0.0) - 1.0, 1e-9)
        )
        if self.evaluation_s < least:
            taken, message, even = (f"{1e3 * s:.2g} ms" for s in (self.evaluation_s, self.message_s, least))
            lines.append(
                f"an evaluation takes {taken}, messages {message} a round: {workers} workers pay from {even} "
                "an evaluation on; sampler.workers=1 will be quicker"
            )
        return lines

    def expected(self, rate: float, wrong: float) -> float:
        """Steps in the time of an evaluation; where no theory is, as with predictive, the static one's."""
        if self.config.scheme == "divided":
            return self.config.batches / math.ceil(self.config.batches / self.config.workers)
        scheme = "static" if self.config.scheme == "predictive" else self.config.scheme
        return expected_steps(scheme, self.config.workers, rate, wrong)

    def more(self, state: State | None) -> dict[str, Any]:
        """The team, and the theory at what was seen after burn-in."""
        facts: dict[str, Any] = {"evaluation_s": self.evaluation_s, "message_s": self.message_s}
        facts["workers"] = self.config.workers
        if state is not None:
            facts |= zip(("rounds", "bytes"), state["counts"][2:].tolist(), strict=True)
        if state is not None and (tests := state["after"][0]):
            rate, wrong = (float(number) for number in state["after"][1:] / tests)
            facts |= {"foretold_wrong": wrong} if self.quadratic else {}
            if self.config.scheme != "predictive":
                facts["expected_steps"] = self.expected(rate, wrong)
        return facts
