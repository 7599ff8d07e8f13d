"""Candidates, acceptance and queries per effective draw of exact methods, from leverages, before sampling.

Positions are taken from the Gaussian at the MAP, which proposals come from and the posterior nearly is.
So many candidates as C·M says are read; what each does to the ratio is taken from the first term of its
remainder, its predictor moving by s_n times a standard normal. No likelihood is evaluated beyond what
sets the methods up.
"""

from dataclasses import dataclass
from math import factorial, sqrt
from typing import Any

import numpy as np

from flyrun.models.problem import Problem, log_priors
from flyrun.numerics.compiled import jit
from flyrun.samplers.chain.setup import Setup
from flyrun.samplers.chain.surrogate.remainder import Remainder, reach
from flyrun.samplers.chain.surrogate.taylor import Surrogate, summed

DRAWS = 400
#: time of a Zig-Zag that one effective draw takes on N(0, 1), the worse of means and squares; by estimators
#: that do not credit the means' negative correlations (in closed form √(8/π) = 1.60 for both)
ZIGZAG_TIME = {1: 5.0, 2: 2.4}


@dataclass(frozen=True)
class Expected:
    """What one method is expected to cost.

    candidates: data drawn for a test, or looked at in a Zig-Zag's unit of time; None where all are read.
    queries: likelihoods evaluated for an effective draw.  setup: before the first one.
    """

    name: str
    words: str
    candidates: float | None
    acceptance: float | None
    queries: float
    setup: int

    def whole(self, draws: int) -> float:
        """Queries for so many effective draws, set-up included."""
        return self.setup + draws * self.queries


@jit
def _heights(surrogate, phis, out):
    for g in range(phis.shape[0]):
        out[g] = summed(surrogate, phis[g], None)


@jit
def _reaches(order, cornish, here, there, out):
    for g in range(here.shape[0]):
        out[g] = reach(order, cornish, here[g], there[g])


def expected(arm: Any, problem: Problem, seed: int = 0) -> list[Expected]:
    """Of each exact method that the model serves, cheapest draw first. arm: its model and prior."""
    return _Planner(arm, problem, seed).all()


