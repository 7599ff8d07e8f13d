"""What a Gaussian made of sites leaves out of a posterior, and unbiased weights from a few data a draw.

With sites T_n, ν_n: log p(θ, data) − log q(θ) = constant + Σ_n r_n(θ), r_n = log L_n + ½uᵀTu − νᵀu − c_n, c_n
the mean of the rest under q. Of K ~ Poisson(λ) data j drawn with probabilities p ∝ sd_q r_n the product of
1 + r_j(θ)/(λ p_j) has the mean exp Σ r_n, whatever θ (Wagner 1988, for integrals in time); its relative
variance is about e^{κ²/λ} − 1, κ = Σ sd_q r_n, which falls as 1/√N.
"""

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models import passes
from flyrun.experiments.models.factors import Factors, Gaussian, Projection, Sites, nodes, root_of, unsited
from flyrun.experiments.models.features import BLOCK, predict
from flyrun.experiments.models.likelihood import log_likelihood
from flyrun.experiments.models.problem import Problem
from flyrun.ground.numerics.alias import Alias, Even, alias_table, pick
from flyrun.ground.numerics.compiled import inline_jit, outer_jit
from flyrun.ground.numerics.poisson_count import poisson_count
from flyrun.ground.numerics.rows import first_dot

POINTS = 5  # of the quadrature for means and sds of r_n, for each of k: so many queries of a datum
_LEAST = 0.01  # probability of a datum, by the mean's
_PRICE = 0.4  # of a draw, in queries, when λ is chosen


class Remainders(NamedTuple):
    """r_n of all data, and how often each is drawn."""

    precision: np.ndarray  # T, (N, k, k)
    linear: np.ndarray  # ν, (N, k)
    constant: np.ndarray  # c, (N,)
    probability: np.ndarray  # p, (N,)
    table: Alias | Even  # draws n by it
    basis: np.ndarray  # C, (K, k)


def remainders(arm: Arm, problem: Problem, sites: Sites, q: Gaussian) -> tuple[Remainders, float, int]:
    """Of sites under q; κ; the queries of the pass that it took."""
    module, model, features = arm.model.code, problem.model, problem.features
    basis = Factors(module, model).basis
    projection = Projection(features, basis)
    little = projection.reduced(*q)
    grid, log_weight = nodes(basis.shape[1], POINTS)

    def work(block: slice) -> np.ndarray:
        rows, factors = features.rows[block].astype(np.float64), Factors(module, module.part(model, block))
        at = projection.marginals(rows, *little)
        root, part = root_of(at.variance), Sites(sites.precision[block], sites.linear[block])
        left = np.stack([unsited(factors, part, at.mean + root @ node) for node in grid])
        weight = np.exp(log_weight)[:, None]
        centre = (weight * left).sum(axis=0)
        return np.stack([centre, np.sqrt((weight * (left - centre) ** 2).sum(axis=0))], axis=1)

    constant, spread = passes.gathered(len(features.rows), work).T
    spread = spread + _LEAST * spread.mean()
    kappa = float(spread.sum())
    share = spread / kappa if kappa > 0 else np.full(len(spread), 1 / len(spread))
    constant, share = np.ascontiguousarray(constant), np.ascontiguousarray(share)
    left_out = Remainders(sites.precision, sites.linear, constant, share, alias_table(share), basis)
    return left_out, kappa, len(features.rows) * len(grid)


def best_rate(kappa: float) -> float:
    """λ of the least (price + λ)·e^{κ²/λ}, so that a draw's own price counts: about κ² where κ is large."""
    half = 0.5 * kappa**2
    return half + sqrt(half**2 + _PRICE * kappa**2)


class Proposal(NamedTuple):
    """θ = μ + R z √(ν/χ²_ν), ν = 0: a Gaussian."""

    mean: np.ndarray  # μ, (P,)
    root: np.ndarray  # R, (P, P), lower triangle
    freedom: float


class Room(NamedTuple):
    """Workspace for one draw."""

    noise: np.ndarray  # (P,)
    which: np.ndarray  # (BLOCK,)
    eta: np.ndarray  # (BLOCK, K)
    values: np.ndarray  # (BLOCK,)
    seen: np.ndarray  # (k,)


def room(n_params: int, n_predictors: int, basis: np.ndarray) -> Room:
    """Of a problem; basis: (K, k)."""
    return Room(
        np.zeros(n_params), np.zeros(BLOCK, np.int64), np.zeros((BLOCK, n_predictors)), np.zeros(BLOCK),
        np.zeros(basis.shape[1]),
    )  # fmt: skip


@inline_jit
def _remainder(left, n, eta, value, seen):
    """r_n at predictors eta, (K,)."""
    size = seen.shape[0]
    for k in range(size):
        total = 0.0
        for m in range(eta.shape[0]):
            total += left.basis[m, k] * eta[m]
        seen[k] = total
    for k in range(size):
        pull = left.linear[n, k]
        for m in range(size):
            pull -= 0.5 * left.precision[n, k, m] * seen[m]
        value -= pull * seen[k]
    return value - left.constant[n]


@inline_jit
def _factor(left, model, features, work, rng, theta, rate):
    """log |Ŵ(θ)|, whether Ŵ is negative, queries: K ~ Poisson(rate) factors; all data where it is N."""
    n_data = left.probability.shape[0]
    whole = rate >= n_data
    count = n_data if whole else poisson_count(rng, rate)
    total, negative = 0.0, False
    for first in range(0, count, BLOCK):
        size = min(BLOCK, count - first)
        index = work.which[:size]
        for i in range(size):
            index[i] = first + i if whole else pick(left.table, rng, 0)
        predict(features, index, theta, work.eta)
        log_likelihood(model, index, work.eta, work.values, None)
        for i in range(size):
            rest = _remainder(left, index[i], work.eta[i], work.values[i], work.seen)
            if whole:
                total += rest
                continue
            term = 1.0 + rest / (rate * left.probability[index[i]])
            negative = negative != (term < 0.0)
            total += log(abs(term)) if term != 0.0 else -np.inf
    return total, negative, count


@outer_jit
def draw(left, proposal, model, features, work, rng, rate, growth, theta, log_weight, negative, queries):
    """Fill theta (n, P), log |weight|, (n,), whether it is negative and what it cost, draw after draw.

    rate: λ where θ is about as far out as q has most of its draws; it grows as the power `growth` of the
    squared distance beyond, so that weights stay bounded where r_n are far from small.
    The weight is e^{Σ r_n}·N(θ)/q(θ), N the Gaussian of mean μ and root R.
    """
    size, freedom = theta.shape[1], proposal.freedom
    for i in range(theta.shape[0]):
        square = 0.0
        for d in range(size):
            work.noise[d] = rng.standard_normal()
            square += work.noise[d] * work.noise[d]
        stretch = sqrt(freedom / rng.chisquare(freedom)) if freedom > 0.0 else 1.0
        for d in range(size):
            theta[i, d] = proposal.mean[d] + stretch * first_dot(proposal.root, d, work.noise, d + 1)
        square *= stretch * stretch
        wanted = rate * max(1.0, square / size) ** growth
        weighted = _factor(left, model, features, work, rng, theta[i], wanted)
        log_weight[i], negative[i], queries[i] = weighted
        if freedom > 0.0:
            log_weight[i] += 0.5 * (freedom + size) * np.log1p(square / freedom) - 0.5 * square
