"""The posterior mode under a Laplace prior, where the density has corners and gradient methods stall.

Σ log L_n is replaced by the collapsed bounds that touch it at the current θ, and that quadratic plus the
absolute values is maximised exactly; the posterior never falls (minorisation-maximisation). For Student-t
noise these are the steps of EM (Lange, Little & Taylor 1989), and a few dozen reach rounding.
"""

from collections.abc import Callable

import numpy as np

from flyrun.experiments.models.fits.map_fit import MapFit
from flyrun.experiments.models.likelihood import Quadratic

MAX_STEPS = 5000
TOLERANCE = 1e-7
"""Longest last step in the bounds' standard deviations: a MAP some sds off multiplies the bright data."""


def find_lasso_map(touching: Callable[[np.ndarray], Quadratic], n_data: int, scale: float, first) -> MapFit:
    """Mode of Π L_n × Laplace(scale) from `first`, (P,).

    touching(θ): the collapsed bounds tight at θ, at the cost of n_data likelihood queries.
    """
    theta, rate = np.array(first, dtype=np.float64), 1.0 / scale
    for step in range(1, MAX_STEPS + 1):  # noqa: B007
        quadratic = touching(theta)
        # a trace of damping makes a flat direction (softmax: a shift of all classes) definite
        damping = 1e-10 * np.trace(quadratic.precision) / len(theta)
        precision = quadratic.precision + damping * np.eye(len(theta))
        after = lasso(precision, quadratic.linear + damping * theta, rate, theta)
        move = after - theta
        theta = after
        if move @ quadratic.precision @ move <= TOLERANCE**2:
            break
    value = theta @ (quadratic.linear - 0.5 * quadratic.precision @ theta) + quadratic.constant[0]
    prior = -rate * np.abs(theta).sum() - len(theta) * np.log(2.0 * scale)
    return MapFit(theta, float(value + prior), step * n_data)


def lasso(
    precision: np.ndarray, linear: np.ndarray, rate: float | np.ndarray, first: np.ndarray
) -> np.ndarray:
    """The θ that maximises hᵀθ − ½θᵀPθ − Σ rate_d·|θ_d|: feature-sign search (Lee, Battle, Raina & Ng 2007).

    precision: P, (P, P), positive definite; linear: h, (P,). Solves on the coordinates that are not 0 with
    their signs given, stops on the way where a sign would change, and frees the most pressing coordinate once
    the others have settled. Finite, and exact up to rounding.
    """
    theta, rates = first.copy(), np.broadcast_to(rate, first.shape)
    signs = np.sign(theta)
    slack = 1e-10 * (rates.max() + np.abs(linear).max())
    for _ in range(100 * len(theta)):
        pull = linear - precision @ theta
        active = np.flatnonzero(signs)
        if np.all(np.abs(pull[active] - rates[active] * signs[active]) <= slack):
            pressing = np.where(signs == 0.0, np.abs(pull) - rates, -np.inf)
            worst = int(pressing.argmax())
            if pressing[worst] <= slack:
                break
            signs[worst] = np.sign(pull[worst])
            active = np.flatnonzero(signs)
        inner, force = precision[np.ix_(active, active)], linear[active]
        before, goal = theta[active], np.linalg.solve(inner, force - rates[active] * signs[active])
        crossing = np.flatnonzero(before * goal < 0.0)
        shares = before[crossing] / (before[crossing] - goal[crossing])
        stops = [goal]
        for i, share in zip(crossing, shares, strict=True):
            stop = before + share * (goal - before)
            stop[i] = 0.0
            stops.append(stop)
        values = [stop @ (force - 0.5 * inner @ stop) - rates[active] @ np.abs(stop) for stop in stops]
        theta[active] = stops[int(np.argmax(values))]
        signs = np.sign(theta)
    return theta
