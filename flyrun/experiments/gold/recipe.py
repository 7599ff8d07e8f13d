"""Moments by importance sampling from the fitted Gaussian: antithetic pairs and control variates.

With weights w = p̃/q and u = (θ − m)/σ_q, E_q[w], E_q[w u] and E_q[w u²] are the intercepts of the
least-squares fits of w, w u and w u² on what has a known mean under q: u_d² − E u_d² and |ε|² − E |ε|², ε =
R(θ − m) (odd functions cancel within a pair). Moments are ratios of these; their standard errors come from
BATCHES batches.
"""

import contextlib
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.config.sampler.base import with_sampler
from flyrun.experiments.gold.reference import free
from flyrun.experiments.gold.store import PROBABILITIES
from flyrun.experiments.models.factors import Gaussian
from flyrun.experiments.models.problem import Problem, log_densities
from flyrun.experiments.samplers.approximations.importance import Proposal
from flyrun.experiments.samplers.method import near
from flyrun.ground.diagnostics.distances import quantiles
from flyrun.ground.diagnostics.psis import pareto_k
from flyrun.ground.errors import FlyrunError
from flyrun.ground.numerics.resampling import systematic

BATCHES = 20
PILOT = 1_000
HIGH_K = 0.5
#: (approximation, degrees of freedom) of the proposals that are tried
CANDIDATES = (("kl_gaussian", None), ("kl_gaussian", 100.0), ("laplace", 50.0))
PASSES = 3
#: below this effective share the best one's draws, so many a coordinate, are adapted to, so many times
POOR, ADAPTING, ROUNDS = 0.5, 600, 2


class Weighed(NamedTuple):
    """Pairs of draws, the second of each reflected at the proposal's centre, and their densities."""

    proposal: Proposal
    theta: np.ndarray  # (M, P): first halves, then second ones
    log_weight: np.ndarray  # (M,)
    log_likelihood: np.ndarray  # (M,)

    @property
    def share(self) -> float:
        """Effective share of the draws."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        return float(weight.sum() ** 2 / (weight @ weight) / len(weight))


class Moments(NamedTuple):
    """By coordinate, (D,), and their standard errors."""

    mean: np.ndarray
    variance: np.ndarray
    mean_se: np.ndarray
    variance_se: np.ndarray
    log_z: float
    log_z_se: float


def proposals(arm: Arm, problem: Problem) -> list[tuple[str, Proposal, float, float]]:
    """(name, proposal, effective share, k̂) of those with k̂ below HIGH_K, best first; FlyrunError where
    none.
    """
    tried: list[tuple[str, Proposal, float, float]] = []

    def attempt(q: Gaussian, freedom: float | None, what: str) -> None:
        proposal = Proposal(q, freedom)
        pilot = weigh(arm, problem, proposal, PILOT, seed=1)
        name = f"{'Gaussian' if freedom is None else f't{freedom:g}'}, {what}"
        tried.append((name, proposal, pilot.share, pareto_k(pilot.log_weight)))

    for name, freedom in CANDIDATES:
        with contextlib.suppress(FlyrunError, np.linalg.LinAlgError):
            method, state, _ = near(with_sampler(arm, name), problem, PASSES)
            attempt(method.answer(state), freedom, name)
    if tried and max(trial[2] for trial in tried) < POOR:
        tried.sort(key=lambda trial: trial[2])
        for k in range(ROUNDS):
            attempt(_adapted(arm, problem, tried[-1][1], k), 100.0, f"{k + 1} times adapted")
    good = sorted((trial for trial in tried if trial[3] < HIGH_K), key=lambda trial: -trial[2])
    if not good:
        k_hats = "; ".join(f"{name}: k̂ = {k:.2f}" for name, _, _, k in tried)
        raise FlyrunError(
            f"no proposal is close enough to the posterior ({k_hats}); its reference cannot be made so"
        )
    return good


def _adapted(arm: Arm, problem: Problem, proposal: Proposal, k: int) -> Gaussian:
    """The Gaussian of a proposal's weighted draws."""
    n = ADAPTING * proposal.mean.size
    weighed = weigh(arm, problem, proposal, n, seed=10 + k)
    share = np.exp(weighed.log_weight - weighed.log_weight.max())
    share /= share.sum()
    mean = share @ weighed.theta
    away = weighed.theta - mean
    return Gaussian(mean, away.T @ (away * share[:, None]))


