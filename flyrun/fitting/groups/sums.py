"""Log likelihoods of groups at the nodes of their effects, summed over each group's rows.

Where a family's rows are alike but for e^η one exponential a row serves all nodes: e^η·e^b.
"""

from typing import Any

import numpy as np

from flyrun.families.family import Family
from flyrun.fitting.table_rows import Rows, as_column

_LARGEST = 690.0  # log of the largest product of factors 1 + e^η before its logarithm is taken
_TOGETHER = 64  # factors at most: rounding grows by each


def predictor(eta: np.ndarray, z: np.ndarray | None, effect: list[np.ndarray]) -> np.ndarray:
    """η + z'b, of shapes that broadcast with each other's: eta and z (n, ...) and effects of the rows."""
    return eta + effect[0] + (0.0 if z is None else as_column(z) * effect[1])


def of_groups(
    family: Family,
    rows: Rows,
    block: Any,
    eta: np.ndarray,
    z: np.ndarray | None,
    effect: list[np.ndarray],
    aux: list[np.ndarray],
) -> np.ndarray:
    """Σ ℓ over each group's rows, (g, S, K).

    eta: (n, S) without effects; effect: those at the nodes, q of (g, S, K); aux: (S, 1) each.
    """
    if family.cumulant == "exp" and z is None:
        return _linear(rows, block, eta, None, effect) - np.add.reduceat(
            as_column(rows.weights) * np.exp(eta), block.starts, axis=0
        )[:, :, None] * np.exp(effect[0])
    odds = family.cumulant == "softplus" and _alike(rows)
    if odds and (at_once := _together(_reach(eta, z, effect))):
        return _linear(rows, block, eta, z, effect) - _log_products(block, eta, z, effect, at_once)
    y, trials, weights = (
        value[:, None, None] if np.ndim(value) else value
        for value in (rows.target, rows.trials, rows.weights)
    )
    of_rows = [part[block.code] for part in effect]
    total = eta[:, :, None] + of_rows[0] + (0.0 if z is None else z[:, None, None] * of_rows[1])
    each = weights * family.log_density(y, trials, [total, *aux])
    return np.add.reduceat(np.broadcast_to(each, total.shape), block.starts, axis=0)


def log_integrals(
    family: Family,
    rows: Rows,
    block: Any,
    eta: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    sd: np.ndarray,
    grid: np.ndarray,
    log_weight: np.ndarray,
) -> np.ndarray | None:
    """Log integrals over intercepts ~ N(0, sd²), sd (S,), added up over a block's groups: (S,), compiled.

    At nodes centre + scale·grid, (g, S) and (K,). None where rows are few or this is not how to add them up;
    else eta, (n, S), is overwritten.
    """
    poisson = family.cumulant == "exp"
    if not block.many or not compiled(family, rows):
        return None
    together = _together(eta.max() + (centre + scale * grid.max()).max())
    if not together:
        return None
    from flyrun.ground.numerics import group_products  # late: as below

    count = rows.whole("weights")
    y, weights = count * rows.target, np.where(poisson, count, 0.0)
    level, mean, ends = np.log(scale / sd), np.zeros(scale.shape), np.append(block.starts[1:], len(eta))
    group_products.row_sums(block.starts, ends, y, weights, eta, level, mean)
    ends = block.starts if poisson else ends  # no logarithms
    linear, totals = np.add.reduceat(y, block.starts), np.zeros(len(sd))
    work = np.empty((4, len(grid), len(sd)))
    how = linear, level, centre, scale, sd**-2, grid, log_weight, work, totals
    group_products.log_integrals(block.starts, ends, eta, together, mean, *how)
    return totals


def compiled(family: Family, rows: Rows) -> bool:
    """Whether there are compiled sums of many such rows."""
    return family.cumulant == "exp" or bool(family.cumulant and _alike(rows))


def pair_integrals(
    family: Family,
    rows: Rows,
    block: Any,
    eta: np.ndarray,
    z: np.ndarray | None,
    centre: np.ndarray,
    scale: np.ndarray,
    triangle: tuple[np.ndarray, np.ndarray, np.ndarray],
    nodes: np.ndarray,
    log_weight: np.ndarray,
) -> np.ndarray | None:
    """As `log_integrals` of intercepts and slopes: at centre, (2, g, S), and scale, (3, g, S) of C00, C10 and
    C11, times pairs of nodes, an odd number of them about 0. triangle: T00, T10 and T11, (S,) each.
    """
    if z is None or not block.many or not compiled(family, rows):
        return None
    far, (c0, c1), (r00, r10, r11) = np.abs(z).max(), np.abs(centre).max((1, 2)), np.abs(scale).max((1, 2))
    together = _together(np.abs(eta).max() + c0 + far * c1 + nodes.max() * (r00 + far * (r10 + r11)))
    if not together:
        return None
    from flyrun.ground.numerics import group_products  # late: as below

    t00, t10, t11 = triangle
    weights, counts = rows.whole("weights"), family.cumulant == "exp"
    level, inverse = np.log(scale[0] * scale[2] / (t00 * t11)), np.stack([1.0 / t00, t10 / t00, 1.0 / t11])
    k, totals = len(nodes), np.zeros(eta.shape[1])
    room = [np.empty((count, len(totals))) for count in (k, k, k * k, k * k)]
    ends = np.append(block.starts[1:], len(eta))
    how = counts, together, centre, scale, inverse, level, nodes, log_weight, *room, totals
    group_products.pair_integrals(block.starts, ends, eta, z, weights * rows.target, weights, *how)
    return totals


