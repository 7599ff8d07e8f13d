"""Exact draws of log-concave densities from their values at a few points (Gilks 1992).

Chords between neighbouring points, drawn on beyond them, lie above such a log density, and within them below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

#: log densities of some of the M, (m, J), by which these are (m,) and at which points (m, J)
Density = Callable[[np.ndarray, np.ndarray], np.ndarray]
_ENOUGH = 0.15  # of a hull's mass, that its chords have: below it points are placed anew
_SMALL = 1e-9
_NARROW = 1.0  # nats by which a density falls to both ends of points that are too near to each other


@dataclass(frozen=True)
class Hull:
    """Upper hulls of M log densities, by values (M, K) at increasing points (M, K).

    Their 2K pieces go from an end (M, 2K), in direction ±1, so far, and the log changes at a rate. bad:
    whether few draws of a hull would be taken, (M,).
    """

    points: np.ndarray
    values: np.ndarray
    end: np.ndarray
    level: np.ndarray
    direction: np.ndarray
    length: np.ndarray
    rate: np.ndarray
    below: np.ndarray
    bad: np.ndarray

    @staticmethod
    def of(points: np.ndarray, values: np.ndarray) -> Hull:
        """From K ≥ 3 points on."""
        with np.errstate(all="ignore"):
            width = np.diff(points, axis=1)
            slope = np.diff(values, axis=1) / width  # falling
            before, after = slope[:, :-2], slope[:, 2:]
            share = np.clip((slope[:, 1:-1] - after) / (before - after), 0.0, 1.0)
            share = np.nan_to_num(share, nan=0.5)  # a straight line
        none, whole = np.zeros((len(points), 1)), np.ones((len(points), 1))
        share = np.concatenate([none, share, whole], axis=1)  # of each interval, that the left line has
        tail = np.full((len(points), 1), np.inf)
        end = np.concatenate([points[:, :1], points[:, :-1], points[:, 1:], points[:, -1:]], axis=1)
        level = np.concatenate([values[:, :1], values[:, :-1], values[:, 1:], values[:, -1:]], axis=1)
        length = np.concatenate([tail, share * width, (1.0 - share) * width, tail], axis=1)
        left = np.concatenate([slope[:, :1], slope[:, :-1]], axis=1)
        right = np.concatenate([slope[:, 1:], slope[:, -1:]], axis=1)
        rate = np.concatenate([-slope[:, :1], left, -right, slope[:, -1:]], axis=1)
        inner = points.shape[1] - 1
        direction = np.array([-1.0] + [1.0] * inner + [-1.0] * inner + [1.0])
        top = values.max(axis=1, keepdims=True)
        with np.errstate(all="ignore"):
            below = np.cumsum(_areas(level - top, rate, length), axis=1)
            chords = _areas(values[:, :-1] - top, slope, width).sum(axis=1)
            bad = ~((chords > _ENOUGH * below[:, -1]) & (rate[:, 0] < 0.0) & (rate[:, -1] < 0.0))
        return Hull(points, values, end, level, direction, length, rate, below, bad)

    def draw(self, which: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws by some hulls, (m,), and the log hull and the log chord there; −∞ beyond the points."""
        below = self.below[which]
        piece = (below < rng.random((len(which), 1)) * below[:, -1:]).sum(axis=1)
        end, level, length, rate = (
            one[which, piece] for one in (self.end, self.level, self.length, self.rate)
        )
        luck = rng.random(len(which))
        with np.errstate(all="ignore"):
            rise = rate * length
            up = rise + np.log(luck + np.exp(-rise) * (1.0 - luck))
            far = np.where(rise > 0.0, up, np.log1p(luck * np.expm1(rise))) / rate
            far = np.where(np.abs(rise) < _SMALL, luck * length, far)
        at = end + self.direction[piece] * far
        points, values = self.points[which], self.values[which]
        k = np.clip((points < at[:, None]).sum(axis=1) - 1, 0, points.shape[1] - 2)
        row = np.arange(len(which))
        share = (at - points[row, k]) / (points[row, k + 1] - points[row, k])
        chord = (1.0 - share) * values[row, k] + share * values[row, k + 1]
        return at, level + rate * far, np.where((share >= 0.0) & (share <= 1.0), chord, -np.inf)


def _areas(level: np.ndarray, rate: np.ndarray, length: np.ndarray) -> np.ndarray:
    """∫ e^(level + rate·x) dx from 0 to length."""
    rise = rate * length
    top = np.exp(level + np.maximum(rise, 0.0))  # at the higher end, so that nothing overflows but the area
    area = -top * np.expm1(-np.abs(rise)) / np.abs(rate)
    return np.where(np.abs(rise) < _SMALL, top * length, area)


def draws(points: np.ndarray, values: np.ndarray, density: Density, rng: np.random.Generator) -> np.ndarray:
    """An exact draw of each of M log densities, (M,), of these values (M, K) at increasing points (M, K)."""
    hull = _well_placed(points.copy(), values.copy(), density)
    found, left = np.empty(len(points)), np.arange(len(points))
    while len(left):
        at, over, under = hull.draw(left, rng)
        height = over + np.log(rng.random(len(left)))
        taken = height <= under
        asked = np.flatnonzero(~taken)
        if len(asked):
            taken[asked] = height[asked] <= density(left[asked], at[asked, None])[:, 0]
        found[left[taken]] = at[taken]
        left = left[~taken]
    return found


def _well_placed(points: np.ndarray, values: np.ndarray, density: Density) -> Hull:
    """The hull, points moved to where the densities' mass is where they were not."""
    hull = Hull.of(points, values)
    last = points.shape[1] - 1
    while (bad := np.flatnonzero(hull.bad)).size:
        best = np.nan_to_num(values[bad], nan=-np.inf).argmax(axis=1)
        edge = (best == 0) | (best == last)
        width = points[bad, -1] - points[bad, 0]
        top = values[bad, best]
        narrow = top - np.maximum(values[bad, 0], values[bad, -1]) < _NARROW
        width *= np.where(edge, 2.0, np.where(narrow, 3.0, 0.5))
        points[bad] = points[bad, best][:, None] + np.linspace(-0.5, 0.5, last + 1) * width[:, None]
        values[bad] = density(bad, points[bad])
        hull = Hull.of(points, values)
    return hull
