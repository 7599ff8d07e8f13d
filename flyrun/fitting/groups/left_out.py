"""What a group's other rows, and the other numbers, say of a row: its density with the group's effect
integrated out, as leave-one-out needs it.
"""

import numpy as np

from flyrun.fitting.groups import scales, sums
from flyrun.fitting.groups.integrated_out import Block, GroupedPosterior
from flyrun.fitting.groups.normal_noise import Sums

_NUMBERS = 1 << 20  # rows × draws × nodes that are worked on at a time
_DRAWS = 256
_FEWEST_NODES = 25, 11  # of an intercept alone, and with a slope


def nodes(posterior: GroupedPosterior) -> int:
    """Of an effect: more than the fit's, for f/p_i is wider than f where a group has few rows."""
    return max(2 * posterior.nodes - 1, _FEWEST_NODES[posterior.effects - 1])


def log_density(posterior: GroupedPosterior, which: np.ndarray, x: np.ndarray) -> np.ndarray:
    """log p(y_i | all other rows of its group; x), (m, S), of one copy of rows (m,) at draws x (S, P).

    Of f, the density of a group's effect, and p_i that of the row given it, this is 1/E_f[1/p_i]: by the
    nodes of f, and under normal noise in closed form.
    """
    group = np.searchsorted(posterior.starts, which, side="right") - 1
    if (ahead := group < 0).any():
        log_p = np.empty((len(which), len(x)))
        log_p[ahead] = _ungrouped(posterior, which[ahead], x)
        if not ahead.all():
            log_p[~ahead] = log_density(posterior, which[~ahead], x)
        return log_p
    if posterior.family.by_sums:
        return _normal(posterior, which, group, x)
    log_p = np.empty((len(which), len(x)))
    grid, log_weight = posterior.grid(nodes(posterior))
    sizes = np.diff(np.append(posterior.starts, len(posterior.rows)))
    groups = np.unique(group)
    part = np.cumsum(sizes[groups]) * min(_DRAWS, len(x)) * grid.shape[1] // _NUMBERS
    order = np.argsort(group, kind="stable")
    with np.errstate(all="ignore"):
        for k in range(int(part[-1]) + 1):
            if not len(some := groups[part == k]):
                continue
            block = _block(posterior, some, sizes)
            first, last = np.searchsorted(group[order], [some[0], some[-1] + 1])
            wanted = order[first:last]
            code = np.searchsorted(some, group[wanted])
            place = block.starts[code] + which[wanted] - posterior.starts[group[wanted]]
            for begin in range(0, len(x), _DRAWS):
                draws = slice(begin, begin + _DRAWS)
                log_p[wanted, draws] = _of_block(posterior, block, x[draws], grid, log_weight, place)
    posterior.queries += 2 * len(which) * len(x) * grid.shape[1]
    return log_p


def _ungrouped(posterior: GroupedPosterior, which: np.ndarray, x: np.ndarray) -> np.ndarray:
    """As above, (m, S), of rows without an effect."""
    rows, p = posterior.rows.take(which), posterior.predictors(posterior.rows.take(which), x)
    y, trials = (value[:, None] if np.ndim(value) else value for value in (rows.target, rows.trials))
    with np.errstate(all="ignore"):
        log_p = posterior.family.log_density(y, trials, p) + posterior.family.alone(y, trials, p[1:])
    posterior.queries += p[0].size
    return np.asarray(log_p + posterior.family.constant(y, trials))


def _block(posterior: GroupedPosterior, groups: np.ndarray, sizes: np.ndarray) -> Block:
    """Some groups (g,) with all their rows; sizes: (G,)."""
    starts = np.append(0, np.cumsum(sizes[groups]))[:-1]
    code = np.repeat(np.arange(len(groups)), sizes[groups])
    rows = np.arange(len(code)) + (posterior.starts[groups] - starts)[code]
    return Block(groups, rows, starts, code)


def _of_block(
    posterior: GroupedPosterior,
    block: Block,
    x: np.ndarray,
    grid: np.ndarray,
    log_weight: np.ndarray,
    place: np.ndarray,
) -> np.ndarray:
    """Of rows at these places of a block, (m, S)."""
    rows, z = posterior.rows.take(block.rows), posterior.z(block)
    aux = [value[:, None] for value in posterior.auxiliaries(x)]
    eta = posterior.predictors(rows, x)[0]
    effect, level = posterior.placed(x, block, grid, rows, eta)
    inside = sums.of_groups(posterior.family, rows, block, eta, z, effect, aux) + level + log_weight
    inside -= np.logaddexp.reduce(inside, axis=2, keepdims=True)
    code, taken = block.code[place], rows.take(place)
    y, trials = (v[:, None, None] if np.ndim(v) else v for v in (taken.target, taken.trials))
    along = None if z is None else z[place, None]
    total = sums.predictor(eta[place, :, None], along, [b[code] for b in effect])
    each = posterior.family.log_density(y, trials, [total, *aux])
    each = each + posterior.family.alone(y, trials, aux) + posterior.family.constant(y, trials)
    return -np.logaddexp.reduce(inside[code] - each, axis=2)


def _normal(posterior: GroupedPosterior, which: np.ndarray, group: np.ndarray, x: np.ndarray) -> np.ndarray:
    """As above, (m, S): a group's M = σ²(TT')⁻¹ + Z'Z less the row's own part, by its leverage z'M⁻¹z."""
    totals, q = Sums(posterior), posterior.effects
    sigma2 = np.exp(2.0 * x[:, posterior.before - 1])
    p00, p01, p11 = scales.precision(posterior.h(x))
    gram, away = totals.all_own[group], x[:, : posterior.width] - posterior.prior.mean
    score = totals.cross[..., -1, None] - totals.cross[..., :-1] @ away.T  # (G, q, S)
    rows = posterior.rows.take(which)
    left = rows.target[:, None] - posterior.predictors(rows, x)[0]
    m00 = gram[:, 0, 0, None] + sigma2 * p00
    if q == 1:
        leverage, middle = 1.0 / m00, score[group, 0] / m00
    else:
        assert posterior.slope is not None
        z = posterior.slope[which, None]
        m01, m11 = gram[:, 0, 1, None] + sigma2 * p01, gram[:, 1, 1, None] + sigma2 * p11
        determinant = m00 * m11 - m01**2
        a, b = (m11 - z * m01) / determinant, (z * m00 - m01) / determinant  # M⁻¹z
        leverage, middle = a + z * b, a * score[group, 0] + b * score[group, 1]
    inner = sigma2 * (1.0 - leverage)
    return -0.5 * (np.log(2.0 * np.pi * sigma2**2 / inner) + (left - middle) ** 2 / inner)
