"""Bounds of any likelihood of one predictor whose curvature is bounded: a tangent parabola for each datum.

Where −f'' ≤ κ everywhere, f = log L_n as a function of η, the parabola of curvature κ that touches f at η₀
lies below it: f(η) ≥ f(η₀) + f'(η₀)(η − η₀) − κ/2·(η − η₀)², by Taylor's theorem (Böhning & Lindsay 1988).
κ is searched for once for each different target, `largest`.
"""

import functools
import hashlib
from typing import NamedTuple

import numpy as np

from flyrun.experiments.models import passes
from flyrun.experiments.models.compiled_families import Compiled, OfFamily
from flyrun.experiments.models.features import Linear
from flyrun.experiments.models.likelihood import bent, log_bound
from flyrun.families import family as families
from flyrun.families.family import Family
from flyrun.ground import files
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics import code_digest
from flyrun.ground.numerics.compiled import implements, inline_jit
from flyrun.ground.paths import cache_dir

ROOM = 1e-3
"""κ is at most so much of it too large."""
_STEPS = 10.0 ** np.linspace(-3.0, 9.0, 121)  # of places about a centre, in units of the width there
_FAR = 1e6  # from 0 or from the centre, and no further
_ROUNDS, _PARTS, _ROWS = 40, 8, 256
_MOST_CELLS = 1_000  # of a row, at once
_NARROW = 1e-8  # cell, of its place, in which −f'' is taken to jump
_CELLS = 16  # each way, of a reach


class Tangents(NamedTuple):
    """A parabola for each datum."""

    # (N, 4): η₀, log B_n there, its slope, and κ_n, side by side so that a visit touches one cache line
    parabola: np.ndarray


@inline_jit
def along(parabola, index, eta, values, slopes):
    """log B_n, (n,), and slopes, (n, 1), of parabolas (N, 4) at predictors (n, 1)."""
    for i in range(index.shape[0]):
        n = index[i]
        away = eta[i, 0] - parabola[n, 0]
        bent = parabola[n, 3] * away
        values[i] = parabola[n, 1] + (parabola[n, 2] - 0.5 * bent) * away
        if slopes is not None:
            slopes[i, 0] = parabola[n, 2] - bent


@implements(log_bound, Tangents)
def _log_bound(bound, model, index, eta, values, slopes):
    along(bound.parabola, index, eta, values, slopes)


implements(bent, Tangents)(lambda bound, model, block: bound.parabola[block, 3])


