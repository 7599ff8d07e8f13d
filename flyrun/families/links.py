"""Links of successes that stand in for the logit: from a linear predictor η to the chance F(η) of each.

log L = y·log F(η) + (k − y)·log(1 − F(η)), k trials.
cloglog: F = 1 − exp(−e^η), so that e^β is a ratio of hazards where trials are stretches of time.
cauchit: F = 1/2 + arctan(η)/π, by which a row far on the wrong side counts little.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from flyrun.families import binomial
from flyrun.families import family as families
from flyrun.families.family import Derivatives, Family, names
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.special import Numbers, choose, log_normal_cdf, mills
from flyrun.ground.schema import listing

_SMALL = 1e-3  # e^η, below which a difference from its first order has no digits
_MOST = 700.0  # η beyond, whose exponential overflows, is as good as this

#: a function of η, its slope and minus its second derivative
Bent = Callable[[Numbers], tuple[Numbers, Numbers, Numbers]]


class Chance(NamedTuple):
    """hit, miss: log F and log(1 − F); inverse: η of a chance; concave: whether both are; even: whether
    1 − F(η) = F(−η)."""

    hit: Bent
    miss: Bent
    inverse: Callable[[float], float]
    concave: bool
    even: bool


def _turned(of: Bent) -> Bent:
    """The same at −η."""

    def turned(eta: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        value, slope, curvature = of(-eta)
        return value, -slope, curvature

    return turned


def _probit(eta: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    hazard = mills(eta)
    return log_normal_cdf(eta), hazard, hazard * (hazard + eta)


def _cloglog(eta: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    u = np.exp(np.minimum(eta, _MOST))
    least = np.maximum(u, 1e-300)
    with np.errstate(over="ignore"):
        slope = least / np.expm1(least)
    bend = choose(u < _SMALL, u * (0.5 + u / 12.0), u + slope - 1.0)
    some = choose(u < 1.0, np.log(-np.expm1(-least)), np.log1p(-np.exp(-np.maximum(u, 1.0))))
    return choose(u < _SMALL, eta - 0.5 * u + u * u / 24.0, some), slope, slope * bend


def _none_of_cloglog(eta: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    u = np.exp(np.minimum(eta, _MOST))
    return -u, -u, u


def _cauchit(eta: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    angle = np.arctan2(1.0, -eta)  # π·F
    slope = 1.0 / ((1.0 + np.minimum(np.abs(eta), 1e150) ** 2) * angle)
    return np.log(angle / np.pi), slope, slope * slope * (1.0 + 2.0 * eta * angle)


#: by name
CHANCES = {
    "probit": Chance(_probit, _turned(_probit), lambda chance: float(ndtri(chance)), True, True),
    "cloglog": Chance(
        _cloglog, _none_of_cloglog, lambda chance: float(np.log(-np.log1p(-chance))), True, False
    ),
    "cauchit": Chance(
        _cauchit, _turned(_cauchit), lambda chance: float(np.tan(np.pi * (chance - 0.5))), False, True
    ),
}


def offered(family: Family) -> list[str]:
    """The links that a family may have, its own first."""
    return [family.link, *(CHANCES if family.link == "logit" and family.cumulant else ())]


def linked(family: Family, link: str) -> Family:
    """The family with this link, called as R calls it: binomial(cloglog). ConfigError where it has none."""
    if link == family.link:
        return family
    if link not in (known := offered(family)):
        more = listing((name for name in names() if len(offered(families.family(name))) > 1), "or")
        mend = f"leave it out, or choose --model {more}"
        mend = f"choose {listing(known, 'or')}" if len(known) > 1 else mend
        raise ConfigError(f"--link {link}: is no link of {family.name}; {mend}")
    hit, miss, inverse, concave, even = CHANCES[link]

    def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
        return _times(y, hit(p[0])[0]) + _times(trials - y, miss(p[0])[0])

    def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
        _, rise, bend = hit(p[0])
        _, fall, curve = miss(p[0])
        return (y * rise + (trials - y) * fall,), ((y * bend + (trials - y) * curve,),)

    def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
        share = (weights @ y + 0.5) / (weights @ trials + 1.0)
        return np.array([inverse(share) - np.average(offset, weights=weights)])

    def chance(trials: Numbers, p: Sequence[Numbers]) -> Numbers:
        return np.exp(hit(p[0])[0])

    return replace(
        family,
        name=f"{family.name}({link})",
        words=f"{link} regression",
        link=link,  # type: ignore[arg-type]
        log_density=log_density,
        derivatives=derivatives,
        second_order=None,
        start=start,
        draw=lambda rng, trials, p: binomial.successes(rng, trials, chance(trials, p)),
        mean=lambda trials, p: trials * chance(trials, p),
        one_mode=concave,
        grouped=concave,
        mirrored=even,
        cumulant="",
    )


def _times(count: Numbers, log: Numbers) -> Numbers:
    """count·log, 0 where count is, however far out the log."""
    return choose(count == 0.0, 0.0, count * np.maximum(log, -1e300))
