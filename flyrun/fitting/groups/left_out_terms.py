"""What a fit by chains says of a row, or of a group's rows, from all others: with effects integrated out.

1/p(y_i | θ) has heavy tails where few rows tell an effect. Draws are averaged over before weights are
smoothed: of a row along a line of its levels' effects, in the direction in which the row moves them, given
all else. Where the likelihood is normal that integrates over all of these. A curve, of which a row tells
little, stays as it was drawn. Of a group its effects are drawn again from a normal density g near theirs
given all else, which makes L = ∏ p(y_k | θ) of them g's mean of L·N(u)/g(u), and 1/L the draws' mean of
g(u)/(N(u)·L).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from flyrun.fitting.groups.followed import Terms
from flyrun.fitting.table_rows import Rows, as_column
from flyrun.ground.errors import ConfigError

_MOST_ROWS = 200  # of a level whose effects a row's line moves: one of more hardly feels a row
_MOST_EFFECTS = 300  # of a group that is left out, of all terms within it
_NODES = np.arange(-8.0, 8.1, 0.8)  # of a trapezoid rule, in sds at the mode
_NUMBERS = 1 << 22  # of matrices of a group's effects, draw by draw
_NEWTON, _FAR = 30, 3.0  # steps at most, and how far one goes, in sds
_CLOSE = 1e-3


class Block(NamedTuple):
    """Some levels' effects, standardised: v, (S, Q), of u = Tv, given all else in each of S draws.

    rows: those that they are in; copies: (m,), how often each is there; along: (K, m, S, Q), by how much each
    v moves a row's K linear predictors; predictors: of the draws, these, (K, m, S); others: further ones.
    """

    rows: Rows
    copies: np.ndarray
    along: np.ndarray
    v: np.ndarray
    predictors: np.ndarray
    others: list[np.ndarray]


def predictors(posterior: Terms, which: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    """Of rows (m,) at draws x (S, size + E), with effects: of linear ones (m, S), of others (S,)."""
    p = posterior.predictors(posterior.rows.take(which), x)
    for k, design in posterior.designs.items():
        p[k] = p[k] + design[which] @ x[:, posterior.size :].T
    return p


def log_density(posterior: Terms, which: np.ndarray, x: np.ndarray) -> np.ndarray:
    """log p(y_i | all other rows; what x says of all but some of the levels' effects), (m, S), of one copy of
    rows (m,) at draws x (S, size + E)."""
    log_p = np.empty((len(which), len(x)))
    for k, i in enumerate(which):
        levels = [np.flatnonzero(term.code == term.code[i]) for term in posterior.terms]
        moves = [0 in term.predictors and term.levels > 1 and len(some) <= _MOST_ROWS
                 for term, some in zip(posterior.terms, levels, strict=True)]  # fmt: skip
        inside = [[int(term.code[i])] if so else [] for term, so in zip(posterior.terms, moves, strict=True)]
        rows = np.unique(np.concatenate([[i], *(some for some, so in zip(levels, moves, strict=True) if so)]))
        block = _block(posterior, rows.astype(np.intp), inside, x)
        place = int(np.searchsorted(rows, i))
        if not any(moves):  # given all effects
            log_p[k] = (_log_density(posterior, block, block.predictors)
                        + _alike(posterior, block.rows, block.others))[0]  # fmt: skip
            continue
        line = _direction(posterior, block, place)
        without = block.copies.copy()
        without[place] -= 1.0
        log_p[k] = _along(posterior, block, block.copies, line) - _along(posterior, block, without, line)
        others = [each[place : place + 1] if each.ndim > 1 else each for each in block.others]
        log_p[k] += _alike(posterior, block.rows.take(np.array([place])), others)[0]
    return log_p


def evaluations(posterior: Terms) -> int:
    """Of densities for a row and draw by `log_density`, on average and about."""
    sizes = (np.bincount(term.code) for term in posterior.terms if term.levels > 1)
    rows = sum(int((size[size <= _MOST_ROWS] ** 2).sum()) for size in sizes) // len(posterior.rows)
    return (1 + rows) * 2 * len(_NODES)


def of_groups(posterior: Terms, code: np.ndarray, x: np.ndarray) -> Iterator[np.ndarray]:
    """Of each group of rows, of codes (N,), log p(y of its rows | all others; x), (S,), at draws x
    (S, size + E): of whose logs minus these the draws' weights are without the group.

    Raises ConfigError where too many effects are within a group.
    """
    for group in range(int(code.max()) + 1):
        rows = np.flatnonzero(code == group)
        inside = [_within(term.code, rows) for term in posterior.terms]
        size = sum(len(levels) * term.effects for levels, term in zip(inside, posterior.terms, strict=True))
        if size > _MOST_EFFECTS:
            raise ConfigError(
                f"a group of {len(rows):,} rows holds {size:,} effects, {_MOST_EFFECTS} at most can be left "
                "out at a time; leave smaller groups out"
            )
        step = max(1, _NUMBERS // (size * (size + len(rows))))
        parts = (x[first : first + step] for first in range(0, len(x), step))
        yield np.concatenate([_of_group(posterior, rows, inside, part) for part in parts])


def _within(code: np.ndarray, rows: np.ndarray) -> list[int]:
    """Levels all of whose rows are among these."""
    size = int(code.max()) + 1
    counts, whole = np.bincount(code[rows], minlength=size), np.bincount(code, minlength=size)
    return np.flatnonzero((counts > 0) & (counts == whole)).tolist()


def _block(posterior: Terms, rows: np.ndarray, inside: Sequence[Sequence[int]], x: np.ndarray) -> Block:
    """Of rows (m,) and, of each term, levels."""
    n = posterior.linear
    along, standard = [np.empty((n, len(rows), len(x), 0))], [np.empty((len(x), 0))]
    for term, levels, scale, place in zip(
        posterior.terms, inside, posterior.scales, posterior.effects, strict=True
    ):
        t = term.triangle(x[:, scale].T).t.transpose(2, 0, 1)  # (S, q, q)
        moved = np.einsum("kmi,siq->kmsq", np.stack([term.along(k, rows) for k in range(n)]), t)
        for level in levels:
            first = posterior.size + place.start + level * term.effects
            effects = x[:, first : first + term.effects, None]
            along.append((term.code[rows] == level)[:, None, None] * moved)
            standard.append(np.linalg.solve(t, effects)[..., 0])
    taken = posterior.rows.take(rows)
    copies = np.broadcast_to(np.asarray(taken.weights, np.float64), len(rows)).copy()
    both = np.concatenate(along, axis=3), np.concatenate(standard, axis=1)
    p = predictors(posterior, rows, x)
    return Block(taken, copies, *both, np.stack(p[:n]), p[n:])


def _derivatives(posterior: Terms, block: Block, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By linear predictors eta, (K, m, S): slopes (K, m, S) and minus second ones, (K, K, m, S), not below 0
    by one of them."""
    rows, several, shape = block.rows, range(len(eta)), eta[0].shape
    y, trials = as_column(rows.target), as_column(rows.trials)
    with np.errstate(all="ignore"):
        slopes, bent = posterior.family.derivatives(y, trials, [*eta, *block.others])
    first = [np.broadcast_to(np.nan_to_num(slopes[k]), shape) for k in several]
    second = [
        [np.broadcast_to(np.nan_to_num(bent[j][k], posinf=0.0), shape) for k in several] for j in several
    ]
    for k in several:
        second[k][k] = second[k][k].clip(min=0.0)
    return np.array(first), np.array(second)


def _log_density(posterior: Terms, block: Block, eta: np.ndarray) -> np.ndarray:
    """Of each row, (m, S), but for what is alike wherever the linear predictors are."""
    y, trials = as_column(block.rows.target), as_column(block.rows.trials)
    with np.errstate(all="ignore"):
        value = posterior.family.log_density(y, trials, [*eta, *block.others])
    return np.broadcast_to(np.nan_to_num(value, nan=-1e300, neginf=-1e300), eta[0].shape)


def _alike(posterior: Terms, rows: Rows, others: list[np.ndarray]) -> np.ndarray:
    """The rest of each row's, (m, S) or (m, 1)."""
    y, trials = as_column(rows.target), as_column(rows.trials)
    rest = posterior.family.alone(y, trials, others) + posterior.family.constant(y, trials)
    return rest + np.zeros((len(rows), 1))


def _precision(block: Block, weight: np.ndarray) -> np.ndarray:
    """Of v, (S, Q, Q), by rows' curvatures (K, K, m, S)."""
    information = np.einsum("jmsi,jhms,hmsk->sik", block.along, weight, block.along, optimize=True)
    return np.eye(block.v.shape[1]) + information


def _direction(posterior: Terms, block: Block, place: int) -> np.ndarray:
    """d (S, Q) of unit length, in sds given all else, along which a row moves effects v, and none of which
    depends on where on its line a draw is."""
    eta = block.predictors
    slopes, bent = _derivatives(posterior, block, np.broadcast_to(eta.mean(axis=2, keepdims=True), eta.shape))
    # of several predictors, by which the row moves effects along as many lines, the way that the row pulls
    pull = slopes[:, place] if len(eta) > 1 else np.ones((1, eta.shape[2]))
    weight, along = block.copies[:, None] * bent, np.einsum("ksq,ks->sq", block.along[:, place], pull)
    line = np.linalg.solve(_precision(block, weight), along[..., None])[..., 0]
    return line / np.sqrt((along * line).sum(axis=1, keepdims=True)).clip(min=1e-150)


def _along(posterior: Terms, block: Block, copies: np.ndarray, line: np.ndarray) -> np.ndarray:
    """log ∫ N(v + td)·∏ p(y_k | v + td) dt, (S,), but for a constant, with so many copies of each row."""
    moves = np.einsum("kmsq,sq->kms", block.along, line)
    inner, square = (block.v * line).sum(axis=1), (line * line).sum(axis=1)
    level = (block.v * block.v).sum(axis=1)

    def value(t: np.ndarray) -> np.ndarray:
        rows = copies @ _log_density(posterior, block, block.predictors + t * moves)
        return rows - 0.5 * (level + 2.0 * t * inner + t * t * square)

    t = np.zeros(len(inner))
    for _ in range(_NEWTON):
        slopes, bent = _derivatives(posterior, block, block.predictors + t * moves)
        slope = copies @ (moves * slopes).sum(axis=0) - inner - t * square
        along = np.einsum("jms,jkms,kms->ms", moves, bent, moves)
        curvature = (square + copies @ along).clip(min=1e-300)
        step = slope / curvature
        reach = _FAR / np.sqrt(curvature)
        t = t + step.clip(-reach, reach)
        if (np.abs(step) * np.sqrt(curvature)).max() < _CLOSE:
            break
    width = 1.0 / np.sqrt(curvature)
    values = np.stack([value(t + width * node) for node in _NODES])
    return np.logaddexp.reduce(values, axis=0) + np.log(width)


def _of_group(
    posterior: Terms, rows: np.ndarray, inside: Sequence[Sequence[int]], x: np.ndarray
) -> np.ndarray:
    """As `of_groups`, of one group."""
    block = _block(posterior, rows, inside, x)
    v = block.v
    for _ in range(_NEWTON):
        at = block.predictors + np.einsum("kmsq,sq->kms", block.along, v - block.v)
        slopes, bent = _derivatives(posterior, block, at)
        weight = block.copies[:, None] * bent
        precision = _precision(block, weight)
        gradient = np.einsum("kmsq,kms->sq", block.along, block.copies[:, None] * slopes) - v
        step = np.linalg.solve(precision, gradient[..., None])[..., 0]
        size = np.sqrt((step * gradient).sum(axis=1, keepdims=True))
        if size.max() < _CLOSE:
            break
        v = v + step * np.minimum(1.0, _FAR / size.clip(min=1e-300))
    away = block.v - v
    normal = 0.5 * (np.linalg.slogdet(precision)[1] - np.einsum("si,sik,sk->s", away, precision, away))
    value = block.copies @ _log_density(posterior, block, block.predictors)
    value = value + block.copies @ _alike(posterior, block.rows, block.others)
    return value - 0.5 * (block.v * block.v).sum(axis=1) - normal
