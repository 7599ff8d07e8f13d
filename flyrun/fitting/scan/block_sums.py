"""What a look at a row group gives: rows drawn by class, or sums of second order and rows that correct them.

A row's log likelihood about a centre m is f(m) + a·δ − ½δᵀTδ + r, with δ by how much its K predictors differ
from theirs at m. Slopes a and bends T are summed over all rows; r is small where θ may be. Rows where it is
not are the *core*: they travel as they are, and are in no sum. Of all others K ~ Poisson(Λ) copies travel, Λ
in proportion to what r is at a few points. Whatever a and T are, sums less them are exact, as long as the
same are taken off again: they travel too, as they were summed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from flyrun.fitting import identified
from flyrun.fitting.scan.encoded_rows import Encoding
from flyrun.fitting.scan.joined_groups import Block
from flyrun.fitting.scan.row_groups import Part, parts, tree
from flyrun.fitting.scan.second_order import Centre, Sites, few
from flyrun.ground.threads import one_blas_thread

LEAST_SHARE = 0.05  # of a row's intensity, by the mean's
# that rows travel as, the first that holds all: x, y, beside, copies, intensity, slopes, bends
_REAL, _NUMBER, _COUNT = (np.float32,), (np.int8, np.float32, np.float64), (np.uint8, np.int64)
_KINDS = (_REAL, _NUMBER, _NUMBER, _COUNT, _REAL, _REAL, _REAL)


class Travelled(NamedTuple):
    """Rows that travel: x (m, D) without the column of ones, y (m,); copies: K, 0 of the core; intensity: Λ.

    beside (m, B): what Rows have besides; slopes (m, K), bends (m, K(K+1)/2): a and T as they were summed;
    stage: about which centre.
    """

    x: np.ndarray
    y: np.ndarray
    beside: np.ndarray
    copies: np.ndarray
    intensity: np.ndarray
    slopes: np.ndarray
    bends: np.ndarray
    stage: np.ndarray

    @property
    def nbytes(self) -> int:
        """Of all of them."""
        return sum(array.nbytes for array in self)

    def where(self, which: np.ndarray) -> "Travelled":
        """Some of them, by indices or a mask, (m,)."""
        return Travelled(*(array[which] for array in self))

    def unpacked(self, ones: bool) -> "Travelled":
        """As float64, whole numbers apart; with the column of ones where rows have it."""
        x = np.column_stack([self.x, np.ones(len(self.x))]) if ones else self.x
        wide = (array.astype(np.float64, copy=False) for array in self._replace(x=x))
        kept = {"copies": self.copies.astype(np.int64), "stage": self.stage}
        return Travelled(*wide)._replace(**kept)

    @staticmethod
    def together(parts: Iterable["Travelled"]) -> "Travelled":
        """All of several."""
        return Travelled(*map(np.concatenate, zip(*parts, strict=True)))


class Sums(NamedTuple):
    """Of some rows. slope (P,), curvature (P, P): of the likelihood at the centre, without the core's.

    copies: how many rows these stand for, with trials; so often a row counts in x, square and y.
    kappa: Σ of the remainders' sizes. x, square: Σ of features and of their squares, (D,); other: whether a
    column taken for one of two values has others. y: Σ of targets and of their squares. successes: of 0-1
    targets. ends: as of identified.empty_in_sums. travelled: in parts, which are never joined: they may be
    most of what the command holds. lacking: rows that lack the value of each column that is read, (C,).
    """

    rows: int
    dropped: int
    lacking: np.ndarray
    copies: float
    slope: np.ndarray
    curvature: np.ndarray
    kappa: float
    x: np.ndarray
    square: np.ndarray
    other: np.ndarray
    y: np.ndarray
    ends: np.ndarray
    travelled: tuple[Travelled, ...]

    def plus(self, other: "Sums") -> "Sums":
        """Of both; the order of the rows is kept."""
        return Sums._make([a + b for a, b in zip(self, other, strict=True)])  # type: ignore[operator]

    def core(self, ones: bool) -> Travelled:
        """Its rows, unpacked; see `unpacked`."""
        return Travelled.together(part.where(part.copies == 0) for part in self.travelled).unpacked(ones)

    def sampled(self, ones: bool, most: int) -> Iterator[Travelled]:
        """Those that are not the core's, unpacked, from so many rows to twice as many at a time."""
        waiting, count = list[Travelled](), 0
        for part in self.travelled:
            drawn = np.flatnonzero(part.copies)
            for first in range(0, len(drawn), most):
                waiting.append(part.where(drawn[first : first + most]))
                if (count := count + len(waiting[-1].y)) >= most:
                    yield Travelled.together(waiting).unpacked(ones)
                    waiting, count = [], 0
        if waiting:
            yield Travelled.together(waiting).unpacked(ones)


@dataclass(frozen=True)
class Intensity:
    """Which rows travel. rate: Λ for each unit of size; floor: size that all have at least; core: from
    which size rows are kept as they are.
    """

    rate: float
    floor: float
    core: float


