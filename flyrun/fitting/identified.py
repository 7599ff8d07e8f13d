"""Where a table says little of its coefficients: columns that say the same, ones that separate classes, and
levels whose rows all have the target's least or largest value.

In a direction that columns share the likelihood's curvature at the mode is far less than along each of them;
in the other two cases it has no mode. The prior decides there, and a line says so.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from flyrun.ground.schema import listing
from flyrun.tables.dataset import Dataset
from flyrun.tables.layout import Layout, plain
from flyrun.tables.options import Table

# Columns say the same in a direction along which the likelihood's curvature is less than this share of that
# for unrelated columns (two that correlate by .99), unless the data are so many that its posterior sd is
# below a fifth of the prior's there.
_SHARE = 0.01
_INFORMED = 25.0
_BLOCK = 10_000  # rows
_MOST_NAMES = 6
_FEWEST = 3  # rows of a level; of fewer any level may be at an end, and its interval says so


def caveats(
    table: Table,
    layout: Layout,
    dataset: Dataset | None,
    likelihood: np.ndarray,
    prior: np.ndarray,
    theta: np.ndarray,
) -> list[str]:
    """A line for each group of columns that say the same, and for those that separate classes.

    likelihood: its curvature at the mode by column, (D, D); prior: its precisions, (D,); theta: the mode,
    (P,). dataset: None where the rows are not at hand, nor then what separates classes.
    """
    lines = [_alike(table, layout, group, free) for group, free in groups(likelihood, prior)]
    if dataset is None:
        return lines
    apart = _separated(table, layout, dataset, theta)
    return [*lines, *(apart or empty_cells(layout, dataset))]


def groups(likelihood: np.ndarray, prior: np.ndarray) -> list[tuple[list[int], int]]:
    """Columns but the last that say the same, whatever the last is, and in how many directions, by group.

    likelihood: its curvature at the mode by column, (D, D), the intercept last; prior: its precisions, (D,).
    """
    with_last = likelihood[:-1, -1]
    likelihood = likelihood[:-1, :-1] - np.outer(with_last, with_last) / max(likelihood[-1, -1], 1e-300)
    prior = prior[:-1]
    diagonal = np.maximum(np.diag(likelihood), 1e-12 * prior)
    values, vectors = np.linalg.eigh(likelihood / np.sqrt(diagonal) / np.sqrt(diagonal)[:, None])
    with np.errstate(divide="ignore"):  # of flat priors
        informed = values / ((vectors**2).T @ (prior / diagonal))  # over the prior's precision
    vectors = vectors[:, (values < _SHARE) & (informed < _INFORMED)]
    shares = vectors @ vectors.T  # of each column in these directions; others' parts are 0 between groups
    left, alike = {int(d) for d in np.flatnonzero(np.diag(shares) > _SHARE)}, []
    while left:
        group, new = set(), {min(left)}
        while new:
            group |= new
            new = {d for d in left - group if np.abs(shares[d, list(group)]).max() > _SHARE}
        left -= group
        if len(group) > 1:
            members = sorted(group)
            alike.append((members, max(round(float(np.diag(shares)[members].sum())), 1)))
    return alike


def _alike(table: Table, layout: Layout, group: list[int], free: int) -> str:
    names = [layout.names[d] for d in group]
    relation = "say nearly the same" if len(names) == 2 else "nearly follow from each other"
    count = "one of them" if free == 1 else f"{free} of them"
    sentence = f"{_some(names)} {relation}: the data do not tell their effects apart, and the prior divides"
    if table.formula is not None:
        return f"{sentence} these among them; {_of_formula(layout, names, count)}"
    return f"{sentence} these among them; leave {count} out, as {table.out(_origins(layout, group)[-1])}"


def _of_formula(layout: Layout, names: list[str], count: str) -> str:
    """What helps where columns of a formula follow from each other, as it is typed."""
    from flyrun.tables import formula  # late: few fits have one

    terms = _terms(layout, names)
    splines = {name: wide for term in terms for name, wide in formula.centred(term).items()}
    if splines:
        return "write " + listing(f"{wide} for {name}" for name, wide in splines.items())
    if len(terms) == 1:
        return f"leave {terms[0]} out of the formula"
    return f"leave {count} out of the formula, as {terms[-1]}"


def _terms(layout: Layout, names: list[str]) -> list[str]:
    """The formula's terms that columns are of, each once, as they are typed."""
    from flyrun.tables import formula  # late, as above

    read = formula.read(str(layout.formula), [column.name for column in layout.sources])
    return list(dict.fromkeys(map(read.term_of, names)))


