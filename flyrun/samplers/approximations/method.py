"""The family of approximations by one density: what its methods share, and which is asked for."""

from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.errors import ConfigError
from flyrun.models.problem import Problem, bind, of_positions
from flyrun.numerics.batches import Batches
from flyrun.numerics.state import generator, generator_state, seeded
from flyrun.samplers.batches import batches_of
from flyrun.samplers.method import Facts, Method, Records, State, first_step

DRAWS = 1_500  # of which E f that is neither mean nor square is the mean


def prepare(arm: Any, folder: Path) -> Method:
    """Data and model bound, the MAP fitted or recalled where wanted; DataError or ConfigError as bind's."""
    return arm.sampler.code.build(arm, bind(arm, folder, needs_map=arm.sampler.at_map))


def facts(arm: Any, problem: Problem, label: str, exact: bool, queries: int, seconds: float) -> Facts:
    """What is known of a method, whose set-up took so many queries and seconds besides the fits."""
    fit = problem.fit
    return Facts(
        update=label,
        exact=exact,
        coordinates=problem.coordinates,
        n_data=len(problem.features.rows),
        n_params=len(problem.coordinates),
        setup_queries=fit.queries + queries,
        setup_s=fit.seconds + seconds,
        more={"prior_scale": fit.scale, "map_queries": fit.queries},
    )


def gaussian_estimates(arm: Any, problem: Problem, means: np.ndarray, roots: np.ndarray) -> dict[str, Any]:
    """E f of an even mixture of Gaussians N(μ_k, R_k R_kᵀ), means (K, P), roots (K, P, P).

    Mean and square exactly, what the model adds by draws that are the same whenever asked.
    """
    found = {"mean": means.mean(axis=0), "square": (means**2 + (roots**2).sum(axis=2)).mean(axis=0)}
    if not hasattr(arm.model.code, "functionals"):
        return found
    noise = np.random.Generator(np.random.PCG64(0)).standard_normal((DRAWS, means.shape[1]))
    which = np.arange(DRAWS) % len(means)
    draws = means[which] + np.einsum("npq,nq->np", roots[which], noise)
    return of_positions(arm, problem, draws, np.full(DRAWS, 1.0 / DRAWS)) | found


def gaussian_prior(arm: Any, problem: Problem) -> float:
    """The precision of a Gaussian prior. ConfigError where it is none."""
    penalty = arm.prior.code.penalty(problem.prior)
    if penalty.rate:
        raise ConfigError(
            f"sampler={arm.sampler.name}: needs a Gaussian prior, prior={arm.prior.name} is none; choose "
            "prior=gaussian"
        )
    return float(penalty.ridge)


class StreamedGaussian(Method):
    """A Gaussian under a Gaussian prior, changed by batch after batch; its state is in natural parameters."""

    answers = "density"
    unit = "step"
    shown = ("{queries} queries/step",)

    def __init__(self, arm: Any, problem: Problem, batches: Batches):
        self.arm, self.problem, self.batches = arm, problem, batches
        self.prior_precision = gaussian_prior(arm, problem) * np.eye(len(problem.coordinates))

    def warm_up(self) -> float:
        """As in the base class."""
        return first_step(self)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The prior, and the key of the batches."""
        rng = seeded(seed, self.arm.method())
        key = rng.integers(2**63, size=1)
        prior = {"precision": self.prior_precision, "linear": np.zeros(len(self.prior_precision))}
        return {**prior, "step": np.zeros(1, np.int64), "key": key, "rng": generator_state(rng)}

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """Of the Gaussian."""
        found = self.result(state)
        root = np.linalg.cholesky(found["covariance"])
        return gaussian_estimates(self.arm, self.problem, found["mean"][None], root[None])

    def result(self, state: State) -> dict[str, np.ndarray]:
        """Its mean and covariance."""
        covariance = np.linalg.inv(state["precision"])
        return {"mean": covariance @ state["linear"], "covariance": (covariance + covariance.T) / 2}


class StochasticVariational(StreamedGaussian):
    """Natural gradients by batches (Hoffman, Blei, Wang & Paisley 2013), ρ = (t + delay)^−decay; b queries.

    Λ ← (1−ρ)Λ + ρ(P₀ + (N/b)S), Λm ← (1−ρ)Λm + ρ(N/b)l. Derive from it: `statistics`, which are S and l.
    """

    label = ""

    def __init__(self, arm: Any, problem: Problem):
        super().__init__(arm, problem, batches_of(arm, len(problem.features.rows)))

    @abstractmethod
    def statistics(
        self, mean: np.ndarray, covariance: np.ndarray, index: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """What rows add to Λ, (P, P), and Λm, (P,), as expected under N(mean, covariance)."""

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more batches."""
        rng, key, first = generator(state["rng"]), int(state["key"][0]), int(state["step"][0])
        precision, linear, queries = state["precision"], state["linear"], np.zeros(n)
        for k in range(n):
            index = self.batches.rows(first + k, rng, key)
            covariance, queries[k] = np.linalg.inv(precision), len(index)
            quadratic, slope = self.statistics(covariance @ linear, covariance, index)
            rate = (self.arm.sampler.delay + first + k) ** -self.arm.sampler.decay
            precision = (1 - rate) * precision
            precision += rate * (self.prior_precision + self.batches.factor * (quadratic + quadratic.T) / 2)
            linear = (1 - rate) * linear + rate * self.batches.factor * slope
        new = {"precision": precision, "linear": linear, "rng": generator_state(rng)}
        return {**state, **new, "step": state["step"] + n}, {"queries": queries}

    def facts(self, state: State | None = None) -> Facts:
        """As in the base class."""
        return facts(self.arm, self.problem, self.label, False, 0, 0.0)
