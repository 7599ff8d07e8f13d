"""Smooth curves of columns in a formula: `s(x)`, `s(x, k=20, by=g)`, `te(x, z)`, as penalised B-splines.

Cubic splines on even knots; the penalty is the squared second difference of their coefficients, which a line
has none of (Eilers & Marx 1996). In the form of a mixed model the line is among the coefficients, and what
else the curve does are effects u ~ N(0, sd²). Of te() each column has a penalty and so an sd:
u_k ~ N(0, 1/Σ_m w_mk sd_m^−2), w_mk the m-th column's share in the k-th direction's penalty.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from flyrun.ground.errors import FlyrunError
from flyrun.tables.quoting import masked, quoted

WORDS = ("s", "te")  # by which formulas call them
_USUAL, _USUAL_OF_TWO = 10, 5  # splines a column
_LEAST, _MOST = 5, 200
_NAME = r"(?:`[^`]+`|[^\W\d][\w.]*)"
_CALL = re.compile(r"\s*(?P<word>[^\W\d]\w*)\s*\((?P<inside>.*)\)\s*", re.DOTALL)
_BY = re.compile(rf"\s*(?:(?P<c>C)\(\s*(?P<of>{_NAME})\s*\)|(?P<plain>{_NAME}))\s*")
# of the four cubic pieces at t in [0, 1) within a cell: by powers of t
_PIECES = np.array([[1, 4, 1, 0], [-3, 0, 3, 0], [3, -6, 3, 0], [-1, 3, -3, 1]]) / 6.0


@dataclass(frozen=True)
class Smooth:
    """A curve of one column, or a surface of two. k: splines a column; by: a category of whose levels each
    has a curve; coded: whether that stands within C(); linear: whether it is straight beyond the data;
    of: as of Bar.
    """

    names: tuple[str, ...]
    k: int = 0
    by: str | None = None
    coded: bool = False
    linear: bool = False
    columns: tuple[str, ...] = ()  # further than a formula's: none, as of Bar
    slopes: tuple[str, ...] = ()
    of: str = ""

    def __str__(self) -> str:
        """As a formula has it, which is written where it is not the target's."""
        more = [f"k={self.k}"] if self.k != self.usual else []
        more += [f"by={self.by_name}"] if self.by else []
        more += ["extrapolation='linear'"] if self.linear else []
        text = f"{self.word}({', '.join([*map(quoted, self.names), *more])})"
        return f"{quoted(self.of)} ~ {text}" if self.of else text

    @property
    def word(self) -> str:
        """By which formulas call it."""
        return WORDS[len(self.names) > 1]

    @property
    def usual(self) -> int:
        """Splines a column, where none are typed."""
        return _USUAL if len(self.names) == 1 else _USUAL_OF_TWO

    @property
    def by_name(self) -> str:
        """As a formula has it."""
        name = quoted(str(self.by))
        return f"C({name})" if self.coded else name

    @property
    def group(self) -> str:
        """What people call it."""
        return f"{self.word}({', '.join(self.names)}){f':{self.by}' if self.by else ''}"

    @property
    def instead(self) -> str:
        """What may be written in its place where no smooth is fitted."""
        parts = [" * ".join(f"bs({quoted(name)}, df={self.usual // len(self.names)})" for name in self.names)]
        return " * ".join(parts + ([self.by_name] if self.by else []))

    @property
    def line(self) -> str:
        """The terms of a formula that are not penalised."""
        line = " * ".join(map(quoted, self.names))
        if self.by is None:
            return line
        parts = [":".join([*part, self.by_name]) for part in products(tuple(map(quoted, self.names)))]
        return " + ".join([self.by_name, *parts])

    def curves(self, levels: Sequence[str]) -> list[str]:
        """What people call the curves, one a level of by; levels: of by."""
        return [self.named(name) for name in self._curves(levels)]

    def _curves(self, levels: Sequence[str]) -> list[str]:
        return [f"{self.group}[{level}]" for level in levels] if self.by else [self.group]

    def named(self, name: str) -> str:
        """What people call a number of its formula."""
        return f"{self.of}[{name}]" if self.of else name

    def sd_names(self, levels: Sequence[str]) -> list[str]:
        """Of all curves' sds, curve by curve."""
        along = [f" along {name}" for name in self.names] if len(self.names) > 1 else [""]
        return [self.named(f"sd({curve}{each})") for curve in self._curves(levels) for each in along]


