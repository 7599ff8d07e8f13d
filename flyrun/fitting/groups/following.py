"""A posterior of any terms of groups, in coordinates of which nearly all are N(0, I) and independent.

x holds ψ = (ζ, s), then z of each term. Each level's effects follow ψ and the effects of all smaller terms
(level_map.py); coefficients are β = β̂ + D(h)·ζ, whose widths D follow the sds as those of β do when
effects are integrated out. Auxiliary numbers and h, of each term, are a = â + s·√(1 + s²/4): logs have
tails like e^−|a|, which are normal ones of s. What all this leaves out is whitened by a constant matrix.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flyrun.fitting.groups import level_map
from flyrun.fitting.groups.followed import Terms
from flyrun.fitting.rows_posterior import as_column

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


@dataclass
class TermsPosterior(Terms):
    """Terms in coordinates that follow."""

    def at(self, x: np.ndarray) -> Value:
        """At x (dim, C)."""
        its, n, chains = self._reference, self.n_coefficients, x.shape[1]
        s, x = x[n : self.size], x.copy()
        x[n : self.size] = its.others[:, None] + s * np.sqrt(1.0 + 0.25 * s * s)
        aux = x[n : self.known]
        width, narrower = self._widths(x)
        beta = its.beta[:, None] + width * x[:n]
        away, c = self._away(beta, aux)
        kept, effects, standard = [], np.empty((self.n_effects, chains)), np.empty((self.n_effects, chains))
        pace = (1.0 + 0.5 * s * s) / np.sqrt(1.0 + 0.25 * s * s)
        log_p = np.log(width).sum(axis=0) + np.log(pace).sum(axis=0)
        for k, place in enumerate(self.effects):
            q, information = self.terms[k].effects, its.terms[k].information
            t, r = level_map.triangle(x[self.scales[k]], q), self._score(k, away, effects, c)
            z = _by_effect(x[self.size + place.start : self.size + place.stop], q)
            mapped = level_map.forward(z, r, information, t.t, c)
            effects[place], standard[place] = _by_level(mapped.u), _by_level(mapped.v)
            prior, slopes = self.terms[k].log_prior(x[self.scales[k]])
            log_p = log_p + mapped.level + prior
            kept.append((t, r, mapped, slopes))
        value, by_beta, by_aux, by_u = self._rows(beta, aux, effects)
        log_p = log_p + value
        out = np.empty_like(x)
        by_c = np.zeros(chains)
        for k in range(len(self.terms) - 1, -1, -1):
            (t, r, mapped, slopes), follows, place = kept[k], its.terms[k], self.effects[k]
            q, h = self.terms[k].effects, x[self.scales[k]]
            back = level_map.reverse(mapped, r, follows.information, c, _by_effect(by_u[place], q))
            out[self.size + place.start : self.size + place.stop] = _by_level(back.z)
            out[self.scales[k]] = slopes + level_map.triangle_slopes(t, h, back.t)
            by_c += back.c + (back.r * r).sum(axis=(0, 1)) / c
            fall = c * _by_level(back.r)
            by_others = follows.others.T @ fall
            by_beta -= by_others[:n]
            by_aux -= by_others[n:]
            by_u[: place.start] -= follows.smaller.T @ fall
        out[:n] = width * by_beta
        out[n : self.known] = by_aux + its.rates[:, None] * c * by_c
        stretch = by_beta * width * x[:n] + 1.0  # by log width
        for k, (scale, term) in enumerate(zip(self.scales, self.terms, strict=True)):
            q = term.effects
            of_sds = its.shares[k][:, :, None] * np.exp(2.0 * x[scale][:q])[:, None, :]
            out[scale][:q] += (narrower * of_sds * stretch).sum(axis=1)
        out[n : self.size] = pace * out[n : self.size] + s / (1.0 + 0.5 * s * s) - s / (4.0 + s * s)
        return Value(log_p, out, np.concatenate([beta, x[n : self.size]]), effects, standard)

    def _away(self, beta: np.ndarray, aux: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far both are from the reference, (P + A, C), and the information relative to its, (C,)."""
        its = self._reference
        away = np.concatenate([beta - its.beta[:, None], aux - its.others[: len(aux), None]])
        return away, np.exp((its.rates @ away[len(beta) :]).clip(-50.0, 50.0))

    def _score(self, k: int, away: np.ndarray, effects: np.ndarray, c: np.ndarray) -> np.ndarray:
        """r, (q, J, C), of the k-th term, by effects (E, C) of smaller ones."""
        follows, q = self._reference.terms[k], self.terms[k].effects
        before = slice(0, self.effects[k].start)
        fall = follows.others @ away + follows.smaller @ (
            effects[before] - self._reference.effects[before, None]
        )
        return c * (follows.score[..., None] - _by_effect(fall, q))

    def following(self, at: Value) -> np.ndarray:
        """x (dim, C) of what was read elsewhere, under whatever reference."""
        x, n = np.concatenate([at.read, at.standard]), self.n_coefficients
        away, c = self._away(x[:n], x[n : self.known])
        for k, place in enumerate(self.effects):
            q, information = self.terms[k].effects, self._reference.terms[k].information
            t, r = level_map.triangle(x[self.scales[k]], q).t, self._score(k, away, at.effects, c)
            z = level_map.backward(_by_effect(at.standard[place], q), r, information, t, c)
            x[self.size + place.start : self.size + place.stop] = _by_level(z)
        x[: self.size] = self.coordinates(at.read)
        return x

    def coordinates(self, read: np.ndarray) -> np.ndarray:
        """ψ, (size, C), of coefficients, auxiliary numbers and h, (size, C)."""
        psi, n = np.empty_like(read), self.n_coefficients
        psi[:n] = (read[:n] - self._reference.beta[:, None]) / self._widths(read)[0]
        away = read[n:] - self._reference.others[:, None]
        psi[n:] = np.sign(away) * np.sqrt(2.0 * (np.sqrt(1.0 + away**2) - 1.0))
        return psi

    def _widths(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """D (P, C), and of each its log's slope by a variance that is added, (P, C), as of shares."""
        its = self._reference
        variance = np.repeat(its.base[:, None], x.shape[1], axis=1)
        for shares, scale in zip(its.shares, self.scales, strict=True):
            variance += shares.T @ np.exp(2.0 * x[scale][: len(shares)].clip(max=50.0))
        square = 1.0 / (1.0 / variance + self.prior.sd[:, None] ** -2.0)
        return np.sqrt(square), square / variance**2

    def _rows(
        self, beta: np.ndarray, aux: np.ndarray, effects: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Log likelihood and prior of β and auxiliary numbers, (C,), and its slopes, by these and effects."""
        n, chains = self.n_coefficients, beta.shape[1]
        x = np.concatenate([beta, aux]).T
        total, by_effects = self.log_prior(x), np.zeros_like(effects)
        by_beta, by_aux = self.prior.derivatives(x[:, :n])[0].T.copy(), np.zeros_like(aux)
        for place, prior in self.singles:
            by_aux[place - n] += prior.derivatives(x[:, place])[0]
        for block, some in self._blocks(max(64, _BLOCK // chains)):
            rows = self.rows.take(block)
            y, trials, weights = (as_column(v) for v in (rows.target, rows.trials, rows.weights))
            p = [rows.features @ beta + as_column(rows.offset) + some @ effects, *aux]
            total = total + (weights * self.family.log_density(y, trials, p)).sum(axis=0)
            by_eta, *by_others = self._slopes(y, trials, p)
            by_eta = weights * by_eta
            by_beta += rows.features.T @ by_eta
            by_effects += some.T @ by_eta
            for k, each in enumerate(by_others):
                by_aux[k] += np.broadcast_to(weights * each, by_eta.shape).sum(axis=0)
        if self._alike is not None:
            y, trials, weights = (value[:, None] for value in self._alike)
            total = total + (weights * self.family.alone(y, trials, [*aux])).sum(axis=0)
            for k, each in enumerate(self.family.alone_derivatives(y, trials, [*aux])[0]):  # type: ignore[misc]
                by_aux[k] += (weights * each).sum(axis=0)
        self.queries += chains * len(self.rows)
        return np.where(np.isnan(total), -np.inf, total), by_beta, by_aux, by_effects

    def _blocks(self, size: int) -> list[tuple[slice, Any]]:
        """All rows, so many at a time, each with its part of the design."""
        if size not in self._cut:
            whole = size >= len(self.rows)
            self._cut[size] = [
                (part, self.design if whole else self.design[part]) for part in self.blocks(size)
            ]
        return self._cut[size]

    def search(self) -> None:
        """Set a reference near the top of ψ's density."""
        from scipy.optimize import minimize  # late: a quarter of a second that other fits need not wait for

        psi = self.start()
        for scale, term in zip(self.scales, self.terms, strict=True):
            psi[scale][: term.effects] = np.log(0.5)
        u = np.zeros(self.n_effects)
        for _ in range(_ROUNDS):
            u = self.refer(psi, u)
            x = np.zeros((self.size + self.n_effects, 1))

            def minus(t: np.ndarray, x: np.ndarray = x) -> tuple[float, np.ndarray]:
                x[: self.size, 0] = t
                value = self.at(x)
                if not np.isfinite(value.log_density[0]):
                    return 1e300, np.zeros(self.size)
                return -float(value.log_density[0]), -value.slopes[: self.size, 0]

            bounds = [(-5.0, 5.0)] * self.size
            how = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": {"maxiter": _ROUGH}}
            x[: self.size, 0] = minimize(minus, np.zeros(self.size), **how).x
            at = self.at(x)
            moved = np.abs(at.read[:, 0] - psi)[self.n_coefficients :].max()
            psi, u = at.read[:, 0], at.effects[:, 0]
            if moved < 0.1:
                break
        self.refer(psi, u)


def _by_effect(values: np.ndarray, q: int) -> np.ndarray:
    """(q, J, C) of (J·q, C), level by level."""
    return np.moveaxis(values.reshape(-1, q, values.shape[-1]), 1, 0)


def _by_level(values: np.ndarray) -> np.ndarray:
    """(J·q, C), level by level, of (q, J, C)."""
    return np.moveaxis(values, 0, 1).reshape(-1, values.shape[-1])
