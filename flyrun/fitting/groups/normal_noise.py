"""Groups under normal noise: the coefficients and the effects are integrated out in closed form.

Given h and log σ all is normal. With M = (σ²(TT')⁻¹ + Z'Z)⁻¹ of each group the marginal likelihood needs the
groups' sums X'Z, Z'Z and Z'y alone (Laird & Ware 1982); the coefficients are drawn afterwards, given both.
Effects of a crossed factor are coefficients of its levels, whose common sd is one number more.
"""

from collections.abc import Callable, Iterator
from itertools import chain, pairwise

import numpy as np

from flyrun.fitting import gaussian_noise, mode, weighted_draws
from flyrun.fitting.groups import joint_map, scales
from flyrun.fitting.groups.integrated_out import GroupedPosterior
from flyrun.fitting.groups.ridge import Ridge
from flyrun.fitting.proposal import TAIL, Mixture
from flyrun.fitting.rows_posterior import Expansion
from flyrun.fitting.weighted_draws import Weighted

_START = np.array([-0.5, -0.5, 0.0, -0.5])  # log σ and h
_START_CROSSED = -0.5
_NUMBERS = 1 << 16  # of a matrix of each draw, at a time


class Sums:
    """Density of v = (log σ, h, log sd of a crossed factor's effects), by sums of rows and of groups."""

    def __init__(self, posterior: GroupedPosterior):
        self.posterior, q = posterior, posterior.effects
        self.levels = posterior.levels_crossed
        width = posterior.width + self.levels
        self.rows, self.ends = posterior.rows, 1 + posterior.after - posterior.before
        self.size = posterior.size - posterior.before + 1 - self.levels
        self.whole = np.zeros((width + 1, width + 1))  # of (X, y): (X, y)'(X, y)
        groups = posterior.groups
        gram, cross = np.zeros((groups, q, q)), np.zeros((groups, q, width + 1))
        self.count, mean = 0.0, posterior.prior.mean
        for block in chain(posterior.ungrouped(4 * width), posterior.grouped(4 * width)):
            rows, z = self.rows.take(block.rows), posterior.z(block)
            left = rows.target - rows.offset - rows.features @ mean
            ones, crossed = rows.features[:, -1], list[np.ndarray]()  # 1 but of rows that stand for many
            if posterior.crossed is not None:
                crossed = [np.eye(self.levels + 1)[posterior.crossed[block.rows], :-1] * ones[:, None]]
            both = np.column_stack([rows.features, *crossed, left])
            weights = np.broadcast_to(rows.weights, left.shape)
            self.whole += both.T @ (both * weights[:, None])
            self.count += float(weights.sum())
            columns = [ones] if z is None else [ones, z]
            for j, column in enumerate(columns):
                each = weights * column
                cross[block.groups, j] = np.add.reduceat(both * each[:, None], block.starts, axis=0)
                for k, other in enumerate(columns):
                    gram[block.groups, j, k] = np.add.reduceat(each * other, block.starts)
        posterior.queries += len(self.rows)
        if q == 1:  # groups of one size are alike: their outer products are summed
            alike, place = np.unique(gram[:, 0, 0], return_inverse=True)
            order = np.argsort(place, kind="stable")
            ends = np.append(0, np.cumsum(np.bincount(place, minlength=len(alike))))
            outer = [cross[order[a:b], 0].T @ cross[order[a:b], 0] for a, b in pairwise(ends)]
            self.own, self.times, self.outer = alike, np.diff(ends), np.array(outer)
        self.groups, self.all_own, self.cross = groups, gram, cross

    def given(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """At v (S, n): log densities (S,); roots (S, P, P) of coefficients' precisions and means (S, P), in
        prior sds; prior sds (S, P). NaN where there is no root.
        """
        prior, log_sigma = self.posterior.prior, v[:, 0]
        variance, h, crossed = np.exp(2.0 * log_sigma), v[:, 1 : self.ends], v[:, self.ends :]
        h = h if h.shape[1] else self.posterior.h(v)
        learnt = crossed.shape[1] > 0
        crossed = crossed if learnt else np.full((len(v), 1), np.log(self.posterior.known_crossed))
        p00, p01, p11 = (variance * element for element in scales.precision(h))
        if self.posterior.effects == 1:
            inner = p00[:, None] + self.own
            inside = self.whole - np.tensordot(1.0 / inner, self.outer, 1)
            level = np.log(inner) @ self.times + self.groups * 2.0 * (h[:, 0] - log_sigma)
        else:
            gram = [[p00, p01], [p01, p11]] + self.all_own[..., None]  # (G, 2, 2, S)
            g00, g01, g11 = gram[:, 0, 0], gram[:, 0, 1], gram[:, 1, 1]
            determinant = g00 * g11 - g01**2
            adjoint = np.array([[g11, -g01], [-g01, g00]]) / determinant
            pulled = np.einsum("jkgs,gka->sgja", adjoint, self.cross)
            flat = self.cross.reshape(-1, self.cross.shape[2])
            inside = self.whole - flat.T @ pulled.reshape(len(v), *flat.shape)
            level = np.log(determinant).sum(axis=0) + self.groups * 2.0 * (
                h[:, 0] + h[:, 2] - 2.0 * log_sigma
            )
        inside = inside / variance[:, None, None]
        whole = np.broadcast_to(prior.sd, (len(v), len(prior.sd)))
        sd = np.concatenate([whole, np.repeat(np.exp(crossed), self.levels, axis=1)], axis=1)
        cholesky = joint_map.choleskys(
            inside[:, :-1, :-1] * (sd[:, :, None] * sd[:, None]) + np.eye(sd.shape[1])
        )
        along = np.linalg.solve(cholesky, (inside[:, :-1, -1] * sd)[..., None])[..., 0]
        value = -self.count * log_sigma - 0.5 * level - 0.5 * inside[:, -1, -1]
        value += 0.5 * (along**2).sum(axis=1) - np.log(np.diagonal(cholesky, axis1=1, axis2=2)).sum(axis=1)
        value += self.posterior.auxiliary[0].prior.log_density(log_sigma)
        if self.ends > 1:  # of an sd that is not known
            value += scales.log_prior(h, self.posterior.of_scales)
        value += scales.log_prior(crossed, self.posterior.of_crossed) if learnt else 0.0
        return value, cholesky, along, sd

    @property
    def tails(self) -> tuple[tuple[int, float], ...]:
        """Of log σ and log sds, as of Mixture."""
        of_h = [(1 + place - self.posterior.before, scale) for place, scale in self.posterior.tails]
        return ((0, TAIL), *of_h, *((place, TAIL) for place in range(self.ends, self.size)))

    def parts(self, n: int) -> Iterator[slice]:
        """n draws, so many at a time as `given` needs memory for."""
        width = len(self.whole)
        step = max(1, _NUMBERS // max(width**2, self.cross.size if self.posterior.effects == 2 else 0))
        return (slice(first, first + step) for first in range(0, n, step))

    # -- as mode.find and by_all_rows ask for it -----------------------------------------------------------

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(S,) of x (S, P); −inf where it is no number."""
        values = np.concatenate([self.given(x[part])[0] for part in self.parts(len(x))])
        return np.where(np.isnan(values), -np.inf, values)

    def start(self) -> np.ndarray:
        """Where a search for the mode begins, (n,)."""
        return np.append(_START[: self.ends], [_START_CROSSED] * (self.size - self.ends))

    def likelihood_at(self, v: np.ndarray) -> Expansion:
        """The log density to second order about v, (n,), by differences."""
        slope, curvature = scales.expanded(self.log_density, v)
        return Expansion(v, float(self.log_density(v[None])[0]), slope, curvature)

    def prior_at(self, v: np.ndarray) -> Expansion:
        """Nothing of v, (n,): the density has it."""
        return Expansion(v, 0.0, np.zeros(self.size), np.zeros((self.size, self.size)))


def draw(
    posterior: GroupedPosterior, rng: np.random.Generator, n: int, spent: Callable[[], bool]
) -> Weighted:
    """n weighted draws, (n, P): the coefficients, log σ and h. spent: as of Clock."""
    sums = Sums(posterior)
    at, density = mode.find(sums, sums.start())  # type: ignore[arg-type]
    gaussian_noise.refuse_none(posterior, at[0])
    gaussian_noise.refuse_unbounded(posterior, at, 0, sums.log_density)
    proposal = Mixture.of(at, mode.covariance(density.curvature), tails=sums.tails)
    draws = weighted_draws.by_all_rows(sums, proposal, rng, n, spent=spent)  # type: ignore[arg-type]
    poor = draws.why or draws.effective < weighted_draws.WANTED or posterior.groups == sums.count
    if sums.size == 2 and poor:
        ridge = Ridge(sums.log_density, at, sums.count)
        draws = weighted_draws.by_all_rows(sums, ridge, rng, n, 1, spent=spent)  # type: ignore[arg-type]
    width = posterior.width
    x = np.empty((len(draws.x), posterior.size))
    x[:, width : width + sums.size] = draws.x
    for part in sums.parts(len(x)):
        _, cholesky, along, sd = sums.given(draws.x[part])
        noise = rng.standard_normal(sd.shape)
        there = np.linalg.solve(cholesky.transpose(0, 2, 1), (along + noise)[..., None])
        linear = np.nan_to_num(sd * there[..., 0])  # NaN where the weight is 0
        x[part, :width] = posterior.prior.mean + linear[:, :width]
        x[part, width + sums.size :] = linear[:, width:]
    centre = np.cov(x.T) if len(x) > 1 else np.eye(posterior.size)
    whole = Mixture.of(x.mean(axis=0), centre)
    return Weighted(x, draws.log_weight, draws.sign, draws.k_hat, draws.rounds, whole, 0.0, why=draws.why)
