"""What a small table's posterior with terms of groups is, by many chains of effects that are not centred.

Hamiltonian Monte Carlo in lockstep, whitened by the covariance that all chains have, until they agree. A
second implementation of terms, correlations and their priors; families' densities are flyrun's own, which
tools/truth holds against another implementation.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from flyrun.families.family import family

CHAINS = 64
_STEPS = 24  # of a trajectory, at most
_ACCEPTED = 0.85
_PILOTS, _ROUND, _MOST = (100, 150, 150), 400, 3_200  # iterations
_SMALLER = 2.0  # powers of ten by which some chains' steps are smaller, for where the density bends more
_GAIN = 0.1  # by which steps adapt
_INTERCEPT, _SLOPE, SD, FREEDOM = 10.0, 2.5, 2.5, 3.0  # scales of default priors; a half-t's freedom


class Term(NamedTuple):
    """Effects, one or two a level. code: (N,) each row's level; column: (N,) of the second, or None."""

    code: np.ndarray
    column: np.ndarray | None = None
    correlated: bool = True


class Model:
    """Of rows x (N, D) without ones, of mean 0 and sd 1, y (N,), numbers with noise standardised too.

    A point holds coefficients, the intercept unless cutpoints stand in for it, further numbers as they are
    sampled, then of each term log sds, the inverse tanh of a correlation, and z, effect by effect.
    """

    def __init__(self, name: str, x: np.ndarray, y: np.ndarray, terms: tuple[Term, ...], levels: int) -> None:
        self.family, self.y, self.terms = family(name), y, terms
        self.x = np.column_stack([x, np.ones(len(y))]) if self.family.intercept else x
        self.numbers = self.family.auxiliary(levels, 1.0)
        self.sd = np.array([_SLOPE] * x.shape[1] + [_INTERCEPT] * self.family.intercept)
        self.ones = [np.eye(term.code.max() + 1)[term.code] for term in terms]  # (N, J)
        self.first = self.x.shape[1] + len(self.numbers)
        sizes = [(2 + t.correlated if t.column is not None else 1, (t.column is not None) + 1) for t in terms]
        ends = np.cumsum(
            [self.first, *(n + q * one.shape[1] for (n, q), one in zip(sizes, self.ones, strict=True))]
        )
        self.places = [slice(a, b) for a, b in pairwise(ends)]
        self.heads, self.size = [n for n, _ in sizes], int(ends[-1])

    def effects(self, at: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
        """Of the k-th term at points (C, P): sds (C, q), correlation (C,), z and effects (C, q, J)."""
        its, n = at[:, self.places[k]], self.heads[k]
        q = 1 + (self.terms[k].column is not None)
        sds, rho = np.exp(its[:, :q]), np.tanh(its[:, 2]) if n == 3 else np.zeros(len(at))
        z = its[:, n:].reshape(len(at), q, -1)
        u = sds[:, :, None] * z
        if n == 3:
            u[:, 1] = sds[:, 1:] * (rho[:, None] * z[:, 0] + np.sqrt(1.0 - rho**2)[:, None] * z[:, 1])
        return sds, rho, z, u

    def density(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density (C,) and slopes (C, P) at (C, P)."""
        d, out = self.x.shape[1], np.empty_like(at)
        beta, aux = at[:, :d], [at[:, d + k, None] for k in range(len(self.numbers))]
        eta = beta @ self.x.T
        parts = [self.effects(at, k) for k in range(len(self.terms))]
        for term, ones, (*_, u) in zip(self.terms, self.ones, parts, strict=True):
            eta += u[:, 0] @ ones.T
            if term.column is not None:
                eta += (u[:, 1] @ ones.T) * term.column
        p, its = [eta, *aux], self.family
        value = (its.log_density(self.y, 1.0, p) + its.alone(self.y, 1.0, aux)).sum(axis=1)
        slopes = its.derivatives(self.y, 1.0, p)[0]
        by_eta = np.broadcast_to(slopes[0], eta.shape)
        value += -0.5 * ((beta / self.sd) ** 2).sum(axis=1)
        out[:, :d] = by_eta @ self.x - beta / self.sd**2
        alone = its.alone_derivatives(self.y, 1.0, aux)[0] if its.alone_derivatives else [0.0] * len(aux)
        for k, number in enumerate(self.numbers):
            a = at[:, d + k]
            value += number.prior.log_density(a)
            rows = np.broadcast_to(slopes[1 + k] + alone[k], eta.shape).sum(axis=1)
            out[:, d + k] = rows + number.prior.derivatives(a)[0]
        for k, (term, ones, (sds, rho, z, _)) in enumerate(zip(self.terms, self.ones, parts, strict=True)):
            share = (sds / SD) ** 2 / FREEDOM
            value += (np.log(sds) - 0.5 * (FREEDOM + 1.0) * np.log1p(share)).sum(axis=1)
            value += -0.5 * (z * z).sum(axis=(1, 2))
            of_sds = 1.0 - (FREEDOM + 1.0) * share / (1.0 + share)
            by_u = np.stack(
                [by_eta @ ones, *([] if term.column is None else [(by_eta * term.column) @ ones])], axis=1
            )
            q, n, by_z = len(sds[0]), self.heads[k], sds[:, :, None] * by_u
            if n == 3:
                root = np.sqrt(1.0 - rho**2)[:, None]
                of_second = by_z[:, 1].copy()
                of_sds[:, 0] += (by_z[:, 0] * z[:, 0]).sum(axis=1)
                of_sds[:, 1] += (of_second * (rho[:, None] * z[:, 0] + root * z[:, 1])).sum(axis=1)
                by_z[:, 0] += rho[:, None] * of_second
                by_z[:, 1] = root * of_second
                of_rho = (of_second * (z[:, 0] - rho[:, None] / root * z[:, 1])).sum(axis=1)
                value += np.log1p(-(rho**2))
                out[:, self.places[k].start + 2] = of_rho * (1.0 - rho**2) - 2.0 * rho
            else:
                of_sds += (by_z * z).sum(axis=2)
            out[:, self.places[k].start : self.places[k].start + q] = of_sds
            out[:, self.places[k].start + n : self.places[k].stop] = (by_z - z).reshape(len(at), -1)
        return np.where(np.isnan(value), -np.inf, value), out


class _Chains:
    """Chains in lockstep, at w of points root·w."""

    def __init__(self, model: Model, rng: np.random.Generator) -> None:
        self.model, self.rng, self.log_step = model, rng, np.log(0.1)
        self._whiten(0.5 * np.eye(model.size), rng.uniform(-0.5, 0.5, (CHAINS, model.size)))

    def _whiten(self, root: np.ndarray, x: np.ndarray) -> None:
        self.root = root
        self.w = np.linalg.solve(root, x.T).T
        self.value, self.slope = self._at(self.w)

    def _at(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slopes = self.model.density(w @ self.root.T)
        return value, slopes @ self.root

    def draw(self, iterations: int, gain: float = 0.0) -> np.ndarray:
        """(C, T, P). gain: by which the step adapts."""
        kept = np.empty((CHAINS, iterations, self.model.size))
        for t in range(iterations):
            steps = self.rng.integers(1, _STEPS + 1)
            e = np.exp(self.log_step) * 10.0 ** (-_SMALLER * self.rng.random((CHAINS, 1)) ** 3)
            p = self.rng.standard_normal(self.w.shape)
            w, value, slope, before = self.w, self.value, self.slope, 0.5 * (p * p).sum(axis=1)
            for _ in range(steps):
                p = p + 0.5 * e * slope
                w = w + e * p
                value, slope = self._at(w)
                p = p + 0.5 * e * slope
            rise = value - self.value + before - 0.5 * (p * p).sum(axis=1)
            rise = np.where(np.isfinite(rise) & np.isfinite(slope).all(axis=1), rise, -np.inf)
            taken = np.log(self.rng.random(CHAINS)) < rise
            self.w, self.slope = (
                np.where(taken[:, None], *pair) for pair in ((w, self.w), (slope, self.slope))
            )
            self.value = np.where(taken, value, self.value)
            self.log_step += gain * (np.exp(np.minimum(rise, 0.0)).mean() - _ACCEPTED)
            kept[:, t] = self.w
        return kept @ self.root.T

    def warm_up(self) -> None:
        """Adapt whitening and step."""
        for iterations in _PILOTS:
            x = self.draw(iterations, _GAIN)
            covariance = np.cov(x[:, iterations // 2 :].reshape(-1, x.shape[2]).T)
            self._whiten(np.linalg.cholesky(covariance + 1e-9 * np.diag(1.0 + np.diag(covariance))), x[:, -1])
            self.log_step = np.log(0.3)
        self.draw(_PILOTS[0], _GAIN)


def settled(model: Model, unsettled: Callable[[np.ndarray], str], seed: int = 0) -> np.ndarray:
    """Draws (C, T, P), so many that `unsettled` says nothing, or _MOST iterations."""
    with np.errstate(all="ignore"):  # trajectories that fly off, which are refused
        chains = _Chains(model, np.random.default_rng(seed))
        chains.warm_up()
        x = chains.draw(_ROUND)
        while unsettled(x) and x.shape[1] < _MOST:
            x = np.concatenate([x, chains.draw(x.shape[1])], axis=1)
    return x