def weigh(arm: Arm, problem: Problem, proposal: Proposal, n: int, seed: int) -> Weighed:
    """n draws, in antithetic pairs."""
    rng, half = np.random.default_rng(seed), n // 2
    noise, stretch = rng.standard_normal((half, proposal.mean.size)), np.ones(half)
    if proposal.freedom is not None:
        stretch = np.sqrt(proposal.freedom / rng.chisquare(proposal.freedom, half))
    first = proposal.at(noise, stretch)
    theta = np.concatenate([first, 2 * proposal.mean - first])
    log_prior, log_likelihood = log_densities(arm, problem, theta)
    log_weight = log_prior + log_likelihood - proposal.log_density(theta)
    return Weighed(proposal, theta, log_weight, log_likelihood)


def moments(weighed: Weighed, classes: int) -> Moments:
    """Moments of the coordinates (`free`) with control variates."""
    proposal, half = weighed.proposal, len(weighed.theta) // 2
    k = 1.0 if proposal.freedom is None else proposal.freedom / (proposal.freedom - 2)
    spread = np.linalg.solve(proposal.root.T, np.eye(proposal.mean.size))  # θ − m = spread · noise
    centre = free(proposal.mean[None], classes)[0]
    sd = np.sqrt((free(spread.T, classes) ** 2).sum(axis=0))
    top = weighed.log_weight.max()
    weight = np.exp(weighed.log_weight - top)
    away = (free(weighed.theta[:half], classes) - centre) / sd
    size = (((weighed.theta[:half] - proposal.mean) @ proposal.root) ** 2).sum(axis=1)
    both, apart = (weight[:half] + weight[half:]) / 2, (weight[:half] - weight[half:]) / 2
    known = np.column_stack([away**2 - k, size - k * proposal.mean.size])
    wanted = np.column_stack([both, apart[:, None] * away, both[:, None] * away**2])
    centred = known - known.mean(axis=0)
    slopes = np.linalg.lstsq(centred, wanted - wanted.mean(axis=0), rcond=None)[0]
    rest = wanted - known @ slopes
    total = rest.mean(axis=0)
    dim = away.shape[1]
    z, first, second = total[0], total[1 : dim + 1] / total[0], total[dim + 1 :] / total[0]
    variance = second - first**2
    # what each batch adds to the ratios, to first order
    by_batch = np.stack([part.mean(axis=0) for part in np.array_split(rest, BATCHES)]) / z
    share, u, u2 = by_batch[:, :1], by_batch[:, 1 : dim + 1], by_batch[:, dim + 1 :]
    off_first = u - first * share
    off_variance = u2 - second * share - 2 * first * off_first
    return Moments(
        centre + sd * first,
        sd**2 * variance,
        sd * _se(off_first),
        sd**2 * _se(off_variance),
        float(top + np.log(z)),
        float(_se(share)[0]),
    )


def _se(by_batch: np.ndarray) -> np.ndarray:
    return by_batch.std(axis=0, ddof=1) / np.sqrt(len(by_batch))


def expectation(weighed: Weighed, values: np.ndarray) -> tuple[float, float]:
    """E f and its standard error, f (M,) at the draws, pairs kept together."""
    half = len(values) // 2
    weight = np.exp(weighed.log_weight - weighed.log_weight.max())
    top, bottom = (x[:half] + x[half:] for x in (weight * values, weight))
    mean = float(top.sum() / bottom.sum())
    off = np.array([part.mean() for part in np.array_split((top - mean * bottom) / bottom.mean(), BATCHES)])
    return mean, float(_se(off[:, None])[0])


def shape(theta: np.ndarray, weight: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kurtosis (D,) and quantiles (7, D) of weighted draws (M, D)."""
    share = weight / weight.sum()
    away = theta - mean
    kurtosis = (share @ away**4) / (share @ away**2) ** 2
    return kurtosis, quantiles(theta, PROBABILITIES, weight)


def resampled(theta: np.ndarray, weight: np.ndarray, n: int) -> np.ndarray:
    """n unweighted draws, (n, P), by systematic resampling, in random order."""
    rng = np.random.default_rng(3)
    return theta[rng.permutation(systematic(rng, weight, n))]
