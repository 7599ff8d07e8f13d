"""Factor graphs of k-way table factors: any scopes, any tables, tables shared between factors where wanted.

φ_f(x) = M_f · table(x on its scope), table values in [0, 1]. A table is stored once however many factors use
it: a million factors over a few table shapes fit in memory.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config import model as options
from flyrun.experiments.models.graphs import graph as graphs
from flyrun.ground.errors import DataError
from flyrun.ground.numerics.compiled import implements, jit, outer_jit
from flyrun.ground.numerics.prefetch import prefetch


class FactorGraph(NamedTuple):
    """ζ(x) = Σ_f M_f · table_f(x), factors by number, and each variable's row of factors."""

    masses: np.ndarray  # (F,): M_f
    record_first: np.ndarray  # (F + 1,) int64: where each factor's record begins
    width: int  # length of every record, or 0 where they differ
    # (F + S,) int32: for each factor the number of its table, then the variables of its scope. Looked up at
    # random, a factor costs one visit to far memory, not one for each thing known of it
    records: np.ndarray
    table_first: np.ndarray  # (T,) int64: where each table begins
    tables: np.ndarray  # (V,): φ/M of every table, the last variable of a scope fastest
    row_first: np.ndarray  # (n + 1,) int64: where each variable's row begins
    row_factor: np.ndarray  # (S,) int32: the factors of each variable
    row_stride: np.ndarray  # (S,) int64: the stride of that variable in that factor
    bounds: graphs.Bounds


def factor_graph(
    sizes: Sequence[int], scopes: Sequence[Sequence[int]], tables: Sequence[np.ndarray]
) -> FactorGraph:
    """Graph from one table of energies φ, (D_1, …, D_k), per factor, an axis per variable of its scope.

    Raises DataError, naming the factor, where 0 ≤ φ < ∞ does not hold or scope and table do not fit.
    """
    counts = np.asarray(sizes, np.int64)
    shares, tops = [], []
    for f, (scope, given) in enumerate(zip(scopes, tables, strict=True)):
        table = np.asarray(given, np.float64)
        _check_scope(f, counts, scope, table)
        top = float(table.max())
        if not (np.isfinite(top) and np.all(table >= 0.0)):
            raise DataError(
                f"factor {f}: its energies run from {table.min():g} to {top:g}; shift them to begin at 0"
            )
        shares.append((table / top if top > 0.0 else table).ravel())
        tops.append(top)
    lengths = np.array([len(share) for share in shares], np.int64)
    first = np.cumsum(lengths) - lengths
    everything = np.concatenate(shares) if shares else np.zeros(0)
    return shared_tables(counts, scopes, np.asarray(tops), np.arange(len(tops)), first, everything)


def bind(config: options.FactorGraph, data: Any) -> FactorGraph:
    """Graph of a Network or of SharedTables; nothing to configure."""
    if hasattr(data, "table_of"):
        tables = data.table_of, data.table_first, data.tables
        return shared_tables(data.sizes, data.scopes, data.masses, *tables)
    return factor_graph(data.sizes, data.scopes, data.tables)


def _check_scope(f: int, sizes: np.ndarray, scope: Sequence[int], table: np.ndarray) -> None:
    for i in scope:
        if not 0 <= i < len(sizes):
            raise DataError(f"factor {f}: there is no variable {i}; the last is {len(sizes) - 1}")
    if len(set(scope)) < len(scope):
        raise DataError(f"factor {f}: variable twice in its scope {tuple(scope)}; each may stand once")
    wanted = tuple(int(sizes[i]) for i in scope)
    if table.shape != wanted:
        raise DataError(f"factor {f}: its table has shape {table.shape}; its scope wants {wanted}")


def shared_tables(sizes, scopes, masses, table_of, table_first, tables) -> FactorGraph:
    """Graph from masses M_f and tables of φ/M in [0, 1], several factors at one table allowed.

    scopes: (F, k) array or a sequence of sequences.  table_of: (F,), the number of each factor's table.
    table_first: (T,), where in `tables` each begins.  Nothing is checked here.
    """
    sizes = np.asarray(sizes, np.int64)
    widths = np.array([len(scope) for scope in scopes], np.int64)
    if isinstance(scopes, np.ndarray):
        scope = scopes.astype(np.int32).ravel()
    else:
        scope = np.array([i for members in scopes for i in members], np.int32)
    stride = _strides(sizes, np.concatenate([[0], np.cumsum(widths)]), scope)
    record_first = np.concatenate([[0], np.cumsum(widths + 1)])
    records = np.empty(len(widths) + len(scope), np.int32)
    heads = np.zeros(len(records), bool)
    heads[record_first[:-1]] = True
    records[heads], records[~heads] = table_of, scope
    owner = np.repeat(np.arange(len(widths)), widths)
    order = np.argsort(scope, kind="stable")
    degree = np.bincount(scope, minlength=len(sizes))
    masses = np.ascontiguousarray(masses, np.float64)
    tables = np.ascontiguousarray(tables, np.float64)
    local = np.bincount(scope, masses[owner], minlength=len(sizes))
    two_valued = bool(np.isin(tables, (0.0, 1.0)).all())
    bounds = graphs.make_bounds(sizes, degree, local, masses.sum(), two_valued, False)
    width = int(widths[0]) + 1 if len(set(widths.tolist())) == 1 else 0
    table_first = np.ascontiguousarray(table_first, np.int64)
    rows = np.concatenate([[0], np.cumsum(degree)]), owner[order].astype(np.int32), stride[order]
    return FactorGraph(masses, record_first, width, records, table_first, tables, *rows, bounds)


