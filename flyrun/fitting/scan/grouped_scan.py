"""Groups in a scan. Under normal noise the posterior needs no more of rows than their cross products and,
within each cell, products with what effects multiply: sums by cell of one scan.

Few rows have the same products: of a cell as many as a row has effects, and for what is left within cells one
a column, which no effect meets. So the posterior is of these, as one table's is of its rows. Under any other
family all rows come here, if they have room, and nothing is left out.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from flyrun.families.family import Family
from flyrun.fitting.bars import Bar
from flyrun.fitting.groups import factors_of_table, grouped_table, terms_table
from flyrun.fitting.groups.terms_table import Factor
from flyrun.fitting.proposal import Mixture
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.scan import mappers, row_weights, said, sums_by_cell
from flyrun.fitting.scan.encoded_rows import Encoding
from flyrun.fitting.scan.joined_groups import Block
from flyrun.fitting.scan.pilot_rows import RowsLook
from flyrun.fitting.scan.row_groups import tree
from flyrun.fitting.scan.stages import Found, Scan, Steps
from flyrun.fitting.scan.sums_by_cell import CellLook, Cells, Gathered, GatherLook
from flyrun.fitting.weighted_draws import Weighted
from flyrun.ground.errors import ConfigError, DataError
from flyrun.tables.layout import Layout

_COMING = 500_000_000  # bytes of sums by cell
_KEY, _FEWEST = (
    48,
    16,
)  # bytes of a cell but for its sums; groups of row groups that are left, where there are
_ROW = 40  # bytes of a row that comes here, but for columns of numbers
_NO_DRAWS = np.zeros((1, 1)), np.zeros(1), np.ones(1)
_SAME = 1e-10  # of a slope's variance, within groups, where it is the same


def columns_of(bars: Sequence[Bar]) -> tuple[str, ...]:
    """Columns that tell cells."""
    return tuple(dict.fromkeys(name for bar in bars for name in bar.columns))


def steps(scan: Scan, encoding: Encoding, task: str, family: Family) -> Steps:
    """As `Scan.steps`, of a request with groups. ConfigError for what are no groups, and where rows that are
    needed here are too many.
    """
    bars = bars_of(scan, encoding.layout)
    if family.by_sums and not encoding.layout.parameters:
        return (yield from _by_cells(scan, encoding, family, bars))
    return (yield from _by_rows(scan, task, family, bars))


def bars_of(scan: Scan, layout: Layout) -> list[Bar]:
    """A request's groups. ConfigError or DataError for columns that cannot be groups'."""
    bars, faults = list[Bar](), scan.shards.faults
    for bar in scan.request.groups:
        assert isinstance(bar, Bar)
        factors_of_table.refuse_columns(bar, [*scan.shards.kinds], layout)
        factors_of_table.refuse_slopes(bar, layout)
        if fault := next((faults[name] for name in bar.columns if name in faults), None):
            raise DataError(f"{fault}, or leave {bar} out")
        bars.append(bar)
    return bars


def _by_cells(scan: Scan, encoding: Encoding, family: Family, bars: list[Bar]) -> Steps:
    """Of normal noise."""
    names = encoding.layout.names
    columns, slopes = columns_of(bars), [*dict.fromkeys(name for bar in bars for name in bar.slopes)]
    places = [*map(names.index, slopes), len(encoding.mean)]
    look = CellLook(encoding, columns, tuple(places))
    scan.groups = _joined(scan, columns, len(places) * (len(names) + 1))
    by_cell: Cells = tree((yield look, (0, len(scan.groups)), "sums by group"))
    whole = by_cell.whole
    layout, scales, exact = scan.exact(family, encoding, whole)
    model = scan.model(exact, family)
    units = row_weights.Units.of(model.of_no_rows(len(layout.names)), *scales)
    turn = units.columns(len(layout.names) + 1)
    sums = np.einsum("qr,mqw->mrw", turn[np.ix_(places, places)], by_cell.sums @ turn)
    rows, cell = sums_by_cell.few_rows(sums, units.products(whole.gram), places, whole.copies)
    ungrouped = model.posterior(rows)
    factors = _factors(bars, by_cell.key, by_cell.rows, layout, ungrouped)
    for factor in factors:
        terms_table.refuse_slopes(factor.bar, _constant(factor, sums, slopes, places))
    of_rows = [factor._replace(code=factor.code[cell]) for factor in factors]
    post = grouped_table.of_factors(ungrouped, rows.take, layout, of_rows, model.of_groups)
    scan.rows_read += whole.rows + whole.dropped
    came = f"sums by {' and '.join(columns)} came here, {len(by_cell.key):,} of them"
    return _found(scan, layout, post, exact, came)


def _joined(scan: Scan, columns: tuple[str, ...], numbers: int) -> list[list[Block]]:
    """A scan's groups of row groups, several as one where each has so many cells, with so many numbers each,
    that what comes of all would take more than _COMING: by the cells of one row group.
    """
    block, groups = scan.blocks[0], scan.groups
    times = np.geomspace(1e6, 1e-6, 10_000)  # that a level comes in the row group, were all alike
    seen = len(sums_by_cell.cells_of(block, columns)[0]) / block.rows
    levels = block.rows / float(np.interp(seen, (1.0 - np.exp(-times)) / times, times))
    rows = scan.shards.rows / len(groups)
    size = levels * (1.0 - np.exp(-rows / levels)) * (8 * numbers + _KEY)
    many = math.ceil(len(groups) / max(_COMING / max(size, 1.0), _FEWEST))
    return [list(chain(*groups[k : k + many])) for k in range(0, len(groups), many)]


def _by_rows(scan: Scan, task: str, family: Family, bars: list[Bar]) -> Steps:
    """Of rows that all come here."""
    size = scan.shards.rows * (_ROW + 4 * scan.width + 8 * len(scan.beside))
    if size > (most := mappers.memory() // mappers.OF_MEMORY):
        files = scan.shards.files
        fewer = f"name fewer files, as {files[0].path}, or " if len(files) > 1 else ""
        raise ConfigError(
            f"{bars[0]}: --model {family.name} with groups needs all rows here, {said.in_bytes(size)}, and "
            f"{said.in_bytes(most)} are an {mappers.OF_MEMORY}th of the memory; {fewer}give the command "
            "where there is more memory"
        )
    scan.say(f"all rows come here, {said.in_bytes(size)}: --model {family.name} with groups needs them")
    look = RowsLook(scan.read, tuple(scan.beside.values()), scan.target, scan.table.missing, scan.terms)
    gather = GatherLook(look, columns_of(bars), scan.levels)
    parts: Gathered = tree((yield gather, (0, len(scan.groups)), "rows"))
    order = np.lexsort(parts.rows.at.T[::-1])  # the table's
    code, sample = parts.code[order], parts.rows.where(order)
    scan.rows_read += sample.read
    layout, exact, model, rows, _ = scan.of_all(sample, task, family)
    layout.dropped = sample.read - len(rows)
    grouped = model.family.grouped and "entry" not in exact.parts  # densities of late entry are not concave
    ungrouped = model._replace(family=replace(model.family, grouped=grouped)).posterior(rows)
    factors = _factors(bars, parts.key, np.bincount(code), layout, ungrouped)
    of_rows = [factor._replace(code=factor.code[code]) for factor in factors]
    for factor in of_rows:
        terms_table.refuse_constant(factor, rows)
    post = grouped_table.of_factors(ungrouped, rows.take, layout, of_rows, model.of_groups)
    values, number = np.unique(sample.y, return_counts=True)
    counts = dict(zip(values.tolist(), number.tolist(), strict=True)) if exact.values else {}
    came = f"all {len(rows):,} rows came here"
    return replace(_found(scan, layout, post, exact, came), counts=counts)


def _found(scan: Scan, layout: Layout, posterior: Posterior, exact: Encoding, came: str) -> Found:
    """Of no draws, which come later, from the engine of one table."""
    none = Weighted(*_NO_DRAWS, -math.inf, 0, Mixture.of(np.zeros(1), np.eye(1)), 0.0)
    answer = row_weights.Answer(none, 1.0, 0.0, 0, 0, 0)
    found = Found(layout, posterior, answer, {}, scan.rows_read, 1, [], exact, target=scan.of_target)  # type: ignore[arg-type]
    return replace(found, texts=scan.texts, came=came)


def _factors(
    bars: Sequence[Bar], key: np.ndarray, count: np.ndarray, layout: Layout, posterior: Posterior
) -> list[Factor]:
    """Terms of cells. key, count: (m,), and how many rows each has. ConfigError for what are no groups."""
    import pandas as pd  # late: half a second

    texts = zip(*(each.split(sums_by_cell.BETWEEN) for each in key.tolist()), strict=True)
    frame, factors = pd.DataFrame(dict(zip(columns_of(bars), texts, strict=True))), list[Factor]()
    for bar in bars:
        factor = factors_of_table.factor_of(bar, frame, layout, posterior)
        factors.append(factor._replace(held=np.bincount(factor.code, count).astype(np.int64)))
    factors_of_table.refuse_alike(factors)
    return factors


def _constant(factor: Factor, sums: np.ndarray, slopes: list[str], places: list[int]) -> list[str]:
    """Slopes of columns that do not differ within groups, by cells' sums, (m, Q, W), of slopes first."""
    constant = []
    for name in factor.bar.slopes:
        k = slopes.index(name)
        each = sums[:, -1, -2], sums[:, k, -2], sums[:, k, places[k]]
        count, total, square = (np.bincount(factor.code, its) for its in each)
        if (square - total**2 / count).sum() <= _SAME * square.sum():
            constant.append(name)
    return constant
