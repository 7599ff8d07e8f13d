"""The posterior mode by Newton's method, in a few passes over the data, for models of one predictor.

Where there are many data the first position is the mode of a random subsample of them, some posterior sds
from the mode of all: two or three passes over all rows then reach rounding. Far from the mode, where the
likelihood may not be concave (Student-t) and Newton's step may lead anywhere, a step of
minorisation-maximisation takes its place: the collapsed bounds that touch here are maximised, which never
lowers the posterior (for Student-t noise iteratively reweighted least squares, Lange, Little & Taylor 1989).
Under a Laplace prior both steps maximise a quadratic with absolute values exactly (lasso_fit.py): proximal
Newton, Lee, Sun & Saunders 2014. Where a likelihood has no bounds, or auxiliary numbers, the other step is
Newton's by the sizes of the curvature's eigenvalues, which leads up, halved until it is up; the prior of the
auxiliary numbers counts as the likelihood does.
"""

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from flyrun.experiments.models import passes
from flyrun.experiments.models.base_density import Penalty
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.features import Features, Model, n_params
from flyrun.experiments.models.fits.lasso_fit import lasso
from flyrun.experiments.models.fits.map_fit import MapFit

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
    n_data, fresh, last = len(features.rows), first.size == 0, TOLERANCE
    if fresh and n_data > 4 * SUBSAMPLE:
        few = climb.on_some(SUBSAMPLE, np.random.Generator(np.random.PCG64(0)))
        first, _ = few.to_mode(few.start(), few.reweightings, NEAR)
        climb.queries, fresh, last = few.queries, False, NEAR
    theta, value = climb.to_mode(climb.start() if fresh else first, climb.reweightings if fresh else 0, last)
    return MapFit(theta, value + normaliser, climb.queries)


class Climb:
    """The way up to the mode of these rows, and the likelihood queries that it took."""

    def __init__(self, module: Any, model: Model, features: Features, penalty: Penalty):
        self.module, self.model, self.features, self.penalty = module, model, features, penalty
        self.queries = 0
        self.bounded = hasattr(module, "map_bound")
        self.reweightings = 0 if module.LOG_CONCAVE or not self.bounded else REWEIGHTINGS

    def on_some(self, count: int, stream: np.random.Generator) -> "Climb":
        """The way up on so many random rows, the prior weakened as much as the likelihood is."""
        rows, penalty = self.features.rows, self.penalty
        which = np.sort(stream.choice(len(rows), count, replace=False))
        share = count / len(rows)
        weaker = penalty.weakened(share)
        some = type(self.features)(rows[which])
        return Climb(self.module, self.module.part(self.model, which), some, weaker)

    def start(self) -> np.ndarray:
        """Where a search begins that knows nothing better, (P,): as the model says, or 0."""
        if hasattr(self.module, "start"):
            return self.module.start(self.model, self.features)
        return np.zeros(n_params(self.features, self.model.n_predictors))

    def to_mode(
        self, theta: np.ndarray, reweightings: int, last: float = TOLERANCE
    ) -> tuple[np.ndarray, float]:
        """The mode, (P,), and the log posterior there, over its penalty at 0. last: longest last step."""
        for _ in range(reweightings):
            theta = self._by_bounds(theta)
        here = self.look(theta)
        height = here.value - self.penalty.of(theta)
        for _ in range(MAX_STEPS):
            after = self.best(here.curvature, here.gradient, theta)
            if after is not None:
                move = after - theta
                bent = here.curvature @ move + self.penalty.ridges(theta) * move
                if move @ bent <= last**2:
                    gain = here.gradient @ move - 0.5 * move @ here.curvature @ move
                    return after, here.value + gain - self.penalty.of(after)
                there = self.look(after)
            if after is None or not there.value - self.penalty.of(after) >= height - _SLACK * abs(height):
                after, there = self._otherwise(theta, here, height)
                if there is here:
                    break
            theta, here, height = after, there, there.value - self.penalty.of(after)
        return theta, height

    def look(self, theta: np.ndarray) -> passes.Look:
        """Log likelihood, slope, (P,), and curvature, (P, P), at θ."""
        self.queries += len(self.features.rows)
        return passes.look(self.module, self.model, self.features, theta)

    def _otherwise(
        self, theta: np.ndarray, here: passes.Look, height: float
    ) -> tuple[np.ndarray, passes.Look]:
        """A step (P,) that leads up where Newton's fails; the look there, `here` where rounding ends it."""
        if self.bounded:
            by_bounds = self._by_bounds(theta)
            return by_bounds, self.look(by_bounds)
        ridges = np.diag(self.penalty.ridges(theta))
        values, vectors = np.linalg.eigh(here.curvature + ridges)
        sizes = np.maximum(np.abs(values), 1e-8 * np.abs(values).max())
        after = self.best((vectors * sizes) @ vectors.T - ridges, here.gradient, theta)
        move = np.zeros(len(theta)) if after is None else after - theta
        rise = (vectors.T @ move) ** 2 @ sizes
        while rise > _SLACK * abs(height):
            there = self.look(theta + move)
            if there.value - self.penalty.of(theta + move) > height:
                return theta + move, there
            move, rise = move / 2.0, rise / 2.0
        return theta, here

    def _by_bounds(self, theta: np.ndarray) -> np.ndarray:
        self.queries += len(self.features.rows)
        bound = passes.touching_bound(self.module, self.model, self.features, theta)
        quadratic = collapse(bound, self.model, self.features, theta)
        after = self.best(quadratic.precision, quadratic.linear, theta)
        return theta if after is None else after

    def best(self, precision: np.ndarray, gradient: np.ndarray, theta: np.ndarray) -> np.ndarray | None:
        """Where −½δᵀPδ + gᵀδ less the penalty is highest, (D,), δ from θ; None where P is not definite."""
        # a trace of damping makes a direction that the data say nothing of definite
        damping = 1e-10 * abs(np.trace(precision)) / len(theta) if self.penalty.ridge == 0.0 else 0.0
        precision = precision + np.diag(self.penalty.ridges(theta) + damping)
        try:
            factor = cho_factor(precision)
        except LinAlgError:
            return None
        pulled = gradient + self.penalty.smooth_score(theta)
        if self.penalty.rate == 0.0:
            return theta + cho_solve(factor, pulled)
        return lasso(precision, pulled + precision @ theta, self.penalty.rates(len(theta)), theta)
