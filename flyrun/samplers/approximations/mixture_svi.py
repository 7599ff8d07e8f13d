"""Stochastic variational inference of the mixture of two normals (Hoffman, Blei, Wang & Paisley 2013).

q(z_n = 2) = r_n ∝ exp E log N(x_n; θ1 + θ2, σ²): S = σ⁻² Σ [[1, r], [r, r]], l = σ⁻² Σ (x, r x). With all
rows a step and steps of 1 (decay 0) it is coordinate ascent, as sampler=cavi.
"""

import numpy as np

from flyrun.models import mixture
from flyrun.samplers.approximations.stochastic import StochasticVariational, Sums


class MixtureSvi(StochasticVariational):
    """One Gaussian for both means."""

    label = "SVI"

    def of_batch(self, precision: np.ndarray, linear: np.ndarray, index: np.ndarray) -> Sums:
        model = mixture.part(self.problem.model, index)
        x, tau, covariance = model.target, model.scale**-2, np.linalg.inv(precision)
        share = mixture.responsibility(model, (covariance @ linear)[None], covariance[None])
        counts = np.array([[len(x), share.sum()], [share.sum(), share.sum()]])
        return Sums(tau * counts, tau * np.array([x.sum(), share @ x]), len(x))


build = MixtureSvi
