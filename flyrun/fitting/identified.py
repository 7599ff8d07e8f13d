"""Where a table says little of its coefficients: columns that say the same, and ones that separate classes.

Both are seen at the mode. In a direction that columns share the likelihood bends far less than it does along
each of them; where a column separates classes it has no mode. The prior decides there, and a line says so.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from flyrun.config.schema import listing
from flyrun.data.dataset import Dataset
from flyrun.data.table.layout import Layout

# Columns say the same in a direction along which the likelihood bends less than this share of what it would
# for unrelated columns (two that correlate by .99), unless the data are so many that its posterior sd is
# below a fifth of the prior's there.
_SHARE = 0.01
_INFORMED = 25.0
_BLOCK = 10_000  # rows
_MOST_NAMES = 6


def caveats(
    table: Any,
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
    return lines if dataset is None else [*lines, *_separated(table, layout, dataset, theta)]


def groups(likelihood: np.ndarray, prior: np.ndarray) -> list[tuple[list[int], int]]:
    """Columns but the last that say the same, whatever the last is, and in how many directions, by group.

    likelihood: its curvature at the mode by column, (D, D), the intercept last; prior: its precisions, (D,).
    """
    with_last = likelihood[:-1, -1]
    likelihood = likelihood[:-1, :-1] - np.outer(with_last, with_last) / max(likelihood[-1, -1], 1e-300)
    prior = prior[:-1]
    own = np.maximum(np.diag(likelihood), 1e-12 * prior)
    values, vectors = np.linalg.eigh(likelihood / np.sqrt(own) / np.sqrt(own)[:, None])
    informed = values / ((vectors**2).T @ (prior / own))  # over the prior's precision
    vectors = vectors[:, (values < _SHARE) & (informed < _INFORMED)]
    shares = vectors @ vectors.T  # of each column in these directions; others' parts are 0 between groups
    left, found = {int(d) for d in np.flatnonzero(np.diag(shares) > _SHARE)}, []
    while left:
        group, new = set(), {min(left)}
        while new:
            group |= new
            new = {d for d in left - group if np.abs(shares[d, list(group)]).max() > _SHARE}
        left -= group
        if len(group) > 1:
            members = sorted(group)
            found.append((members, max(round(float(np.diag(shares)[members].sum())), 1)))
    return found


def _alike(table: Any, layout: Layout, group: list[int], free: int) -> str:
    names = [layout.names[d] for d in group]
    said = "say nearly the same" if len(names) == 2 else "nearly follow from each other"
    count = "one of them" if free == 1 else f"{free} of them"
    said = (
        f"{_some(names)} {said}: the data do not tell their effects apart, and the prior divides these among"
    )
    if table.formula is not None:
        return f"{said} them; {_of_formula(layout, names)}"
    return f"{said} them; leave {count} out, as {table.out(_origins(layout, group)[-1])}"


def _of_formula(layout: Layout, names: list[str]) -> str:
    """What helps where columns of a formula follow from each other, as it is typed."""
    from flyrun.data.table import formula  # late: few fits have one

    terms = _terms(layout, names)
    splines = {one: wide for term in terms for one, wide in formula.centred(term).items()}
    if splines:
        return "write " + listing(f"{wide} for {one}" for one, wide in splines.items())
    return f"leave {terms[-1]} out of the formula"


def _terms(layout: Layout, names: list[str]) -> list[str]:
    """The formula's terms that columns are of, each once, as they are typed."""
    from flyrun.data.table import formula  # late, as above

    read = formula.read(str(layout.formula), [one.name for one in layout.sources])
    return list(dict.fromkeys(map(read.term_of, names)))


def _separated(table: Any, layout: Layout, dataset: Dataset, theta: np.ndarray) -> list[str]:
    """Of classes: columns that tell one from all others in every row, or that all columns together do."""
    levels = layout.target.levels
    if levels is None or layout.task == "ordered":
        return []
    lines, by_classes = [], dict[tuple[int, ...], list[int]]()
    for column, classes in separating(dataset, len(levels)).items():
        by_classes.setdefault(classes, []).append(column)
    for classes, columns in by_classes.items():
        what = listing(levels[k] for k in classes)
        what += " apart" if len(levels) == 2 else " from all others"
        one, names = len(columns) == 1, [layout.names[d] for d in columns]
        name = _origins(layout, columns)[0] if table.formula is None else _terms(layout, names)[0]
        lines.append(
            f"{_some(names)} {'tells' if one else 'each tell'} {what} in every "
            f"row: only the prior keeps {'its coefficient' if one else 'their coefficients'} from growing "
            f"without end; if {name} holds the answer, leave it out {table.out(name)}"
        )
    if not lines and _all_right(dataset, theta):
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
            own = rows[classes == k]
            low[k], high[k] = np.minimum(low[k], own.min(axis=0)), np.maximum(high[k], own.max(axis=0))
        others = [np.arange(n_classes) != k for k in range(n_classes)]
        below = np.array([high[k] < low[other].min(axis=0) for k, other in enumerate(others)])
        above = np.array([low[k] > high[other].max(axis=0) for k, other in enumerate(others)])
        apart = below | above
        if not apart.any():  # nor will it be with more rows
            return {}
    return {int(d): tuple(np.flatnonzero(apart[:, d]).tolist()) for d in np.flatnonzero(apart.any(axis=0))}


def _all_right(dataset: Dataset, theta: np.ndarray) -> bool:
    """Whether θ gives every row's own class the largest probability."""
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
