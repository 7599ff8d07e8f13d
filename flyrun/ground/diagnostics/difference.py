"""Whether two means over independent chains differ or agree, from means, sds and numbers of chains."""

import math

from scipy import stats


def welch(a: tuple[float, float], b: tuple[float, float], seeds: list[float]) -> tuple[float, float]:
    """Standard error of b − a and its two-sided p by Welch's t-test; NaN where an sd is not known."""
    if a[0] == b[0] and not (a[1] > 0 or b[1] > 0):
        return 0.0, 1.0
    se, freedom = _spread(a, b, seeds)
    if se == 0:
        return 0.0, 0.0
    return se, float(2 * stats.t.sf(abs(b[0] - a[0]) / se, freedom))


def equivalence(a: tuple[float, float], b: tuple[float, float], seeds: list[float], margin: float) -> float:
    """p of |b − a| ≥ margin: two one-sided t-tests (Schuirmann 1987), standard error and freedom as Welch's.

    0 where a and b are equal in every digit, as those of the same draws are; NaN where an sd is not known.
    """
    if a[0] == b[0] and (a[1] == b[1] or not (a[1] > 0 or b[1] > 0)):
        return 0.0
    se, freedom = _spread(a, b, seeds)
    inside = margin - abs(b[0] - a[0])
    if se == 0:
        return float(inside <= 0)
    return float(stats.t.sf(inside / se, freedom))


def _spread(a: tuple[float, float], b: tuple[float, float], seeds: list[float]) -> tuple[float, float]:
    """Standard error of b − a and Welch's degrees of freedom; NaN where an sd is not known."""
    if math.isnan(a[1]) or math.isnan(b[1]):
        return math.nan, math.nan
    parts = [sd**2 / n for (_, sd), n in zip((a, b), seeds, strict=True)]
    total = sum(parts)
    if total == 0:
        return 0.0, math.nan
    shares = sum((part / total) ** 2 / (n - 1) for part, n in zip(parts, seeds, strict=True) if part)
    return math.sqrt(total), 1 / shares
