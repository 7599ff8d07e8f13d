"""Two normals that share a parameter, ½N(η1, σ²) + ½N(η1 + η2, σ²): (η1 + η2, −η2) explains data as well.

Welling & Teh (2011), §5.1; Dai, He, Dai & Song (2016), §5. Every method's answer is held against the
posterior summed over a grid (`truth`): the density at its points, smoothed a little, is E K_h(x − θ).
"""

from functools import lru_cache
from math import log, pi
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from flyrun.experiments.models.likelihood import log_likelihood
from flyrun.experiments.models.likelihood import part as part
from flyrun.experiments.models.multi_linear import MultiLinear
from flyrun.experiments.models.passes import sums_over
from flyrun.experiments.models.problem import Problem, log_priors
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.vector_math import exp_negative, log1p_unit

LOG_CONCAVE = False


class Mixture(NamedTuple):
    """½N(η1, scale²) + ½N(η1 + η2, scale²) at each datum."""

    target: np.ndarray  # (N,)
    scale: float
    n_predictors: int = 2


def bind(features: np.ndarray, target: np.ndarray, scale: float) -> tuple[Mixture, MultiLinear]:
    """Model and features of a dataset. features: (N, D); target: (N,)."""
    return Mixture(np.asarray(target, float), scale), MultiLinear(np.ascontiguousarray(features))


def rebind(model: Mixture, features: np.ndarray, target: np.ndarray) -> tuple[Mixture, MultiLinear]:
    """The same likelihood for other rows, (n, D)."""
    return bind(features, target, model.scale)


@implements(log_likelihood, Mixture)
def _log_likelihood(model, index, eta, values, slopes):
    precision = 1.0 / (model.scale * model.scale)
    constant = -log(2.0 * model.scale) - 0.5 * log(2.0 * pi)
    for i in range(index.shape[0]):
        first = model.target[index[i]] - eta[i, 0]
        second = first - eta[i, 1]
        a, b = -0.5 * precision * first * first, -0.5 * precision * second * second
        small = exp_negative(-abs(a - b))
        values[i] = max(a, b) + log1p_unit(small) + constant
        if slopes is not None:
            share = (small if a > b else 1.0) / (1.0 + small)  # of the second normal
            slopes[i, 1] = precision * share * second
            slopes[i, 0] = precision * (1.0 - share) * first + slopes[i, 1]


def curvature(model: Mixture, predictors: np.ndarray) -> np.ndarray:
    """−∂² log L_n/∂η², (N, 2, 2), at predictors (N, 2); not definite everywhere."""
    precision = model.scale**-2
    first = model.target - predictors[:, 0]
    second = first - predictors[:, 1]
    share = 1.0 / (1.0 + np.exp(np.clip(0.5 * precision * (second**2 - first**2), -700, 700)))
    # E of the curvature of each normal, less the variance of their slopes
    spread = share * (1 - share) * precision**2
    apart = np.stack([second - first, second], axis=1)
    mean = np.array([[1.0, 1.0], [1.0, 1.0]]) * share[:, None, None] * precision
    mean[:, 0, 0] = precision
    return mean - spread[:, None, None] * apart[:, :, None] * apart[:, None, :]


