"""Exact weighted draws from an approximation, each for the likelihoods of a few data (ours).

θ ~ q, the Gaussian of any approximation or the t of that shape, with a weight whose mean given θ is the
posterior's density over q's: see `remainders`. Some weights are negative. Averages under weights of sum 1
converge to the posterior's; moments use that q's are known: E θ = μ + mean of (w − 1)(θ − μ).
"""

import time
from typing import Any

import numpy as np
from scipy.special import gammaln

from flyrun.experiments.models.problem import Problem, log_priors, of_positions
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.experiments.samplers.approximations import method
from flyrun.experiments.samplers.approximations.remainders import Proposal, best_rate, draw, remainders, room
from flyrun.experiments.samplers.method import Arm, Records, State, near
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.errors import FlyrunError
from flyrun.ground.numerics.state import generator, generator_state, seeded


class Weighted(OnData):
    """A step is a draw."""

    answers, unit = "weighted", "draw"
    label, exact = "Exact weighted draws", True
    shown = ("{queries} queries/draw",)

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        started = time.perf_counter()
        inner, state, made_queries = near(arm.sampler.inner_arms(arm)[0], problem, arm.sampler.steps)
        self.mean, self.covariance = q = inner.answer(state)
        method.refuse_without_digits(arm, self.mean, np.linalg.inv(self.covariance))
        try:
            self.stands, sites, self.own, stand_queries = inner.stand(state)
        except np.linalg.LinAlgError:
            raise FlyrunError(
                f"sampler.approximation={arm.sampler.approximation}: no sites make a Gaussian where it came "
                "to; take more sampler.steps, or ep"
            ) from None
        self.penalty = priors_of(arm).penalty(problem.prior)
        self.left, self.kappa, queries = remainders(arm, problem, sites, q)
        self.own_queries = made_queries + stand_queries + queries
        freedom = arm.sampler.freedom or 0.0
        self.proposal = Proposal(self.mean, np.linalg.cholesky(self.covariance), freedom)
        self.work = room(self.n_params, problem.model.n_predictors, self.left.basis)
        self.log_scale = self._log_scale(freedom)
        self.rate = arm.sampler.queries or best_rate(self.kappa)
        self.own_seconds = time.perf_counter() - started

    def _log_scale(self, freedom: float) -> float:
        """log of ∫ posterior's density, unnormalised, over that of Σ r_n = 0 and a normalised q."""
        size, root = self.n_params, self.proposal.root
        half = float(np.log(np.diag(root)).sum())
        mean, covariance = self.stands
        nowhere = np.zeros((1, size))
        log_scale = float(log_priors(self.problem.prior, nowhere)[0]) - float(
            self.penalty.beyond_ridge(nowhere)[0]
        )
        log_scale += self.left.constant.sum()
        log_scale += 0.5 * mean @ np.linalg.solve(covariance, mean) + half + 0.5 * size * np.log(2 * np.pi)
        if freedom:
            both = gammaln(0.5 * freedom) + 0.5 * size * np.log(0.5 * freedom)
            log_scale += both - gammaln(0.5 * (freedom + size))
        return log_scale

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.mean, self.covariance, self.rate

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        rng, size = seeded(seed, self.arm.method()), self.n_params
        empty: State = {"theta": np.empty((0, size)), "log_weight": np.empty(0), "sign": np.empty(0, np.int8)}
        return {"rng": generator_state(rng), **empty}

    def _draw(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        theta, log_weight, queries = np.empty((n, self.n_params)), np.empty(n), np.empty(n)
        negative = np.zeros(n, bool)
        draw(
            self.left, self.proposal, self.problem.model, self.problem.features, self.work, rng, self.rate,
            self.arm.sampler.growth, theta, log_weight, negative, queries,
        )  # fmt: skip
        log_weight += self.log_scale
        if not np.array_equal(self.stands.covariance, self.covariance):  # q is not what the sites make
            for part, (mean, covariance) in ((-0.5, self.stands), (0.5, (self.mean, self.covariance))):
                away = theta - mean
                log_weight += part * np.einsum("np,np->n", away, np.linalg.solve(covariance, away.T).T)
        if not self.penalty.gaussian:  # the prior in place of its sites
            stands = theta @ self.own.linear[:, 0] - 0.5 * theta**2 @ self.own.precision[:, 0, 0]
            log_weight += self.penalty.beyond_ridge(theta) - stands
        if np.isnan(log_weight).any():
            raise FlyrunError("a weight is no number; take sampler.steps=3 or another sampler.approximation")
        sign = np.where(negative, -1, 1).astype(np.int8)
        return {"theta": theta, "log_weight": log_weight, "sign": sign, "queries": queries}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        rng = generator(state["rng"])
        draws = self._draw(rng, n)
        queries = draws.pop("queries")
        grown = {name: np.concatenate([state[name], values]) for name, values in draws.items()}
        return grown | {"rng": generator_state(rng)}, {"queries": queries}

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """Moments by weights and control variates; what the model adds by weights; the log evidence."""
        theta, weight = (
            state["theta"],
            state["sign"] * np.exp(state["log_weight"] - state["log_weight"].max()),
        )
        level = float(np.log(max(weight.mean(), 0.0))) if weight.mean() > 0 else -np.inf
        evidence = {"log_evidence": np.array(level + state["log_weight"].max())}
        weight = weight / weight.sum()
        moments = of_positions(self.arm, self.problem, theta, weight)
        if self.proposal.freedom:  # whose moments may not exist
            return moments | evidence
        centred = theta - self.mean
        square = np.diag(self.covariance)
        first = self.mean + (weight - 1 / len(weight)) @ centred
        apart = (weight - 1 / len(weight)) @ (theta**2 - self.mean**2 - square)
        return moments | {"mean": first, "square": self.mean**2 + square + apart} | evidence

    def result(self, state: State) -> dict[str, np.ndarray]:
        """The draws, (M, P), logs of the weights' sizes, (M,), and their signs."""
        draws = {name: state[name] for name in ("theta", "log_weight")}
        return draws | ({"sign": state["sign"]} if (state["sign"] < 0).any() else {})

    def more(self, state: State | None) -> dict[str, Any]:
        return {"kappa": self.kappa, "rate": self.rate}


build = Weighted
