"""A second factor that crosses the one integrated out: its effects are coefficients of a common sd.

Their joint mode with the log of that sd is no guide: the density rises without bound as effects and sd shrink
together. So the other numbers' mode and shape are found at each of a grid of log sds, and the proposal draws
a log sd by these points' Laplace approximations, then the others about what the points say of it. Weights
make that exact. Under normal noise no grid is needed: normal_noise.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.fitting import mode
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.groups import effects, scales
from flyrun.fitting.groups.integrated_out import GroupedPosterior
from flyrun.fitting.groups.nodes import Nodes
from flyrun.fitting.proposal import TAIL, Mixture, freedom

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

_START, _STEP, _LOWEST = -0.7, 0.7, -9.0  # log sds where the grid begins, by which it grows, and may end
_DEEP = 8.0  # nats below the top where it ends
_APART, _POINTS, _MOST = 2.0, 9, 30  # nats between neighbours; points at least, and at most
_FINE = 2_000  # cells of log sds that are drawn from
_FEWEST = 5  # levels of the factor that is integrated out
_FLAT = 0.1  # share of draws whose log sds come from the square root of their density


@dataclass(frozen=True)
class Columns:
    """Features of rows with an indicator of each level ahead, which are made where they are looked at.

    code: (N,); −1 of rows of none of these levels.
    """

    features: np.ndarray
    code: np.ndarray
    levels: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.code), self.levels + self.features.shape[1]

    def part(self, which: slice) -> "Columns":
        """Of some rows."""
        return Columns(self.features[which], self.code[which], self.levels)

    def __getitem__(self, which: slice | np.ndarray) -> np.ndarray:
        """Of some rows, (n, levels + D)."""
        code = self.code[which]
        columns = np.zeros((len(code), self.shape[1]))
        columns[np.arange(len(code)), code] = 1.0  # where it is −1, in a column that is written below
        columns[:, self.levels :] = self.features[which]
        return columns


@dataclass(frozen=True)
class _Point:
    """Of the grid: the log sd, log density there with all others integrated out, about; the others' mode
    (P − 1,), sds (P − 1,) and root of correlations (P − 1, P − 1), in x's order; how nodes follow from there.
    """

    at: float
    height: float
    mode: np.ndarray
    sd: np.ndarray
    root: np.ndarray
    follow: Nodes


@dataclass
class CrossedPosterior(GroupedPosterior):
    """With or without a crossed factor. x (P,) as GroupedPosterior has it."""

    def __post_init__(self) -> None:
        """Work out sizes."""
        super().__post_init__()
        self.grid_of_sds: list[_Point] = []

    @property
    def by_grid(self) -> bool:
        """Whether effects of a crossed factor are drawn by a grid."""
        return self.crossed is not None and not self.family.by_sums

    @property
    def too_few(self) -> str:
        """Why no mode tells of effects' sd; "" where one does.

        Of few levels the sd's upper tail is long, and the intercept spreads as far there as effects do, which
        a shape about a mode does not follow: of 5,000 weighted draws none was there.
        """
        few = self.by_grid and self.groups < _FEWEST
        return (
            f"a factor of {self.groups} levels, which another crosses, has an sd with a long tail"
            if few
            else ""
        )

    @property
    def indicated(self) -> Any:
        """Features with an indicator of each crossed level ahead, (N, levels + D)."""
        assert self.crossed is not None
        return Columns(self.rows.features, self.crossed, self.levels_crossed)

    @cached_property
    def wide(self) -> GroupedPosterior:
        """With coefficients of the levels ahead of the others; their prior is of an sd that `_at` sets."""
        rows = replace(self.rows, features=self.indicated)
        return GroupedPosterior(
            self.family,
            rows,
            self._prior(0.0),
            self.levels,
            self.sd,
            starts=self.starts,
            slope=self.slope,
            of_scales=self.of_scales,
        )

    def _prior(self, log_sd: float) -> CoefficientPrior:
        levels = np.zeros(self.levels_crossed)
        return CoefficientPrior(
            np.concatenate([levels, self.prior.mean]),
            np.concatenate([levels + np.exp(log_sd), self.prior.sd]),
            self.prior.kind,
        )

    def log_prior(self, x: np.ndarray) -> np.ndarray:
        """(S,) of x (S, P)."""
        log_prior = super().log_prior(x)
        if self.crossed is None:
            return log_prior
        log_sd, b = x[:, self.after : self.after + 1], x[:, self.after + 1 :]
        of_levels = -0.5 * (b / np.exp(log_sd)) ** 2 - log_sd - 0.5 * np.log(2 * np.pi)
        return log_prior + of_levels.sum(axis=1) + scales.log_prior(log_sd, self.of_crossed)

    def by_nodes(self, x: np.ndarray, nodes: int) -> np.ndarray:
        """(S,) of x (S, P), nodes about what the nearest point of the grid says."""
        if not self.by_grid:
            return super().by_nodes(x, nodes)
        values = np.empty(len(x))
        for which, wide in self._near(x):
            values[which] = wide.by_nodes(self._widened(x[which]), nodes)
            self.queries, wide.queries = self.queries + wide.queries, 0
        return values

    def _widened(self, x: np.ndarray) -> np.ndarray:
        """x (S, P) as `wide` has it, without the log sd."""
        return np.roll(np.delete(x, self.after, axis=1), self.levels_crossed, axis=1)

    def _near(self, x: np.ndarray) -> Iterator[tuple[np.ndarray, GroupedPosterior]]:
        """Which of x (S, P) are near each point of the grid, with the posterior whose nodes follow it."""
        near = _nearest(np.array([point.at for point in self.grid_of_sds]), x[:, self.after])
        for k in np.unique(near):
            self.wide.follow = self.grid_of_sds[k].follow
            self.wide.nodes, self.wide.steps = self.nodes, self.steps
            yield np.flatnonzero(near == k), self.wide

    def effects_at(self, x: np.ndarray, seed: int) -> np.ndarray:
        """Of the factor that is integrated out, (S, G, q), a draw for each x (S, P)."""
        if not self.by_grid:
            return effects.draw(self, x, seed)
        drawn = np.empty((len(x), self.groups, self.effects))
        for which, wide in self._near(x):
            drawn[which] = effects.draw(wide, self._widened(x[which]), seed + 1_000 * int(which[0]))
        return drawn

    # -- the proposal --------------------------------------------------------------------------------------

    def proposal(self) -> "Mixture | OverGrid":  # type: ignore[override]
        """About the mode; about those of a grid where a factor crosses."""
        if not self.by_grid:
            return super().proposal()
        points = self._bracketed()
        while len(points) < _MOST:
            log_p = np.array([point.height for point in points])
            ends = np.stack([log_p[:-1], log_p[1:]])
            gap = np.where(ends.max(axis=0) > log_p.max() - _DEEP, np.abs(np.diff(log_p)), 0.0)
            k = int(np.argmax(gap))
            if gap[k] <= _APART:
                if len(points) >= _POINTS:
                    break
                k = int(np.argmax(np.diff([point.at for point in points])))
            points.insert(k + 1, self._at(0.5 * (points[k].at + points[k + 1].at), points[k]))
        self.grid_of_sds = points
        return OverGrid.of(points, self.after, self.tails)

    def _bracketed(self) -> list[_Point]:
        """From far below the top to far below it, in equal steps."""
        points = [self._at(_START)]
        for end, step in ((-1, _STEP), (0, -_STEP)):
            while True:
                top, last = max(point.height for point in points), points[end]
                if last.height < top - _DEEP or last.at < _LOWEST:
                    break
                point = self._at(last.at + step, last)
                points = [*points, point] if end else [point, *points]
        return points

    def _at(self, log_sd: float, near: _Point | None = None) -> _Point:
        """The mode given a log sd, and the shape about it."""
        wide = self.wide
        wide.prior, wide.nodes, wide.steps = self._prior(log_sd), self.nodes, 0
        levels = self.levels_crossed
        at, likelihood = mode.find(wide, wide.start() if near is None else np.roll(near.mode, levels))
        prior = wide.prior_at(at)
        shape = mode.covariance(likelihood.curvature + prior.curvature)
        shape = np.roll(shape, (-levels, -levels), axis=(0, 1))
        sd = np.sqrt(np.diag(shape))
        cholesky = np.linalg.cholesky(shape / np.outer(sd, sd) + 1e-12 * np.eye(len(sd)))
        log_density = likelihood.value + prior.value + float(np.log(sd * np.diag(cholesky)).sum())
        log_density += float(scales.log_prior(np.array([[log_sd]]), self.of_crossed)[0])
        wide.settle(at)
        assert wide.follow is not None
        self.queries, wide.queries = self.queries + wide.queries, 0
        return _Point(log_sd, log_density, np.roll(at, -levels), sd, cholesky, wide.follow)


def _nearest(points: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Of ascending points (K,) the nearest to each, (S,)."""
    return np.searchsorted(0.5 * (points[:-1] + points[1:]), at)