class _Planner:
    def __init__(self, arm: Any, problem: Problem, seed: int):
        self.arm, self.problem = arm, problem
        self.setup, self.rng = Setup(arm, problem), np.random.default_rng(seed)
        self.n_data, size = len(problem.features.rows), len(problem.fit.theta_map)
        self.here, self.there = self.rng.standard_normal((2, DRAWS, size))
        self.orders = arm.model.orders
        self.alone = problem.model.n_predictors == 1

    def all(self) -> list[Expected]:
        found, passes = [], {}
        for order in (1, 2, 3):
            if order in self.orders:
                self.setup.surrogate(order), self.setup.remainder(order)
                passes[order] = self.problem.fit.queries + self.setup.queries
        if self.alone and 3 in self.orders:
            exact = self._acceptance(self._ratio(3))
            words, cost = "sampler=pcn acceptance=exact", self.problem.fit.queries + 2 * self.n_data
            found.append(Expected("independence", words, None, exact, _per_draw(self.n_data, exact), cost))
        for name, order in (("smh", 2), ("tuna", 2), ("mh_ss", 2), ("mh_ss", 3)):
            if order in passes:
                words = f"sampler=pcn acceptance={name} acceptance.order={order}"
                found.append(self._thinned(name, order, self._ratio(order), words, passes[order]))
        for order in (2, 3):
            if order in passes:
                words = f"sampler=surrogate_transition acceptance=mh_ss acceptance.order={order}"
                one = self._thinned("mh_ss", order, np.zeros(DRAWS), words, passes[order])
                found.append(one)
        for order in (1, 2):
            if self.alone and self.arm.prior.smooth and 3 in self.orders:
                found.append(self._zigzag(order, passes[order]))
        return sorted(found, key=lambda one: one.queries)

    def _height(self, order: int, phis: np.ndarray) -> np.ndarray:
        """log of prior × surrogate over N(0, I), (G,)."""
        made = self.setup.surrogate(order)
        heights = np.empty(len(phis))
        _heights(made, np.ascontiguousarray(phis), heights)
        return (
            heights
            + log_priors(self.problem.prior, made.mean + phis @ made.colour.T)
            + 0.5 * (phis**2).sum(1)
        )

    def _ratio(self, order: int) -> np.ndarray:
        return self._height(order, self.there) - self._height(order, self.here)

    def _acceptance(self, ratio: np.ndarray) -> float:
        return float(np.exp(np.minimum(0.0, ratio)).mean())

    def _thinned(self, name: str, order: int, ratio: np.ndarray, words: str, setup: int) -> Expected:
        bounds = self.setup.remainder(order)
        distance = np.empty(DRAWS)
        _reaches(order, False, self.here, self.there, distance)
        mean = np.minimum(bounds.total * distance, self.n_data)
        counts = self.rng.poisson(mean)
        acceptance = None
        if self.alone:
            logs, refuses = self._factors(name, order, bounds, distance, counts)
            if name == "smh":
                acceptance = float((np.exp(np.minimum(0.0, ratio)) * np.exp(refuses)).mean())
            else:
                acceptance = self._acceptance(ratio + logs)
        label = "surrogate_transition" if "transition" in words else name
        queries = 2.0 * mean.mean()
        return Expected(
            f"{label}, order {order}",
            words,
            float(mean.mean()),
            acceptance,
            _per_draw(queries, acceptance),
            setup,
        )

    def _factors(
        self, name: str, order: int, bounds: Remainder, distance: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sums over candidates of pairs of positions, (G,): log factors, and log chances not to refuse."""
        which = np.repeat(np.arange(DRAWS), counts)
        share = bounds.weights / bounds.total
        n = self.rng.choice(self.n_data, size=len(which), p=share)
        module, model, made = self.setup.module, self.problem.model, self.setup.surrogate(order)
        first = module.derivative(model, made.predictors, order + 1)[n] / factorial(order + 1)
        first = first * self.setup.roots_of_leverages[n] ** (order + 1)
        here, there = self.rng.standard_normal((2, len(n)))
        room = bounds.weights[n] * distance[which]
        excess = np.clip(first * (here ** (order + 1) - there ** (order + 1)), -room, room) / room
        if name == "tuna":
            forward, back = 0.5 * (1.0 + excess), 0.5 * (1.0 - excess)
        else:
            forward, back = 1.0 + np.minimum(0.0, excess), 1.0 - np.maximum(0.0, excess)
        kept = self.rng.random(len(n)) < forward
        with np.errstate(divide="ignore"):
            logs = np.where(kept, np.log(back) - np.log(np.where(kept, forward, 1.0)), 0.0)
            stays = np.log(1.0 - np.maximum(0.0, excess))
        logs, stays = (np.bincount(which, weights=one, minlength=DRAWS) for one in (logs, stays))
        return logs, stays

    def _zigzag(self, order: int, setup: int) -> Expected:
        # the bound holds Σ_n c_n Σ_i|x̃_ni|; a whitened row's absolute values add up to √(2P/π) of its length
        size, roots = self.here.shape[1], self.setup.roots_of_leverages
        made: Surrogate = self.setup.surrogate(order)
        kappa = self.setup.module.remainder_constants(self.problem.model, made.predictors, order, True)
        total = float((kappa * roots ** (order + 1)).sum()) / order * sqrt(2.0 * size / np.pi)
        length = np.sqrt((self.here**2).sum(axis=1))
        looks = total * float((length**order).mean())
        words = f"sampler=zigzag sampler.order={order} protocol.init=map"
        return Expected(f"zigzag, order {order}", words, looks, None, looks * ZIGZAG_TIME[order], setup)


def _per_draw(queries: float, acceptance: float | None) -> float:
    """Of independent proposals: the last draw comes again with chance 1 − a; (2 − a)/a of them make one."""
    return queries if acceptance is None else queries * (2.0 - acceptance) / max(acceptance, 1e-9)
