"""A posterior of any terms of groups, in coordinates of which nearly all are N(0, I) and independent.

x holds ζ and s, then z of each term. Coefficients and the effects of small terms follow auxiliary numbers and
sds jointly, by ζ and their z (joint_map.py); each level's effects of other terms follow these and the effects
of all smaller terms (level_map.py). Auxiliary numbers and h, of each term, are a = â + s·√(1 + s²/4): logs
have tails like e^−|a|, which are normal ones of s. What all this leaves out is whitened by a constant matrix.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from flyrun.fitting.groups import joint_map, level_map
from flyrun.fitting.groups.followed import Terms
from flyrun.fitting.groups.integrated_out import MANY
from flyrun.fitting.table_rows import Rows, as_column
from flyrun.fitting.weighted_draws import never
from flyrun.ground.numerics.special import Numbers

_BLOCK = 1 << 17  # predictors of a block
_ROUNDS = 3  # of the search for a reference
_ROUGH = 40  # steps in each for ψ


class Value(NamedTuple):
    """Log density (C,) and slopes (dim, C) at C points; read: coefficients, auxiliary numbers and h,
    (size, C); effects: (E, C), term by term; standard: v of effects u = Tv, (E, C)."""

    log_density: np.ndarray
    slopes: np.ndarray
    read: np.ndarray
    effects: np.ndarray
    standard: np.ndarray


class _Joint(NamedTuple):
    """What the joint map reads; c: the information relative to the reference's, (C,)."""

    left: joint_map.Left
    roots: tuple[np.ndarray, ...]
    c: np.ndarray