class Bounded(Compiled):
    """A family whose likelihoods have parabolas below them."""

    def largest_curvature(self, model: OfFamily) -> np.ndarray:
        """κ_n, (N,), as its author says, or as it was searched for."""
        y, trials, _, weights = model.numbers.T
        if self.family.largest is None:
            return weights * self._searched(model)[0]
        return weights * self.family.largest(y, trials)

    def steepest(self, model: OfFamily) -> np.ndarray:
        """Predictors, (N, 1), at which the search finds −f'' largest."""
        return (self._searched(model)[1] - model.numbers[:, 2])[:, None]

    def _searched(self, model: OfFamily) -> np.ndarray:
        pairs, place = np.unique(model.numbers[:, :2].T, axis=1, return_inverse=True)
        return _kept(self.family, pairs)[:, place.ravel()]

    def map_bound(self, model: OfFamily, predictors: np.ndarray) -> Tangents:
        """Bounds tight at predictors, (N, 1)."""
        at = np.ascontiguousarray(predictors)
        kappa = self.largest_curvature(model)
        return Tangents(np.column_stack([at, *passes.values_and_slopes(model, at), kappa]))

    def untuned_bound(self, model: OfFamily, features: Linear, xi: float) -> Tangents:
        """Bounds tight at η = ±xi, on the side to which the likelihood rises at 0."""
        return self.map_bound(model, xi * np.sign(passes.slopes(model, np.zeros((len(model.numbers), 1)))))

    def lower(self, bound: Tangents, by: np.ndarray) -> None:
        """Put the bounds lower, in place, by so much of the log density each, (N,)."""
        bound.parabola[:, 1] -= by

    def expected_pseudo_likelihood(
        self, model: OfFamily, predictors: np.ndarray, variance: np.ndarray
    ) -> np.ndarray:
        """E L̃_n, (N,), for bounds tight at predictors, (N, 1), when η_n varies by variance, (N, 1, 1).

        To second order (κ + f'')/2·variance.
        """
        kappa = self.largest_curvature(model)
        return 0.5 * np.maximum(kappa - self.curvature(model, predictors)[:, 0, 0], 0.0) * variance[:, 0, 0]

    def local_curvature(self, model: OfFamily, predictors: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """c_n, (N,): how much parabolas tight at predictors, (N, 1), must bend to be bounds within ±reach.

        At a distance d as much as the mean of −f'' on the way, weighted by what is left of it. In each of
        some cells −f'' is at most what it is at the ends and half of what its Lipschitz constant allows.
        """
        y, trials, offset, weights = (part[:, None] for part in model.numbers.T)
        most, rise = self.largest_curvature(model), weights * self._searched(model)[2][:, None]
        h = reach[:, None] / _CELLS
        d = h * np.arange(1, _CELLS + 1)
        asked = self.curvature(model, predictors)[:, 0]
        for way in (-1.0, 1.0):
            eta = predictors + offset + way * h * np.arange(_CELLS + 1)
            c = weights * _derived(self.family, y, trials, eta)[1]
            upper = np.maximum(c[:, 1:], c[:, :-1]) + 0.5 * rise * h
            area = np.cumsum(upper, axis=1) * h
            moment = np.cumsum(upper * (np.arange(_CELLS) + 0.5), axis=1) * h * h
            with np.errstate(invalid="ignore", divide="ignore"):
                mean, need = area / d, 2.0 * (d * area - moment) / d**2
            # between the ends of a cell it rises by 2/d·(mean − need) at most
            need[:, 1:] += 2.0 / np.arange(1, _CELLS) * np.maximum(mean - need, 0.0)[:, :-1]
            need[:, 0] = upper[:, 0]
            asked = np.maximum(asked, np.where(h > 0.0, need, upper).max(axis=1, keepdims=True))
        return np.minimum(asked[:, 0], most)


@functools.cache
def of(name: str) -> Bounded:
    """The family of this name."""
    return Bounded(families.family(name))


def _nearby(change: np.ndarray) -> np.ndarray:
    """The largest of a cell's and its neighbours', (n, C)."""
    return np.maximum(change, np.maximum(np.roll(change, 1, axis=1), np.roll(change, -1, axis=1)))


def _derived(
    family: Family, y: np.ndarray, trials: np.ndarray, eta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """f' and −f'' at predictors, of their shape."""
    with np.errstate(all="ignore"):
        (slope,), ((curvature,),) = family.derivatives(y, trials, (eta,))
    return np.broadcast_to(slope, eta.shape), np.broadcast_to(curvature, eta.shape)


@functools.lru_cache(8)
def _known(family: Family) -> dict[tuple[float, ...], tuple[float, ...]]:
    """Pairs (y, trials) -> what `largest` says of them, as far as it was asked in this process."""
    return {}


def _kept(family: Family, pairs: np.ndarray) -> np.ndarray:
    """`largest` of different y and trials, (2, U): (3, U). What was searched for before is in the cache."""
    known = _known(family)
    keys = list(map(tuple, pairs.T.tolist()))
    if any(key not in known for key in keys):
        code = code_digest.of_modules([family.log_density.__module__, __name__])
        y, trials = pairs[..., None]
        probes = _derived(family, y, trials, y + np.linspace(-5.0, 5.0, 33))[1]  # whatever the code says
        digest = hashlib.sha256(pairs.tobytes() + probes.tobytes()).hexdigest()[:12]
        path = cache_dir("curvatures") / f"{family.name}-{code}-{digest}.npz"
        try:
            values = files.read_arrays(path)["largest"]
        except files.DamagedFile:
            values = largest(family, *pairs)
            files.keep(files.write_arrays, path, {"of": pairs, "largest": values})
        known |= dict(zip(keys, map(tuple, values.T.tolist()), strict=True))
    return np.array([known[key] for key in keys]).reshape(-1, 3).T


def largest(family: Family, y: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """κ, the η where −f'' is that, and a Lipschitz constant of −f'', (3, n), of targets and trials, (n,).

    −f'' is evaluated at places about 0, about y and about where f is highest, of which the steps grow by a
    quarter each, and cells that may hold more are split, by a local Lipschitz constant, until κ is known to
    ROOM. Where the slope falls by more than −f'' says, that counts: it has a jump.
    Raises ConfigError where it grows without end, jumps, or is no number although log L is one.
    """
    blocks = [slice(first, first + _ROWS) for first in range(0, len(y), _ROWS)]
    return np.concatenate([np.zeros((3, 0)), *(_largest(family, y[b], trials[b]) for b in blocks)], axis=1)


def _largest(family: Family, y: np.ndarray, trials: np.ndarray) -> np.ndarray:
    y, trials = y[:, None], trials[:, None]
    x, best, at, rise = _coarse(family, y, trials)
    rows = np.arange(len(y))
    for _ in range(_ROUNDS):
        slope, c = _derived(family, y[rows], trials[rows], x)
        top = c.argmax(axis=1)
        highest = c[np.arange(len(c)), top]
        order = np.argsort(highest)  # the highest of a row is written last
        higher = order[highest[order] > best[rows[order]]]
        best[rows[higher]], at[rows[higher]] = highest[higher], x[higher, top[higher]]
        width, enough = np.diff(x, axis=1), np.maximum(best, 0.0) * (1.0 + ROOM) + 1e-12
        with np.errstate(all="ignore"):
            steep = _nearby(np.where(width > 0.0, np.abs(np.diff(c, axis=1)) / width, 0.0)) * width
            fall = -np.diff(slope, axis=1) - 1e-15 * (np.abs(slope[:, 1:]) + np.abs(slope[:, :-1]))
            # where −f'' jumps, its Lipschitz constant has no end, but the slope shows none
            steep = np.where(width < _NARROW * (1.0 + np.abs(x[:, 1:])), 0.0, steep)
            upper = np.maximum(np.maximum(c[:, 1:], c[:, :-1]) + steep, fall / width)
        split = (upper > enough[rows, None]) & (width > 0.0)
        if not split.any():
            return np.stack([enough, at, rise])
        row, cell = np.nonzero(split)
        if len(row) > _MOST_CELLS * len(y):  # nowhere is −f'' what the slope falls by
            break
        rows, x = rows[row], x[row, cell, None] + width[row, cell, None] * np.linspace(0.0, 1.0, _PARTS + 1)
    raise _refused(family, "is not what the slope falls by, or has no end,", x[0, 0])


def _coarse(family: Family, y: np.ndarray, trials: np.ndarray) -> tuple[np.ndarray, ...]:
    """Ascending places (n, M), no further than log L is a number; the most that −f'' is there, where, and
    half as much again as its steepest rise between them, (n,). ConfigError where it is no number or grows
    without end."""
    places = np.concatenate(
        [_about(family, y, trials, 0.0 * y, 1.0), _about(family, y, trials, y, 1.08)], axis=1
    )
    places.sort(axis=1)
    centres = np.concatenate([0.0 * y, y, _top(family, y, trials, places)], axis=1)
    x = np.concatenate([places, _about(family, y, trials, centres[:, 2:], 1.17)], axis=1)
    x.sort(axis=1)
    _, c = _derived(family, y, trials, x)
    with np.errstate(all="ignore"):
        is_number = np.isfinite(family.log_density(y, trials, (x,)) + 0.0 * x)
    if (odd := is_number & ~np.isfinite(c)).any():
        raise _refused(family, "is no number, although log L is,", x[odd][0])
    c = np.where(is_number, c, -np.inf)
    best = c.max(axis=1)
    beyond = np.stack([x - centres.max(axis=1, keepdims=True), centres.min(axis=1, keepdims=True) - x])
    far = beyond > 0.1 * np.where(is_number, beyond, 0.0).max(axis=2, keepdims=True)
    inner = np.where(far.any(axis=0), -np.inf, c).max(axis=1)
    if (grows := best > 1.01 * np.maximum(inner, 0.0)).any():
        raise _refused(family, "grows without end: it is largest", x[grows][0, c[grows][0].argmax()])
    alike = c >= (best - 1e-9 * np.abs(best))[:, None]  # of places where it is largest the nearest to a top
    at = x[np.arange(len(x)), np.where(alike, np.abs(x - centres[:, 2:]), np.inf).argmin(axis=1)]
    inside = np.where(is_number, x, np.where(x < at[:, None], np.inf, -np.inf))
    x = np.clip(x, inside.min(axis=1, keepdims=True), inside.max(axis=1, keepdims=True))
    width = np.diff(x, axis=1)
    apart = width > _NARROW * (1.0 + np.abs(x[:, 1:]))
    rise = np.abs(np.diff(_derived(family, y, trials, x)[1], axis=1)) / np.where(apart, width, np.inf)
    return x, best, at, 1.5 * rise.max(axis=1)


def _about(family: Family, y: np.ndarray, trials: np.ndarray, centre: np.ndarray, shift: float) -> np.ndarray:
    """Places about a centre, (n, 1), both ways, (n, M); shift: of steps, another for each centre."""
    with np.errstate(all="ignore"):
        width = 1.0 / np.sqrt(np.abs(_derived(family, y, trials, centre)[1]))
    width = np.clip(np.nan_to_num(width, nan=1.0), 1e-9, 1.0)
    steps = np.minimum(shift * width * _STEPS, _FAR)
    return np.concatenate([centre - steps, centre + steps], axis=1)


def _top(family: Family, y: np.ndarray, trials: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Where f is highest between ascending places, (n, M), if its slope changes sign; else 0, (n, 1)."""
    slope, _ = _derived(family, y, trials, places)
    falls = (slope[:, :-1] > 0.0) & (slope[:, 1:] <= 0.0)
    first = falls.argmax(axis=1)[:, None]
    low, high = (np.take_along_axis(places, first + side, axis=1) for side in (0, 1))
    for _ in range(60):
        middle = 0.5 * (low + high)
        rises = _derived(family, y, trials, middle)[0] > 0.0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    return np.where(falls.any(axis=1, keepdims=True), high, 0.0)


def _refused(family: Family, why: str, at: float) -> ConfigError:
    return ConfigError(
        f"model={family.name}: −∂²log L/∂η² {why} at η={at:.4g}, so no parabola is known to lie below log L; "
        "choose bound=none, or say bounds = False in its class, or write largest_curvature"
    )
