"""Where a posterior may have mass that no draw about its mode sees: along each number, far from the mode.

Along a number in turn the others follow at their conditional mode, as of a profile likelihood; Laplace's
approximation at each stop tells the mass there (Rue, Martino & Chopin 2009). One in a thousand of all mass,
ten sds away, is a tenth of a variance, and neither k̂ nor effective draws tell that it has no draw.
"""

from collections.abc import Callable

import numpy as np

from flyrun.fitting import mode
from flyrun.fitting.proposal import Mixture
from flyrun.fitting.rows_posterior import Posterior

_STOPS = (1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 11.0, 15.0)  # sds from the mode
_DEEPEST = 10.0  # nats of mass below the mode's, where a walk ends
_WORTH = 0.01  # of a variance, from which a stop is to have draws
_STEPS, _NEAR, _LONGEST = 6, 0.05, 3.0  # of the others at a stop; gain at which these end; sds of one
_MOST = 20  # numbers up to which a walk is made along each
_FREEDOM, _WIDE_FREEDOM = 5.0, 3.0
_APART = 3.0  # stops from here on are farther apart, by as many times


def along(
    posterior: Posterior, at: np.ndarray, shape: np.ndarray, spent: Callable[[], bool] = lambda: False
) -> tuple[Mixture, ...]:
    """Mixtures about the stops along every number, of many along auxiliary ones; at (P,): the mode, shape
    (P, P): there. spent: whether the time is up, when walks end.
    """
    first = 0 if len(at) <= _MOST else posterior.n_coefficients
    top = posterior.log_density(at[None])[0] + 0.5 * np.linalg.slogdet(shape)[1]
    sides = ((number, side) for number in range(first, len(at)) for side in (-1.0, 1.0))
    walks = (_walk(posterior, at, shape, number, side, top, spent) for number, side in sides)
    return tuple(part for parts in walks for part in parts)


def _walk(
    posterior: Posterior,
    at: np.ndarray,
    shape: np.ndarray,
    number: int,
    side: float,
    top: float,
    spent: Callable[[], bool],
) -> list[Mixture]:
    """Along one number to one side, until too little mass is there."""
    others, sd = np.arange(len(at)) != number, np.sqrt(shape[number, number])
    x, before, parts = at.copy(), 0.0, list[Mixture]()
    follows, within = shape[:, number] / shape[number, number], shape
    for stop in _STOPS:
        if spent():
            break
        x = x + side * (stop - before) * sd * follows
        before = stop
        for _ in range(_STEPS):
            likelihood, prior = posterior.likelihood_at(x), posterior.prior_at(x)
            curvature = likelihood.curvature + prior.curvature
            if not (np.isfinite(likelihood.value + prior.value) and np.isfinite(curvature).all()):
                return parts
            slope = (likelihood.slope + prior.slope)[others]
            within = mode.covariance(curvature[np.ix_(others, others)])
            step = within @ slope
            if not (gain := float(slope @ step)) > _NEAR:
                break
            x = x.copy()
            x[others] += min(1.0, _LONGEST / np.sqrt(gain)) * step
        follows = np.ones(len(at))
        follows[others] = -within @ curvature[others, number]
        apart = sd * max(1.0, stop / _APART)
        value = posterior.log_density(x[None])[0]
        mass = value + 0.5 * np.linalg.slogdet(within)[1] + np.log(apart / np.sqrt(2.0 * np.pi)) - top
        if not mass > -_DEEPEST:
            break
        if mass + 2.0 * np.log(stop) < np.log(_WORTH):
            continue
        spread = apart**2 * np.outer(follows, follows)
        spread[np.ix_(others, others)] += within
        parts.append(Mixture.of(x, spread, _FREEDOM, _WIDE_FREEDOM))
    return parts