def responsibility(model: Mixture, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """r_n, (n,), of the best q(z_n = second normal) where η_n has mean (n, 2) and variance (n, 2, 2)."""
    return expit(0.5 * model.scale**-2 * _gain(model, mean, variance))


def _gain(model: Mixture, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E(x − η1)² − E(x − η1 − η2)², (n,)."""
    whole = variance[:, 0, 0] + variance[:, 0, 1] + variance[:, 1, 0] + variance[:, 1, 1]
    first = (model.target - mean[:, 0]) ** 2 + variance[:, 0, 0]
    return first - (model.target - (mean[:, 0] + mean[:, 1])) ** 2 - whole


def augmented(
    model: Mixture, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """T, (n, 2, 2), and ν, (n, 2), of exp E_q(z) log p(x, z | η), q(z_n) best for η_n as given.

    And the bound there, E log p(x, z | η) and the entropy of q(z), (n,).
    """
    precision, share = model.scale**-2, responsibility(model, mean, variance)
    ones = np.ones_like(share)
    precisions = precision * np.array([[ones, share], [share, share]]).transpose(2, 0, 1)
    linear = precision * np.stack([model.target, share * model.target], axis=1)
    constant = -log(2.0 * model.scale) - 0.5 * log(2.0 * pi)
    first = -0.5 * precision * ((model.target - mean[:, 0]) ** 2 + variance[:, 0, 0])
    value = constant + first + np.logaddexp(0.0, 0.5 * precision * _gain(model, mean, variance))
    return precisions, linear, value


def _normal(away: np.ndarray, sd: float) -> np.ndarray:
    """Density of N(0, sd²); far away never smaller than sums and products of it can tell."""
    return np.exp(np.maximum(-0.5 * (away / sd) ** 2, -100.0)) / (sd * np.sqrt(2 * pi))


class Truth(NamedTuple):
    """The posterior on a square grid, where it is not negligible."""

    side: np.ndarray  # (151,): of the grid
    place: np.ndarray  # (2, M): of its points, on both sides
    density: np.ndarray  # (M,)
    prior: np.ndarray  # (M,): density of the prior there
    cell: float  # area that each point stands for
    bandwidths: np.ndarray  # (3, 2): of the kernels that draws are smoothed by
    mass: float  # of θ2 < 0
    entropy: float

    @property
    def points(self) -> np.ndarray:
        """(M, 2)."""
        return self.side[self.place].T

    def smoothed(self, theta: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """K_h(x − θ) by each bandwidth at the points x, (k, 3, M), of positions (k, 2); their means, (3, M).

        A kernel is a product of one along each side, and a mean over positions one of matrices.
        """
        first, second = self.place
        kernels = []
        for bandwidth in self.bandwidths:
            a, b = (_normal(self.side - theta[:, d, None], h) for d, h in enumerate(bandwidth))
            mean = None if weight is None else (a * weight[:, None]).T @ b
            kernels.append(a[:, first] * b[:, second] if mean is None else mean[first, second])
        return np.stack(kernels, axis=-2)


WIDTH, POINTS, NEGLIGIBLE = 3.6, 151, 1e-5
DRAWS = np.array([[1_500.0], [90.0], [6.0]])
"""Numbers of draws, of which half of Silverman's bandwidth in one mode smooths every method's."""


def truth(problem: Problem) -> Truth:
    """Of a problem of this model whose data see θ itself, D = 1 (N·151² queries, charged to nobody)."""
    return _truth(problem.model.target.tobytes(), problem.model.scale, problem.prior)


@lru_cache(maxsize=2)
def _truth(data: bytes, scale: float, prior: Any) -> Truth:
    target = np.frombuffer(data)
    model, features = bind(np.ones((len(target), 1)), target, scale)
    side = np.linspace(-WIDTH, WIDTH, POINTS)
    points = np.stack([coordinate.ravel() for coordinate in np.meshgrid(side, side, indexing="ij")], axis=1)
    log_prior = log_priors(prior, points)
    log_density = log_prior + sums_over(model, features, np.arange(len(target)), points)
    cell = (side[1] - side[0]) ** 2
    density = np.exp(log_density - log_density.max())
    density /= density.sum() * cell
    below = points[:, 1] < 0
    weight = np.where(below, density, 0.0)
    centre = weight @ points / weight.sum()
    sd = np.sqrt(weight @ (points - centre) ** 2 / weight.sum())  # of one mode; the other is alike
    kept = np.flatnonzero(density > NEGLIGIBLE * density.max())
    entropy = -float((density[kept] * np.log(density[kept])).sum() * cell)
    place, bandwidths = np.array(np.divmod(kept, POINTS)), 0.5 * DRAWS ** (-1 / 6) * sd
    mass = float(weight.sum() * cell)
    return Truth(side, place, density[kept], np.exp(log_prior[kept]), cell, bandwidths, mass, entropy)


def functionals(problem: Problem, theta: np.ndarray, weight: np.ndarray | None) -> dict[str, np.ndarray]:
    """Of positions (k, 2): `density`, the kernels' at the grid's points, (k, 3, M); `mode`, θ2 < 0, (k,).

    Under weights (k,) their expectations.
    """
    mode = (theta[:, 1] < 0).astype(float)
    density = truth(problem).smoothed(theta, weight)
    return {"density": density, "mode": mode if weight is None else weight @ mode}
