"""The Weierstrass sampler's Gibbs form (Angelino, Johnson & Adams 2016, Algorithm 14; Wang & Dunson 2013).

Worker j has ξ_j, whose target is f_j(ξ_j)·N(ξ_j | θ, h²M), f_j its shard's subposterior; the hub has
θ ~ N(mean ξ, h²M/J). All f_j smoothed by N(0, h²M) are multiplied so: as h falls θ's law nears the posterior,
and the chain slows. M is J times the inverse of the posterior's curvature at the MAP, like a shard's
covariance: for Gaussian shards alike variances are 1 + r times the posterior's, r = h², and draws a round
apart are correlated by 1/(1 + r).

A worker draws by Metropolis-Hastings: from the Gaussian that its likelihood is to second order about the MAP,
times N(θ, h²M), or, one time in four, by a random walk, as tails may be heavier. It keeps log f_j at ξ_j: θ
moves without a query.
"""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import Problem, bind, log_priors, prior_curvature, prior_scores
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.experiments.samplers.batches import rows_of
from flyrun.experiments.samplers.method import Arm, Method, Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.numerics.state import generator, generator_state, seeded
from flyrun.tables.shards import one_class, split

_WALKS = 0.25  # of the moves
_STEP = 1.7  # of the walk, in conditional sds, by √P
_NUMBER = 8  # bytes


def prepare(arm: Arm, folder: Path) -> Method:
    """The method of an arm. ConfigError where there are more shards than rows, or the prior has no power."""
    problem = bind(arm, folder, needs_map=True)
    split(len(problem.features.rows), arm.dataset, arm.sampler.shards)
    return WeierstrassGibbs(arm, problem)


class Workers(NamedTuple):
    """What workers know of shards: ξ_j | θ is near N(centre + push_j + pull_j·(θ − centre), Q_j⁻¹)."""

    rows: list[np.ndarray]
    pull: np.ndarray  # (J, P, P)
    push: np.ndarray  # (J, P)
    root: np.ndarray  # R_j with R_j R_jᵀ = Q_j, (J, P, P)
    back: np.ndarray  # R_j⁻ᵀ
    spring: np.ndarray  # precision of N(θ, h²M), (P, P)
    spread: np.ndarray  # S with S Sᵀ = h²M/J