def products(names: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Of which names all products of different ones are."""
    every = [tuple(name for j, name in enumerate(names) if k >> j & 1) for k in range(1, 1 << len(names))]
    return sorted(every, key=len)


def read(term: str) -> Smooth | None:
    """A term of a formula as a smooth; None where it is none. FlyrunError where it cannot be read."""
    match = _CALL.fullmatch(term)
    if match is None or match["word"] not in WORDS or _closes(term) < len(term.rstrip()) - 1:
        return None
    inside = match["inside"]
    parts = [inside[a:b].strip() for a, b in _arguments(inside)]
    names = [part for part in parts if re.fullmatch(_NAME, part)]
    word, example = match["word"], "s(x), s(x, k=20), s(x, by=g) or te(x, z)"
    wanted = "one column" if word == "s" else "two columns"
    if len(names) != 1 + (word == "te") or parts[: len(names)] != names or len({*names}) < len(names):
        of = next((part for part in parts if part not in names and "=" not in masked(part)), "")
        mend = f"; make a column of {of}" if of else ""
        raise FlyrunError(f"{term}: a smooth is of {wanted}, as {example}{mend}")
    options = {"k": "", "by": "", "extrapolation": ""}
    for part in parts[len(names) :]:
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or key not in options or options[key]:
            raise FlyrunError(f"{term}: {part} is no option of a smooth; write {example}")
        options[key] = value
    smooth = Smooth(tuple(name.strip("`") for name in names))
    k, by = options["k"] or str(smooth.usual), _BY.fullmatch(options["by"] or "_")
    if not k.isascii() or not k.isdigit() or not _LEAST <= int(k) <= _MOST:
        raise FlyrunError(f"{term}: k, its splines, is a whole number from {_LEAST} to {_MOST}; mend k={k}")
    if by is None:
        raise FlyrunError(
            f"{term}: by is a column, as in s(x, by=g) or s(x, by=C(g)); mend by={options['by']}"
        )
    if (beyond := options["extrapolation"].strip("'\"")) not in ("", "linear"):
        raise FlyrunError(f"{term}: extrapolation is 'linear', or leave it out; {beyond} is another")
    column = (by["of"] or by["plain"]).strip("`") if options["by"] else None
    return Smooth(smooth.names, int(k), column, bool(by["c"]), bool(beyond))


def _closes(term: str) -> int:
    """Where the first parenthesis closes."""
    depth = 0
    for place, letter in enumerate(masked(term)):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and depth == 0:
            return place
    return -1


def _arguments(inside: str) -> list[tuple[int, int]]:
    """Where each argument begins and ends."""
    depth, ends = 0, [-1]
    for place, letter in enumerate(masked(inside) + ","):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and (depth == 0 or place == len(inside)):
            ends.append(place)
    return [(a + 1, b) for a, b in pairwise(ends)]


class Basis(NamedTuple):
    """B-splines of columns. ends: the lowest and highest value of each, (m, 2); k: splines a column."""

    ends: tuple[tuple[float, float], ...]
    k: int

    def splines(self, values: np.ndarray) -> np.ndarray:
        """Of values (n, m): (n, k^m), the last column's splines next to each other; straight beyond ends."""
        total = np.ones((len(values), 1))
        for column, (low, high) in zip(values.T, self.ends, strict=True):
            each = _splines(column, low, high, self.k)
            total = (total[:, :, None] * each[:, None, :]).reshape(len(values), -1)
        return total


def _splines(values: np.ndarray, low: float, high: float, k: int) -> np.ndarray:
    """(n, k) of values (n,)."""
    cells = k - 3
    place = (values - low) / (high - low) * cells
    inside = place.clip(0.0, cells)
    cell = np.minimum(inside.astype(np.int64), cells - 1)
    t, beyond = inside - cell, place - inside
    powers = t[:, None] ** np.arange(4)
    slopes = np.arange(1, 4) * powers[:, :3]
    four = powers @ _PIECES + beyond[:, None] * (slopes @ _PIECES[1:])
    out = np.zeros((len(values), k))
    np.put_along_axis(out, cell[:, None] + np.arange(4), four, axis=1)
    return out


class Directions(NamedTuple):
    """How effects make a curve. matrix: (k^m, q), splines' coefficients by effect; shares: (m, q), of each
    column's penalty in a direction's.
    """

    matrix: np.ndarray
    shares: np.ndarray


@functools.lru_cache(maxsize=32)
def directions(k: int, m: int) -> Directions:
    """Of m columns of k splines each: all that is penalised, with a penalty of 1."""
    values, vectors = np.linalg.eigh(np.diff(np.eye(k), 2, axis=0).T @ np.diff(np.eye(k), 2, axis=0))
    values[:2] = 0.0
    penalties, matrix = np.zeros((0, 1)), np.ones((1, 1))
    for _ in range(m):
        matrix = np.kron(matrix, vectors)
        penalties = np.concatenate(
            [np.repeat(penalties, k, axis=1), np.tile(values, penalties.shape[1])[None]]
        )
    whole = penalties.sum(axis=0)
    kept = whole > 0.0
    return Directions(matrix[:, kept] / np.sqrt(whole[kept]), penalties[:, kept] / whole[kept])


def design(
    basis: Basis, values: np.ndarray, copies: np.ndarray | None = None
) -> tuple[np.ndarray, Directions]:
    """What effects add to rows of values (n, m), (n, q), and how they make the curve.

    Over rows, each so many times there, a curve has no mean and no line, and with all sds 1 a variance of 1.
    """
    m = values.shape[1]
    whole, (matrix, shares) = basis.splines(values), directions(basis.k, m)
    each = np.stack([np.ones(basis.k), np.linspace(-1.0, 1.0, basis.k)], axis=1)  # a constant, and a line
    straight: np.ndarray = functools.reduce(np.kron, [each] * m)
    root = np.ones(len(values)) if copies is None else np.sqrt(copies)
    of_line, of_all = (root[:, None] * (whole @ part) for part in (straight, matrix))
    matrix = matrix - straight @ np.linalg.lstsq(of_line, of_all, rcond=None)[0]
    columns = whole @ matrix
    scale = np.sqrt((root[:, None] ** 2 * columns**2).sum() / (root**2).sum())
    return columns / scale, Directions(matrix / scale, shares)