def _separated(table: Table, layout: Layout, dataset: Dataset, theta: np.ndarray) -> list[str]:
    """Of classes: columns that tell one from all others in every row, or that all do together, at θ (P,)."""
    levels = layout.target.levels
    if levels is None or layout.task == "ordered":
        return []
    columns = separating(dataset, len(levels))
    return apart_lines(table, layout, columns, not columns and _all_right(dataset, theta))


def apart_lines(table: Table, layout: Layout, apart: dict[int, tuple[int, ...]], together: bool) -> list[str]:
    """A line for columns that tell classes apart in every row, or that all do together.

    apart: as of `separating`.
    """
    levels = layout.target.levels or []
    lines, by_classes = [], dict[tuple[int, ...], list[int]]()
    for column, classes in apart.items():
        by_classes.setdefault(classes, []).append(column)
    for classes, columns in by_classes.items():
        what = listing(levels[k] for k in classes)
        what += " apart" if len(levels) == 2 else " from all others"
        single, names = len(columns) == 1, [layout.names[d] for d in columns]
        name = _origins(layout, columns)[0] if table.formula is None else _terms(layout, names)[0]
        lines.append(
            f"{_some(names)} {'tells' if single else 'each tell'} {what} in every "
            f"row: only the prior keeps {'its coefficient' if single else 'their coefficients'} from growing "
            f"without end; if {name} holds the answer, leave it out {table.out(name)}"
        )
    if not lines and together:
        lines.append(
            f"the columns together tell {layout.target.name}'s classes apart in every row: only the prior, "
            "whose sd --prior-scale sets, keeps the coefficients from growing without end"
        )
    return lines


def separating(dataset: Dataset, n_classes: int) -> dict[int, tuple[int, ...]]:
    """Columns that tell classes from all others by whether a value is below a border, in every row."""
    low = np.full((n_classes, dataset.features.shape[1]), np.inf)
    high = -low
    for rows, classes in _blocks(dataset):
        for k in np.unique(classes):
            inside = rows[classes == k]
            low[k], high[k] = np.minimum(low[k], inside.min(axis=0)), np.maximum(high[k], inside.max(axis=0))
        if not (apart := separating_ends(low, high)):  # nor will there be any with more rows
            return {}
    return apart


def separating_ends(low: np.ndarray, high: np.ndarray) -> dict[int, tuple[int, ...]]:
    """As of `separating`, by the ends of columns in each class, (K, D)."""
    others = [np.arange(len(low)) != k for k in range(len(low))]
    below = np.array([high[k] < low[other].min(axis=0) for k, other in enumerate(others)])
    above = np.array([low[k] > high[other].max(axis=0) for k, other in enumerate(others)])
    apart = below | above
    return {int(d): tuple(np.flatnonzero(apart[:, d]).tolist()) for d in np.flatnonzero(apart.any(axis=0))}


#: what all rows of a level may have, in words, and whether rows of targets and trials (n,) differ
Ends = list[tuple[str, Callable[[np.ndarray, np.ndarray | float], np.ndarray]]]


class _Cells(NamedTuple):
    """Cells that each row is in one of. columns: of two values, of which at most one is on in a row; labels:
    of the cell where none is, then by column; None of a cell that is no level."""

    columns: list[int]
    labels: list[str | None]

    def of(self, on: np.ndarray) -> np.ndarray:
        """The number of each row's cell, (n,), of columns that are on or off, (n, D)."""
        codes: np.ndarray = on[:, self.columns] @ np.arange(1, len(self.columns) + 1)
        return codes


