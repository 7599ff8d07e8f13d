"""What a look at a row group gives: rows drawn by class, or sums of second order and rows that correct them.

A row's log likelihood about a centre m is f(m) + a·δ − ½δᵀTδ + r, with δ by how much its K predictors differ
from theirs at m. Slopes a and bends T are summed over all rows; r is small where θ may be. Rows where it is
not are the *core*: they travel as they are, and are in no sum. Of all others K ~ Poisson(Λ) copies travel, Λ
in proportion to what r is at a few points. Whatever a and T are, sums less them are exact, as long as the
same are taken off again: they travel too, as they were summed.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from flyrun.errors import DataError
from flyrun.fitting.rows_posterior import CoefficientPrior, Posterior, Rows
from flyrun.fitting.scan.row_groups import Block, read
from flyrun.models.family import family

BATCH = 8_192
LEAST_SHARE = 0.1  # of a row's intensity, by the mean's
_FEW_VALUES = 20  # up to so many the target's values are classes for the pilot


class Encoding(NamedTuple):
    """How a table's columns become rows. mean, sd: (D,) of columns, taken off and divided by.

    two: (D,), columns that are taken for ones of two values. task: of Dataset. values: of a target of
    classes, in order. target_mean, target_sd: of one that is standardised. missing: as it is typed.
    """

    columns: tuple[str, ...]
    target: str
    task: str
    values: tuple[float, ...]
    mean: np.ndarray
    sd: np.ndarray
    two: np.ndarray
    target_mean: float = 0.0
    target_sd: float = 1.0
    missing: str = "refuse"
    ones: bool = True  # whether rows have the column of ones, the last

    def rows(self, block: Block) -> tuple[np.ndarray, np.ndarray, int]:
        """Features (D, n), float32, a column after the other; targets (n,); rows dropped."""
        *columns, target = read(block, (*self.columns, self.target))
        x = np.empty((len(columns) + self.ones, block.rows), np.float32)
        for d, column in enumerate(columns):
            # float32 loses digits of what is far from 0
            near = column.dtype == np.float32 and abs(self.mean[d]) < 16 * self.sd[d]
            kind = np.float32 if near else np.float64
            np.subtract(column, kind(self.mean[d]), out=x[d], dtype=kind, casting="unsafe")
        x[: len(columns)] *= (1.0 / self.sd).astype(np.float32)[:, None]
        if self.ones:
            x[-1] = 1.0
        y = target.astype(np.float64)
        kept = np.isfinite(x.sum(axis=0)) & np.isfinite(y)
        dropped = block.rows - int(kept.sum())
        if dropped:
            where = f"{block.file.path}: row group {block.group}"
            if np.isinf(x).any() or np.isinf(y).any():
                raise DataError(f"{where} holds an infinite number; leave its column out with --drop")
            if self.missing != "drop":
                row = int(np.flatnonzero(~kept)[0])
                raise DataError(
                    f"{where}, row {row}: a value is missing; leave out, and count, such rows with "
                    "--missing drop"
                )
            x, y = np.ascontiguousarray(x[:, kept]), y[kept]
        return x, self.targets(y, f"{block.file.path}: row group {block.group}"), dropped

    def targets(self, y: np.ndarray, where: str) -> np.ndarray:
        """Of 0 and 1, class numbers, or numbers; DataError for one that the model does not take."""
        if self.values:
            found = np.minimum(np.searchsorted(self.values, y), len(self.values) - 1)
            bad = np.asarray(self.values)[found] != y
            said = f"is not one of the {len(self.values)} values that the first look found"
            y, was = found.astype(np.float64), y
        else:
            was = y
            bad = np.zeros(len(y), bool)
            if self.task == "counts":
                bad, said = (y < 0) | (y != np.floor(y)), "is no count"
            elif self.task == "positive":
                bad, said = y <= 0, "is not above 0"
            y = (y - self.target_mean) / self.target_sd
        if bad.any():
            value = was[int(np.flatnonzero(bad)[0])]
            raise DataError(
                f"{where}: {self.target} = {value:g} {said}; mend the file, or choose another --model"
            )
        return y


class Sample(NamedTuple):
    """Rows of a pilot as they stand in the files. x: (n, D); chance: with which each was taken, (n,)."""

    x: np.ndarray
    y: np.ndarray
    chance: np.ndarray


@dataclass(frozen=True)
class PilotLook:
    """Take some rows of a row group, alike of each class. most: how many."""

    columns: tuple[str, ...]
    target: str
    most: int
    seed: int

    def __call__(self, block: Block) -> Sample:
        """Rows that lack a value are left out."""
        *columns, target = read(block, (*self.columns, self.target))
        y = target.astype(np.float64)
        values, place, count = np.unique(y, return_inverse=True, return_counts=True)
        if len(values) > _FEW_VALUES:
            place, count = np.zeros(len(y), int), np.array([len(y)])
        chance = np.minimum(1.0, self.most / len(count) / count)[place]
        picked = np.flatnonzero(np.random.default_rng([self.seed, 0, block.number]).random(len(y)) < chance)
        x = np.column_stack([column[picked] for column in columns]).astype(np.float64)
        kept = np.isfinite(x).all(axis=1) & np.isfinite(y[picked])
        x, picked = x[kept], picked[kept]
        small = x.astype(np.float32)
        return Sample(small if (small == x).all() else x, y[picked], chance[picked])


class Travelled(NamedTuple):
    """Rows that travel: x (m, D), y (m,); copies: K, 0 of the core; intensity: Λ.

    slopes (m, K), bends (m, K(K+1)/2): a and T as they were summed; stage: about which centre.
    """

    number: np.ndarray
    x: np.ndarray
    y: np.ndarray
    copies: np.ndarray
    intensity: np.ndarray
    slopes: np.ndarray
    bends: np.ndarray
    stage: np.ndarray

    @property
    def nbytes(self) -> int:
        """Of all of them."""
        return sum(one.nbytes for one in self)


class Sums(NamedTuple):
    """Of some rows. slope (P,), curvature (P, P): of the likelihood at the centre, without the core's.

    kappa: Σ of the remainders' sizes. x, square: Σ of features and of their squares, (D,); other: whether a
    column taken for one of two values has others. y: Σ of targets and of their squares. successes: of 0-1
    targets.
    """

    rows: int
    dropped: int
    slope: np.ndarray
    curvature: np.ndarray
    kappa: float
    x: np.ndarray
    square: np.ndarray
    other: np.ndarray
    y: np.ndarray
    travelled: Travelled

    def plus(self, other: "Sums") -> "Sums":
        """Of both; the order of the rows is kept."""
        rows = Travelled(
            *(np.concatenate(both) for both in zip(self.travelled, other.travelled, strict=True))
        )
        added: list[Any] = [a + b for a, b in zip(self[:-1], other[:-1], strict=True)]  # type: ignore[operator]
        return Sums._make([*added, rows])


def tree(parts: list[Any]) -> Any:
    """The sum of parts, neighbours first: the same bits whoever worked out which part."""
    while len(parts) > 1:
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        parts = [pair[0].plus(pair[1]) if len(pair) > 1 else pair[0] for pair in pairs]
    return parts[0]


@dataclass(frozen=True)
class Centre:
    """About what is summed. at: (P,); stage: its number.

    probes: (2M, P), M pairs of draws of the posterior as it may be; r differs within them by √2 sds.
    """

    at: np.ndarray
    probes: np.ndarray
    stage: int


@dataclass(frozen=True)
class Intensity:
    """Which rows travel. rate: Λ for each unit of size; floor: size that all have at least; core: from
    which size rows are kept as they are.
    """

    rate: float
    floor: float
    core: float


class Sites:
    """Rows' second order about a centre, and sizes of what it leaves out."""

    def __init__(self, model: str, width: int, levels: int, centre: Centre):
        prior = CoefficientPrior(np.zeros(1), np.ones(1))  # which no row has
        self.posterior = Posterior(family(model), Rows(np.empty((0, width)), np.empty(0)), prior, levels)
        points = np.concatenate([centre.at[None], centre.probes])
        linear, n = self.posterior.linear, width * self.posterior.linear
        self._points = points[:, :n].reshape(len(points), linear, width).astype(np.float32)
        self._others = [column[:, None] for column in points[:, n:].T]
        self.predictors = linear + len(self._others)
        self.pairs = [(j, k) for j in range(self.predictors) for k in range(j, self.predictors)]

    def of(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Slopes (K, n), bends (K(K+1)/2, n), as float32, and sizes (n,) of rows x (D, n), y (n,)."""
        p: list[Any] = [(self._points[:, k] @ x).astype(np.float64) for k in range(self._points.shape[1])]
        p += self._others
        at, rows = [one[0] for one in p], Rows(x, y)
        slopes, bends = self.posterior.row_derivatives(rows, at)
        slope, bend = np.empty((self.predictors, len(y)), np.float32), np.empty((len(self.pairs), len(y)))
        for j, value in enumerate(slopes):
            slope[j] = value
        for i, (j, k) in enumerate(self.pairs):
            bend[i] = bends[j][k]
        bend = bend.astype(np.float32)
        value = self.posterior.of_rows(rows, p)
        left = value[1::2] - value[2::2]
        away = [one[1:] - one[0] for one in p]
        for j, step in enumerate(away):
            left -= slope[j] * (step[::2] - step[1::2])
        for i, (j, k) in enumerate(self.pairs):
            both = away[j] * away[k]
            left += (0.5 if j == k else 1.0) * bend[i] * (both[::2] - both[1::2])
        size = np.sqrt(0.5 * np.einsum("sn,sn->n", left, left) / len(left))
        return slope, bend, np.where(np.isfinite(size), size, np.inf)


@dataclass(frozen=True)
class SumLook:
    """Sum a row group about a centre; see the module."""

    encoding: Encoding
    model: str
    levels: int
    centre: Centre
    intensity: Intensity
    seed: int

    def __call__(self, block: Block) -> Sums:
        """DataError for files and values that cannot be used."""
        with threadpool_limits(1):  # the bits of sums depend on the number of BLAS threads
            x, y, dropped = self.encoding.rows(block)
            return self._sums(x, y, dropped, block)

    def _sums(self, x: np.ndarray, y: np.ndarray, dropped: int, block: Block) -> Sums:
        width, n = x.shape
        sites = Sites(self.model, width, self.levels, self.centre)
        linear = sites.posterior.linear
        size = sites.posterior.size
        slope, curvature, kappa = np.zeros(size), np.zeros((size, size)), 0.0
        total, square, other = np.zeros(width), np.zeros(width), np.zeros(width, bool)
        two = np.zeros(width, bool)
        two[: len(self.encoding.two)] = self.encoding.two
        rng = np.random.default_rng([self.seed, 1 + self.centre.stage, block.number])
        found = []
        for first in range(0, n, BATCH):
            part = np.ascontiguousarray(x[:, first : first + BATCH])
            aim = y[first : first + BATCH]
            a, bend, left = sites.of(part, aim)
            index, count, intensity, core = self._pick(left, rng)
            kappa += float(left[~core].sum())
            kept = (a[:, index].T, bend[:, index].T)
            if len(index):
                found.append(
                    (block.first + first + index, part[:, index].T, aim[index], count, intensity, *kept)
                )
            if core.any():
                a[:, core], bend[:, core] = 0.0, 0.0
            _add(slope, curvature, part, a, bend, sites.pairs, linear)
            total += part.sum(axis=1)
            square += np.einsum("dn,dn->d", part, part)
            if two.any():
                own = part[two]
                other[two] |= ((own != 0.0) & (own != 1.0)).any(axis=1)
        columns = list(zip(*found, strict=True))
        shapes = [(0,), (0, width), (0,), (0,), (0,), (0, sites.predictors), (0, len(sites.pairs))]
        kinds = [np.int64, np.float32, np.float64, np.int32, np.float64, np.float32, np.float32]
        rows = [
            np.concatenate(columns[i]).astype(kinds[i]) if columns else np.empty(shapes[i], kinds[i])
            for i in range(len(kinds))
        ]
        rows.append(np.full(len(rows[0]), self.centre.stage, np.int8))
        y_sums = np.array([y.sum(), y @ y])
        return Sums(n, dropped, slope, curvature, kappa, total, square, other, y_sums, Travelled(*rows))

    def _pick(self, size: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Rows that travel: which, K and Λ of each; and which are the core, (n,)."""
        core = size > self.intensity.core
        intensity = self.intensity.rate * (size + self.intensity.floor)
        luck = rng.random(len(size))
        # the first of a row's arrivals, by which time none has come is known exactly, however large Λ is
        likely = np.flatnonzero((luck < intensity) & ~core)
        arrived = -np.log1p(-luck[likely])
        come = arrived < intensity[likely]
        drawn = likely[come]
        count = 1 + rng.poisson(intensity[drawn] - arrived[come])
        own = np.flatnonzero(core)
        index = np.concatenate([own, drawn])
        order = np.argsort(index, kind="stable")
        counts = np.concatenate([np.zeros(len(own), int), count])[order]
        rates = np.concatenate([np.zeros(len(own)), intensity[drawn]])[order]
        return index[order], counts, rates, core


def _add(
    slope: np.ndarray,
    curvature: np.ndarray,
    x: np.ndarray,
    a: np.ndarray,
    bend: np.ndarray,
    pairs: list[tuple[int, int]],
    linear: int,
) -> None:
    """Add a batch's slopes and bends by the coefficients and auxiliary numbers."""
    width = len(x)
    place = [
        slice(k * width, (k + 1) * width) if k < linear else linear * (width - 1) + k for k in range(len(a))
    ]
    for j, at in enumerate(place):
        slope[at] += x @ a[j] if j < linear else a[j].sum(dtype=np.float64)
    for i, (j, k) in enumerate(pairs):
        if k < linear:
            both = (x * bend[i]) @ x.T
        elif j < linear:
            both = x @ bend[i]
        else:
            both = bend[i].sum(dtype=np.float64)
        curvature[place[j], place[k]] += both
        if j != k:
            curvature[place[k], place[j]] += both.T if k < linear else both


class Products(NamedTuple):
    """Of some rows. gram: Σ of products of features and target, the last, (D + 1, D + 1); more as of Sums."""

    rows: int
    dropped: int
    gram: np.ndarray
    other: np.ndarray

    @property
    def x(self) -> np.ndarray:
        """Σ of features, (D,), by the column of ones."""
        return self.gram[-2, :-1]

    @property
    def square(self) -> np.ndarray:
        """Σ of their squares, (D,)."""
        return np.diag(self.gram)[:-1]

    @property
    def y(self) -> np.ndarray:
        """Σ of targets and of their squares."""
        return self.gram[[-2, -1], -1]

    def plus(self, other: "Products") -> "Products":
        """Of both."""
        return Products._make([a + b for a, b in zip(self, other, strict=True)])  # type: ignore[operator]


@dataclass(frozen=True)
class GramLook:
    """Sum products of a row group's columns."""

    encoding: Encoding

    def __call__(self, block: Block) -> Products:
        """In float64: noise far smaller than the target is a difference of sums."""
        with threadpool_limits(1):  # the bits of sums depend on the number of BLAS threads
            x, y, dropped = self.encoding.rows(block)
            size = len(x) + 1
            gram, other = np.zeros((size, size)), np.zeros(len(x), bool)
            two = np.flatnonzero(self.encoding.two)
            for first in range(0, len(y), BATCH):
                part = np.empty((size, len(y[first : first + BATCH])))
                part[:-1], part[-1] = x[:, first : first + BATCH], y[first : first + BATCH]
                gram += part @ part.T
                own = part[two]
                other[two] |= ((own != 0.0) & (own != 1.0)).any(axis=1)
        return Products(len(y), dropped, gram, other)
