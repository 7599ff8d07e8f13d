"""Factor graphs of k-way table factors: any scopes, any tables, tables shared between factors where wanted.

φ_f(x) = M_f · table(x on its scope), table values in [0, 1]. A table is stored once however many factors use
it: a million factors over a few table shapes fit in memory.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from flyrun.compiled import implements, jit
from flyrun.errors import DataError
from flyrun.models.graph import (
    Bounds,
    add_log_share,
    add_share,
    current_share,
    energy_change,
    factor_masses,
    factor_share,
    local_energies,
    make_bounds,
    rows,
    total_energy,
    visits,
)


class FactorGraph(NamedTuple):
    """ζ(x) = Σ_f M_f · table_f(x), factors by number, and each variable's row of factors."""

    masses: np.ndarray
    """(F,): M_f."""
    scope_first: np.ndarray
    """(F + 1,) int64: where each factor's scope begins."""
    scope: np.ndarray
    """(S,) int32: the variables of each factor."""
    stride: np.ndarray
    """(S,) int64: how far one step of that variable moves in the factor's table."""
    table_first: np.ndarray
    """(F,) int64: where the factor's table begins."""
    tables: np.ndarray
    """(T,): φ/M of every table, the last variable of a scope fastest."""
    row_first: np.ndarray
    """(n + 1,) int64: where each variable's row begins."""
    row_factor: np.ndarray
    """(S,) int32: the factors of each variable."""
    row_stride: np.ndarray
    """(S,) int64: the stride of that variable in that factor."""
    bounds: Bounds


def factor_graph(
    sizes: Sequence[int],
    scopes: Sequence[Sequence[int]],
    tables: Sequence[np.ndarray],
    masses: Sequence[float] | None = None,
) -> FactorGraph:
    """Graph from one table of energies φ per factor, each with one axis per variable of its scope.

    masses: M_φ of each factor, by default the largest value in its table.
    Raises DataError, naming the factor, where 0 ≤ φ ≤ M does not hold or scope and table do not fit.
    """
    sizes = np.asarray(sizes, np.int64)
    shares, tops = [], []
    for f, (scope, given) in enumerate(zip(scopes, tables, strict=True)):
        table = np.asarray(given, np.float64)
        _check_scope(f, sizes, scope, table)
        top = float(table.max()) if masses is None else float(masses[f])
        if not (np.isfinite(top) and np.all(table >= 0.0) and np.all(table <= top)):
            raise DataError(
                f"factor {f}: its energies run from {table.min():g} to {table.max():g}, outside [0, M] with "
                f"M = {top:g}; shift them to begin at 0"
            )
        shares.append((table / top if top > 0.0 else table).ravel())
        tops.append(top)
    lengths = np.array([len(share) for share in shares], np.int64)
    first = np.cumsum(lengths) - lengths
    everything = np.concatenate(shares) if shares else np.zeros(0)
    return shared_tables(sizes, scopes, np.asarray(tops), first, everything)


def bind(config: Any, data: Any) -> FactorGraph:
    """Graph of a Network; nothing to configure."""
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


def shared_tables(sizes, scopes, masses, table_first, tables) -> FactorGraph:
    """Graph from masses M_f and tables of φ/M in [0, 1], several factors at one table allowed.

    scopes: (F, k) array or a sequence of sequences.  table_first: (F,), where in `tables` each begins.
    Nothing is checked here.
    """
    sizes = np.asarray(sizes, np.int64)
    widths = np.array([len(scope) for scope in scopes], np.int64)
    if isinstance(scopes, np.ndarray):
        scope = scopes.astype(np.int32).ravel()
    else:
        scope = np.array([i for one in scopes for i in one], np.int32)
    scope_first = np.concatenate([[0], np.cumsum(widths)])
    stride = _strides(sizes, scope_first, scope)
    owner = np.repeat(np.arange(len(widths)), widths)
    order = np.argsort(scope, kind="stable")
    degree = np.bincount(scope, minlength=len(sizes))
    masses = np.ascontiguousarray(masses, np.float64)
    tables = np.ascontiguousarray(tables, np.float64)
    local = np.bincount(scope, masses[owner], minlength=len(sizes))
    two_valued = bool(np.isin(tables, (0.0, 1.0)).all())
    bounds = make_bounds(sizes, degree, local, masses.sum(), two_valued, False)
    return FactorGraph(
        masses,
        scope_first,
        scope,
        stride,
        np.ascontiguousarray(table_first, np.int64),
        tables,
        np.concatenate([[0], np.cumsum(degree)]),
        owner[order].astype(np.int32),
        stride[order],
        bounds,
    )