def empty_cells(layout: Layout, dataset: Dataset) -> list[str]:
    """A line for each end of the target that all rows of some level have, or class that none of them has.

    There the likelihood grows as a coefficient does, without end. Levels of categories, both values of
    columns of two, and pairs of these whose product is a column.
    """
    ends = end_values(layout)
    cells, pairs = _cells(layout, _of_two_values(layout, dataset)) if ends else ({}, [])
    if not cells:
        return []
    sizes = {
        key: math.prod(len(cells[name].labels) for name in key)
        for key in [*((name,) for name in cells), *pairs]
    }
    counted = {key: np.zeros((1 + len(ends), size)) for key, size in sizes.items()}
    first = 0
    for rows, target in _blocks(dataset):
        block = slice(first, first := first + len(rows))
        trials = np.ones(len(rows)) if dataset.trials is None else dataset.trials[block]
        weights = 1.0 if dataset.weights is None else dataset.weights[block]
        marked = marks(ends, target, trials, trials * weights)
        on = _away(layout, rows)[0] > 0.0
        codes = {name: cell.of(on) for name, cell in cells.items()}
        for key, size in sizes.items():
            code = np.ravel_multi_index(
                [codes[name] for name in key], [len(cells[name].labels) for name in key]
            )
            counted[key] += [np.bincount(code, mark, size) for mark in marked]
        if all(values[1:].all() for values in counted.values()):
            return []
    return _empty(layout, ends, cells, counted)


def empty_in_sums(layout: Layout, two: np.ndarray, sums: np.ndarray) -> list[str]:
    """As `empty_cells`, of a table that is not at hand.

    two: (D,), which columns hold two values; sums: over rows, (1 + E, D + 1), of `marks`, by column of those
    where it is on and, the last, of all.
    """
    ends = end_values(layout)
    if not ends or not len(sums):
        return []
    cells, pairs = _cells(layout, np.flatnonzero(two).tolist())
    names, total = layout.names, sums[:, -1:]
    place = {name: d for d, name in enumerate(names)}
    counted: dict[tuple[str, ...], np.ndarray] = {}
    for name, cell in cells.items():
        on = sums[:, cell.columns]
        counted[name,] = np.column_stack([total - on.sum(axis=1, keepdims=True), on])
    for pair in pairs:
        outer, inner = (cells[name].columns for name in pair)
        products = [[place.get(f"{names[a]}:{names[b]}", -1) for b in inner] for a in outer]
        both = sums[:, products]
        if np.min(products) < 0 or any(_low(layout, d) != 0.0 for d in (*outer, *inner)):
            continue  # a product may be on where neither column is
        rows = np.concatenate([(counted[pair[1],][:, 1:] - both.sum(axis=1))[:, None], both], axis=1)
        first = counted[pair[0],] - rows.sum(axis=2)
        counted[pair] = np.concatenate([first[:, :, None], rows], axis=2).reshape(len(sums), -1)
    return _empty(layout, ends, cells, counted)


def _empty(
    layout: Layout, ends: Ends, cells: dict[str, _Cells], counted: dict[tuple[str, ...], np.ndarray]
) -> list[str]:
    """The lines. counted: by key, (1 + E, C), each cell's rows, and those whose target is not at each end."""
    lines = []
    for k, (phrase, _) in enumerate(ends):
        empty: list[str] = []
        for key, (rows_of, *others) in counted.items():
            other = others[k]
            if layout.task == "classes":  # of many classes few rows lack some
                rows_of = rows_of * (other.sum() / rows_of.sum())
            for cell in np.flatnonzero((rows_of >= _FEWEST) & (other == 0)):
                places = np.unravel_index(cell, [len(cells[name].labels) for name in key])
                labels = [cells[name].labels[place] for name, place in zip(key, places, strict=True)]
                if None not in labels and not set(labels) & set(empty):
                    empty.append(" with ".join(map(str, labels)))
        if empty:
            lines.append(
                f"{_some(empty)}: {phrase}, so that only the prior, whose sd --prior-scale sets, keeps the "
                "effect from growing without end; join the level to another if they belong together"
            )
    return lines


def marks(ends: Ends, y: np.ndarray, trials: np.ndarray | float, counts: np.ndarray | float) -> np.ndarray:
    """Rows that count, and of these those whose target y (n,) differs from each end, (1 + E, n) bool.

    trials, counts: (n,), or a number of all; rows count where counts are above 0.
    """
    there = np.broadcast_to(counts, y.shape) > 0
    return np.array([there, *(there & differs(y, trials) for _, differs in ends)])


def end_values(layout: Layout) -> Ends:
    """The values of a target beyond which, or within which, a likelihood grows without end."""
    name, levels = layout.explained, layout.target.levels or []
    least = (f"{name} is {levels[0] if levels else 0} in every row", lambda y, trials: y > 0)
    if layout.task == "counts":
        return [least]
    if layout.task == "successes":
        return [least, (f"{name} is the number of trials in every row", lambda y, trials: y < trials)]
    if layout.task in ("binary", "ordered"):
        return [least, (f"{name} is {levels[-1]} in every row", lambda y, trials: y < len(levels) - 1)]
    if layout.task == "classes":
        return [(f"{name} is {level} in no row", partial(_is, k)) for k, level in enumerate(levels)]
    return []