@dataclass(frozen=True)
class OverGrid:
    """The proposal: a log sd by the points' heights, then the other numbers by the mode and sds that splines
    through the points give, and the nearest point's correlations. As Mixture: centre (P,), root (P, P),
    about the highest point; freedom, wide_freedom of both parts.
    """

    place: int
    at: np.ndarray
    parts: list[Mixture]
    modes: "CubicSpline"
    log_sds: "CubicSpline"
    edges: np.ndarray
    share: np.ndarray
    centre: np.ndarray
    root: np.ndarray
    freedom: float
    wide_freedom: float
    tails: tuple[tuple[int, float], ...]

    @staticmethod
    def of(points: list[_Point], place: int, tails: tuple[tuple[int, float], ...]) -> "OverGrid":
        """Of the grid, ascending; place: of the log sd in x; tails: of numbers ahead of it."""
        from scipy.interpolate import CubicSpline  # late: a fifth of what every fit loads, and few need it

        at, values = np.array([point.at for point in points]), np.array([point.height for point in points])
        edges = np.linspace(at[0], at[-1], _FINE + 1)
        log_p = CubicSpline(at, values)(0.5 * (edges[1:] + edges[:-1]))
        share = sum(
            part * (p := np.exp(power * (log_p - log_p.max()))) / p.sum()
            for part, power in ((1.0 - _FLAT, 1.0), (_FLAT, 0.5))
        )
        size, top = len(points[0].mode), points[int(values.argmax())]
        parts = [
            Mixture(
                np.zeros(size),
                point.root,
                freedom(size),
                tails=tuple((k, scale / point.sd[k]) for k, scale in tails),
            )
            for point in points
        ]
        middle = 0.5 * (edges[1:] + edges[:-1])
        cholesky = np.zeros((size + 1, size + 1))
        others = np.delete(np.arange(size + 1), place)
        cholesky[np.ix_(others, others)] = top.sd[:, None] * top.root
        cholesky[place, place] = np.sqrt(share @ (middle - share @ middle) ** 2)
        return OverGrid(
            place,
            at,
            parts,
            CubicSpline(at, np.array([point.mode for point in points])),
            CubicSpline(at, np.log([point.sd for point in points])),
            edges,
            share,
            np.insert(top.mode, place, top.at),
            cholesky,
            parts[0].freedom,
            parts[0].wide_freedom,
            (*tails, (place, TAIL)),
        )

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """n draws, (n, P), and which are of the wide part."""
        cell = np.searchsorted(np.cumsum(self.share), rng.random(n)).clip(max=_FINE - 1)
        log_sd = self.edges[cell] + rng.random(n) * (self.edges[1] - self.edges[0])
        near, wide = _nearest(self.at, log_sd), np.zeros(n, dtype=bool)
        z = np.empty((n, len(self.centre) - 1))
        for k in np.unique(near):
            z[near == k], wide[near == k] = self.parts[k].draw(rng, int((near == k).sum()))
        others = self.modes(log_sd) + np.exp(self.log_sds(log_sd)) * z
        return np.insert(others, self.place, log_sd, axis=1), wide

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n,) of x (n, P); −inf beyond the grid."""
        log_sd = x[:, self.place]
        spread = self.log_sds(log_sd)
        z = (np.delete(x, self.place, axis=1) - self.modes(log_sd)) * np.exp(-spread)
        width = self.edges[1] - self.edges[0]
        cell = np.floor((log_sd - self.edges[0]) / width).astype(int).clip(0, _FINE - 1)
        inside = (log_sd >= self.edges[0]) & (log_sd <= self.edges[-1])
        log_density = np.where(inside, np.log(self.share[cell] / width), -np.inf) - spread.sum(axis=1)
        near = _nearest(self.at, log_sd)
        for k in np.unique(near):
            log_density[near == k] += self.parts[k].log_density(z[near == k])
        return log_density
