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
_FLAT = 1e-5  # nats by which a line rises, up to which the mean of its ends is as good as its integral
_NARROW = 1.0  # nats by which a density falls to both ends of points that are too near to each other


@dataclass(frozen=True)
class Hull:
    """Upper hulls of M log densities less their largest values, top (M,), by values (K, M) at points (K, M).

    A hull goes straight between corners, of which each has a place and a height, (2K - 1, M), and whose log
    heights are logs: the points, and after each but the last where the lines from outside cross; the outer
    intervals have one such line, and the hull jumps at the outer points. Beyond these it falls as the outer
    chords do. slope: of chords, (K - 1, M); below: mass up to each corner, and all, (2K, M); bad: whether
    few draws of a hull would be taken, (M,).
    """

    points: np.ndarray
    values: np.ndarray
    top: np.ndarray
    slope: np.ndarray
    corners: np.ndarray
    logs: np.ndarray
    heights: np.ndarray
    below: np.ndarray
    bad: np.ndarray

    @staticmethod
    def of(points: np.ndarray, values: np.ndarray) -> Hull:
        """From K ≥ 3 points on, (K, M), and values there, (K, M)."""
        top = values.max(axis=0)
        values = values - top
        corners, logs = np.empty((2, 2 * len(points) - 1, len(top)))
        below = np.empty((len(corners) + 1, len(top)))
        with np.errstate(all="ignore"):
            width = np.diff(points, axis=0)
            slope = np.diff(values, axis=0) / width  # falling
            reach = width.copy()  # of the line from the left
            share = (slope[1:-1] - slope[2:]) / (slope[:-2] - slope[2:])
            reach[1:-1] *= np.clip(np.nan_to_num(share, nan=0.5), 0.0, 1.0)  # NaN: one straight line
            reach[0] = 0.0
            corners[::2], corners[1::2] = points, points[:-1] + reach
            logs[::2], logs[3::2] = values, values[1:-1] + slope[:-1] * reach[1:]
            logs[1] = values[1] - slope[1] * width[0]
            heights = np.exp(logs)
            below[0], below[-1] = heights[0] / slope[0], -heights[-1] / slope[-1]
            below[1:-1] = _areas(corners, logs, heights)
            np.cumsum(below, axis=0, out=below)
            chords = _areas(points, values, heights[::2]).sum(axis=0)
            bad = ~((chords > _ENOUGH * below[-1]) & (slope[0] > 0.0) & (slope[-1] < 0.0))
        return Hull(points, values, top, slope, corners, logs, heights, below, bad)

    def draw(self, which: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws by some hulls, (m,), and the log hull and the log chord there; −∞ beyond the points."""
        aim, luck = rng.random((2, len(which)))
        below = self.below[:, which]
        right = (below[:-1] < aim * below[-1]).sum(axis=0)  # the corner that a piece ends at
        left, last = np.maximum(right - 1, 0), len(self.corners) - 1
        first, beyond = right == 0, right > last
        right = np.minimum(right, last)
        chord = np.minimum(left // 2, len(self.slope) - 1)
        at, log = self.corners[left, which], self.logs[left, which]
        width, rise = self.corners[right, which] - at, self.logs[right, which] - log
        slope = self.slope[chord, which]
        with np.errstate(all="ignore"):
            start = np.where(first, 0.0, self.heights[left, which])
            end = np.where(beyond, 0.0, self.heights[right, which])
            over = np.log(start + luck * (end - start))  # mass grows as the height does along a line
            rate = np.where(first | beyond, slope, rise / width)
            flat = (np.abs(rise) < _FLAT) & ~(first | beyond)
            at = at + np.where(flat, luck * width, (over - log) / rate)
            under = self.values[chord, which] + slope * (at - self.points[chord, which])
        return at, self.top[which] + over, np.where(first | beyond, -np.inf, self.top[which] + under)


def _areas(at: np.ndarray, logs: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """∫ e^line between neighbouring points, (n - 1, M), by where these are and how high, (n, M) each."""
    width, rise = np.diff(at, axis=0), np.diff(logs, axis=0)
    mean = np.diff(heights, axis=0) / rise
    flat = np.abs(rise) < _FLAT
    mean[flat] = 0.5 * (heights[1:] + heights[:-1])[flat]
    return mean * width


def draws(points: np.ndarray, values: np.ndarray, density: Density, rng: np.random.Generator) -> np.ndarray:
    """An exact draw of each of M log densities, (M,), of these values (K, M) at increasing points (K, M)."""
    hull = _well_placed(points, values, density)
    drawn, left = np.empty(points.shape[1]), np.arange(points.shape[1])
    while len(left):
        at, over, under = hull.draw(left, rng)
        log_height = over + np.log(rng.random(len(left)))
        taken = log_height <= under
        asked = np.flatnonzero(~taken)
        if len(asked):
            taken[asked] = log_height[asked] <= density(left[asked], at[asked, None])[:, 0]
        drawn[left[taken]] = at[taken]
        left = left[~taken]
    return drawn


def _well_placed(points: np.ndarray, values: np.ndarray, density: Density) -> Hull:
    """The hull of values (K, M) at points (K, M), these moved to where the densities' mass is."""
    hull = Hull.of(points, values)
    bad, last = np.flatnonzero(hull.bad), len(points) - 1
    while bad.size:
        before, values = hull.points[:, bad], hull.values[:, bad]
        best = np.nan_to_num(values, nan=-np.inf).argmax(axis=0)[None]
        edge = (best == 0) | (best == last)
        narrow = np.take_along_axis(values, best, axis=0) - np.maximum(values[0], values[-1]) < _NARROW
        width = (before[-1] - before[0]) * np.where(edge, 2.0, np.where(narrow, 3.0, 0.5))
        around = np.linspace(-0.5, 0.5, last + 1)[:, None] * width
        points = np.take_along_axis(before, best, axis=0) + around
        some = Hull.of(points, density(bad, points.T).T)
        for name, value in vars(some).items():
            getattr(hull, name)[..., bad] = value
        bad = bad[some.bad]
    return hull
