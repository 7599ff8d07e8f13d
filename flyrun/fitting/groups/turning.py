"""Hamiltonian Monte Carlo whose quadratic part turns exactly, in a posterior's following coordinates.

In whitened w the density is exp(−|w|²/2 + R(w)): half a kick by R's slope, an exact turn of (w, p) by an
angle e, half a kick. A trajectory turns by about a quarter in all, so that where the posterior is normal
neighbouring draws are independent. Chains go in lockstep.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from flyrun.fitting.coefficients import ESS, RHAT
from flyrun.fitting.groups.following import TermsPosterior, Value
from flyrun.ground.diagnostics import ess
from flyrun.ground.numerics.special import Numbers

CHAINS = 8
WARM_UP = 200  # iterations
_MOVES = (0.3, 0.6)  # shares of the warm-up at which the reference moves to where draws are
_ACCEPTED = 0.8  # of trajectories, on average
_ANGLE = (0.35, 0.65)  # of a trajectory, in half turns
_SMALL = (0.05, 4)  # share of trajectories of so many times smaller steps, for where the density bends more
_FIRST = 0.8  # angle of a step, at first
_LEAST, _MOST = 0.01, 0.5 * np.pi
_TAIL, _IN_TAILS = 0.05, 0.5  # share of draws that a tail has; chance there, on average, at least
_LEAST_MOVE = 0.3  # of energies, from draw to draw, by their variance
_TOGETHER = 500  # effects whose draws are judged at a time
_STEP = 1e-3  # of differences
_NARROW = 1e-4  # draws' variance by what differences say, at least
_FLOOR, _TAKEN = 0.05, 0.3  # of an eigenvalue that differences give, relative; what is taken below


class Draws(NamedTuple):
    """psi: (C, T, size), coefficients, auxiliary numbers and h; effects: (C, T, E) float32; energies: (C, T),
    where trajectories began; chances: (C, T), that they are accepted."""

    psi: np.ndarray
    effects: np.ndarray
    energies: np.ndarray
    chances: np.ndarray

    @property
    def accepted(self) -> float:
        """On average."""
        return float(self.chances.mean()) if self.chances.size else 0.0

    def with_more(self, more: "Draws") -> "Draws":
        """These and later ones."""
        return Draws(*(np.concatenate(both, axis=1) for both in zip(self, more, strict=True)))

    def in_tails(self) -> tuple[float, int]:
        """The least chance, on average, from a tail of a number of psi, and which number that is."""
        began, chances = self.psi[:, :-1].reshape(-1, self.psi.shape[2]), self.chances[:, 1:].ravel()
        order, count = np.argsort(began, axis=0), max(1, int(_TAIL * len(began)))
        each = np.minimum(
            *(chances[order[part]].mean(axis=0) for part in (slice(count), slice(-count, None)))
        )
        return float(each.min()), int(each.argmin())


class Whitening:
    """x = centre + A·w: of s by its covariance, of z of terms between by their precision."""

    def __init__(self, posterior: TermsPosterior, centre: np.ndarray) -> None:
        """About s, (size − P,), by differences of slopes."""
        n, size, first = posterior.n_led, posterior.size, posterior.joint - posterior.n_led
        self.part, self.inner = slice(n, size), slice(size + first, size + posterior.inner)
        self.centre, self.cholesky = centre, posterior.inner_cholesky
        number = size - n
        self.follow, self.root = np.zeros((posterior.inner - first, 0)), np.zeros((0, 0))
        if not number:  # nothing but coefficients and effects
            return
        x = np.zeros((size + posterior.n_effects, 2 * number))
        x[self.part] = centre[:, None]
        for k in range(number):
            x[n + k, 2 * k : 2 * k + 2] += _STEP, -_STEP
        parts = [
            posterior.at(x[:, start : start + 2 * CHAINS]).slopes
            for start in range(0, 2 * number, 2 * CHAINS)
        ]
        slopes = np.concatenate(parts, axis=1)
        # where there is no slope, as of rows far out, nothing is known of the scale there
        curvature = np.nan_to_num(-(slopes[:, ::2] - slopes[:, 1::2]) / (2.0 * _STEP), posinf=0.0, neginf=0.0)
        across = self.half(curvature[self.inner])
        whole = curvature[self.part] - across.T @ across
        self.follow = self.other_half(across)  # what z moves by per step of s
        scale = np.abs(np.diag(whole)).clip(1e-3) ** -0.5
        values, vectors = np.linalg.eigh(0.5 * scale[:, None] * (whole + whole.T) * scale)
        values = np.where(values > _FLOOR, values, _TAKEN)
        half = scale[:, None] * vectors * values**-0.5
        self.root = np.linalg.cholesky(half @ half.T)

    def half(self, z: np.ndarray) -> np.ndarray:
        """Solve by the Cholesky factor."""
        return solve_triangular(self.cholesky, z, lower=True, check_finite=False) if len(z) else z

    def other_half(self, z: np.ndarray) -> np.ndarray:
        """Solve by its transpose."""
        return solve_triangular(self.cholesky, z, lower=True, trans=1, check_finite=False) if len(z) else z

    def x(self, w: np.ndarray) -> np.ndarray:
        """x, (dim, C), of w."""
        x, away = w.copy(), self.root @ w[self.part]
        x[self.part] = self.centre[:, None] + away
        x[self.inner] = self.other_half(w[self.inner]) - self.follow @ away
        return x

    def w(self, x: np.ndarray) -> np.ndarray:
        """w, (dim, C), of x."""
        w, away = x.copy(), x[self.part] - self.centre[:, None]
        w[self.part] = np.linalg.solve(self.root, away)
        w[self.inner] = self.cholesky.T @ (x[self.inner] + self.follow @ away)
        return w

    def slopes(self, slopes: np.ndarray) -> np.ndarray:
        """Slopes by w of those by x."""
        out = slopes.copy()
        out[self.part] = self.root.T @ (slopes[self.part] - self.follow.T @ slopes[self.inner])
        out[self.inner] = self.half(slopes[self.inner])
        return out


class Sampler:
    """Chains of a posterior. spent: whether the time is up."""

    def __init__(
        self,
        posterior: TermsPosterior,
        rng: np.random.Generator,
        spent: Callable[[], bool],
        warm: int = WARM_UP,
    ) -> None:
        """Find a reference and warm up."""
        self.posterior, self.rng, self.spent = posterior, rng, spent
        self.log_step = np.log(_FIRST)
        posterior.search(spent)
        self.whitening = Whitening(posterior, np.zeros(posterior.size - posterior.n_led))
        self._start(rng.standard_normal((posterior.size + posterior.n_effects, CHAINS)))
        ends = [0, *(int(share * warm) for share in _MOVES), warm]
        for k, (first, last) in enumerate(pairwise(ends)):
            draws = self._adapt(last - first)
            if k < len(_MOVES):
                self._move(draws)

    def _start(self, w: np.ndarray) -> None:
        """Begin at w (dim, C), nearer to the centre where that is too far out."""
        for share in (1.0, 0.3, 0.1, 0.0):
            self.w = share * w
            self.at = self._value(self.w)
            if np.isfinite(self.at.log_density).all():
                return

    def _value(self, w: np.ndarray, valued: bool = True) -> Value:
        with np.errstate(all="ignore"):
            value = self.posterior.at(self.whitening.x(w), valued)
            slopes = self.whitening.slopes(value.slopes)
        bad = ~(np.isfinite(value.log_density) & np.isfinite(slopes).all(axis=0))
        return value._replace(
            log_density=np.where(bad, -np.inf, value.log_density), slopes=np.where(bad, 0.0, slopes)
        )

    @np.errstate(all="ignore")  # trajectories that fly off, which are refused
    def iterate(self) -> tuple[np.ndarray, np.ndarray]:
        """A trajectory of each chain: by how likely it was accepted, and the energy where it began, (C,)."""
        angle = self.rng.uniform(*_ANGLE) * np.pi
        rare = self.rng.random() < _SMALL[0]
        steps = max(1, int(np.ceil(angle / np.exp(self.log_step)))) * (_SMALL[1] if rare else 1)
        e = angle / steps
        w, at = self.w, self.at
        p = self.rng.standard_normal(w.shape)
        energy = 0.5 * (p * p).sum(axis=0) - at.log_density
        for step in range(steps):
            if self.spent():  # a trajectory may take minutes; one that is broken off moves nothing
                return np.zeros(CHAINS), energy
            p = p + 0.5 * e * (at.slopes + w)
            w, p = np.cos(e) * w + np.sin(e) * p, np.cos(e) * p - np.sin(e) * w
            at = self._value(w, step == steps - 1)
            p = p + 0.5 * e * (at.slopes + w)
        gain = energy - 0.5 * (p * p).sum(axis=0) + at.log_density
        gain = np.where(np.isfinite(gain), gain, -np.inf)
        taken = np.log(self.rng.random(CHAINS)) < gain
        self.w = np.where(taken, w, self.w)
        parts = zip(at, self.at, strict=True)
        self.at = Value(*(np.where(taken, new, old) for new, old in parts))
        return np.exp(np.minimum(gain, 0.0)), energy

    def _adapt(self, iterations: int) -> Draws:
        """Draws while the angle of a step adapts, by dual averaging."""
        centre, mean, error = self.log_step, self.log_step, 0.0
        kept = []
        for m in range(1, iterations + 1):
            if m > 1 and self.spent():
                break
            accepted, energy = self.iterate()
            kept.append((self.at.read, self.at.effects, energy, accepted))
            error += (_ACCEPTED - accepted.mean() - error) / (m + 8)
            self.log_step = np.clip(centre - np.sqrt(m) / 0.2 * error, np.log(_LEAST), np.log(_MOST))
            share = m**-0.75
            mean = share * self.log_step + (1.0 - share) * mean
        self.log_step = mean
        return _stacked(kept)

    def draw(self, iterations: int) -> Draws:
        """So many draws a chain, fewer where the time is up."""
        kept: list[tuple[np.ndarray, ...]] = []
        while len(kept) < iterations and not self.spent():
            chance, energy = self.iterate()
            kept.append((self.at.read, self.at.effects.astype(np.float32), energy, chance))
        return _stacked(kept)

    def shortened(self, draws: Draws) -> bool:
        """Halve the angle of a step where trajectories from some tail are hardly accepted: whether it was."""
        if draws.in_tails()[0] >= _IN_TAILS or self.log_step - np.log(2.0) < np.log(_LEAST):
            return False
        self.log_step -= np.log(2.0)
        return True

    def _move(self, draws: Draws) -> None:
        """Move the reference to the mean of draws, and the covariance of s to theirs; chains stay there."""
        posterior, size, last = self.posterior, self.posterior.size, draws.psi.shape[1] // 3
        some = draws.psi[:, last:].reshape(-1, size)
        posterior.refer(some.mean(axis=0), draws.effects[:, last:].mean(axis=(0, 1)), steps=2)
        some = posterior.coordinates(some.T)
        self.whitening = Whitening(posterior, some.mean(axis=1))
        known, weight, root = 2.0 * len(some) + 10.0, some.shape[1] / 4.0, self.whitening.root
        if len(root):
            # precisions are averaged: where differences tell of no curvature, as of few levels' sd, draws do
            values, vectors = np.linalg.eigh(np.cov(np.linalg.solve(root, some)).reshape(root.shape))
            values = (weight + known) / (weight / values.clip(_NARROW) + known)
            half = root @ vectors * np.sqrt(values)
            self.whitening.root = np.linalg.cholesky(half @ half.T)
        self._start(self.whitening.w(posterior.following(self.at)))


def doubt(draws: Draws, rows: Sequence[dict[str, Any]]) -> str:
    """Why draws are not to be trusted yet, by the rows of all numbers and by every effect; else nothing."""
    worst = max(rows, key=lambda row: _lack(row["rhat"], row["ess_bulk"], row["ess_tail"]))
    name, numbers = worst["coefficient"], (worst["rhat"], worst["ess_bulk"], worst["ess_tail"])
    size = draws.effects.shape[2]
    for first in range(0, size, _TOGETHER):
        if _lack(*numbers) > 1.0:
            break
        some = ess.summary(draws.effects[:, :, first : first + _TOGETHER], wanted=("rhat", "bulk", "tail"))
        least = int(np.argmax(_lack(some.rhat, some.bulk, some.tail)))
        name, numbers = "an effect", (some.rhat[least], some.bulk[least], some.tail[least])
    if not _lack(*numbers) <= 1.0:
        rhat, bulk, tail = numbers
        return (
            f"the chains do not agree yet: R-hat of {name} is {rhat:.3f}, its effective draws {bulk:,.0f}, "
            f"in the tails {tail:,.0f}; a longer --budget runs longer"
        )
    if (chance := draws.in_tails()[0]) < _IN_TAILS:
        return (
            f"the chains hardly move in a number's tail, where {chance:.0%} of trajectories are accepted, so "
            "that it may be too short; a longer --budget runs longer"
        )
    moved = np.diff(draws.energies, axis=1)
    fraction = (moved**2).mean(axis=1) / draws.energies.var(axis=1)
    if fraction.min() < _LEAST_MOVE:
        return (
            "the chains' energy hardly moves, so that tails may be too short; a longer --budget runs longer"
        )
    return ""


def _lack(rhat: Numbers, bulk: Numbers, tail: Numbers) -> Numbers:
    """Above 1 where draws are too few or do not agree, or are no numbers."""
    lack = np.maximum((rhat - 1.0) / (RHAT - 1.0), ESS / np.maximum(np.minimum(bulk, tail), 1e-9))
    return np.nan_to_num(lack, nan=np.inf)


def _stacked(kept: list) -> Draws:
    if not kept:
        return Draws(*(np.empty((CHAINS, 0, *rest)) for rest in ((1,), (1,), (), ())))
    psi, effects, energies, chances = (np.stack(part) for part in zip(*kept, strict=True))
    return Draws(psi.transpose(2, 0, 1), effects.transpose(2, 0, 1), energies.T, chances.T)
