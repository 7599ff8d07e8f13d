"""Candidates, acceptance and queries per effective draw of exact methods, from leverages, before sampling.

Positions are taken from the Gaussian at the MAP, which proposals come from and the posterior nearly is.
So many candidates as C·M says are read; what all data do to the ratio together is taken from the highest
order that is known, what each does besides from the first term of its remainder, its predictor moving by
s_n times a standard normal. No likelihood is evaluated beyond what sets the methods up.
"""

from dataclasses import dataclass
from math import factorial, sqrt

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models.problem import Problem, log_priors
from flyrun.experiments.models.ranges import reach
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.chain.surrogate.remainder import Remainder
from flyrun.experiments.samplers.chain.surrogate.taylor import Surrogate, summed
from flyrun.ground.numerics.compiled import jit

DRAWS = 400


@dataclass(frozen=True)
class Expected:
    """What one method is expected to cost.

    candidates: data drawn for a test, or looked at in a Zig-Zag's unit of time; None where all are read.
    queries: likelihoods evaluated for an effective draw.  setup: before the first one.
    """

    name: str
    overrides: str
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
def _reaches(bounds, theta, proposal, here, there, out):
    for g in range(here.shape[0]):
        out[g] = reach(bounds, theta[g], proposal[g], here[g], there[g])


def expected(arm: Arm, problem: Problem, seed: int = 0) -> list[Expected]:
    """Of each exact method that the model serves, cheapest draw first. arm: its model and prior."""
    return _Planner(arm, problem, seed).all()


