"""Pathfinder (Zhang, Carpenter, Gelman & Vehtari 2022): the best Gaussian along a climb to the mode.

L-BFGS estimates the inverse curvature H at every point x of its path from the last J steps and what they did
to the slope g; N(x + Hg, H) is a Gaussian there, and of all of them the one of the highest bound is kept. The
path's next step is towards its centre x + Hg.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import Problem, draw_prior, log_densities, log_priors, prior_scores
from flyrun.experiments.samplers.approximations import method
from flyrun.experiments.samplers.approximations.method import GaussianAnswer
from flyrun.experiments.samplers.method import Arm, Records, State
from flyrun.ground.errors import FlyrunError
from flyrun.ground.numerics.state import generator, generator_state, seeded

_CLOSE = 2e-12  # of the log density: a step that gains less is the last, as in the paper
_CURVED = 1e-12  # least curvature along a step, by its change of slope
_ENOUGH, _TRIES = 1e-4, 40  # of the slope's promise (Armijo's rule); shorter and shorter steps


class Inverse(NamedTuple):
    """H = RRᵀ, R = A^½(QTQᵀ + I − QQᵀ), A diagonal, T lower triangular: O(PJ) numbers."""

    root: np.ndarray  # A^½, (P,)
    basis: np.ndarray  # Q, (P, m)
    inner: np.ndarray  # T, (m, m)

    def half(self, noise: np.ndarray) -> np.ndarray:
        """R times each of (n, P)."""
        within = noise @ self.basis
        return self.root * (noise + (within @ self.inner.T - within) @ self.basis.T)

    def half_back(self, vector: np.ndarray) -> np.ndarray:
        """Rᵀ times (P,)."""
        scaled = self.root * vector
        within = self.basis.T @ scaled
        return scaled + self.basis @ (self.inner.T @ within - within)

    @property
    def log_determinant(self) -> float:
        """Of R."""
        return float(np.log(self.root).sum() + np.log(np.diag(self.inner)).sum())


def inverse_of(diagonal: np.ndarray, steps: np.ndarray, bends: np.ndarray) -> Inverse:
    """H of m steps s and changes of minus the slope y, (m, P) each, oldest first, from diag(diagonal).

    The compact form of BFGS updates (Byrd, Nocedal & Schnabel 1994, eq. 2.6). Where rounding makes it
    indefinite the oldest are left out.
    """
    root, m = np.sqrt(diagonal), len(steps)
    products = steps @ bends.T
    upper = np.linalg.inv(np.triu(products))  # R⁻¹
    middle = np.zeros((2 * m, 2 * m))
    middle[:m, :m] = upper.T @ (np.diag(np.diag(products)) + (bends * diagonal) @ bends.T) @ upper
    middle[:m, m:], middle[m:, :m] = -upper.T, -upper
    basis, spread = np.linalg.qr(np.vstack([steps / root, bends * root]).T)
    try:
        inner = np.linalg.cholesky(np.eye(len(spread)) + spread @ middle @ spread.T)
    except np.linalg.LinAlgError:
        return inverse_of(diagonal, steps[1:], bends[1:])
    return Inverse(root, basis, inner)


def diagonal_after(diagonal: np.ndarray, step: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """The diagonal after one more pair, (P,) (Gilbert & Lemaréchal 1989; the paper's Algorithm 3)."""
    a, b, c = bend @ (diagonal * bend), bend @ step, step @ (step / diagonal)
    return 1 / (a / (b * diagonal) + bend**2 / b - a * step**2 / (b * c * diagonal**2))


class Pathfinder(GaussianAnswer):
    """A step is one of the path, N queries a slope and K·N a bound; at the mode steps do nothing."""

    label = "Pathfinder"

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        self.prior_variance = 1 / method.ridge_of(arm, problem)

    def log_posterior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and slope, (P,), at a position (P,): N queries."""
        model, features = self.problem.model, self.problem.features
        value, slope = passes.slope(self.arm.model.code, model, features, theta)
        value += log_priors(self.problem.prior, theta[None])[0]
        return value, slope + prior_scores(self.arm, self.problem, theta)

    def log_posteriors(self, theta: np.ndarray) -> np.ndarray:
        """Values, (K,), at positions (K, P): N queries each, one pass."""
        prior, likelihood = log_densities(self.arm, self.problem, theta)
        return prior + likelihood

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Where the path begins, (P,): a draw from the prior."""
        return draw_prior(self.problem, rng, 1)[0]

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The path's beginning; the Gaussian is the prior until there is another."""
        rng = seeded(seed, self.arm.method())
        position = self.start(rng)
        size = len(position)
        diagonal, none = np.full(size, self.prior_variance), np.zeros((0, size))
        return {
            "position": position, "slope": np.zeros(size), "value": np.full(1, -np.inf),
            "diagonal": diagonal, "steps": none, "bends": none, "done": np.zeros(1, bool),
            "mean": np.zeros(size), "root": np.diag(np.sqrt(diagonal)), "elbo": np.full(1, -np.inf),
            "rng": generator_state(rng),
        }  # fmt: skip

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more steps of the path, until it ends."""
        records = {name: np.zeros(n) for name in ("queries", "visits", "elbo")}
        for i in range(n):
            if not state["done"][0]:
                state, looks = self._step(state)
                records["queries"][i] = (looks + self.config.draws) * self.n_data
                records["visits"][i] = (looks + 1) * self.n_data
            records["elbo"][i] = state["elbo"][0]
        return state, records

    def _step(self, state: State) -> tuple[State, int]:
        """Up to the next point and the Gaussian there; how many slopes it took."""
        position, slope, value = state["position"], state["slope"], float(state["value"][0])
        looks = 0
        if value == -np.inf:
            looks, (value, slope) = 1, self.log_posterior(position)
            if not np.isfinite(value):
                raise FlyrunError(
                    "Pathfinder: the log posterior is not finite where the path begins; choose another seed "
                    "or a smaller prior.scale"
                )
        inverse = inverse_of(state["diagonal"], state["steps"], state["bends"])
        way = inverse.half(inverse.half_back(slope)[None])[0]
        promise, share = float(way @ slope), 1.0
        for _ in range(_TRIES):
            looks, there = looks + 1, position + share * way
            height, bent = self.log_posterior(there)
            if height >= value + _ENOUGH * share * promise:
                break
            short = 0.5 * share * promise / (share * promise - (height - value))  # top of the parabola
            share *= min(max(short, 0.1), 0.5) if np.isfinite(short) else 0.1
        else:
            there, height, bent = position, value, slope
        known = self._learnt(state, there - position, slope - bent)
        known["done"] = np.array([height - value <= _CLOSE * max(1.0, abs(value))])
        known |= {"position": there, "slope": bent, "value": np.array([height])}
        return {**state, **known, **self._gaussian(state, known)}, looks

    def _learnt(self, state: State, step: np.ndarray, bend: np.ndarray) -> State:
        """The diagonal (P,) and the last J pairs (J, P) with one more, unless the path curves wrongly."""
        known = {name: state[name] for name in ("diagonal", "steps", "bends")}
        if not bend @ step > _CURVED * bend @ bend:
            return known
        pairs = (("steps", step), ("bends", bend))
        latest = {name: np.vstack([known[name], new])[-self.config.memory :] for name, new in pairs}
        return latest | {"diagonal": diagonal_after(known["diagonal"], step, bend)}

    def _gaussian(self, state: State, known: State) -> State:
        """The Gaussian at the new point, if its bound, by K draws, is the highest; and the generator."""
        rng = generator(state["rng"])
        inverse = inverse_of(*(known[name] for name in ("diagonal", "steps", "bends")))
        mean = known["position"] + inverse.half(inverse.half_back(known["slope"])[None])[0]
        noise = rng.standard_normal((self.config.draws, len(mean)))
        log_q = -0.5 * (noise**2).sum(axis=1) - inverse.log_determinant - 0.5 * len(mean) * np.log(2 * np.pi)
        bound = float(np.mean(self.log_posteriors(mean + inverse.half(noise)) - log_q))
        after = {"rng": generator_state(rng)}
        if not bound > state["elbo"][0]:
            return after
        return after | {"mean": mean, "root": inverse.half(np.eye(len(mean))).T, "elbo": np.array([bound])}

    def result(self, state: State) -> dict[str, np.ndarray]:
        """Mean, (P,), and covariance, (P, P), of the best Gaussian."""
        return {"mean": state["mean"], "covariance": state["root"] @ state["root"].T}


build = Pathfinder
