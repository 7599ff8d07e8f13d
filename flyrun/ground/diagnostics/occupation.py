"""Whether chains are where they should be: the share of time in a set against a share known by design, or a
count against what is expected of it where the chain is.

A chain that never leaves one side of a border agrees with others that do the same: R-hat, ESS of θ and its
traces look well. Where a method knows about how often a chain should be in a set, that share tells.
"""

import numpy as np
from scipy.special import betainc, gammainc, gammaincc

LEVEL = 1e-4
"""Probability that an arm whose chains move is called stuck, with effective numbers as they are."""

ROOM = 10.0
"""By how much the odds of a set may be off the design's, which is of the Gaussian at the mode, say.

A set that this Gaussian seldom enters may be entered more often by far: tails are heavier, and a share of
1e-4 may be one of .04. So odds may go to their cube root, where that is farther towards even ones.
"""

LAG = 0.1
"""Share by which a count may be off what is expected: it follows a chain that is on its way with a delay."""

FEW = 20.0
"""Effective visits of all chains together, below which a share is not known."""


def stuck(share: np.ndarray, effective: np.ndarray, independent: np.ndarray, design: float) -> bool:
    """Whether shares of chains, (C,), cannot be of chains that have been everywhere.

    effective: draws that a chain's share is worth, by the indicator's own autocorrelation, 0 where it is
    constant; independent: by that of θ, which stands in where a chain never crossed. Of a chain that crossed
    once or twice the former may be far too large, so it counts as the latter at most.
    """
    effective = np.where(independent > 0, np.minimum(effective, independent), effective)
    size = np.nan_to_num(np.where(effective > 0, effective, independent))
    together = float(size.sum())
    rare = min(design, 1.0 - design)
    if not effective.sum() >= FEW and (rare >= 0.1 or together * rare / ROOM >= FEW / 4):
        return True
    if not together > 0:
        return False
    asked = [(float(part), float(n)) for part, n in zip(share, size, strict=True) if n > 0]
    p = [_p_of_odds(part, n, design) for part, n in [*asked, (float(share @ size) / together, together)]]
    p += [_p_of_others(share, effective, size, int(c)) for c in np.flatnonzero(effective == 0)]
    return min(p) * len(p) < LEVEL


def counts_off(observed: np.ndarray, expected: np.ndarray, effective: np.ndarray) -> bool:
    """Whether mean counts of chains, (C,), are too far from those expected at the same states, (C,).

    effective: independent draws that a chain's differences are worth, at least 1. Each count is a sum of
    independent indicators, which vary at most as a Poisson count of this mean does.
    """
    size = np.maximum(np.nan_to_num(effective), 1.0)
    each = np.column_stack([observed * size, expected * size])
    p = [_p_of_count(*counts) for counts in (*each, each.sum(axis=0))]
    return min(p) * len(p) < LEVEL


def _p_of_count(count: float, mean: float) -> float:
    """Two-sided p of a Poisson count, which need not be whole, of a mean within LAG of this one."""
    if mean <= 0.0:
        return float(count <= 0.0)
    low = gammaincc(count + 1.0, (1.0 - LAG) * mean)
    high = gammainc(count, (1.0 + LAG) * mean) if count > 0 else 1.0
    return float(min(1.0, 2.0 * min(low, high)))


def _p_of_odds(share: float, n: float, design: float) -> float:
    """Two-sided p of a share among n independent draws, of odds within a factor ROOM of the design's."""
    odds = design / (1.0 - design)
    root = odds ** (1 / 3)
    low, high = (ratio / (1.0 + ratio) for ratio in (min(odds / ROOM, root), max(odds * ROOM, root)))
    k = share * n
    below = betainc(max(n - k, 1e-9), k + 1.0, 1.0 - low)  # P(X ≤ k), X ~ Bin(n, low)
    above = betainc(max(k, 1e-9), n - k + 1.0, high)  # P(X ≥ k), X ~ Bin(n, high)
    return float(min(1.0, 2.0 * min(below, above)))


def _p_of_others(share: np.ndarray, effective: np.ndarray, size: np.ndarray, c: int) -> float:
    """p of chain c of (C,) never having crossed, where it is half as often across as the others at least."""
    others = float(effective.sum())
    if not others >= FEW:
        return 1.0
    across = abs(share[c] - float(share @ effective) / others)
    return float((1.0 - across / 2.0) ** size[c])