@outer_jit
def _strides(sizes, scope_first, scope):
    stride = np.ones(scope.shape[0], np.int64)
    for f in range(scope_first.shape[0] - 1):
        for k in range(scope_first[f + 1] - 2, scope_first[f] - 1, -1):
            stride[k] = stride[k + 1] * sizes[scope[k + 1]]
    return stride


@jit
def _place(record_first, records, table_first, sizes, f, x):
    """Where in `tables` factor f's share at x stands."""
    head, place = record_first[f], 0
    for k in range(head + 1, record_first[f + 1]):
        j = records[k]
        place = place * sizes[j] + x[j]
    return table_first[records[head]] + place


@implements(graphs.local_energies, FactorGraph)
def _local_energies(graph, i, x, energies):
    # Arrays by name: a tuple handed on for every factor would be counted in and out each time.
    record_first, records, table_first = graph.record_first, graph.records, graph.table_first
    masses, tables, sizes = graph.masses, graph.tables, graph.bounds.sizes
    size, here = sizes[i], x[i]
    for u in range(size):
        energies[u] = 0.0
    for k in range(graph.row_first[i], graph.row_first[i + 1]):
        f, step = graph.row_factor[k], graph.row_stride[k]
        place = _place(record_first, records, table_first, sizes, f, x) - step * here
        mass = masses[f]
        for u in range(size):
            energies[u] += mass * tables[place + u * step]


@implements(graphs.energy_change, FactorGraph)
def _energy_change(graph, i, x, u):
    record_first, records, table_first = graph.record_first, graph.records, graph.table_first
    masses, tables, sizes = graph.masses, graph.tables, graph.bounds.sizes
    move, change = u - np.int64(x[i]), 0.0
    for k in range(graph.row_first[i], graph.row_first[i + 1]):
        f = graph.row_factor[k]
        place = _place(record_first, records, table_first, sizes, f, x)
        change += masses[f] * (tables[place + move * graph.row_stride[k]] - tables[place])
    return change


@jit
def _line(graph, i, r, x):
    """Factor r of variable i: its share's place at x_i = 0, and the step from value to value."""
    k = graph.row_first[i] + r
    step, sizes = graph.row_stride[k], graph.bounds.sizes
    f = graph.row_factor[k]
    return _place(graph.record_first, graph.records, graph.table_first, sizes, f, x) - step * x[i], step


@implements(graphs.total_energy, FactorGraph)
def _total_energy(graph, x):
    record_first, records, table_first = graph.record_first, graph.records, graph.table_first
    total = 0.0
    for f in range(graph.masses.shape[0]):
        place = _place(record_first, records, table_first, graph.bounds.sizes, f, x)
        total += graph.masses[f] * graph.tables[place]
    return total


@implements(graphs.expect_factor, FactorGraph)
def _expect_factor(graph, f):
    if graph.width > 0:  # else where it begins is itself far away
        prefetch(graph.records, f * graph.width)
        prefetch(graph.records, (f + 1) * graph.width - 1)


@implements(graphs.factor_share, FactorGraph)
def _factor_share(graph, f, x, i, u):
    if graph.width > 0:  # known without looking: one visit to far memory less
        head, end = f * graph.width, (f + 1) * graph.width
    else:
        head, end = graph.record_first[f], graph.record_first[f + 1]
    place = 0
    for k in range(head + 1, end):
        j = graph.records[k]
        place = place * graph.bounds.sizes[j] + (u if j == i else np.int64(x[j]))
    return graph.tables[graph.table_first[graph.records[head]] + place]


@implements(graphs.current_share, FactorGraph)
def _current_share(graph, i, r, x):
    f, sizes = graph.row_factor[graph.row_first[i] + r], graph.bounds.sizes
    return graph.tables[_place(graph.record_first, graph.records, graph.table_first, sizes, f, x)]


@implements(graphs.add_share, FactorGraph)
def _add_share(graph, i, r, x, amount, energies):
    place, step = _line(graph, i, r, x)
    for u in range(graph.bounds.sizes[i]):
        energies[u] += amount * graph.tables[place + u * step]


@implements(graphs.add_log_share, FactorGraph)
def _add_log_share(graph, i, r, x, boost, top, energies):
    place, step = _line(graph, i, r, x)
    for u in range(graph.bounds.sizes[i]):
        share = graph.tables[place + u * step]
        if share > 0.0:
            energies[u] += top if share == 1.0 else np.log1p(boost * share)


implements(graphs.visits, FactorGraph)(lambda graph, i: graph.bounds.sizes[i])
implements(graphs.rows, FactorGraph)(lambda graph: (graph.row_first, graph.masses[graph.row_factor]))
implements(graphs.factor_masses, FactorGraph)(lambda graph: graph.masses)
