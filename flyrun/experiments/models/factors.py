"""Likelihoods as factors of few numbers each, and their expectations where these numbers are Gaussian.

A datum's likelihood sees θ through its predictors η_n, K of them; one that knows nothing of a shift of all K
(softmax) through u_n = Cᵀη_n, C an orthonormal basis of what is left. Under θ ~ N(μ, S) u_n is Gaussian in
k = K or K − 1 dimensions: expectations are Gauss–Hermite sums over Q^k nodes, each of which is a query.
"""

from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import null_space
from scipy.special import logsumexp, roots_hermitenorm

from flyrun.experiments.models import passes
from flyrun.experiments.models.features import Features, predicted, variances
from flyrun.ground.errors import FlyrunError

MOST_NODES = 2_000_000  # of a quadrature: nine classes' by five points a dimension
_WIDE = 0.5  # curvature times variance, from where on nodes are laid about the top of the product
_LOOKS = 30  # of Newton's method for that top, at most


class TooManyNodesError(FlyrunError):
    """A likelihood of so many predictors that no quadrature over them is to be had."""


class Gaussians(NamedTuple):
    """N(mean_n, variance_n) of the u_n of some rows."""

    mean: np.ndarray  # (n, k)
    variance: np.ndarray  # (n, k, k)


class Sites(NamedTuple):
    """exp(−½ uᵀTu + νᵀu) in place of the likelihoods of some rows, or of a prior's coordinates (k = 1)."""

    precision: np.ndarray  # T, (n, k, k)
    linear: np.ndarray  # ν, (n, k)


class Gaussian(NamedTuple):
    """N(mean, covariance) of θ."""

    mean: np.ndarray  # (P,)
    covariance: np.ndarray  # (P, P)


class Expected(NamedTuple):
    """E log L_n, E of its slope and of minus its second derivatives."""

    value: np.ndarray  # (n,)
    slope: np.ndarray  # (n, k)
    curvature: np.ndarray  # (n, k, k)
    queries: int


class Tilted(NamedTuple):
    """N(u; m, v)·L_n(u): log of its integral Z_n, and mean and variance of u under it.

    slope and curvature are ∂ log Z_n/∂m and minus ∂² log Z_n/∂m².
    """

    log_z: np.ndarray  # (n,)
    slope: np.ndarray  # (n, k)
    curvature: np.ndarray  # (n, k, k)
    mean: np.ndarray  # (n, k)
    variance: np.ndarray  # (n, k, k)
    wide: np.ndarray  # (n,): whether variance is exact, and curvature worked out from it; else the other way
    queries: int


@cache
def contrasts(n_predictors: int, shift_free: bool) -> np.ndarray:
    """C, (K, k): the identity, or an orthonormal basis of what sums to 0."""
    return null_space(np.ones((1, n_predictors))) if shift_free else np.eye(n_predictors)