class _Planner:
    def __init__(self, arm: Arm, problem: Problem, seed: int):
        self.arm, self.problem = arm, problem
        self.setup, self.rng = Setup(arm, problem), np.random.default_rng(seed)
        self.n_data, size = len(problem.features.rows), len(problem.fit.theta_map)
        self.here, self.there = self.rng.standard_normal((2, DRAWS, size))
        self.orders = arm.model.orders
        self.height, self.ahead = np.zeros((2, DRAWS))
        self.alone = problem.model.n_predictors == 1

    def all(self) -> list[Expected]:
        methods, passes = [], {}
        for order in (1, 2, 3):
            if order in self.orders:
                self.setup.surrogate(order), self.setup.remainder(order)
                passes[order] = self.problem.fit.queries + self.setup.queries
        # what the posterior is over the Gaussian, to the highest order that is known
        self.height = self._height(max(passes), self.here)
        self.ahead = self._height(max(passes), self.there)
        if self.alone and 3 in self.orders:
            exact, repeats = self._acceptance(True)
            overrides, cost = "sampler=pcn acceptance=exact", self.problem.fit.queries + 2 * self.n_data
            methods.append(Expected("independence", overrides, None, exact, self.n_data * repeats, cost))
        for name, order in (("smh", 2), ("tuna", 2), ("mh_ss", 2), ("mh_ss", 3)):
            if order in passes:
                overrides = f"sampler=pcn acceptance={name} acceptance.order={order}"
                methods.append(self._thinned(name, order, True, overrides, passes[order]))
        for order in (2, 3):
            if order in passes:
                overrides = f"sampler=surrogate_transition acceptance=mh_ss acceptance.order={order}"
                # on the way to the test the surrogate of this order has had its say
                left = order < max(passes)
                methods.append(self._thinned("mh_ss", order, left, overrides, passes[order]))
        for order in (1, 2):
            if self.alone and self.arm.prior.smooth and 3 in self.orders:
                methods.append(self._zigzag(order, passes[order] + self.n_data))
        return sorted(methods, key=lambda method: method.queries)

    def _height(self, order: int, phis: np.ndarray) -> np.ndarray:
        """log of prior × surrogate over N(0, I), (G,)."""
        surrogate = self.setup.surrogate(order)
        heights = np.empty(len(phis))
        _heights(surrogate, np.ascontiguousarray(phis), heights)
        return (
            heights
            + log_priors(self.problem.prior, surrogate.mean + phis @ surrogate.colour.T)
            + 0.5 * (phis**2).sum(1)
        )

    def _acceptance(self, left: bool, logs: float | np.ndarray = 0.0) -> tuple[float, float]:
        """E a(φ) and E (2 − a)/a, a = E min(1, ratio) over proposals, φ weighed to be the posterior's.

        The second: so many independent proposals make an effective draw, more where some φ are seldom left.
        """
        gain = self.ahead[None] - self.height[:, None] if left else np.zeros((DRAWS, 1))
        each = np.maximum(np.exp(np.minimum(0.0, gain + logs)).mean(axis=1), 1e-9)
        weight = np.exp(self.height - self.height.max())
        weight /= weight.sum()
        return float(weight @ each), float(weight @ ((2.0 - each) / each))

    def _thinned(self, name: str, order: int, left: bool, overrides: str, setup: int) -> Expected:
        """left: whether the test is of what the posterior is over the Gaussian, too."""
        bounds = self.setup.remainder(order)
        distance = np.empty(DRAWS)
        surrogate = self.setup.surrogate(order)
        theta, proposal = (surrogate.mean + phis @ surrogate.colour.T for phis in (self.here, self.there))
        _reaches(bounds.bounds, theta, proposal, self.here, self.there, distance)
        read = mean = np.minimum(bounds.total * distance, self.n_data)
        counts = self.rng.poisson(mean)
        acceptance, repeats = None, 1.0
        if self.alone:
            logs, refuses = self._factors(name, order, bounds, distance, counts)
            if name == "smh":
                acceptance, repeats = self._acceptance(False, refuses)
                # as many as up to the first that refuses, each with that chance
                chance = np.maximum(-np.expm1(refuses / np.maximum(counts, 1)), 1e-12)
                read = -np.expm1(-chance * mean) / chance
            else:
                acceptance, repeats = self._acceptance(left, logs)
        label = "surrogate_transition" if "transition" in overrides else name
        queries, name = 2.0 * float(read.mean()), f"{label}, order {order}"
        return Expected(name, overrides, queries / 2.0, acceptance, queries * repeats, setup)

    def _factors(
        self, name: str, order: int, bounds: Remainder, distance: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sums over candidates of pairs of positions, (G,): log factors, and log chances not to refuse."""
        which = np.repeat(np.arange(DRAWS), counts)
        share = bounds.weights / bounds.total
        n = self.rng.choice(self.n_data, size=len(which), p=share)
        module, model, surrogate = self.setup.module, self.problem.model, self.setup.surrogate(order)
        first = module.derivative(model, surrogate.predictors, order + 1)[n] / factorial(order + 1)
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
        logs, stays = (np.bincount(which, weights=values, minlength=DRAWS) for values in (logs, stays))
        return logs, stays

    def _zigzag(self, order: int, setup: int) -> Expected:
        # the bound holds Σ_n c_n Σ_i|x̃_ni|; a whitened row's absolute values add up to √(2P/π) of its length
        size, roots = self.here.shape[1], self.setup.roots_of_leverages
        surrogate: Surrogate = self.setup.surrogate(order)
        module, model = self.setup.module, self.problem.model
        kappa = module.remainder_constants(model, surrogate.predictors, order, True)
        wide = sqrt(2.0 * size / np.pi)
        looks = float((kappa * roots ** (order + 1)).sum()) / order * wide
        looks *= float(((self.here**2).sum(axis=1) ** (0.5 * order)).mean())
        # how often data flip a coordinate in vain, beyond what their sum asks for: half of what they push by,
        # |f''δ| or |½f'''δ²| with δ ~ N(0, s_n²), less the push of all together
        each = np.abs(module.derivative(model, surrogate.predictors, order + 1)) * roots**order
        each *= sqrt(2.0 / np.pi) if order == 1 else 0.5
        together = sqrt(2.0 / np.pi) * float(np.trace(surrogate.bend)) / size if order == 1 else 0.0
        vain = max(0.0, 0.5 * (wide / size * float((each * roots).sum()) - together))
        overrides = f"sampler=zigzag sampler.order={order} protocol.init=map"
        return Expected(f"zigzag, order {order}", overrides, looks, None, looks * zigzag_time(vain), setup)


def zigzag_time(vain: float) -> float:
    """Units of time that an effective draw takes a Zig-Zag on N(0, I) each of whose coordinates flips `vain`
    times more in one than it must.

    The asymptotic variance of a coordinate's mean: with rates (vφ)₊ + γ its Poisson equation has the solution
    a(φ) + v, a' = |φ| + 2γ, and 2 E a' = √(8/π) + 4γ. A square's mean takes √(8/π) + 2γ.
    """
    return sqrt(8.0 / np.pi) + 4.0 * vain