class Look(ABC):
    """Of encoded rows, a part of a row group at a time."""

    encoding: Encoding

    @property
    def names(self) -> tuple[str, ...]:
        """Columns as they are read."""
        return self.encoding.all_columns

    def __call__(self, block: Block) -> Any:
        """DataError for files and values that cannot be used."""
        each = parts(block, self.names, dict(self.encoding.levels))
        with one_blas_thread():  # the bits of sums depend on the number of BLAS threads
            return tree(self.of(block, part) for part in each)

    @abstractmethod
    def of(self, block: Block, part: Part) -> Any:
        """As a call, of some rows of a row group."""


@dataclass(frozen=True)
class SumLook(Look):
    """Sum a row group about a centre; see the module."""

    encoding: Encoding
    model: str
    centre: Centre
    intensity: Intensity
    seed: int

    def of(self, block: Block, part: Part) -> Sums:
        """As a call, of some rows of a row group."""
        width = len(self.encoding.mean) + self.encoding.ones
        sites = Sites(self.encoding, self.model, self.centre)
        size = sites.posterior.size
        slope, curvature, kappa = np.zeros(size), np.zeros((size, size)), 0.0
        total, square, other = np.zeros(width), np.zeros(width), np.zeros(width, bool)
        y_sums, n, dropped, copies = np.zeros(2), 0, 0, 0.0
        two, at_ends = np.flatnonzero(self.encoding.two), AtEnds(self.encoding)
        ends = at_ends.none()
        key = [self.seed, 1 + self.centre.stage, block.number, part.number]
        rng = np.random.default_rng(key if part.number else key[:3])
        picked, lacking = [], np.zeros(len(self.names), np.int64)
        for x, y, beside, _, sum_x, lost, missing in self.encoding.batches(block, part):
            rows = sites.form.bare(y, beside)
            a, curvatures, left = sites.of(x, rows)
            index, count, intensity, core = self._pick(left, rng)
            kappa += float(left[~core].sum())
            if len(index):
                summed = (a[:, index].T, curvatures[:, index].T)
                own_x = x[: len(self.encoding.mean), index].T
                picked.append((own_x, y[index], beside[:, index].T, count, intensity, *summed))
            if core.any():
                a[:, core], curvatures[:, core] = 0.0, 0.0
            _add(slope, curvature, x, a, curvatures, sites)
            if (each := self.encoding.copies(beside)) is None:
                total += sum_x
                square += np.vecdot(x, x)
                y_sums += y.sum(), y @ y
                copies += len(y)
            else:
                total += x @ each
                square += (x * x) @ each
                y_sums += y @ each, (y * y) @ each
                copies += float(each.sum())
            of_two = x[two]
            other[two] |= _other(of_two)
            ends += at_ends.of(of_two, y, self.encoding.trials(beside), each)
            n, dropped, lacking = n + len(y), dropped + lost, lacking + missing
        shapes = [(0, len(self.encoding.mean)), (0,), (0, len(self.encoding.parts)), (0,), (0,)]
        shapes += [(0, sites.predictors), (0, len(sites.pairs))]
        columns = zip(*picked, strict=True) if picked else ([np.empty(shape)] for shape in shapes)
        kept = [_packed(np.concatenate(pieces), kinds) for pieces, kinds in zip(columns, _KINDS, strict=True)]
        kept.append(np.full(len(kept[0]), self.centre.stage, np.int8))
        sums = (slope, curvature, kappa, total, square, other, y_sums, ends)
        return Sums(n, dropped, lacking, copies, *sums, (Travelled(*kept),))

    def _pick(self, size: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Rows that travel: which, K and Λ of each; and which are the core, (n,)."""
        core = size > self.intensity.core
        # as it travels: what K is drawn by is what its row is weighted by
        intensity = (self.intensity.rate * (size + self.intensity.floor)).astype(np.float32)
        luck = rng.random(len(size))
        # the first of a row's arrivals, by which time none has come is known exactly, however large Λ is
        likely = np.flatnonzero((luck < intensity) & ~core)
        arrived = -np.log1p(-luck[likely])
        come = arrived < intensity[likely]
        drawn = likely[come]
        count = 1 + rng.poisson(intensity[drawn] - arrived[come])
        kept = np.flatnonzero(core)
        index = np.concatenate([kept, drawn])
        order = np.argsort(index, kind="stable")
        counts = np.concatenate([np.zeros(len(kept), int), count])[order]
        rates = np.concatenate([np.zeros(len(kept)), intensity[drawn]])[order]
        return index[order], counts, rates, core


class AtEnds:
    """Counts, by column of two values, of rows and of those whose target is not at an end of its range."""

    def __init__(self, encoding: Encoding):
        self.ends = identified.end_values(encoding.layout)
        self.two, self.width = np.flatnonzero(encoding.two), len(encoding.two)

    def none(self) -> np.ndarray:
        """Of no rows, (1 + E, D + 1), the last column of all rows; (0, D + 1) where a target has no ends."""
        return np.zeros((1 + len(self.ends) if self.ends else 0, self.width + 1))

    def of(
        self, x: np.ndarray, y: np.ndarray, trials: np.ndarray | float, copies: np.ndarray | None
    ) -> np.ndarray:
        """Of some rows. x (T, n): their columns of two values, 0 or 1; trials: (n,) or a number; copies (n,):
        None where all count.
        """
        counts = self.none()
        if self.ends:
            marked = identified.marks(self.ends, y, trials, 1.0 if copies is None else copies)
            marked = marked.astype(np.float32)
            counts[:, self.two] = marked @ (x > 0.5).astype(np.float32).T
            counts[:, -1] = marked.sum(axis=1)
        return counts


def _packed(values: np.ndarray, kinds: tuple[Any, ...]) -> np.ndarray:
    """The same numbers, (m, …), in the first kind that holds each, or the last."""
    *smaller, last = kinds
    with np.errstate(invalid="ignore", over="ignore"):
        each = (values.astype(kind) for kind in smaller)
        packed = next((narrow for narrow in each if (narrow == values).all()), None)
        return values.astype(last, copy=False) if packed is None else packed


def _other(x: np.ndarray) -> np.ndarray:
    """Whether columns (D, n) of 0 and 1 hold others, too, (D,)."""
    return (np.minimum(np.abs(x), np.abs(x - 1.0)) > 1e-6).any(axis=1)  # scaled to 1 with rounding


def _products(x: np.ndarray | None, weight: np.ndarray, z: np.ndarray | None) -> np.ndarray | float:
    """Σ of weight·x z', (D, E), of columns x (D, n) and z (E, n); None is the column of ones."""
    if x is None or z is None:
        if x is None and z is None:
            return float(weight.sum(dtype=np.float64))
        return (z @ weight)[None] if x is None else (x @ weight)[:, None]  # type: ignore[operator]
    many = few(x)
    if x is z and many >= x.shape[1] and weight.min() >= 0.0:
        half = x * np.sqrt(weight)
        return half @ half.T  # of which BLAS works out one triangle
    both, total = x * weight, np.zeros((len(x), len(z)))
    for k in range(0, x.shape[1], many):
        total += both[:, k : k + many] @ z[:, k : k + many].T
    return total


def _add(
    slope: np.ndarray,
    curvature: np.ndarray,
    x: np.ndarray,
    a: np.ndarray,
    curvatures: np.ndarray,
    sites: Sites,
) -> None:
    """Add slopes and curvatures, (P,), (P, P), of a batch x (D, n) by coefficients and auxiliary numbers."""
    post = sites.posterior
    first, *further = sites.form.of_predictors(post)[post.linear - 1 :]
    columns = [x[first]] * post.linear + [which if which is None else x[which] for which in further]
    for at, its, each in zip(post.places, columns, a, strict=True):
        slope[at] += each.sum(dtype=np.float64) if its is None else its @ each
    for i, (j, k) in enumerate(sites.pairs):
        both = _products(columns[j], curvatures[i], columns[k])
        curvature[post.places[j], post.places[k]] += both
        if j != k:
            curvature[post.places[k], post.places[j]] += np.transpose(both)


class Products(NamedTuple):
    """Of some rows. gram: Σ of products of features and target, the last, (D + 1, D + 1); more as of Sums."""

    rows: int
    dropped: int
    lacking: np.ndarray
    copies: float
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
        """Σ of targets and of their squares, (2,)."""
        return self.gram[[-2, -1], -1]

    def plus(self, other: "Products") -> "Products":
        """Of both."""
        return Products._make([a + b for a, b in zip(self, other, strict=True)])  # type: ignore[operator]


@dataclass(frozen=True)
class GramLook(Look):
    """Sum products of a row group's columns."""

    encoding: Encoding

    def of(self, block: Block, part: Part) -> Products:
        """As a call, of some rows of a row group."""
        return reduce(Products.plus, (its for _, _, its in products(self.encoding, block, part)))


def products(
    encoding: Encoding, block: Block, part: Part
) -> Iterator[tuple[np.ndarray, np.ndarray, Products]]:
    """Of each batch of rows its columns, target last, times the root of how often a row is there, (D + 1, n),
    its rows' numbers, (n,), and products.

    In float64: noise far smaller than the target is a difference of sums.
    """
    two = np.flatnonzero(encoding.two)
    for x, y, beside, place, _, lost, lacking in encoding.batches(block, part):
        both, other = np.concatenate([x, y[None]], dtype=np.float64), np.zeros(len(x), bool)
        other[two] = _other(x[two])
        each = encoding.copies(beside)
        gram = both @ both.T if each is None else (both * each) @ both.T
        copies = len(y) if each is None else float(each.sum())
        yield (
            both if each is None else both * np.sqrt(each),
            place,
            Products(len(y), lost, lacking, copies, gram, other),
        )
