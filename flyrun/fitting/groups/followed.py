"""Terms of groups, and the reference that their effects follow: the likelihood to second order about a point.

Of each term the information is what is left once the effects of larger terms are integrated out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular

from flyrun.fitting.groups import joint_map, level_map
from flyrun.fitting.groups.information import Curvatures, Information, Matrix, diagonal, positive, products
from flyrun.fitting.groups.term import Term
from flyrun.fitting.rows_posterior import Posterior

_STEP = 1e-3  # of differences
_LOWEST, _HIGHEST, _MOST_ATANH = -4.0, 4.0, 1.5  # of log sds and partial correlations at a reference
_SPARSE = 5  # times that a matrix has more numbers than are not 0, from which these alone are multiplied
_NEWTON, _CLOSE = 30, 1e-3  # steps at most to a reference, and the predictors' change that ends them
_WIDEST = 1e3  # of a prior's sd that coefficients are in units of
_LARGE = 4_000_000  # numbers of the largest term's part of a joint information, at most
_FAR = 2.5  # by which a step changes a predictor, at most
_WIDEST_OF_LOG = 20.0  # the same of the coefficients of other predictors than the target's


class Followed(NamedTuple):
    """What a term's effects follow. information: H (q, q, J); score: r̂ (q, J); others, smaller: by how much
    r falls with auxiliary numbers (J·q, A), and with coefficients and effects of smaller terms, which may be
    sparse.
    """

    information: np.ndarray
    score: np.ndarray
    others: np.ndarray
    smaller: Matrix


class Reference(NamedTuple):
    """Where the likelihood was expanded. b: coefficients and effects, (P + E,); others: auxiliary numbers,
    (A,), and h; rates: of log information by auxiliary numbers, (A,); joint: what coefficients and effects of
    small terms follow; roots: of these where they hang on no sd; terms: of each other.
    """

    b: np.ndarray
    others: np.ndarray
    rates: np.ndarray
    joint: joint_map.Followed
    roots: tuple[np.ndarray, np.ndarray] | None
    terms: list[Followed]


@dataclass
class Terms(Posterior):
    """Of rows with terms, the smallest first; x of the base class's methods is without these.

    Effects of a predictor go with its coefficients: those of all predictors with terms stand first in x, the
    target's before others'. Of the information what it says of the target's and another predictor together is
    left to the chains.
    """

    terms: tuple[Term, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Work out places."""
        super().__post_init__()
        self.rows = self.rows.take(slice(None))  # features as float64, once
        self.known = self.size
        #: predictors with coefficients that effects go with, and how many these are
        self.led = [*range(self.linear), *self._further_led()]
        self.n_led = sum(self.places[k].stop - self.places[k].start for k in self.led)
        ends = self.known + np.cumsum([0, *(term.numbers for term in self.terms)])
        self.scales = [slice(a, b) for a, b in pairwise(ends)]
        self.size = int(ends[-1])
        ends = np.cumsum([0, *(term.size for term in self.terms)])
        self.effects = [slice(a, b) for a, b in pairwise(ends)]
        self.n_effects = int(ends[-1])
        self.inner = int(ends[-2])  # effects of all terms but the largest
        n = self.n_led
        #: terms whose effects are joined with the coefficients, and how many numbers these are together
        self.joined = int((n + ends[1:-1] <= joint_map.MOST).sum())
        self.joint = n + int(ends[self.joined])
        #: of a normal distribution like the prior of these coefficients
        self.centre, self.sd_of = np.zeros(n), np.ones(n)
        self.centre[: self.n_coefficients] = self.prior.mean
        self.sd_of[: self.n_coefficients] = np.minimum(self.prior.sd, _WIDEST)
        self.at_level = [
            n + place.start + np.arange(term.size).reshape(term.levels, term.effects)
            for place, term in zip(self.effects, self.terms, strict=True)
        ]
        #: by predictor: what effects add to it, (N, E), and what these and coefficients do, (N, P + E)
        self.designs = {k: sparse.hstack([t.design(k) for t in self.terms], format="csr") for k in self.led}
        self._wholes = {
            k: sparse.hstack([*self._coefficients(k), self.designs[k]], format="csr") for k in self.led
        }
        split = n + self.inner
        self._inners = {k: whole[:, :split] for k, whole in self._wholes.items()}
        self._outers = {k: self._wholes[k][:, split:] for k in self.terms[-1].predictors}
        self._cut: dict[int, list] = {}
        self.reference: Reference | None = None

    def in_order(self, predictors: int) -> Sequence[int]:
        """Those with terms before others."""
        led = [*range(self.linear), *self._further_led()]
        return [*led, *(k for k in range(predictors) if k not in led)]

    def _further_led(self) -> list[int]:
        return sorted({k for term in self.terms for k in term.predictors} - {*range(self.linear)})

    def _coefficients(self, k: int) -> list[Any]:
        """What the coefficients of all predictors with terms add to the k-th."""
        n, parts = len(self.rows), list[Any]()
        for other in self.led:
            columns = self._columns(self.rows, other)
            columns = np.ones((n, 1)) if columns is None else columns
            parts.append(sparse.csr_matrix(columns) if k == other else sparse.csr_matrix(columns.shape))
        return parts

    @property
    def _reference(self) -> Reference:
        assert self.reference is not None
        return self.reference

    def refer(self, psi: np.ndarray, u: np.ndarray, steps: int = _NEWTON) -> np.ndarray:
        """Set the reference: coefficients and effects at their mode near these, others as in psi (size,).

        Returns effects (E,). psi holds β, no ζ.
        """
        beta, aux = psi[: self.n_led], psi[self.n_led : self.known]
        triangles, precisions = self._distributions(psi)
        n, split = self.n_led, self.n_led + self.inner
        for _ in range(steps):
            slopes, curvatures, _across = self._expanded(beta, aux, u)
            prior = self._prior(beta)
            gradient = sum(self._wholes[k].T @ slope for k, slope in slopes.items())
            gradient[:n] += prior[0]
            for term, place, precision in zip(self.terms, self.effects, precisions, strict=True):
                gradient[n + place.start : n + place.stop] -= (
                    u[place].reshape(term.levels, term.effects) @ precision
                ).ravel()
            its = self._information(curvatures, precisions)
            its.inner[range(n), range(n)] += np.maximum(prior[1], 1e-8)
            first = np.linalg.solve(its.left, gradient[:split] - its.freed.T @ gradient[split:])
            step = np.append(first, its.inverse @ gradient[split:] - its.freed @ first)
            change = max(np.abs(whole @ step).max() for whole in self._wholes.values())
            share = 1.0 if self.family.by_sums else min(1.0, _FAR / max(change, 1e-300))
            beta, u = beta + share * step[:n], u + share * step[n:]
            if share == 1.0 and change < _CLOSE:
                break
        self._set(np.concatenate([beta, psi[n:]]), u, triangles, precisions)
        return u

    def _prior(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slope and minus the second derivative of the prior of coefficients (n_led,), these each."""
        slope, curvature = np.zeros(self.n_led), np.zeros(self.n_led)
        its = self.prior.derivatives(beta[: self.n_coefficients])
        slope[: self.n_coefficients], curvature[: self.n_coefficients] = its
        for place, prior in self.singles:
            if isinstance(place, int) and place < self.n_led:
                slope[place], curvature[place] = prior.derivatives(beta[place])
        return slope, curvature

    def _distributions(self, psi: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Of each term T and (TT')⁻¹, (q, q), by psi (size,), within bounds."""
        triangles = list[np.ndarray]()
        for term, scale in zip(self.terms, self.scales, strict=True):
            h, sds = psi[scale].copy(), len(term.sds)
            h[:sds] = h[:sds].clip(_LOWEST, _HIGHEST)
            h[sds:] = h[sds:].clip(-_MOST_ATANH, _MOST_ATANH)
            triangles.append(term.triangle(h[:, None]).t[..., 0])
        return triangles, [np.linalg.inv(t @ t.T) for t in triangles]

    def _solver(
        self,
        whole: "sparse.csr_matrix",
        curvature: np.ndarray,
        prior: np.ndarray,
        precisions: list[np.ndarray],
    ) -> Any:
        """Of the information, (P + E)², of coefficients and effects whose columns are whole, (N, P + E)."""
        parts = [sparse.diags(np.maximum(prior, 1e-8))]
        parts += [
            sparse.kron(sparse.identity(term.levels), precision)
            for term, precision in zip(self.terms, precisions, strict=True)
        ]
        bent = whole.T @ whole.multiply(curvature[:, None]) + sparse.block_diag(parts)
        return sparse.linalg.splu(bent.tocsc())

    def freedom(self, psi: np.ndarray, u: np.ndarray, places: Sequence[int]) -> list[float]:
        """Effective degrees of freedom of some terms' effects, all of one predictor, at psi (size,), with β,
        and u (E,)."""
        n, precisions = self.n_led, self._distributions(psi)[1]
        beta, aux, of = psi[:n], psi[n : self.known], self.terms[places[0]].predictor
        whole, prior = self._wholes[of], self._prior(beta)[1]
        curvature = self._expanded(beta, aux, u)[1][of, of]
        solver, degrees = self._solver(whole, curvature, prior, precisions), list[float]()
        for k in places:
            at = np.arange(n + self.effects[k].start, n + self.effects[k].stop)
            unit = np.zeros((whole.shape[1], len(at)))
            unit[at, np.arange(len(at))] = 1.0
            penalty = np.kron(np.eye(self.terms[k].levels), precisions[k])
            degrees.append(len(at) - float(np.sum(penalty * solver.solve(unit)[at])))
        return degrees

    def _expanded(
        self, beta: np.ndarray, aux: np.ndarray, u: np.ndarray
    ) -> tuple[dict[int, np.ndarray], Curvatures, dict[int, np.ndarray]]:
        """Of each row by predictor with terms: the slope by it (N,), minus its slope by it, not below 0, and
        by other linear ones, and by each aux (N, A)."""
        rows, n = self.rows, len(self.rows)
        p = [each.reshape(-1) for each in self.predictors(rows, np.concatenate([beta, aux])[None])]
        for j, design in self.designs.items():
            p[j] = p[j] + design @ u
        with np.errstate(all="ignore"):
            slopes, bent = self.family.derivatives(rows.target, rows.trials, p)
        weights, others = rows.whole("weights"), [k for k in self.in_order(len(p)) if k not in self.led]

        def across(j: int) -> np.ndarray:
            parts = [np.empty((n, 0))]
            for k in others:
                by_both, columns = np.broadcast_to(weights * bent[j][k], n)[:, None], self._columns(rows, k)
                parts.append(by_both if columns is None else by_both * columns)
            return np.nan_to_num(np.concatenate(parts, axis=1))

        curvatures = {
            (j, k): np.nan_to_num(np.broadcast_to(weights * bent[j][k], n), posinf=0.0, neginf=0.0)
            for j in self.led
            for k in self.led
            if j == k or max(j, k) < self.linear
        }
        return (
            {j: np.nan_to_num(np.broadcast_to(weights * slopes[j], n)) for j in self.led},
            {(j, k): its.clip(min=1e-10) if j == k else its for (j, k), its in curvatures.items()},
            {j: across(j) for j in self.led},
        )

    def _information(self, curvatures: Curvatures, precisions: list[np.ndarray]) -> Information:
        """At rows' curvatures."""
        outer = self.terms[-1]
        of_outer = {k: its for k, its in curvatures.items() if {*k} <= {*outer.predictors}}
        inner = products(self._inners, self._inners, curvatures).toarray()
        cross = products(self._outers, self._inners, of_outer)
        for at, precision in zip(self.at_level[:-1], precisions, strict=False):
            place = slice(at[0, 0], at[-1, -1] + 1)
            inner[place, place] += np.kron(np.eye(len(at)), precision)
        bent = products(self._outers, self._outers, of_outer)
        information = positive(diagonal(bent, outer.levels, outer.effects))
        blocks, number = (
            np.linalg.inv(information.transpose(2, 0, 1) + precisions[-1]),
            np.arange(outer.levels),
        )
        inverse = sparse.bsr_matrix((blocks, number, np.arange(outer.levels + 1)))
        return Information(inner, cross, information, inverse)

    def _set(
        self,
        psi: np.ndarray,
        u: np.ndarray,
        triangles: list[np.ndarray],
        precisions: list[np.ndarray],
    ) -> None:
        """Set the reference; each term's information is what is left once larger terms are integrated out."""
        beta, aux = psi[: self.n_led], psi[self.n_led : self.known]
        by_row, curvatures, across = self._expanded(beta, aux, u)
        # that of several predictors has no rate in common
        rates, alone = np.zeros(len(aux)), len(self.led) == 1
        for k in range(len(aux) if alone else 0):
            ends = [
                self._expanded(beta, aux + sign * _STEP * np.eye(len(aux))[k], u)[1][0, 0].sum()
                for sign in (1, -1)
            ]
            rates[k] = np.log(ends[0] / ends[1]) / (2.0 * _STEP)
        n = self.n_led
        of_prior = self._prior(beta)
        for k in range(self.n_coefficients, n):
            variance = 1.0 / max(of_prior[1][k], _WIDEST_OF_LOG**-2.0)
            self.centre[k], self.sd_of[k] = beta[k] + of_prior[0][k] * variance, np.sqrt(variance)
        its = self._information(curvatures, precisions)
        columns = {k: across[k] + slope[:, None] * rates for k, slope in by_row.items()}
        both = self._inners, self._outers
        falls = [sum(part.T @ columns[k] for k, part in parts.items()) for parts in both]
        slopes = [sum(part.T @ by_row[k] for k, part in parts.items()) for parts in both]
        b = np.concatenate([beta, u])
        cross = its.cross if _SPARSE * its.cross.nnz < np.prod(its.cross.shape) else its.cross.toarray()
        terms = [_follow(u[self.effects[-1]], its.information, precisions[-1], falls[1], cross)]
        if joint := self._joint_with_largest(its, cross, falls, slopes, b, precisions):
            self.inner_cholesky = np.empty((0, 0))
        else:
            left, falling = its.left, falls[0] - its.freed.T @ falls[1]
            middle = left[self.joint :, self.joint :].copy()
            for k in range(len(self.terms) - 2, self.joined - 1, -1):
                place, term = self.effects[k], self.terms[k]
                at, before = slice(n + place.start, n + place.stop), slice(0, n + place.start)
                block = left[at, at]
                remains = positive(diagonal(block, term.levels, term.effects) - precisions[k][:, :, None])
                terms.append(_follow(u[place], remains, precisions[k], falling[at], left[at, before]))
                solved = np.linalg.solve(block, np.concatenate([left[at, before], falling[at]], axis=1))
                left[before, before] -= left[before, at] @ solved[:, : at.start]
                falling[before] -= left[before, at] @ solved[:, at.start :]
            joint = self._joint_alone(left, falling, precisions, b)
        terms.reverse()
        roots = None
        if self.joint > joint_map.MOST:  # the coefficients alone, whose prior is of no sd
            t = np.diag(self.sd_of)[None]
            roots = joint_map.roots(joint.information[None], t, np.ones(1))
            joint = joint._replace(falls=0.0 * joint.falls)
        self.reference = Reference(b, psi[n:], rates, joint, roots, terms)
        if joint.across is None:
            self.inner_cholesky = self._whitened(middle, triangles, precisions)

    def _joint_with_largest(
        self,
        its: Information,
        cross: Matrix,
        falls: list[np.ndarray],
        slopes: list[np.ndarray],
        b: np.ndarray,
        precisions: list[np.ndarray],
    ) -> joint_map.Followed | None:
        """What b follows before the largest term is integrated out, where no term is between and that is not
        too much."""
        outer, m = self.terms[-1], self.joint
        if self.joined < len(self.terms) - 1 or m > joint_map.MOST:
            return None
        if outer.size * outer.effects * m * m > max(_LARGE, 40 * len(self.rows)):
            return None
        whole = its.inner.copy()
        for at, precision in zip(self.at_level[:-1], precisions, strict=False):
            place = slice(at[0, 0], at[-1, -1] + 1)
            whole[place, place] -= np.kron(np.eye(len(at)), precision)
        away, u = b[:m].copy(), b[m:].reshape(outer.levels, outer.effects)
        away[: self.n_led] -= self.centre
        score = whole @ away + cross.T @ b[m:] + slopes[0]
        scores = np.einsum("ikj,jk->ij", its.information, u)
        scores += (cross @ away + slopes[1]).reshape(u.shape).T
        across = np.moveaxis(its.cross.toarray().reshape(outer.levels, outer.effects, m), 1, 0)
        largest = across.reshape(-1, m), joint_map.pairs_of(across), scores, falls[1]
        return joint_map.Followed(whole, score, falls[0], *largest)

    def _joint_alone(
        self, left: np.ndarray, falls: np.ndarray, precisions: list[np.ndarray], b: np.ndarray
    ) -> joint_map.Followed:
        """What b follows once all larger terms are integrated out at the reference."""
        m, n = self.joint, self.n_led
        precision = np.zeros((m, m))
        precision[range(n), range(n)] = self.sd_of**-2.0
        information = left[:m, :m].copy()
        for term, at, its in zip(self.terms[: self.joined], self.at_level, precisions, strict=False):
            place = slice(at[0, 0], at[-1, -1] + 1)
            precision[place, place] = np.kron(np.eye(term.levels), its)
        information[n:, n:] -= precision[n:, n:]
        values, vectors = np.linalg.eigh(information)
        information = (vectors * values.clip(0.0)) @ vectors.T
        away = b[:m].copy()
        away[:n] -= self.centre
        return joint_map.Followed(information, (information + precision) @ away, falls[:m])

    def _whitened(
        self, left: np.ndarray, triangles: list[np.ndarray], precisions: list[np.ndarray]
    ) -> np.ndarray:
        """The Cholesky factor of the precision of z of terms that are neither joined nor the largest."""
        size, first = len(left), self.joint - self.n_led
        lower, scale = np.eye(size), np.zeros((size, size))
        for k in range(self.joined, len(self.terms) - 1):
            follows, place = self._reference.terms[k - self.joined], self.effects[k]
            at = slice(place.start - first, place.stop - first)
            information = follows.information.transpose(2, 0, 1)
            solved = _times(np.linalg.inv(information + precisions[k]), follows.smaller[:, self.joint :])
            lower[at, : at.start] = solved
            q = level_map.roots(follows.information, triangles[k][..., None], np.ones(1))[1]
            scale[at, at] = sparse.block_diag(list(q[..., 0].transpose(2, 0, 1))).toarray()
        both = solve_triangular(lower, scale, lower=True)
        return np.linalg.cholesky(both.T @ left @ both + 1e-10 * np.eye(size))


def _times(blocks: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Blocks (J, q, q) times values (J·q, m), level by level."""
    levels, q, _ = blocks.shape
    return (blocks @ values.reshape(levels, q, -1)).reshape(values.shape)


def _follow(
    u: np.ndarray, information: np.ndarray, precision: np.ndarray, others: np.ndarray, smaller: Matrix
) -> Followed:
    score = np.einsum("ikj,kj->ij", information + precision[:, :, None], u.reshape(-1, len(precision)).T)
    return Followed(information, score, others, smaller)
