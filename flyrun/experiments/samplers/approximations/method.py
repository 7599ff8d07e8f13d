"""The family of approximations by one density: what its methods share, and which is asked for."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.models.factors import Gaussian, TooManyNodesError
from flyrun.experiments.models.problem import Problem, bind, digits_remedy, of_positions
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.experiments.samplers.approximations.certificate import Stand, certify, stand_at
from flyrun.experiments.samplers.method import Arm, Method, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.ground.numerics.batches import Batches
from flyrun.ground.numerics.state import generator_state, seeded

MOST = 1e13
"""Squared distance of the mean from 0, in sds: of sums of so many nats rounding leaves 10⁻³."""

DRAWS = 1_500  # of which E f that is neither mean nor square is the mean


def prepare(arm: Arm, folder: Path) -> Method:
    """Data and model bound, the MAP fitted or recalled where wanted; DataError or ConfigError as bind's."""
    return arm.sampler.build(arm, bind(arm, folder, needs_map=arm.sampler.at_map))


def gaussian_estimates(arm: Arm, problem: Problem, means: np.ndarray, roots: np.ndarray) -> dict[str, Any]:
    """E f of an even mixture of Gaussians N(μ_k, R_k R_kᵀ), means (K, P), roots (K, P, P).

    Mean and square exactly, what the model adds by draws that are the same whenever asked.
    """
    moments = {"mean": means.mean(axis=0), "square": (means**2 + (roots**2).sum(axis=2)).mean(axis=0)}
    if not hasattr(arm.model.code, "functionals"):
        return moments
    noise = np.random.Generator(np.random.PCG64(0)).standard_normal((DRAWS, means.shape[1]))
    which = np.arange(DRAWS) % len(means)
    draws = means[which] + np.einsum("npq,nq->np", roots[which], noise)
    return of_positions(arm, problem, draws, np.full(DRAWS, 1.0 / DRAWS)) | moments


def ridge_of(arm: Arm, problem: Problem) -> float:
    """The precision of every coordinate under a Gaussian prior. ConfigError where the prior is none."""
    penalty = priors_of(arm).penalty(problem.prior)
    if penalty.rate:
        raise ConfigError(
            f"sampler={arm.sampler.name}: needs a Gaussian prior, prior={arm.prior.name} is none; choose "
            "prior=gaussian"
        )
    if penalty.aux is not None:
        raise ConfigError(
            f"sampler={arm.sampler.name}: needs a Gaussian prior, that of {', '.join(problem.model.names)} "
            "is none; choose sampler=ep or kl_gaussian"
        )
    return float(penalty.ridge)


def refuse_without_digits(arm: Arm, mean: np.ndarray, precision: np.ndarray) -> None:
    """FlyrunError where N(mean, precision⁻¹) lies so many sds from 0 that sites about 0 have no digits."""
    if mean @ precision @ mean > MOST:
        raise FlyrunError(
            f"sampler={arm.sampler.name}: the posterior lies so many of its sds from 0 that sums over sites "
            f"have no digits; choose {digits_remedy(arm, 'sampler=independence')}"
        )


class GaussianAnswer(OnData):
    """One whose answer is a Gaussian: its moments, and a certificate of how far it is from the posterior.

    Derive from it: `result`, and, where there are sites at hand, `stand`.
    """

    answers = "density"
    remedy = "sampler=ep"  # to be tried where it comes to nothing

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """Of the Gaussian, mean and square (P,) and the model's. FlyrunError where it is none."""
        mean, covariance = self.answer(state)
        try:
            root = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise FlyrunError(
                f"sampler={self.arm.sampler.name}: leads away, the covariance is not positive definite; "
                f"try {self.remedy}"
            ) from None
        return gaussian_estimates(self.arm, self.problem, mean[None], root[None])

    def answer(self, state: State) -> Gaussian:
        """The Gaussian."""
        moments = self.result(state)
        return Gaussian(moments["mean"], moments["covariance"])

    def stand(self, state: State) -> Stand:
        """Sites to certify it by. LinAlgError where they make no Gaussian."""
        return stand_at(self.arm, self.problem, self.answer(state))

    def more(self, state: State | None) -> dict[str, Any]:
        """With the last state the certificate, whose queries are reported separately."""
        if state is not None:
            with contextlib.suppress(np.linalg.LinAlgError, TooManyNodesError):
                return certify(self.arm, self.problem, self.answer(state), self.stand(state)).plain()
        return {}


class StreamedGaussian(GaussianAnswer):
    """A Gaussian under a Gaussian prior, changed by batch after batch; its state is in natural parameters."""

    def __init__(self, arm: Arm, problem: Problem, batches: Batches):
        super().__init__(arm, problem)
        self.batches = batches
        self.prior_precision = ridge_of(arm, problem) * np.eye(self.n_params)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The prior, and the key of the batches."""
        rng = seeded(seed, self.arm.method())
        key = rng.integers(2**63, size=1)
        prior = {"precision": self.prior_precision, "linear": np.zeros(len(self.prior_precision))}
        return {**prior, "step": np.zeros(1, np.int64), "key": key, "rng": generator_state(rng)}

    def result(self, state: State) -> dict[str, np.ndarray]:
        covariance = np.linalg.inv(state["precision"])
        return {"mean": covariance @ state["linear"], "covariance": (covariance + covariance.T) / 2}