@jit
def _strides(sizes, scope_first, scope):
    stride = np.ones(scope.shape[0], np.int64)
    for f in range(scope_first.shape[0] - 1):
        for k in range(scope_first[f + 1] - 2, scope_first[f] - 1, -1):
            stride[k] = stride[k + 1] * sizes[scope[k + 1]]
    return stride


@jit
def _place(graph, f, x):
    """Where in `tables` factor f's share at x stands."""
    place = graph.table_first[f]
    for k in range(graph.scope_first[f], graph.scope_first[f + 1]):
        place += graph.stride[k] * x[graph.scope[k]]
    return place


@jit
def _line(graph, i, r, x):
    """Factor r of variable i: its number, its share's place at x_i = 0, and the step from value to value."""
    k = graph.row_first[i] + r
    f, step = graph.row_factor[k], graph.row_stride[k]
    return f, _place(graph, f, x) - step * x[i], step


@implements(local_energies, FactorGraph)
def _local_energies(graph, i, x, energies):
    size = graph.bounds.sizes[i]
    energies[:size] = 0.0
    for r in range(graph.bounds.degree[i]):
        f, place, step = _line(graph, i, r, x)
        mass = graph.masses[f]
        for u in range(size):
            energies[u] += mass * graph.tables[place + u * step]


@implements(energy_change, FactorGraph)
def _energy_change(graph, i, x, u):
    change = 0.0
    for r in range(graph.bounds.degree[i]):
        f, place, step = _line(graph, i, r, x)
        change += graph.masses[f] * (graph.tables[place + u * step] - graph.tables[place + x[i] * step])
    return change


@implements(total_energy, FactorGraph)
def _total_energy(graph, x):
    total = 0.0
    for f in range(graph.masses.shape[0]):
        total += graph.masses[f] * graph.tables[_place(graph, f, x)]
    return total


@implements(factor_share, FactorGraph)
def _factor_share(graph, f, x, i, u):
    place = graph.table_first[f]
    for k in range(graph.scope_first[f], graph.scope_first[f + 1]):
        j = graph.scope[k]
        place += graph.stride[k] * (u if j == i else np.int64(x[j]))
    return graph.tables[place]


@implements(current_share, FactorGraph)
def _current_share(graph, i, r, x):
    return graph.tables[_place(graph, graph.row_factor[graph.row_first[i] + r], x)]


@implements(add_share, FactorGraph)
def _add_share(graph, i, r, x, amount, energies):
    _, place, step = _line(graph, i, r, x)
    for u in range(graph.bounds.sizes[i]):
        energies[u] += amount * graph.tables[place + u * step]


@implements(add_log_share, FactorGraph)
def _add_log_share(graph, i, r, x, boost, top, energies):
    _, place, step = _line(graph, i, r, x)
    for u in range(graph.bounds.sizes[i]):
        share = graph.tables[place + u * step]
        if share > 0.0:
            energies[u] += top if share == 1.0 else np.log1p(boost * share)


@implements(visits, FactorGraph)
def _visits(graph, i):
    return graph.bounds.sizes[i]


@implements(rows, FactorGraph)
def _rows(graph):
    return graph.row_first, graph.masses[graph.row_factor]


@implements(factor_masses, FactorGraph)
def _factor_masses(graph):
    return graph.masses
