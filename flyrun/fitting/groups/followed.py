"""Terms of groups, and the reference that their effects follow: the likelihood to second order about a point.

Of each term the information is what is left once the effects of larger terms are integrated out.
"""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular

from flyrun.families.prior_densities import Prior
from flyrun.fitting.groups import level_map
from flyrun.fitting.rows_posterior import Posterior

_STEP = 1e-3  # of differences
_LOWEST, _HIGHEST, _MOST_ATANH = -4.0, 4.0, 1.5  # of log sds and partial correlations at a reference
_NEWTON, _CLOSE = 30, 1e-3  # steps at most to a reference, and the predictors' change that ends them
_FAR = 2.5  # by which a step changes a predictor, at most


@dataclass(frozen=True)
class Term:
    """Effects of the levels of a group. code: (N,) each row's level; columns: (N, q), what effects multiply;
    levels: J; correlated: whether they are; sds: priors of their sds; eta: of the correlations' LKJ.
    """

    code: np.ndarray
    columns: np.ndarray
    levels: int
    correlated: bool
    sds: tuple[Prior, ...]
    eta: float = 1.0

    @property
    def effects(self) -> int:
        """Of a level: q."""
        return self.columns.shape[1]

    @property
    def numbers(self) -> int:
        """Of h."""
        q = self.effects
        return q + (q * (q - 1) // 2 if self.correlated else 0)

    @property
    def size(self) -> int:
        """Of all its effects, level by level."""
        return self.levels * self.effects

    @cached_property
    def design(self) -> Any:
        """(N, J·q), sparse: the predictor's part of effects, level by level."""
        n, q = self.columns.shape
        indices = (self.code[:, None] * q + np.arange(q)).ravel()
        return sparse.csr_matrix((self.columns.ravel(), indices, q * np.arange(n + 1)), shape=(n, self.size))

    def log_prior(self, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of h (n, C): values (C,) and slopes (n, C)."""
        value, slopes = level_map.lkj(h, self.effects, self.eta)
        for k, prior in enumerate(self.sds):
            value = value + prior.log_density(h[k])
            slopes[k] += prior.derivatives(h[k])[0]
        return value, slopes


class Followed(NamedTuple):
    """What a term's effects follow. mode: û (q, J); information: H (q, q, J); score: r̂ (q, J); others,
    smaller: by how much r falls with ψ's first numbers (J·q, P + A), and with effects of smaller terms.
    """

    mode: np.ndarray
    information: np.ndarray
    score: np.ndarray
    others: np.ndarray
    smaller: np.ndarray


class Reference(NamedTuple):
    """Where the likelihood was expanded. beta: (P,); others: auxiliary numbers, (A,), and h; effects: (E,);
    rates: of log information by auxiliary numbers, (A,);
    terms: of each; base: (P,) variances of β with effects at 0; shares: of each term (q, P), by how much they
    grow with each variance of its effects.
    """

    beta: np.ndarray
    others: np.ndarray
    effects: np.ndarray
    rates: np.ndarray
    terms: list[Followed]
    base: np.ndarray
    shares: list[np.ndarray]


@dataclass
class Terms(Posterior):
    """Of rows with terms, the smallest first; x of the base class's methods is without these."""

    terms: tuple[Term, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Work out places."""
        super().__post_init__()
        self.rows = self.rows.take(slice(None))  # features as float64, once
        self.known = self.size
        ends = self.known + np.cumsum([0, *(term.numbers for term in self.terms)])
        self.scales = [slice(a, b) for a, b in pairwise(ends)]
        self.size = int(ends[-1])
        ends = np.cumsum([0, *(term.size for term in self.terms)])
        self.effects = [slice(a, b) for a, b in pairwise(ends)]
        self.n_effects = int(ends[-1])
        self.inner = int(ends[-2])  # effects of all terms but the largest
        self.design = sparse.hstack([term.design for term in self.terms], format="csr")
        self._cut: dict[int, list] = {}
        self.reference: Reference | None = None

    @property
    def _reference(self) -> Reference:
        assert self.reference is not None
        return self.reference

    def refer(self, psi: np.ndarray, u: np.ndarray, steps: int = _NEWTON) -> np.ndarray:
        """Set the reference: coefficients and effects at their mode near these, others as in psi (size,).

        Returns effects (E,). psi holds β, no ζ.
        """
        beta, aux = psi[: self.n_coefficients], psi[self.n_coefficients : self.known]
        triangles = []
        for term, scale in zip(self.terms, self.scales, strict=True):
            h = psi[scale].copy()
            h[: term.effects] = h[: term.effects].clip(_LOWEST, _HIGHEST)
            h[term.effects :] = h[term.effects :].clip(-_MOST_ATANH, _MOST_ATANH)
            triangles.append(level_map.triangle(h[:, None], term.effects).t[..., 0])
        precisions = [np.linalg.inv(t @ t.T) for t in triangles]
        whole = sparse.hstack([sparse.csr_matrix(self.rows.features), self.design]).tocsr()
        n = self.n_coefficients
        for _ in range(steps):
            slope, curvature, _across = self._expanded(beta, aux, u)
            prior = self.prior.derivatives(beta)
            gradient = whole.T @ slope
            gradient[:n] += prior[0]
            parts = [sparse.diags(np.maximum(prior[1], 1e-8))]
            for term, place, precision in zip(self.terms, self.effects, precisions, strict=True):
                gradient[n + place.start : n + place.stop] -= (
                    u[place].reshape(term.levels, term.effects) @ precision
                ).ravel()
                parts.append(sparse.kron(sparse.identity(term.levels), precision))
            bent = whole.T @ whole.multiply(curvature[:, None]) + sparse.block_diag(parts)
            step = sparse.linalg.splu(bent.tocsc()).solve(gradient)
            change = np.abs(whole @ step).max()
            share = 1.0 if self.family.by_sums else min(1.0, _FAR / max(change, 1e-300))
            beta, u = beta + share * step[:n], u + share * step[n:]
            if share == 1.0 and change < _CLOSE:
                break
        self._set(np.concatenate([beta, psi[n:]]), u, triangles, precisions)
        return u

    def _expanded(
        self, beta: np.ndarray, aux: np.ndarray, u: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each row: the slope by η (N,), minus its slope by η, not below 0, and by each aux (N, A)."""
        rows = self.rows
        eta = rows.features @ beta + rows.offset + self.design @ u
        with np.errstate(all="ignore"):
            slopes, bent = self.family.derivatives(rows.target, rows.trials, [eta, *aux])
        weights = rows.whole("weights")
        across = [weights * bent[0][1 + k] for k in range(len(aux))]
        curvature = np.nan_to_num(weights * np.broadcast_to(bent[0][0], eta.shape), posinf=0.0)
        return (
            np.nan_to_num(weights * slopes[0]),
            curvature.clip(min=1e-10),
            np.nan_to_num(np.stack(across, axis=-1)) if across else np.empty((len(eta), 0)),
        )

    def _set(
        self,
        psi: np.ndarray,
        u: np.ndarray,
        triangles: list[np.ndarray],
        precisions: list[np.ndarray],
    ) -> None:
        """Set the reference; each term's information is what is left once larger terms are integrated out."""
        beta, aux = psi[: self.n_coefficients], psi[self.n_coefficients : self.known]
        slope, curvature, across = self._expanded(beta, aux, u)
        rates = np.zeros(len(aux))
        for k in range(len(aux)):
            ends = [
                self._expanded(beta, aux + sign * _STEP * np.eye(len(aux))[k], u)[1].sum() for sign in (1, -1)
            ]
            rates[k] = np.log(ends[0] / ends[1]) / (2.0 * _STEP)
        x = self.rows.features
        columns = np.concatenate([curvature[:, None] * x, across + slope[:, None] * rates], axis=1)
        others = [term.design.T @ columns for term in self.terms]
        square = x.T @ columns[:, : x.shape[1]]
        informations, shares, base = list[np.ndarray](), list[np.ndarray](), np.empty(0)
        for k, term in enumerate(self.terms):
            weighted = term.design.multiply(curvature[:, None]).tocsr()
            informations.append(_diagonal(term.design.T @ weighted, term.levels, term.effects))
            first, share = self._variances(square, others[k][:, : x.shape[1]], informations[k], triangles[k])
            base, shares = first, [*shares, share]
        inner = self.design[:, : self.inner]
        outer = self.terms[-1]
        weighted = self.design.multiply(curvature[:, None]).tocsr()
        left = (inner.T @ weighted[:, : self.inner]).toarray()
        for place, term, precision in zip(self.effects, self.terms[:-1], precisions, strict=False):
            left[place, place] += np.kron(np.eye(term.levels), precision)
        cross = (outer.design.T @ weighted[:, : self.inner]).toarray()
        information = informations[-1]
        blocks = np.linalg.inv(information.transpose(2, 0, 1) + precisions[-1])
        freed = _times(blocks, cross)
        left -= cross.T @ freed
        others = [*(part - cross[:, place].T @ _times(blocks, others[-1])
                    for part, place in zip(others[:-1], self.effects, strict=False)), others[-1]]  # fmt: skip
        whole = left.copy()
        terms = [_follow(u[self.effects[-1]], information, precisions[-1], others[-1], cross)]
        for k in range(len(self.terms) - 2, -1, -1):
            place, term = self.effects[k], self.terms[k]
            before = slice(0, place.start)
            block = left[place, place]
            information = _diagonal(block, term.levels, term.effects) - precisions[k][:, :, None]
            terms.append(_follow(u[place], information, precisions[k], others[k], left[place, before]))
            solved = np.linalg.solve(block, np.concatenate([left[place, before], others[k]], axis=1))
            left[before, before] -= left[before, place] @ solved[:, : place.start]
            for m in range(k):
                others[m] = others[m] - left[self.effects[m], place] @ solved[:, place.start :]
        terms.reverse()
        self.reference = Reference(beta, psi[self.n_coefficients :], u, rates, terms, base, shares)
        self.inner_cholesky = self._whitened(whole, triangles, precisions)

    def _variances(
        self, square: np.ndarray, others: np.ndarray, information: np.ndarray, t: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Variances of β, (P,), with effects at 0; by how much each of a term's variances adds, (q, P)."""
        q, _, levels = information.shape
        ridge = np.diag(np.diag(square) * 1e-6 + 1e-8)

        def variances(t: np.ndarray) -> np.ndarray:
            inner = np.linalg.inv(np.eye(q) + np.einsum("mi,mnj,nk->jik", t, information, t))
            part = others.reshape(levels, q, -1)
            loss = np.einsum("jap,ai,jik,bk,jbs->ps", part, t, inner, t, part, optimize=True)
            return np.diag(np.linalg.inv(square + ridge - loss)).clip(1e-12)

        base, shares = variances(0.0 * t), np.empty((q, len(square)))
        for k in range(q):
            alone = np.zeros_like(t)
            alone[k, k] = np.sqrt(t[k] @ t[k])
            shares[k] = (variances(2.0 * alone) - variances(alone)).clip(0.0) / (3.0 * alone[k, k] ** 2)
        return base, shares

    def _whitened(
        self, left: np.ndarray, triangles: list[np.ndarray], precisions: list[np.ndarray]
    ) -> np.ndarray:
        """The Cholesky factor of the precision of z of all terms but the largest, which is integrated out."""
        size = self.inner
        lower, scale = np.eye(size), np.zeros((size, size))
        for follows, place, t, precision in zip(
            self._reference.terms, self.effects, triangles, precisions, strict=False
        ):
            if place.stop > size:
                break
            information = follows.information.transpose(2, 0, 1)
            lower[place, : place.start] = _times(np.linalg.inv(information + precision), follows.smaller)
            mapped = level_map.forward(
                np.zeros((*follows.mode.shape, 1)), np.zeros((*follows.mode.shape, 1)),
                follows.information, t[..., None], np.ones(1),
            )  # fmt: skip
            scale[place, place] = sparse.block_diag(list(mapped.q[..., 0].transpose(2, 0, 1))).toarray()
        both = solve_triangular(lower, scale, lower=True)
        return np.linalg.cholesky(both.T @ left @ both + 1e-10 * np.eye(size))


def _diagonal(matrix: "np.ndarray | sparse.spmatrix", levels: int, q: int) -> np.ndarray:
    """Blocks on the diagonal of a (J·q, J·q) matrix, sparse or dense, (q, q, J)."""
    at = np.arange(levels) * q
    parts = [[np.asarray(matrix[at + i, at + k]).ravel() for k in range(q)] for i in range(q)]
    return np.array(parts)


def _times(blocks: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Blocks (J, q, q) times values (J·q, m), level by level."""
    levels, q, _ = blocks.shape
    return (blocks @ values.reshape(levels, q, -1)).reshape(values.shape)


def _follow(
    u: np.ndarray, information: np.ndarray, precision: np.ndarray, others: np.ndarray, smaller: np.ndarray
) -> Followed:
    values, vectors = np.linalg.eigh(information.transpose(2, 0, 1))
    information = np.einsum("jik,jk,jlk->ilj", vectors, values.clip(0.0), vectors)
    mode = u.reshape(-1, len(precision)).T
    score = np.einsum("ikj,kj->ij", information + precision[:, :, None], mode)
    return Followed(mode, information, score, others, smaller)
