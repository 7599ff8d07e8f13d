"""The kinds of priors that people write, by their words."""

from collections.abc import Callable, Mapping
from dataclasses import fields

import numpy as np

from flyrun.families.bounded_priors import Bounded
from flyrun.families.cutpoint_priors import Dirichlet
from flyrun.families.prior_densities import (
    Constant,
    Flat,
    HalfNormal,
    HalfT,
    InverseGamma,
    Laplace,
    Lkj,
    LogGamma,
    LogitBeta,
    LogNormal,
    Normal,
    Prior,
    StudentT,
)


def _half_t(dof: float, *scale: float) -> HalfT:
    """half_t(3, 2.5), or half_t(3, 0, 2.5) as other tools write it."""
    if len(scale) == 2 and scale[0] != 0.0:
        raise ValueError
    return HalfT(dof, scale[-1])


#: by the word that people write: what a prior is made of
KINDS: dict[str, Callable[..., Prior]] = {
    "normal": Normal,
    "student_t": StudentT,
    "cauchy": lambda mean, scale: StudentT(1.0, mean, scale),
    "laplace": Laplace,
    "flat": Flat,
    "constant": Constant,
    "half_normal": HalfNormal,
    "half_t": _half_t,
    "half_cauchy": lambda scale: HalfT(1.0, scale),
    "exponential": lambda rate: LogGamma(1.0, rate),
    "gamma": LogGamma,
    "inverse_gamma": InverseGamma,
    "lognormal": LogNormal,
    "beta": LogitBeta,
    "lkj": Lkj,
    "dirichlet": lambda *alpha: Dirichlet(alpha),
}
#: those that take bounds, those of a number without bounds, and of one above 0
BOUNDED = ("normal", "student_t", "cauchy", "laplace")
UNBOUNDED = (*BOUNDED, "flat")
ABOVE_0 = ("half_normal", "half_t", "half_cauchy", "exponential", "gamma", "inverse_gamma", "lognormal")

#: fields that may be below 0
_ANY = ("mean", "value")


def made_of(word: str, numbers: list[float], bounds: Mapping[str, float] | None = None) -> Prior:
    """A prior by its word. bounds: lower, upper or both, if any.

    KeyError for one that there is not, TypeError or ValueError for wrong numbers.
    """
    prior = KINDS[word](*numbers)
    for field in fields(prior):
        values = np.array(getattr(prior, field.name))
        if not (values.size and np.isfinite(values).all() and ((values > 0.0).all() or field.name in _ANY)):
            raise ValueError
    return Bounded(prior, **bounds) if bounds else prior
