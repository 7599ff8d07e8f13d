"""Whether two means over independent chains differ: Welch's t-test from means, sds and numbers of chains."""

from __future__ import annotations

import math


def welch(a: tuple[float, float], b: tuple[float, float], seeds: list[float]) -> tuple[float, float]:
    """Standard error of b − a and its two-sided p by Welch's t-test; NaN where an sd is not known."""
    if a[0] == b[0] and not (a[1] > 0 or b[1] > 0):
        return 0.0, 1.0
    if math.isnan(a[1]) or math.isnan(b[1]):
        return math.nan, math.nan
    parts = [sd**2 / n for (_, sd), n in zip((a, b), seeds, strict=True)]
    se = math.sqrt(sum(parts))
    if se == 0:
        return 0.0, 0.0
    from scipy import stats

    freedom = sum(parts) ** 2 / sum(part**2 / (n - 1) for part, n in zip(parts, seeds, strict=True) if part)
    return se, float(2 * stats.t.sf(abs(b[0] - a[0]) / se, freedom))
