"""Numbers above 0 of mean μ = e^η and shape α = e^a.

log L = α(a − η − z) − log Γ(α) + (α − 1)·log y, z = y/μ.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains, tails
from flyrun.families.family import Auxiliary, Derivatives, Family
from flyrun.families.prior_densities import LogNormal
from flyrun.ground.numerics.special import Numbers, digamma, log_gamma, trigamma


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of y > 0: the part with η."""
    return -np.exp(p[1]) * (p[0] + y * np.exp(-p[0]))


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that part, by η and log α."""
    shape, share = np.exp(p[1]), y * np.exp(-p[0])
    rise, whole = shape * (share - 1.0), shape * (p[0] + share)
    return (rise, -whole), ((shape * share, -rise), (-rise, whole))


def alone(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    """The part without η."""
    shape = np.exp(a[0])
    return shape * a[0] - log_gamma(shape) + (shape - 1.0) * np.log(y)


def alone_derivatives(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Derivatives:
    """Of that part, by log α."""
    shape = np.exp(a[0])
    rise = shape * (a[0] + 1.0 - digamma(shape) + np.log(y))
    return (rise,), ((shape * (shape * trigamma(shape) - 1.0) - rise,),)


def _beyond(y: Numbers, p: Sequence[Numbers]) -> tuple[np.ndarray, np.ndarray, Numbers]:
    """log P(a number is beyond y), its slope by η, and y in units of the mean over the shape."""
    shape = np.exp(p[1])
    x = shape * y * np.exp(-p[0])
    log_s = tails.gamma_shares(shape, x)[1]
    with np.errstate(all="ignore"):
        return log_s, np.exp(np.asarray(shape * np.log(x) - x - log_gamma(shape) - log_s)), x


def log_survival(y: Numbers, p: Sequence[Numbers]) -> Numbers:
    """log P(a number is beyond y)."""
    return _beyond(y, p)[0]


def log_survival_derivatives(y: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that, by η and log α."""
    _, rise, x = _beyond(y, p)
    inner: Derivatives = (rise,), ((rise * (np.exp(p[1]) - x + rise),),)
    last, (mixed, _) = tails.by_last(lambda q: _beyond(y, q)[:2], p)
    return tails.with_last(inner, last, (mixed,))


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log of the mean, by e^offset; α = 1; (2,)."""
    return np.array([np.log((weights @ y) / (weights @ np.exp(offset))), 0.0])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Numbers above 0; inf where they are too large for a number."""
    with np.errstate(all="ignore"):  # on the log scale, where neither mean nor share overflows
        shape = np.clip(np.exp(p[1]), 1e-300, 1e300)
        log_share = np.log(rng.standard_gamma(shape, np.broadcast(*p[:2]).shape) / shape)
        return np.maximum(np.exp(p[0] + log_share), 1e-300)


FAMILY = Family(
    "gamma",
    "gamma regression",
    domains.POSITIVE,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (Auxiliary("shape", LogNormal(2.0, 4.0)),),
    alone=alone,
    alone_derivatives=alone_derivatives,
    log_survival=log_survival,
    log_survival_derivatives=log_survival_derivatives,
    grouped=True,
    precise=("shape", 1.0),
)
