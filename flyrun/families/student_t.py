"""Numbers with Student-t noise, y = η + σ·t_ν; s = log σ and log ν are sampled.

r = (y − η)/σ: log L = log Γ((ν+1)/2) − log Γ(ν/2) − ½ log ν − s − (ν+1)/2·log(1 + r²/ν).
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains, tails
from flyrun.families.family import Auxiliary, Derivatives, Family, LogGamma
from flyrun.ground.numerics.special import Numbers, digamma, log_gamma, trigamma


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of numbers y: the part with η."""
    nu, r = np.exp(p[2]), (y - p[0]) * np.exp(-p[1])
    return -p[1] - 0.5 * (nu + 1.0) * np.log1p(r * r / nu)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that part, by η, log σ and log ν."""
    nu, inverse = np.exp(p[2]), np.exp(-p[1])
    r = (y - p[0]) * inverse
    square = r * r
    whole = nu + square
    score = (nu + 1.0) * r / whole
    curvature = (nu + 1.0) * (nu - square) / (whole * whole)
    by_nu = r * (square - 1.0) / (whole * whole)  # of the score
    share = square / (nu * whole)
    rise = 0.5 * ((nu + 1.0) * share - np.log1p(square / nu))
    bent = share - 0.5 * (nu + 1.0) * share * (nu + whole) / (nu * whole)
    mixed, by_s, by_both = inverse * (score + curvature * r), -nu * by_nu * inverse, -nu * by_nu * r
    return (
        (inverse * score, score * r - 1.0, nu * rise),
        (
            (inverse * inverse * curvature, mixed, by_s),
            (mixed, (curvature * r + score) * r, by_both),
            (by_s, by_both, -nu * (rise + nu * bent)),
        ),
    )


def alone(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    """The part without η."""
    nu = np.exp(a[1])
    return log_gamma(0.5 * (nu + 1.0)) - log_gamma(0.5 * nu) - 0.5 * a[1]


def alone_derivatives(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Derivatives:
    """Of that part, by log σ and log ν."""
    nu = np.exp(a[1])
    rise = 0.5 * (digamma(0.5 * (nu + 1.0)) - digamma(0.5 * nu) - 1.0 / nu)
    bent = 0.25 * (trigamma(0.5 * (nu + 1.0)) - trigamma(0.5 * nu)) + 0.5 / (nu * nu)
    return (0.0, nu * rise), ((0.0, 0.0), (0.0, -nu * (rise + nu * bent)))


def log_survival(y: Numbers, p: Sequence[Numbers]) -> Numbers:
    """log P(a number is beyond y)."""
    return tails.t_survival((y - p[0]) * np.exp(-p[1]), np.exp(p[2]))[0]


def log_survival_derivatives(y: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that, by η, log σ and log ν."""
    nu, inverse = np.exp(p[2]), np.exp(-p[1])
    r = (y - p[0]) * inverse
    hazard = tails.t_survival(r, nu)[1]
    curvature = hazard * (hazard - (nu + 1.0) * r / (nu + r * r))
    mixed = inverse * (curvature * r + hazard)
    inner: Derivatives = (
        (hazard * inverse, hazard * r),
        ((inverse * inverse * curvature, mixed), (mixed, r * (curvature * r + hazard))),
    )
    last, (by_nu, _) = tails.by_last(lambda q: tails.t_survival(r, np.exp(q[2])), p)
    return tails.with_last(inner, last, (inverse * by_nu, r * by_nu))


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(3,): median, log of the sd by the median distance from it, log ν of ν = 10."""
    left = y - offset
    middle = float(np.median(left))
    spread = 1.4826 * float(np.median(np.abs(left - middle))) or float(np.std(left)) or 1.0
    return np.array([middle, np.log(spread), np.log(10.0)])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Numbers."""
    noise = rng.standard_t(np.exp(p[2]), np.shape(p[0]))
    return p[0] + np.exp(p[1]) * noise


FAMILY = Family(
    "student_t",
    "linear regression with Student-t noise",
    domains.NUMBERS,
    "identity",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (
        Auxiliary("sigma", LogGamma(1.0, 1.0 / sd)),
        Auxiliary("nu", LogGamma(2.0, 0.1)),
    ),
    alone=alone,
    alone_derivatives=alone_derivatives,
    log_survival=log_survival,
    log_survival_derivatives=log_survival_derivatives,
    one_mode=False,
    outliers=True,
    constant=lambda y, trials: -0.5 * np.log(np.pi),
    precise=("sigma", -0.5),
)