@dataclass
class TermsPosterior(Terms):
    """Terms in coordinates that follow."""

    def at(self, x: np.ndarray, valued: bool = True) -> Value:
        """At x (dim, C). valued: whether the log density is wanted, or slopes alone, which cost half."""
        its, n, m, chains = self._reference, self.n_led, self.joint, x.shape[1]
        s, x = x[n : self.size], x.copy()
        x[n : self.size] = its.others[:, None] + s * np.sqrt(1.0 + 0.25 * s * s)
        aux = x[n : self.known]
        away, c = self._away(aux)
        triangles = self._triangles(x)
        roots = self._roots(triangles, c)
        joint = self._joint(away, triangles, roots, c)
        z = np.concatenate([x[:n], x[self.size : self.size + m - n]])
        first = joint_map.forward(z, joint.left.r, *joint.roots)
        b, standard = np.empty((n + self.n_effects, chains)), np.empty((self.n_effects, chains))
        b[:m], standard[: m - n] = first.b, first.v[n:]
        b[:n] += self.centre[:, None]
        pace = (1.0 + 0.5 * s * s) / np.sqrt(1.0 + 0.25 * s * s)
        # of coefficients `_rows` has the prior
        log_p = first.level + 0.5 * (first.v[:n] ** 2).sum(axis=0) + np.log(pace).sum(axis=0)
        kept, slopes_of_h = {}, []
        for k, place in enumerate(self.effects):
            prior, slopes = self.terms[k].log_prior(x[self.scales[k]])
            log_p = log_p + prior
            slopes_of_h.append(slopes)
            if k < self.joined:
                continue
            r = self._score(k, away, b, c)
            z = _by_effect(x[self.size + place.start : self.size + place.stop], self.terms[k].effects)
            mapped = level_map.forward(z, r, *roots[k])
            b[n + place.start : n + place.stop], standard[place] = _by_level(mapped.u), _by_level(mapped.v)
            log_p = log_p + mapped.level
            kept[k] = r, mapped
        value, by_b, by_aux = self._rows(b, aux, valued)
        log_p = log_p + value
        out, by_c, backs = np.empty_like(x), np.zeros(chains), {}
        for k in range(len(self.terms) - 1, self.joined - 1, -1):
            (r, mapped), follows, place = kept[k], its.terms[k - self.joined], self.effects[k]
            by_u = _by_effect(by_b[n + place.start : n + place.stop], self.terms[k].effects)
            by_z, by_r = level_map.reverse(mapped, by_u)
            backs[k] = by_u, by_z
            out[self.size + place.start : self.size + place.stop] = _by_level(by_z)
            by_c += (by_r * r).sum(axis=(0, 1)) / c
            fall = c * _by_level(by_r)
            by_aux -= follows.others.T @ fall
            by_b[: n + place.start] -= follows.smaller.T @ fall
        by_b[:n] += first.v[:n] / self.sd_of[:, None]
        back = joint_map.reverse(first, joint.left.r, joint.left.information, joint.c, by_b[:m])
        out[:n], out[self.size : self.size + m - n] = back.z[:n], back.z[n:]
        largest = joint_map.reverse_left(its.joint, joint.left, back, joint.c, roots[-1][1])
        by_aux += largest.aux
        by_c += 0.0 if its.roots else largest.c + back.c
        for k, scale in enumerate(self.scales):
            if k < self.joined:
                at = self.at_level[k]
                by_t = np.moveaxis(back.t[:, at[:, :, None], at[:, None]].sum(axis=1), 0, -1)
            else:
                by_q = largest.q if k == len(self.terms) - 1 else None
                how = kept[k][1], kept[k][0], its.terms[k - self.joined].information, c, *backs[k], by_q
                by_t, more = level_map.reverse_roots(*how, varies=bool(its.rates.any()))
                by_c += more
            out[scale] = slopes_of_h[k] + self.terms[k].triangle_slopes(triangles[k], x[scale], by_t)
        out[n : self.known] = by_aux + its.rates[:, None] * c * by_c
        out[n : self.size] = pace * out[n : self.size] + s / (1.0 + 0.5 * s * s) - s / (4.0 + s * s)
        return Value(log_p, out, np.concatenate([b[:n], x[n : self.size]]), b[n:], standard)

    def _away(self, aux: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far these are from the reference, (A, C), and the information relative to its, (C,)."""
        its = self._reference
        away = aux - its.others[: len(aux), None]
        return away, np.exp((its.rates @ away).clip(-50.0, 50.0))

    def _triangles(self, x: np.ndarray) -> list[level_map.Triangle]:
        """Of each term, by x as `at` reads it, (size, C) or more."""
        pairs = zip(self.terms, self.scales, strict=True)
        return [term.triangle(x[scale]) for term, scale in pairs]

    def _roots(self, triangles: list[level_map.Triangle], c: np.ndarray) -> dict[int, Any]:
        """W and Q of each term that is not joined; −1: of the largest."""
        its, last = self._reference, len(self.terms) - 1
        roots = {
            k: level_map.roots(its.terms[k - self.joined].information, triangles[k].t, c)
            for k in range(self.joined, last + 1)
        }
        return roots | {-1: roots[last]}

    def _joint(
        self, away: np.ndarray, triangles: list[level_map.Triangle], roots: dict[int, Any], c: np.ndarray
    ) -> "_Joint":
        """The joint map at these sds and auxiliary numbers."""
        its, chains, n, m = self._reference, len(c), self.n_led, self.joint
        if its.roots is not None:
            c = np.ones(chains)
            left = joint_map.left(its.joint, away, c, None)
            return _Joint(left, tuple(np.broadcast_to(root, left.information.shape) for root in its.roots), c)
        t = np.zeros((chains, m, m))
        t[:, range(n), range(n)] = self.sd_of
        for at, triangle in zip(self.at_level[: self.joined], triangles, strict=False):
            t[:, at[:, :, None], at[:, None]] = np.moveaxis(triangle.t, -1, 0)[:, None]
        left = joint_map.left(its.joint, away, c, roots[-1][1])
        return _Joint(left, joint_map.roots(left.information, t, c), c)

    def _score(self, k: int, away: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """r, (q, J, C), of the k-th term, by coefficients and effects (P + E, C) of smaller ones."""
        its = self._reference
        follows, before = its.terms[k - self.joined], slice(0, self.n_led + self.effects[k].start)
        fall = follows.others @ away + follows.smaller @ (b[before] - its.b[before, None])
        return c * (follows.score[..., None] - _by_effect(fall, self.terms[k].effects))

    def following(self, at: Value) -> np.ndarray:
        """x (dim, C) of what was read elsewhere, under whatever reference."""
        x, n, m = np.concatenate([at.read, at.standard]), self.n_led, self.joint
        away, c = self._away(x[n : self.known])
        b, triangles = np.concatenate([x[:n], at.effects]), self._triangles(x)
        roots = self._roots(triangles, c)
        for k in range(self.joined, len(self.terms)):
            v = _by_effect(at.standard[self.effects[k]], self.terms[k].effects)
            place = slice(self.size + self.effects[k].start, self.size + self.effects[k].stop)
            x[place] = _by_level(level_map.backward(v, self._score(k, away, b, c), *roots[k]))
        joint = self._joint(away, triangles, roots, c)
        v = np.concatenate([(b[:n] - self.centre[:, None]) / self.sd_of[:, None], at.standard[: m - n]])
        z = joint_map.backward(v, joint.left.r, *joint.roots)
        x[:n], x[self.size : self.size + m - n] = z[:n], z[n:]
        x[n : self.size] = self.coordinates(at.read)
        return x

    def coordinates(self, read: np.ndarray) -> np.ndarray:
        """s, (size − P, C), of coefficients, auxiliary numbers and h, (size, C)."""
        away = read[self.n_led :] - self._reference.others[:, None]
        return np.sign(away) * np.sqrt(2.0 * (np.sqrt(1.0 + away**2) - 1.0))

    def _rows(
        self, b: np.ndarray, aux: np.ndarray, valued: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log likelihood and prior of β and auxiliary numbers, (C,), and its slopes, by b (P + E, C) of
        coefficients and effects, and these numbers. valued: as of `at`.
        """
        n, many, chains = self.n_led, self.n_coefficients, b.shape[1]
        beta, effects = b[:n], b[n:]
        x = np.concatenate([beta, aux]).T
        total, by_b, slopes = self.log_prior(x), np.zeros_like(b), np.zeros_like(x.T)
        slopes[:many] = self.prior.derivatives(x[:, :many])[0].T
        for place, prior in self.singles:
            slopes[place] += np.asarray(prior.derivatives(x[:, place])[0]).T
        for block, some in self._blocks(max(64, _BLOCK // chains)):
            rows = self.rows.take(block)
            p = self.predictors(rows, x)
            for k, design in some.items():
                p[k] = p[k] + design @ effects
            value, by_p = self._of_block(block, rows, p, valued)
            total = total + value
            for k, whole in enumerate(by_p):
                columns = self._columns(rows, k)
                slopes[self.places[k]] += whole.sum(axis=0) if columns is None else columns.T @ whole
                if k in some:
                    by_b[n:] += some[k].T @ whole
        by_b[:n], by_aux = slopes[:n], slopes[n:]
        if self.alike is not None:
            y, trials, weights = (value[:, None] for value in self.alike)
            total = total + (weights * self.family.alone(y, trials, [*aux])).sum(axis=0)
            for k, each in enumerate(self.family.alone_derivatives(y, trials, [*aux])[0]):  # type: ignore[misc]
                by_aux[k] += (weights * each).sum(axis=0)
        self.queries += chains * len(self.rows)
        return np.where(np.isnan(total), -np.inf, total), by_b, by_aux

    def _of_block(
        self, block: slice, rows: Rows, p: list[np.ndarray], valued: bool
    ) -> tuple[Numbers, list[np.ndarray]]:
        """Log likelihood of rows at predictors p, (n, C) of linear ones, (C,), and its slopes by each p,
        (n, C), which may be in the place of p."""
        if self._compiled is not None:
            kernel, parts = self._compiled
            total = np.zeros(p[0].shape[1])
            kernel(*(part[block] for part in parts), p[0], valued, total)
            return total, p
        y, trials, weights = (as_column(v) for v in (rows.target, rows.trials, rows.weights))
        value = (weights * self.family.log_density(y, trials, p)).sum(axis=0) if valued else 0.0
        slopes = (weights * each for each in self._slopes(y, trials, p))
        return value, [np.broadcast_to(each, p[0].shape) for each in slopes]

    @cached_property
    def _compiled(self) -> tuple[Callable[..., None], list[np.ndarray]] | None:
        """The kernel of a cumulant, and targets, trials and weights, (N,) each, where rows are many."""
        if not self.family.cumulant or len(self.rows) < MANY:
            return None
        from flyrun.ground.numerics import cumulants  # late: numba, for many rows

        parts = [np.ascontiguousarray(self.rows.whole(name), np.float64) for name in ("trials", "weights")]
        return cumulants.KERNELS[self.family.cumulant], [self.rows.target.astype(np.float64), *parts]

    def _slopes(self, y: Numbers, trials: Numbers, p: list[np.ndarray]) -> Sequence[Numbers] | np.ndarray:
        """As of any rows; of a cumulant's family without curvatures."""
        if self.family.cumulant == "softplus":
            return (y - trials / (1.0 + np.exp(-p[0])),)
        if self.family.cumulant == "exp":
            return (y - np.exp(p[0]),)
        return super()._slopes(y, trials, p)

    def _blocks(self, size: int) -> list[tuple[slice, dict[int, Any]]]:
        """All rows, so many at a time, each with its part of the designs."""
        if size not in self._cut:
            used = {k for term in self.terms for k in term.predictors}
            designs = {k: design for k, design in self.designs.items() if k in used}
            whole = size >= len(self.rows)
            self._cut[size] = [
                (part, designs if whole else {k: its[part] for k, its in designs.items()})
                for part in self.blocks(size)
            ]
        return self._cut[size]

    @np.errstate(all="ignore")  # points far out, which are refused
    def search(self, spent: Callable[[], bool] = never) -> None:
        """Set a reference near the top of ψ's density; spent: whether the time is up."""
        from scipy.optimize import minimize  # late: a quarter of a second that other fits need not wait for

        psi = self.start()
        for scale, term in zip(self.scales, self.terms, strict=True):
            psi[scale][: len(term.sds)] = np.log(0.5)
        u = np.zeros(self.n_effects)
        for _ in range(_ROUNDS):
            u = self.refer(psi, u)
            x = np.zeros((self.size + self.n_effects, 1))

            def minus(t: np.ndarray, x: np.ndarray = x) -> tuple[float, np.ndarray]:
                x[: self.size, 0] = t
                value = self.at(x)
                if spent():  # no better point: the search ends where it is
                    return 1e300, np.zeros(self.size)
                if not np.isfinite(value.log_density[0]):
                    return 1e300, np.zeros(self.size)
                return -float(value.log_density[0]), -value.slopes[: self.size, 0]

            bounds = [(-5.0, 5.0)] * self.size
            how = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": {"maxiter": _ROUGH}}
            x[: self.size, 0] = minimize(minus, np.zeros(self.size), **how).x
            at = self.at(x)
            moved = np.abs(at.read[:, 0] - psi)[self.n_led :].max(initial=0.0)
            psi, u = at.read[:, 0], at.effects[:, 0]
            if moved < 0.1 or spent():
                break
        self.refer(psi, u)


def _by_effect(values: np.ndarray, q: int) -> np.ndarray:
    """(q, J, C) of (J·q, C), level by level."""
    return np.moveaxis(values.reshape(-1, q, values.shape[-1]), 1, 0)


def _by_level(values: np.ndarray) -> np.ndarray:
    """(J·q, C), level by level, of (q, J, C)."""
    return np.moveaxis(values, 0, 1).reshape(-1, values.shape[-1])