def _is(k: int, y: np.ndarray, trials: np.ndarray | float) -> np.ndarray:
    """Whether classes (n,) are number k."""
    return y == k


def _cells(layout: Layout, two: list[int]) -> tuple[dict[str, _Cells], list[tuple[str, str]]]:
    """Levels by the category or column of two values, and pairs of these whose product is a column.

    two: which encoded columns hold two values.
    """
    names, origins = layout.names[:-1], [column for column in layout.features for _ in column.encoded]
    cells: dict[str, _Cells] = {}
    for d in two:
        name, column = names[d], origins[d]
        whole, base, label = name, f"{name} = {plain(column.low)}", f"{name} = {plain(column.high)}"
        if name.endswith("]"):
            whole, label = name.rsplit("[", 1)[0], name
            base = f"{whole}[{column.levels[0]}]" if column.levels else f"the reference of {whole}"
        if ":" in name:  # where a product is off, rows have nothing in common
            cells[name] = _Cells([d], [None, name])
        elif whole in cells:
            cells[whole].columns.append(d)
            cells[whole].labels.append(label)
        else:
            cells[whole] = _Cells([d], [base, label])
    whole_of = {names[d]: whole for whole, cell in cells.items() for d in cell.columns}
    pairs = dict[tuple[str, str], None]()
    for name in list(cells):
        first, *more = name.split(":")
        if len(more) == 1 and whole_of.keys() >= {first, more[0]}:
            pairs[whole_of[first], whole_of[more[0]]] = None
            del cells[name]
    return cells, [*pairs]


def _low(layout: Layout, d: int) -> float:
    """The lesser value of encoded column d of two."""
    origin = [column for column in layout.features for _ in column.encoded][d]
    return 0.0 if origin.levels else origin.low


def _of_two_values(layout: Layout, dataset: Dataset) -> list[int]:
    """Encoded columns that hold two values."""
    columns = [column for column in layout.features for _ in column.encoded]
    two = np.array([bool(column.levels) or column.high > column.low for column in columns], bool)
    for rows, _ in _blocks(dataset):
        away, half = _away(layout, rows)
        two &= (np.abs(np.abs(away) - half) <= 1e-3 * half).all(axis=0)
        if not two.any():
            break
    return np.flatnonzero(two).tolist()


def _away(layout: Layout, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far features (n, D) lie from the middle of their columns' ends, and half the ends' distance."""
    columns = [column for column in layout.features for _ in column.encoded]
    ends = [(0.0, 1.0) if c.levels else ((c.low - c.mean) / c.sd, (c.high - c.mean) / c.sd) for c in columns]
    low, high = np.reshape(ends, (-1, 2)).T
    return rows[:, : len(columns)] - 0.5 * (low + high), 0.5 * (high - low)


def _all_right(dataset: Dataset, theta: np.ndarray) -> bool:
    """Whether θ (P,) gives every row's own class the largest probability."""
    weights = theta.reshape(-1, dataset.features.shape[1]).T
    for rows, classes in _blocks(dataset):
        eta = rows @ weights
        likeliest = eta[:, 0] > 0 if eta.shape[1] == 1 else eta.argmax(axis=1)
        if not np.array_equal(likeliest, classes):
            return False
    return True


def _blocks(dataset: Dataset) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Features (n, D) and classes (n,) from 0, of some rows at a time."""
    for first in range(0, len(dataset.target), _BLOCK):
        rows = np.asarray(dataset.features[first : first + _BLOCK])
        target = dataset.target[first : first + _BLOCK]
        if dataset.folded:
            rows = rows * target[:, None]
        yield rows, (target > 0).astype(np.int64) if dataset.task == "binary" else target


def _origins(layout: Layout, columns: list[int]) -> list[str]:
    """The table's columns that encoded ones come from."""
    origins = [column.name for column in layout.features for _ in column.encoded]
    return list(dict.fromkeys(origins[d] for d in columns))


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return listing([*names[:_MOST_NAMES], f"{more} more"] if more > 1 else names)