@cache
def nodes(dimensions: int, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Hermite nodes (Q^k, k) for standard normals, and the logs of their weights, (Q^k,).

    Raises TooManyNodesError where there would be more than MOST_NODES.
    """
    if points**dimensions > MOST_NODES:
        raise TooManyNodesError(
            f"a datum sees {dimensions} numbers of θ: quadrature over them has {points}^{dimensions} nodes; "
            "choose sampler=laplace, importance or hmc"
        )
    at, weight = roots_hermitenorm(points)
    grid = np.stack(np.meshgrid(*[at] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    log_weight = np.log(weight / weight.sum())
    each = np.stack(np.meshgrid(*[log_weight] * dimensions, indexing="ij"), axis=-1)
    return grid, each.reshape(-1, dimensions).sum(axis=1)


def root_of(variance: np.ndarray) -> np.ndarray:
    """Lower triangles R with R·Rᵀ = variance, (n, k, k)."""
    return np.sqrt(variance) if variance.shape[1] == 1 else np.linalg.cholesky(variance)


class Factors:
    """The likelihoods of some rows as functions of u, (n, k)."""

    def __init__(self, module: ModuleType, part: Any):
        self.module, self.part = module, part
        self.basis = contrasts(part.n_predictors, getattr(module, "SHIFT_FREE", False))

    def of(self, which: np.ndarray) -> "Factors":
        """Those of some of the rows: indices or a mask, (n,)."""
        return Factors(self.module, self.module.part(self.part, which))

    def look(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log L_n, (n,), slopes (n, k), curvatures (n, k, k), at u. A query of each row."""
        eta = np.ascontiguousarray(u @ self.basis.T)
        values, slopes = passes.values_and_slopes(self.part, eta)
        bend = self.module.curvature(self.part, eta)
        return values, slopes @ self.basis, self.basis.T @ bend @ self.basis

    def values(self, u: np.ndarray) -> np.ndarray:
        """log L_n at u, (n,). A query of each row."""
        return passes.values_and_slopes(self.part, np.ascontiguousarray(u @ self.basis.T))[0]


def expected(factors: Factors, gaussians: Gaussians, points: int) -> Expected:
    """Under each row's Gaussian, by points^k nodes."""
    mean, variance = gaussians
    root = root_of(variance)
    grid, log_weight = nodes(mean.shape[1], points)
    value, slope, bend = np.zeros(len(mean)), np.zeros(mean.shape), np.zeros(variance.shape)
    for at, weight in zip(grid, np.exp(log_weight), strict=True):
        terms = factors.look(mean + root @ at)
        value += weight * terms[0]
        slope += weight * terms[1]
        bend += weight * terms[2]
    return Expected(value, slope, bend, len(mean) * len(grid))


def tilted(factors: Factors, cavity: Gaussians, points: int) -> Tilted:
    """Of each row, by points^k nodes about the cavity's mean.

    Where the likelihood bends within the cavity's width the nodes lie about the top of the product instead,
    which a few looks find: the others would miss it.
    """
    mean, variance = cavity
    root = root_of(variance)
    grid, log_weight = nodes(mean.shape[1], points)
    looks = [factors.look(mean + root @ at) for at in grid]
    log_p = np.stack([look[0] for look in looks]) + log_weight[:, None]
    log_z = logsumexp(log_p, axis=0)
    share = np.exp(log_p - log_z)
    slopes = np.stack([look[1] for look in looks])
    bends = np.stack([look[2] for look in looks])
    slope = np.einsum("gn,gnk->nk", share, slopes)
    apart = slopes - slope
    curvature = np.einsum("gn,gnkl->nkl", share, bends) - np.einsum("gn,gnk,gnl->nkl", share, apart, apart)
    curvature = (curvature + curvature.transpose(0, 2, 1)) / 2
    moved = np.einsum("nkl,nl->nk", variance, slope)
    moments = Tilted(
        log_z, slope, curvature, mean + moved, variance - variance @ curvature @ variance,
        np.zeros(len(mean), bool), len(mean) * len(grid),
    )  # fmt: skip
    steepest = np.abs(bends).max(axis=(0, 2, 3)) * np.abs(variance).max(axis=(1, 2))
    wide = steepest > _WIDE
    if not wide.any():
        return moments
    about = _about_top(factors.of(np.flatnonzero(wide)), Gaussians(mean[wide], variance[wide]), points)
    for have, better in zip(moments[:-1], about[:-1], strict=True):
        have[wide] = better
    return moments._replace(queries=moments.queries + about.queries)


def _about_top(factors: Factors, cavity: Gaussians, points: int) -> Tilted:
    mean, variance = cavity
    inner = np.linalg.inv(variance)
    top, queries = _tops(factors, mean, inner)
    bend = factors.look(top)[2]
    queries += len(mean)
    spread = np.linalg.inv(inner + _not_below_zero(bend))
    root = root_of((spread + spread.transpose(0, 2, 1)) / 2)
    grid, log_weight = nodes(mean.shape[1], points)
    at = top + np.einsum("nkl,gl->gnk", root, grid)
    away = at - mean
    log_p = np.stack([factors.values(u) for u in at])
    queries += at.shape[0] * len(mean)
    log_p -= 0.5 * np.einsum("gnk,nkl,gnl->gn", away, inner, away)
    log_p += (log_weight + 0.5 * (grid**2).sum(axis=1))[:, None]
    log_z = logsumexp(log_p, axis=0)
    share = np.exp(log_p - log_z)
    log_z += np.linalg.slogdet(root)[1] - 0.5 * np.linalg.slogdet(variance)[1]
    centre = np.einsum("gn,gnk->nk", share, at)
    around = at - centre
    within = np.einsum("gn,gnk,gnl->nkl", share, around, around)
    slope = np.einsum("nkl,nl->nk", inner, centre - mean)
    curvature = inner - inner @ within @ inner
    return Tilted(log_z, slope, curvature, centre, within, np.ones(len(mean), bool), queries)


def _not_below_zero(bend: np.ndarray) -> np.ndarray:
    """Symmetric matrices (n, k, k) with eigenvalues below 0 set to it."""
    values, vectors = np.linalg.eigh(bend)
    return (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)


def _tops(factors: Factors, mean: np.ndarray, inner: np.ndarray) -> tuple[np.ndarray, int]:
    """Where log L_n − ½(u−m)ᵀV(u−m) is highest, (n, k), by Newton's method with steps halved where they lead
    down, and the looks taken."""

    def height(u: np.ndarray, value: np.ndarray) -> np.ndarray:
        away = u - mean
        return value - 0.5 * np.einsum("nk,nkl,nl->n", away, inner, away)

    u, share = mean.copy(), np.ones(len(mean))
    value, slope, bend = factors.look(u)
    before, queries = height(u, value), len(mean)
    for _ in range(_LOOKS):
        pull = slope - np.einsum("nkl,nl->nk", inner, u - mean)
        step = np.linalg.solve(inner + _not_below_zero(bend), pull[:, :, None])[:, :, 0]
        if (np.abs(step * pull).sum(axis=1)).max(initial=0.0) < 1e-8:
            break
        tried = u + share[:, None] * step
        look = factors.look(tried)
        queries += len(mean)
        now = height(tried, look[0])
        up = now >= before
        u[up], before[up] = tried[up], now[up]
        slope[up], bend[up] = look[1][up], look[2][up]
        share = np.where(up, np.minimum(1.0, 2.0 * share), 0.25 * share)
    return u, queries


class Projection:
    """From a Gaussian of θ, (P,), to those of the rows' u_n, and from sites of these back to θ."""

    def __init__(self, features: Features, basis: np.ndarray):
        self.features, self.basis = features, basis
        self.n_predictors, self.k = basis.shape

    def marginals(self, rows: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> Gaussians:
        """Of rows (n, D) under N(mean, covariance), as `reduced` gives them."""
        variance = variances(self.features, rows, covariance)
        return Gaussians(predicted(self.features, rows, mean), variance)

    def seen(self, rows: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """u_n of rows (n, D) at θ, (P,): (n, k)."""
        if self.k == self.n_predictors:
            return predicted(self.features, rows, theta)
        return rows @ (theta.reshape(-1, rows.shape[1]).T @ self.basis)

    def reduced(self, mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (k·D,) and covariance of CᵀΘ; of θ itself where C is the identity."""
        if self.k == self.n_predictors:
            return mean, covariance
        size = len(mean) // self.n_predictors
        parts = covariance.reshape(self.n_predictors, size, self.n_predictors, size)
        both = np.einsum("ki,kdle,lj->idje", self.basis, parts, self.basis, optimize=True)
        little = self.basis.T @ mean.reshape(self.n_predictors, size)
        return little.ravel(), both.reshape(self.k * size, self.k * size)

    def back(self, gram: np.ndarray, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Precision (P, P) and linear term (P,) in θ, of those in CᵀΘ: (k·D, k·D), (k·D,)."""
        if self.k == self.n_predictors:
            return gram, linear
        size = len(linear) // self.k
        parts = gram.reshape(self.k, size, self.k, size)
        both = np.einsum("ki,idje,lj->kdle", self.basis, parts, self.basis, optimize=True)
        whole = self.n_predictors * size
        return both.reshape(whole, whole), (self.basis @ linear.reshape(self.k, size)).ravel()


def touching(factors: Factors, u: np.ndarray) -> Sites:
    """Laplace's sites: of the likelihoods' slope and curvature at u, (n, k). A query of each row."""
    _, slope, curvature = factors.look(u)
    return Sites(curvature, slope + np.einsum("nkl,nl->nk", curvature, u))


def averaging(factors: Factors, at: Gaussians, points: int) -> tuple[Sites, Expected]:
    """The sites of Gaussian variational inference: of the average slope and curvature."""
    means = expected(factors, at, points)
    return Sites(means.curvature, means.slope + np.einsum("nkl,nl->nk", means.curvature, at.mean)), means


def log_sites(sites: Sites, u: np.ndarray) -> np.ndarray:
    """−½uᵀTu + νᵀu, (n,), at u, (n, k)."""
    pull = np.einsum("nkl,nl->nk", sites.precision, u)
    return np.einsum("nk,nk->n", sites.linear - 0.5 * pull, u)


def unsited(factors: Factors, sites: Sites, u: np.ndarray) -> np.ndarray:
    """log L_n + ½uᵀTu − νᵀu, (n,), at u, (n, k). A query of each row."""
    return factors.values(u) - log_sites(sites, u)
