"""Groups in a scan. Under normal noise the posterior needs no more of rows than their cross products and,
within each cell, products with what effects multiply: sums by cell of one scan.

Few rows have the same products: of a cell as many as a row has effects, and for what is left within cells one
a column, which no effect meets. So the posterior is of these, as one table's is of its rows.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from flyrun.families.family import Family
from flyrun.fitting.bars import Bar
from flyrun.fitting.groups import grouped_table, terms_table
from flyrun.fitting.groups.terms_table import Factor
from flyrun.fitting.proposal import Mixture
from flyrun.fitting.scan import row_weights, sums_by_cell
from flyrun.fitting.scan.encoded_rows import Encoding
from flyrun.fitting.scan.row_groups import tree
from flyrun.fitting.scan.stages import Found, Scan, Steps
from flyrun.fitting.scan.sums_by_cell import CellLook, Cells
from flyrun.fitting.weighted_draws import Weighted
from flyrun.ground.errors import DataError
from flyrun.tables.layout import Layout

# which come later, from the engine of one table
_NO_DRAWS = Weighted(
    np.zeros((1, 1)), np.zeros(1), np.ones(1), -math.inf, 0, Mixture.of(np.zeros(1), np.eye(1)), 0.0
)
_SAME = 1e-10  # of a slope's variance, within groups, where it is the same


def columns_of(bars: Sequence[Bar]) -> tuple[str, ...]:
    """Columns that tell cells."""
    return tuple(dict.fromkeys(name for bar in bars for name in bar.columns))


def by_cells(scan: Scan, encoding: Encoding, family: Family) -> Steps:
    """As `Scan.steps`, of normal noise with groups. ConfigError for what are no groups."""
    bars, names, faults = list[Bar](), encoding.layout.names, scan.shards.faults
    for bar in scan.request.groups:
        assert isinstance(bar, Bar)
        grouped_table.refuse_columns(bar, [*scan.shards.kinds], encoding.layout)
        if fault := next((faults[name] for name in bar.columns if name in faults), None):
            raise DataError(f"{fault}, or leave {bar} out")
        bars.append(bar)
    columns, slopes = columns_of(bars), [*dict.fromkeys(name for bar in bars for name in bar.slopes)]
    places = [*map(names.index, slopes), len(encoding.mean)]
    look = CellLook(encoding, columns, tuple(places))
    by_cell: Cells = tree((yield look, (0, len(scan.groups)), "sums by group"))
    whole = by_cell.whole
    scan.rows_read += whole.rows + whole.dropped
    layout, scales, exact = scan.exact(family, encoding, whole)
    model = scan.model(exact, family)
    units = row_weights.Units.of(model.of_no_rows(len(layout.names)), *scales)
    turn = units.columns(len(layout.names) + 1)
    sums = np.einsum("qr,mqw->mrw", turn[np.ix_(places, places)], by_cell.sums @ turn)
    rows, cell = sums_by_cell.few_rows(sums, units.products(whole.gram), places, whole.copies)
    factors = [*_factors(bars, by_cell, layout)]
    for factor in factors:
        terms_table.refuse_slopes(factor.bar, _constant(factor, sums, slopes, places))
    grouped_table.refuse_alike(factors)
    of_rows = [factor._replace(code=factor.code[cell]) for factor in factors]
    post = grouped_table.of_factors(model.posterior(rows), rows.take, layout, of_rows, model.of_groups)
    read, draws = scan.rows_read, row_weights.Answer(_NO_DRAWS, 1.0, 0.0, 0, 0, 0)
    return Found(layout, post, draws, {}, read, 1, [], exact, target=scan.of_target)  # type: ignore[arg-type]


def _factors(bars: Sequence[Bar], by_cell: Cells, layout: Layout) -> Iterator[Factor]:
    """Terms of cells. ConfigError for what are no groups."""
    import pandas as pd  # late: half a second

    texts = zip(*(key.split(sums_by_cell.BETWEEN) for key in by_cell.key.tolist()), strict=True)
    frame = pd.DataFrame(dict(zip(columns_of(bars), texts, strict=True)))
    for bar in bars:
        factor = grouped_table.factor_of(bar, frame, layout)
        yield factor._replace(held=np.bincount(factor.code, by_cell.rows).astype(np.int64))


def _constant(factor: Factor, sums: np.ndarray, slopes: list[str], places: list[int]) -> list[str]:
    """Slopes of columns that do not differ within groups. sums: as of `few_rows`, of slopes first."""
    constant = []
    for name in (column.name for column in factor.columns):
        of_one, of_slope = sums[:, -1], sums[:, slopes.index(name)]
        each = of_one[:, -2], of_slope[:, -2], of_slope[:, places[slopes.index(name)]]
        count, total, square = (np.bincount(factor.code, its) for its in each)
        if (square - total**2 / count).sum() <= _SAME * square.sum():
            constant.append(name)
    return constant
