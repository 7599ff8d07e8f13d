"""log Γ(y + m)/Γ(m) of counts y, and its derivatives by log m, which keep their digits for any m.

Both logs are as large as m·log m. From m = 100 on their difference is that of Stirling's series, term by
term; the next terms are below 1e-13.
"""

import numpy as np

from flyrun.ground.numerics.special import Numbers, choose, digamma, log_gamma, trigamma

_LARGE = 100.0


def log_ratio(y: Numbers, log_m: Numbers) -> Numbers:
    """log Γ(y + m)/Γ(m), also of an m next to nothing."""
    m, large, some = np.exp(np.minimum(log_m, 5.0)), _far(log_m), choose(y > 0.0, y, 1.0)
    near = log_gamma(some + m) - log_gamma(1.0 + m) + log_m
    more = large + y
    series = (1.0 / more - 1.0 / large) / 12.0 - (more**-3 - large**-3) / 360.0
    far = y * log_m + (more - 0.5) * np.log1p(y / large) - y + series
    return choose(y > 0.0, choose(log_m > np.log(_LARGE), far, near), 0.0)


def slope(y: Numbers, log_m: Numbers) -> Numbers:
    """Of that, by log m."""
    m, large, some = np.exp(np.minimum(log_m, 5.0)), _far(log_m), choose(y > 0.0, y, 1.0)
    near = 1.0 + m * (digamma(some + m) - digamma(1.0 + m))
    return choose(y > 0.0, choose(log_m > np.log(_LARGE), _far_slope(y, large), near), 0.0)


def second(y: Numbers, log_m: Numbers) -> Numbers:
    """The second derivative of that, by log m."""
    m, large, some = np.exp(np.minimum(log_m, 5.0)), _far(log_m), choose(y > 0.0, y, 1.0)
    near = m * (digamma(some + m) - digamma(1.0 + m)) + m * m * (trigamma(some + m) - trigamma(1.0 + m))
    more = large + y
    far = _far_slope(y, large) - y / more * large - y / more * (large + large + y) / (2.0 * more)
    far += (large / more) ** 2 / (6.0 * more) - 1.0 / (6.0 * large)
    far -= (large / more) ** 2 / (30.0 * more**3) - 1.0 / (30.0 * large**3)
    return choose(y > 0.0, choose(log_m > np.log(_LARGE), far, near), 0.0)


def _far(log_m: Numbers) -> Numbers:
    """m, from _LARGE to where y no longer counts beside it."""
    return np.exp(np.minimum(np.maximum(log_m, np.log(_LARGE)), 100.0))


def _far_slope(y: Numbers, large: Numbers) -> Numbers:
    more = large + y
    half = y / (2.0 * more) + y / more * (large + large + y) / (12.0 * large * more)
    return large * np.log1p(y / large) + half + (large / more * more**-3 - large**-3) / 120.0
