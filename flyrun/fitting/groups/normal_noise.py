"""Groups under normal noise: the coefficients and the effects are integrated out in closed form.

Given h and log σ all is normal. With M = (σ²(TT')⁻¹ + Z'Z)⁻¹ of each group the marginal likelihood needs the
groups' sums X'Z, Z'Z and Z'y alone (Laird & Ware 1982); the coefficients are drawn afterwards, given both.
Effects of a crossed factor are coefficients of its levels, whose common sd is one number more.
"""

from itertools import pairwise

import numpy as np

from flyrun.fitting import mode, weighted_draws
from flyrun.fitting.groups import scales
from flyrun.fitting.groups.integrated_out import GroupedPosterior
from flyrun.fitting.rows_posterior import Expansion
from flyrun.fitting.weighted_draws import Mixture, Weighted

_START = np.array([-0.5, -0.5, 0.0, -0.5])  # log σ and h
_START_CROSSED = -0.5


class Sums:
    """Density of v = (log σ, h, log sd of a crossed factor's effects), by sums of rows and of groups."""

    def __init__(self, posterior: GroupedPosterior):
        self.posterior, q = posterior, posterior.effects
        self.levels = posterior.levels_crossed
        width = posterior.width + self.levels
        self.rows, self.ends = posterior.rows, 1 + scales.number(q)
        self.size = self.ends + (self.levels > 0)
        self.whole = np.zeros((width + 1, width + 1))  # of (X, y): (X, y)'(X, y)
        groups = posterior.groups
        own, cross = np.zeros((groups, q, q)), np.zeros((groups, q, width + 1))
        self.count, mean = 0.0, posterior.prior.mean
        for block in posterior.grouped(4 * width):
            rows, z = self.rows.take(block.rows), posterior.z(block)
            left = rows.target - rows.offset - rows.features @ mean
            crossed = (
                [] if posterior.crossed is None else [np.eye(self.levels)[posterior.crossed[block.rows]]]
            )
            both = np.column_stack([rows.features, *crossed, left])
            weights = np.broadcast_to(rows.weights, left.shape)
            self.whole += both.T @ (both * weights[:, None])
            self.count += float(weights.sum())
            columns = [weights] if z is None else [weights, weights * z]
            for j, one in enumerate(columns):
                cross[block.groups, j] = np.add.reduceat(both * one[:, None], block.starts, axis=0)
                for k, other in enumerate([np.ones(len(left)), z][:q]):
                    own[block.groups, j, k] = np.add.reduceat(one * other, block.starts)
        posterior.queries += len(self.rows)
        if q == 1:  # groups of one size are alike: their outer products are summed
            alike, place = np.unique(own[:, 0, 0], return_inverse=True)
            order = np.argsort(place, kind="stable")
            ends = np.append(0, np.cumsum(np.bincount(place, minlength=len(alike))))
            outer = [cross[order[a:b], 0].T @ cross[order[a:b], 0] for a, b in pairwise(ends)]
            self.own, self.times, self.outer = alike, np.diff(ends), np.array(outer)
        self.groups, self.all_own, self.cross = groups, own, cross

    def _indicators(self, rows: slice | np.ndarray) -> list[np.ndarray]:
        """Of a crossed factor's levels, (n, J), if there is one."""
        code = self.posterior.crossed
        return [] if code is None else [(code[rows, None] == np.arange(self.levels)).astype(np.float64)]

    def given(self, v: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """At one v: log density, the root of the coefficients' precision and their mean, in prior sds."""
        prior, variance = self.posterior.prior, float(np.exp(2.0 * v[0]))
        h, crossed = v[None, 1 : self.ends], v[None, self.ends :]
        precision = [float(value[0]) for value in scales.precision(h)]
        if self.posterior.effects == 1:
            inner = variance * precision[0] + self.own
            inside = self.whole - np.tensordot(1.0 / inner, self.outer, 1)
            level = float(self.times @ np.log(inner)) + self.groups * (2.0 * h[0, 0] - 2.0 * v[0])
        else:
            inner = self.all_own + variance * np.array(
                [[precision[0], precision[1]], [precision[1], precision[2]]]
            )
            inside = self.whole - np.einsum(
                "gqa,gqb->ab", self.cross, np.linalg.solve(inner, self.cross), optimize=True
            )
            level = float(np.log(np.linalg.det(inner)).sum())
            level += self.groups * (2.0 * h[0, 0] + 2.0 * h[0, 2] - 4.0 * v[0])
        inside = inside / variance
        sd = np.concatenate([prior.sd, np.repeat(np.exp(crossed), self.levels)])
        product = inside[:-1, -1] * sd
        root = np.linalg.cholesky(inside[:-1, :-1] * np.outer(sd, sd) + np.eye(len(sd)))
        along = np.linalg.solve(root, product)
        value = -self.count * v[0] - 0.5 * level - 0.5 * inside[-1, -1]
        value += 0.5 * float(along @ along) - float(np.log(np.diag(root)).sum())
        value += float(self.posterior.auxiliary[0].prior.log_density(v[0])) + float(scales.log_prior(h)[0])
        value += float(scales.log_prior(crossed)[0]) if self.levels else 0.0
        return value, root, along, sd

    # -- as mode.find and by_all_rows ask for it -----------------------------------------------------------

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(S,) of x (S, P); −inf where it is no number."""
        found = np.empty(len(x))
        for s, v in enumerate(x):
            try:
                found[s] = self.given(v)[0]
            except np.linalg.LinAlgError:
                found[s] = -np.inf
        return np.where(np.isnan(found), -np.inf, found)

    def start(self) -> np.ndarray:
        """Where a search for the mode begins."""
        return np.append(_START[: self.ends], [_START_CROSSED] * (self.size - self.ends))

    def likelihood_at(self, v: np.ndarray) -> Expansion:
        """The log density to second order about v, by differences."""
        slope, curvature = scales.expanded(self.log_density, v)
        return Expansion(v, float(self.log_density(v[None])[0]), slope, curvature)

    def prior_at(self, v: np.ndarray) -> Expansion:
        """Nothing: the density has it."""
        return Expansion(v, 0.0, np.zeros(self.size), np.zeros((self.size, self.size)))


def draw(posterior: GroupedPosterior, rng: np.random.Generator, n: int) -> Weighted:
    """n weighted draws, (n, P): the coefficients, log σ and h."""
    sums = Sums(posterior)
    at, density = mode.find(sums, sums.start())  # type: ignore[arg-type]
    proposal = Mixture.of(at, mode.covariance(density.curvature))
    found = weighted_draws.by_all_rows(sums, proposal, rng, n)  # type: ignore[arg-type]
    width = posterior.width
    x = np.empty((len(found.x), posterior.size))
    x[:, width : width + sums.size] = found.x
    for s, v in enumerate(found.x):
        linear = np.zeros(width + sums.levels)
        if np.isfinite(found.log_weight[s]):
            _, root, along, sd = sums.given(v)
            linear = sd * np.linalg.solve(root.T, along + rng.standard_normal(len(sd)))
        x[s, :width] = posterior.prior.mean + linear[:width]
        x[s, width + sums.size :] = linear[width:]
    centre = np.cov(x.T) if len(x) > 1 else np.eye(posterior.size)
    whole = Mixture.of(x.mean(axis=0), centre)
    return Weighted(
        x, found.log_weight, found.sign, found.k_hat, found.rounds, whole, found.rate, why=found.why
    )