def of_pairs(
    family: Family,
    rows: Rows,
    block: Any,
    eta: np.ndarray,
    z: np.ndarray | None,
    effect: list[np.ndarray],
    aux: list[np.ndarray],
    group: np.ndarray,
    draws: np.ndarray,
) -> np.ndarray:
    """As `of_groups` of m pairs of a group and a draw, (m,) each, at effects q of (m, J): (m, J)."""
    sizes = np.diff(np.append(block.starts, len(eta)))[group]
    starts = np.append(0, np.cumsum(sizes))[:-1]
    pair = np.repeat(np.arange(len(group)), sizes)
    row = np.arange(len(pair)) + (block.starts[group] - starts)[pair]
    y, trials, weights = (
        value[row, None] if np.ndim(value) else value for value in (rows.target, rows.trials, rows.weights)
    )
    of_rows = [part[pair] for part in effect]
    total = predictor(eta[row, draws[pair], None], None if z is None else z[row], of_rows)
    each = weights * family.log_density(y, trials, [total, *(value[draws[pair]] for value in aux)])
    return np.add.reduceat(np.broadcast_to(each, total.shape), starts, axis=0)


def _alike(rows: Rows) -> bool:
    """Whether every row is one trial that is there once."""
    return bool(np.all(np.equal(rows.trials, 1.0)) and np.all(np.equal(rows.weights, 1.0)))


def _together(reach: float) -> int:
    """How many factors 1 + e^η are multiplied at once if no η is larger; 0 if none may be, or of NaN."""
    together = _LARGEST / (max(reach, 0.0) + 1.0)
    return min(int(together), _TOGETHER) if together >= 1.0 else 0


def _reach(eta: np.ndarray, z: np.ndarray | None, effect: list[np.ndarray]) -> float:
    """No predictor of eta (n, S) and effects (g, S, K) is larger; NaN where one is no number."""
    along = 0.0 if z is None else np.abs(z).max() * np.abs(effect[1]).max()
    return float(eta.max() + effect[0].max() + along)


def _linear(
    rows: Rows, block: Any, eta: np.ndarray, z: np.ndarray | None, effect: list[np.ndarray]
) -> np.ndarray:
    """Σ y(η + z'b), (g, S, K)."""
    y = np.broadcast_to(rows.weights * rows.target, (len(rows),))
    total = np.add.reduceat(y[:, None] * eta, block.starts, axis=0)[:, :, None]
    total = total + np.add.reduceat(y, block.starts)[:, None, None] * effect[0]
    return total if z is None else total + np.add.reduceat(y * z, block.starts)[:, None, None] * effect[1]


def _log_products(
    block: Any, eta: np.ndarray, z: np.ndarray | None, effect: list[np.ndarray], together: int
) -> np.ndarray:
    """Σ log(1 + e^(η + z'b)), (g, S, K): products of so many rows of a group at a time, then logarithms."""
    if block.many and z is None:
        from flyrun.ground.numerics.group_products import log_products  # late: numba, for many rows

        factor = np.exp(_nodes_first(effect[0]))
        product, total = np.empty((len(factor), eta.shape[1])), np.zeros_like(factor)
        ends = np.append(block.starts[1:], len(eta))
        by_group = (1, 0, 2)
        log_products(
            block.starts,
            ends,
            np.exp(eta),
            factor.transpose(by_group),
            together,
            product,
            total.transpose(by_group),
        )
        return np.moveaxis(total, 0, -1)
    sizes = np.diff(np.append(block.starts, len(eta)))
    pieces = -(-sizes // together)
    owner = np.repeat(np.arange(len(sizes)), pieces)
    begin = np.append(0, np.cumsum(pieces))[:-1]
    within = (np.arange(len(owner)) - begin[owner]) * together
    length = np.minimum(sizes[owner] - within, together)
    order = np.argsort(-length, kind="stable")  # the longest first: those that have a j-th row are the first
    first, having = (block.starts[owner] + within)[order], np.sort(-length)
    # nodes outermost: the inner loops run along draws and groups, which are many
    factor, odds = np.exp(_nodes_first(effect[0]))[:, owner[order]], np.exp(eta)
    along = None if z is None else _nodes_first(effect[1])[:, owner[order]]
    product, buffer = np.ones_like(factor), np.empty_like(factor)
    for j in range(-having[0]):
        n = int(np.searchsorted(having, -j))  # longer than j
        row, some = first[:n] + j, buffer[:, :n]
        np.multiply(odds[row], factor[:, :n], out=some)
        if z is not None and along is not None:
            some *= np.exp(z[row][:, None] * along[:, :n])
        some += 1.0
        product[:, :n] *= some
    logs = np.empty_like(product)
    logs[:, order] = np.log(product, out=product)
    return np.moveaxis(np.add.reduceat(logs, begin, axis=1), 0, -1)


def _nodes_first(effect: np.ndarray) -> np.ndarray:
    """(g, S, K) as (K, g, S)."""
    return np.ascontiguousarray(np.moveaxis(effect, -1, 0))