class WeierstrassGibbs(OnData):
    """A step is a round: θ to all workers, `moves` moves of each, their ξ_j back."""

    unit = "round"
    shown = ("accepted {accepted:.2f}, {queries} queries/round, {span} of the busiest worker",)
    label = "Weierstrass Gibbs"

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        self.shards = arm.sampler.shards
        self.prior = priors_of(arm, self.shards).prior(problem.fit.scale)
        self.own_queries = 2 * self.n_data  # a look at every shard, and the first log f_j
        self.workers = functools.lru_cache(maxsize=2)(self._workers)

    def _workers(self, seed: int) -> Workers:
        arm, problem, centre = self.arm, self.problem, self.problem.fit.theta_map
        rows = split(self.n_data, arm.dataset, self.shards, seed)
        looks = [passes.look(arm.model.code, *rows_of(arm, problem, shard), centre) for shard in rows]
        prior, slope = prior_curvature(arm, problem), prior_scores(arm, problem, centre[None])[0]
        curvatures = np.array([look.curvature for look in looks])
        spring = (curvatures.sum(axis=0) + prior) / (arm.sampler.bandwidth * self.shards)
        precisions = curvatures + prior / self.shards + spring
        slopes = np.array([look.gradient for look in looks]) + slope / self.shards
        root = np.linalg.cholesky(precisions)
        back = np.linalg.inv(root).transpose(0, 2, 1)
        covariance = np.linalg.inv(spring) / self.shards
        return Workers(
            rows,
            np.linalg.solve(precisions, np.broadcast_to(spring, precisions.shape)),
            np.linalg.solve(precisions, slopes[:, :, None])[:, :, 0],
            root,
            back,
            spring,
            np.linalg.cholesky(covariance),
        )

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """θ and all ξ_j at the starting point."""
        theta = self.starting_point(seed)
        xi = np.tile(theta, (self.shards, 1))
        return {
            "theta": theta,
            "xi": xi,
            "log_f": self._log_f(self.workers(seed), xi),
            "seed": np.array([seed]),
            "step": np.zeros(1, np.int64),
            "rng": generator_state(seeded(seed, self.arm.method())),
        }

    def _log_f(self, workers: Workers, xi: np.ndarray) -> np.ndarray:
        """log f_j(ξ_j), (J,). A query of every row."""
        at = self.problem.model, self.problem.features
        each = [passes.sums_over(*at, rows, x_j[None])[0] for rows, x_j in zip(workers.rows, xi, strict=True)]
        return np.array(each) + log_priors(self.prior, xi)

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more rounds. Draws: theta (n // thin, P); by round queries, span, and share accepted, (n,)."""
        rng, workers, moves = (
            generator(state["rng"]),
            self.workers(int(state["seed"][0])),
            self.arm.sampler.moves,
        )
        theta, xi, log_f = state["theta"], state["xi"].copy(), state["log_f"].copy()
        accepted, kept, thin = np.zeros(n), [], self.arm.protocol.thin
        first = int(state["step"][0])
        for t in range(first, first + n):
            for _ in range(moves):
                accepted[t - first] += self._move(rng, workers, theta, xi, log_f) / moves
            theta = xi.mean(axis=0) + workers.spread @ rng.standard_normal(self.n_params)
            if (t + 1) % thin == 0:
                kept.append(theta)
        new = {
            "theta": theta,
            "xi": xi,
            "log_f": log_f,
            "step": state["step"] + n,
            "rng": generator_state(rng),
        }
        return {**state, **new}, {
            "theta": np.array(kept).reshape(-1, self.n_params),
            "queries": np.full(n, float(moves * self.n_data)),
            "span": np.full(n, float(moves * max(map(len, workers.rows)))),
            "accepted": accepted,
        }

    def _move(
        self, rng: np.random.Generator, workers: Workers, theta: np.ndarray, xi: np.ndarray, log_f: np.ndarray
    ) -> float:
        """Move every ξ_j, (J, P), given θ, (P,), in place; the share that was accepted."""
        shape = xi.shape
        centre = self.problem.fit.theta_map
        mean = centre + workers.push + workers.pull @ (theta - centre)
        walks = np.less(rng.random(shape[0]), _WALKS)
        noise = np.einsum("jpq,jq->jp", workers.back, rng.standard_normal(shape))
        proposal = np.where(walks[:, None], xi + _STEP / np.sqrt(shape[1]) * noise, mean + noise)
        log_new = self._log_f(workers, proposal)
        ratio = log_new - log_f
        for sign, at in ((1.0, proposal), (-1.0, xi)):
            away = at - theta
            ratio -= sign * 0.5 * np.einsum("jp,jp->j", away @ workers.spring, away)
            whitened = np.einsum("jpq,jp->jq", workers.root, at - mean)
            ratio += np.where(walks, 0.0, sign * 0.5 * (whitened**2).sum(axis=1))
        yes = np.less(-rng.standard_exponential(shape[0]), ratio)
        xi[yes], log_f[yes] = proposal[yes], log_new[yes]
        return float(yes.mean())

    def more(self, state: State | None) -> dict[str, Any]:
        """θ goes to every worker and a ξ_j comes back, each round."""
        known = {"workers": self.shards, "one_target": False}  # every seed has a split of its own
        if state is None:
            return known
        rounds, seed = int(state["step"][0]), int(state["seed"][0])
        alike = one_class(self.problem.dataset, self.arm.dataset, self.shards, seed)
        sent = 2 * _NUMBER * self.shards * self.n_params * rounds
        return {**known, "rounds": rounds, "bytes": sent, "one_class": alike}
