"""The posterior mode by Newton's method, in a few passes over the data, for models of one predictor.

Where there are many data the first position is the mode of a random subsample of them, some posterior sds
from the mode of all: two or three passes over all rows then reach rounding. Far from the mode, where the
likelihood may not be concave (Student-t) and Newton's step may lead anywhere, a step of
minorisation-maximisation takes its place: the collapsed bounds that touch here are maximised, which never
lowers the posterior (for Student-t noise iteratively reweighted least squares, Lange, Little & Taylor 1989).
Under a Laplace prior both steps maximise a quadratic with absolute values exactly (lasso_fit.py): proximal
Newton, Lee, Sun & Saunders 2014.
"""

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from flyrun.models import passes
from flyrun.models.base_density import Penalty
from flyrun.models.collapse import collapse
from flyrun.models.features import Features, Model
from flyrun.models.fits.lasso_fit import lasso
from flyrun.models.fits.map_fit import MapFit

SUBSAMPLE = 65_536
REWEIGHTINGS = 5  # steps by bounds from 0, for a likelihood that is not log-concave
MAX_STEPS = 500
TOLERANCE = 1e-6
"""Longest last step in posterior standard deviations. Newton's: what is left after it is of its square."""
NEAR = 1e-3  # the same among so many data that a pass is saved: some thousandths of the square are left
_SLACK = 1e-11  # relative rounding of a sum of log likelihoods


def find_newton_map(
    module: Any, model: Model, features: Features, penalty: Penalty, normaliser: float, first: np.ndarray
) -> MapFit:
    """Mode of Π L_n × prior from `first`, (P,), or from the mode of a subsample where that is empty.

    module: the model's file.  penalty, normaliser: the log prior and its value at 0.
    """
    climb = Climb(module, model, features, penalty)
    n_data, size = features.rows.shape
    fresh, last = first.size == 0, TOLERANCE
    if fresh and n_data > 4 * SUBSAMPLE:
        few = climb.on_some(SUBSAMPLE, np.random.Generator(np.random.PCG64(0)))
        first, _ = few.to_mode(np.zeros(size), few.reweightings, NEAR)
        climb.queries, fresh, last = few.queries, False, NEAR
    theta, value = climb.to_mode(np.zeros(size) if fresh else first, climb.reweightings if fresh else 0, last)
    return MapFit(theta, value + normaliser, climb.queries)


class Climb:
    """The way up to the mode of these rows, and the likelihood queries that it took."""

    def __init__(self, module: Any, model: Model, features: Features, penalty: Penalty):
        self.module, self.model, self.features, self.penalty = module, model, features, penalty
        self.queries = 0
        self.reweightings = 0 if module.LOG_CONCAVE else REWEIGHTINGS

    def on_some(self, count: int, stream: np.random.Generator) -> "Climb":
        """The way up on so many random rows, the prior weakened as much as the likelihood is."""
        rows, penalty = self.features.rows, self.penalty
        which = np.sort(stream.choice(len(rows), count, replace=False))
        share = count / len(rows)
        weaker = Penalty(share * penalty.ridge, share * penalty.rate)
        some = type(self.features)(rows[which])
        return Climb(self.module, self.module.part(self.model, which), some, weaker)

    def to_mode(
        self, theta: np.ndarray, reweightings: int, last: float = TOLERANCE
    ) -> tuple[np.ndarray, float]:
        """The mode and the log posterior there, over its penalty at 0. last: longest last step."""
        for _ in range(reweightings):
            theta = self._by_bounds(theta)
        here = self.look(theta)
        height = here.value - self._lost(theta)
        for _ in range(MAX_STEPS):
            after = self.best(here.curvature, here.gradient, theta)
            if after is not None:
                move = after - theta
                bent = here.curvature @ move + self.penalty.ridge * move
                if move @ bent <= last**2:
                    gain = here.gradient @ move - 0.5 * move @ here.curvature @ move
                    return after, here.value + gain - self._lost(after)
                there = self.look(after)
            if after is None or not there.value - self._lost(after) >= height - _SLACK * abs(height):
                after = self._by_bounds(theta)
                there = self.look(after)
            theta, here, height = after, there, there.value - self._lost(after)
        return theta, height

    def look(self, theta: np.ndarray) -> passes.Look:
        """Log likelihood, slope and curvature at θ."""
        self.queries += len(self.features.rows)
        return passes.look(self.module, self.model, self.features, theta)

    def _by_bounds(self, theta: np.ndarray) -> np.ndarray:
        self.queries += len(self.features.rows)
        bound = passes.touching_bound(self.module, self.model, self.features, theta)
        quadratic = collapse(bound, self.model, self.features, theta)
        after = self.best(quadratic.precision, quadratic.linear, theta)
        return theta if after is None else after

    def best(self, precision: np.ndarray, gradient: np.ndarray, theta: np.ndarray) -> np.ndarray | None:
        """Where −½δᵀPδ + gᵀδ less the penalty is highest, δ from θ; None where P is not positive definite."""
        # a trace of damping makes a direction that the data say nothing of definite
        damping = 1e-10 * abs(np.trace(precision)) / len(theta) if self.penalty.ridge == 0.0 else 0.0
        precision = precision + (self.penalty.ridge + damping) * np.eye(len(theta))
        try:
            factor = cho_factor(precision)
        except LinAlgError:
            return None
        if self.penalty.rate == 0.0:
            return theta + cho_solve(factor, gradient - self.penalty.ridge * theta)
        return lasso(precision, gradient + precision @ theta, self.penalty.rate, theta)

    def _lost(self, theta: np.ndarray) -> float:
        return float(0.5 * self.penalty.ridge * theta @ theta + self.penalty.rate * np.abs(theta).sum())
