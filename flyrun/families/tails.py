"""Survival functions without a closed form, by logs that stay precise in both tails, and their derivatives by
a shape, by differences: weights take the function itself, so that these shape a proposal alone.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import gammainc, gammaincc, gammaln, log_ndtr, stdtr

from flyrun.families.family import Derivatives
from flyrun.ground.numerics.special import Numbers

_LEAST = 1e-290  # a chance below has lost digits
_STEP = 1e-3  # of the log of a shape


def gamma_shares(shape: Numbers, x: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Logs of P and Q of the incomplete gamma function: of a gamma variable of this shape below x, and above.

    Where one is no number, by Barndorff-Nielsen's r*, whose error is a small part of a log below −600.
    """
    shape, x = np.broadcast_arrays(np.asarray(shape, np.float64), x)
    low = np.asarray(x < shape)
    small = np.asarray(np.where(low, 0.0, gammaincc(shape, np.where(low, np.inf, x))))
    small = np.where(low, gammainc(shape, np.where(low, x, 0.0)), small)  # one of the two, the less of 1
    with np.errstate(all="ignore"):
        log = np.log(small)
        if (far := small <= _LEAST).any():
            a, at = shape[far], x[far]
            w = np.sign(at - a) * np.sqrt(2.0 * (at - a - a * np.log(at / a)))
            log[far] = log_ndtr(-np.abs(w + np.log((at - a) / np.sqrt(a) / w) / w))
    rest = np.log1p(-small)
    return np.where(low, log, rest), np.where(low, rest, log)


def t_survival(r: Numbers, nu: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """log P(T > r) of Student's t, and the slope of minus that by r."""
    r, nu = np.broadcast_arrays(np.asarray(r, np.float64), nu)
    with np.errstate(all="ignore"):
        log_f = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi)
        log_f = log_f - 0.5 * (nu + 1.0) * np.log1p(r * r / nu)
        small = stdtr(nu, -np.abs(r))
        far = np.where(small <= _LEAST, log_f + np.log(np.abs(r) / nu + 1.0 / np.abs(r)), np.log(small))
        log_s = np.where(r < 0.0, np.log1p(-small), far)
        return log_s, np.exp(log_f - log_s)


def by_last(
    value: Callable[[Sequence[Numbers]], tuple[np.ndarray, ...]], p: Sequence[Numbers]
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """First and second derivatives by the last predictor of each of what `value` gives, by differences."""
    below, here, above = (value([*p[:-1], p[-1] + k * _STEP]) for k in (-1.0, 0.0, 1.0))
    with np.errstate(invalid="ignore"):  # far out, where there is no number
        return tuple(
            ((after - before) / (2.0 * _STEP), (after - 2.0 * at + before) / _STEP**2)
            for before, at, after in zip(below, here, above, strict=True)
        )


def with_last(
    inner: Derivatives, last: tuple[np.ndarray, np.ndarray], mixed: Sequence[Numbers]
) -> Derivatives:
    """Derivatives by all predictors: those by all but the last, the last's own, and of slopes by the last."""
    slopes, curvatures = inner
    down = tuple(-slope for slope in mixed)
    lines = tuple((*line, end) for line, end in zip(curvatures, down, strict=True))
    return (*slopes, last[0]), (*lines, (*down, -last[1]))
