"""Nonparametric variational inference (Gershman, Hoffman & Blei 2012): a mixture of K round Gaussians.

The bound (1/K) Σ_k [U(μ_k) + ½σ_k² tr∇²U(μ_k) − log q_k], q_k = (1/K) Σ_j N(μ_k; μ_j, (σ_k² + σ_j²)I),
climbed on batches of rows: the means on U(μ_k), as in the paper, the log variances on the trace. By Adam both
at once; by L-BFGS, the authors' optimiser, the means of all components and then their variances.
"""

from typing import Any

import numpy as np
from scipy.optimize import minimize

from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import Problem, draw_prior, log_priors, prior_scores
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.experiments.samplers.approximations import method
from flyrun.experiments.samplers.batches import batches_of
from flyrun.experiments.samplers.method import Arm, Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.numerics.adam import Adam, refuse_lost
from flyrun.ground.numerics.state import generator, generator_state, seeded

_KEPT = 0.9, 0.99  # of Adam's means
_LEAST_LOG_VARIANCE = np.log(1e-6)  # of the prior's
_ASCENTS = 10  # iterations of L-BFGS on the means, and on the variances, a step


def entropies(at: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """−Σ_k log q_k but for a constant, and its slopes in centres, (K, P), and log variances, (K,).

    at: (K, P+1).
    """
    centres, variance = at[:, :-1], np.exp(at[:, -1])
    size = centres.shape[1]
    apart = centres[:, None] - centres
    both = variance[:, None] + variance
    square = (apart**2).sum(axis=2)
    logit = -0.5 * square / both - 0.5 * size * np.log(both)
    top = logit.max(axis=1, keepdims=True)
    share = np.exp(logit - top)
    total = share.sum(axis=1, keepdims=True)
    share /= total
    pull = share + share.T
    away = np.einsum("kj,kjp->kp", pull / both, apart)  # less the gradient of Σ log q_k
    wider = variance * (pull * (0.5 * square / both**2 - 0.5 * size / both)).sum(axis=1)
    return -float((top + np.log(total)).sum()), away, -wider


class Npv(OnData):
    """A step is a batch: K·b queries, each with slope and curvature; b visits. L-BFGS asks several times."""

    answers, label = "density", "NPV"
    shown = ("{queries} queries/batch",)

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        self.batches = batches_of(arm, self.n_data)
        penalty = priors_of(arm).penalty(problem.prior)
        self.ridge = penalty.ridge + 0.5 * penalty.rate**2  # of a prior that is not smooth its variance's
        self.most = -np.log(self.ridge)
        self.adam = Adam(self.config.rate, _KEPT)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Centres drawn from the prior, a tenth of its sd wide."""
        rng = seeded(seed, self.arm.method())
        centres = draw_prior(self.problem, rng, self.config.components)
        log_variance = np.full(len(centres), self.most + 2 * np.log(0.1))
        at = np.column_stack([centres, log_variance])
        key, step = rng.integers(1 << 62, size=1), np.zeros(1, np.int64)
        moments = {"slope": np.zeros_like(at), "square": np.zeros_like(at)}
        return {"at": at, **moments, "key": key, "step": step, "rng": generator_state(rng)}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more steps. FlyrunError where the slope is not finite."""
        rng, first = generator(state["rng"]), int(state["step"][0])
        at, slope, square = (state[name] for name in ("at", "slope", "square"))
        visits = np.zeros(n)
        for i in range(n):
            rows = self.batches.rows(first + i, rng, int(state["key"][0]))
            if self.config.optimiser == "lbfgs":
                at, evaluations = self._climbed(at, rows)
                visits[i] = evaluations * len(rows)
                continue
            gradient = self._gradient(at, rows)
            refuse_lost(gradient, first + i + 1, self.label)
            at, slope, square = self.adam.climbed(at, gradient, slope, square, first + i + 1)
            at[:, -1] = np.clip(at[:, -1], self.most + _LEAST_LOG_VARIANCE, self.most)
            visits[i] = len(rows)
        moved = {"at": at, "slope": slope, "square": square, "step": np.array([first + n])}
        records = {"queries": len(at) * visits, "visits": visits}
        return state | moved | {"rng": generator_state(rng)}, records

    def _slopes(self, centres: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∇U, (K, P), and tr ∇²U, (K,), at centres."""
        problem = self.problem
        slopes, bends = passes.second_order_over(
            self.arm.model.code, problem.model, problem.features, rows, centres
        )
        uphill = self.batches.factor * slopes + prior_scores(self.arm, problem, centres)
        return uphill, -self.batches.factor * bends - centres.shape[1] * self.ridge

    def _gradient(self, at: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(K, P+1), of K times the bound, by centres and log variances."""
        uphill, trace = self._slopes(at[:, :-1], rows)
        _, away, wider = entropies(at)
        return np.column_stack([uphill + away, 0.5 * np.exp(at[:, -1]) * trace + wider])

    def _climbed(self, at: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, int]:
        """Components (K, P + 1) after a step of L-BFGS on these rows, how often each was evaluated on all."""
        problem, shape = self.problem, at[:, :-1].shape

        def of_centres(flat: np.ndarray) -> tuple[float, np.ndarray]:
            centres = flat.reshape(shape)
            likelihood = passes.sums_over(problem.model, problem.features, rows, centres)
            value, away, _ = entropies(np.column_stack([centres, at[:, -1]]))
            value += (self.batches.factor * likelihood + log_priors(problem.prior, centres)).sum()
            return -value, -(self._slopes(centres, rows)[0] + away).ravel()

        def of_variances(log_variance: np.ndarray) -> tuple[float, np.ndarray]:
            value, _, wider = entropies(np.column_stack([centres, log_variance]))
            bent = 0.5 * np.exp(log_variance) * trace
            return -value - bent.sum(), -wider - bent

        options = {"maxiter": _ASCENTS}
        ascent = minimize(of_centres, at[:, :-1].ravel(), jac=True, method="L-BFGS-B", options=options)
        centres = ascent.x.reshape(shape)
        trace = self._slopes(centres, rows)[1]
        limits = [(self.most + _LEAST_LOG_VARIANCE, self.most)] * len(at)
        wide = minimize(of_variances, at[:, -1], jac=True, method="L-BFGS-B", bounds=limits, options=options)
        return np.column_stack([centres, wide.x]), ascent.nfev + 1

    def result(self, state: State) -> dict[str, np.ndarray]:
        """Centres (K, P) and variances (K,)."""
        return {"centres": state["at"][:, :-1], "variances": np.exp(state["at"][:, -1])}

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        mixture = self.result(state)
        roots = np.sqrt(mixture["variances"])[:, None, None] * np.eye(mixture["centres"].shape[1])
        return method.gaussian_estimates(self.arm, self.problem, mixture["centres"], roots)


build = Npv
