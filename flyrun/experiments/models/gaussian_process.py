"""Gaussian processes with an RBF kernel: exact, and through inducing inputs (DTC).

Quiñonero-Candela & Rasmussen 2005, §2 and §5; inducing values as Hensman, Fusi & Lawrence 2013. Targets are
centred and scaled by their mean and sd, so that the process has mean 0 and variance 1; its noise is a share
of the target's variance. Inducing values u = Lv with L Lᵀ = K_mm are held as v ~ N(0, I): no digits are lost
to a K_mm that is nearly singular.
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from flyrun.experiments.config.model import GaussianProcess
from flyrun.ground.errors import DataError
from flyrun.tables.dataset import Dataset

#: added to the diagonal of K_mm, whose rows may be nearly equal
JITTER = 1e-8
_PAIRS_OF = 1_000  # rows whose distances the kernel's length is a multiple of the median of
_BLOCK = 1_000  # rows predicted together


class Process(NamedTuple):
    """Data and the fixed kernel."""

    features: np.ndarray  # (N, D) float64, centred
    target: np.ndarray  # (N,): (y − centre)/spread
    test_features: np.ndarray  # (T, D)
    test_target: np.ndarray  # (T,), scaled as the target
    length: float  # k(x, x') = exp(−|x − x'|²/2 length²)
    noise: float  # β⁻¹
    centre: float
    spread: float


def bind(config: GaussianProcess, data: Dataset) -> Process:
    """The process of a configuration on these data. DataError for what has no numbers to predict."""
    what = f"dataset={data.name}"
    if data.task != "regression":
        raise DataError(f"{what}: model={config.name} is for numbers, not for classes; choose other data")
    if not len(data.test_target):
        raise DataError(
            f"{what}: model={config.name} predicts test rows and there are none; take dataset.split=held_out "
            "where there is one, or dataset=noisy_curve"
        )
    middle, centre, spread = data.features.mean(axis=0), float(data.target.mean()), float(data.target.std())
    features = np.asarray(data.features, float) - middle
    median = float(np.median(pdist(features[:_PAIRS_OF]))) if len(features) > 1 else 0.0
    for name, size in (("target", spread), ("features", median)):
        if not size > 0:
            raise DataError(f"{what}: the {name} of its rows are all the same; add rows that differ")
    return Process(
        features,
        (data.target - centre) / spread,
        data.test_features[: config.test_rows] - middle,
        (data.test_target[: config.test_rows] - centre) / spread,
        config.length * median,
        config.noise,
        centre,
        spread,
    )


def kernel(process: Process, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """k(a_i, b_j), (n, k), of a (n, D) and b (k, D)."""
    square = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * (a @ b.T)
    return np.exp(np.maximum(square, 0.0) / (-2.0 * process.length**2))


def exact(process: Process, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the function at the test rows, (T,) each, given the targets of `rows` alone."""
    x = process.features[rows]
    root = np.linalg.cholesky(kernel(process, x, x) + process.noise * np.eye(len(x)))
    seen = np.linalg.solve(root, process.target[rows])
    across = np.linalg.solve(root, kernel(process, x, process.test_features))
    return seen @ across, np.maximum(1.0 - (across**2).sum(axis=0), 0.0)


class Sums(NamedTuple):
    """What rows say of v under m sets of inducing inputs: weighted sums over rows, A = L⁻¹K_mn."""

    gram: np.ndarray  # (m, M, M): Σ AAᵀ
    cross: np.ndarray  # (m, M): Σ Ay
    square: np.ndarray  # (1,): Σ y²
    number: np.ndarray  # (1,): Σ 1

    def mixed(self, keep: float, other: "Sums", weight: float) -> "Sums":
        """keep·self + weight·other."""
        return Sums(*(keep * ours + weight * theirs for ours, theirs in zip(self, other, strict=True)))


def no_sums(sets: int, size: int) -> Sums:
    """Sums over no row, of `sets` times `size` inducing inputs."""
    return Sums(np.zeros((sets, size, size)), np.zeros((sets, size)), np.zeros(1), np.zeros(1))


class Posterior(NamedTuple):
    """q(v) = N(mean, Λ⁻¹) for each of m sets, and its normaliser."""

    mean: np.ndarray  # (m, M)
    root: np.ndarray  # (m, M, M), lower: root·rootᵀ = Λ
    log_evidence: np.ndarray  # (m,): log ∫ p(v) Π p(y_n | v)^w_n dv, of the scaled targets


class Inducing:
    """m sets of M inducing inputs, those of the training rows `rows`, (m, M)."""

    def __init__(self, process: Process, rows: np.ndarray):
        self.process, (self.sets, self.size) = process, rows.shape
        self.points = process.features[rows]
        covariances = np.stack([kernel(process, points, points) for points in self.points])
        self.root = np.linalg.cholesky(covariances + JITTER * np.eye(self.size))
        self.inverse_root = np.linalg.solve(self.root, np.broadcast_to(np.eye(self.size), covariances.shape))

    def whitened(self, x: np.ndarray) -> np.ndarray:
        """A = L⁻¹K_mx, (m, M, n), of x (n, D)."""
        every = kernel(self.process, self.points.reshape(self.sets * self.size, -1), x)
        return self.inverse_root @ every.reshape(self.sets, self.size, -1)

    def sums_over(self, rows: np.ndarray) -> Sums:
        """Sums over these training rows, (n,): n·m kernel rows of M."""
        across, y = self.whitened(self.process.features[rows]), self.process.target[rows]
        square, number = np.array([y @ y]), np.array([float(len(rows))])
        return Sums(across @ across.swapaxes(1, 2), across @ y, square, number)

    def posterior(self, sums: Sums) -> Posterior:
        """Of v ~ N(0, I) and rows y ~ N(Aᵀv, noise): Λ = I + Σ AAᵀ/noise."""
        noise = self.process.noise
        root = np.linalg.cholesky(np.eye(self.size) + sums.gram / noise)
        half = np.linalg.solve(root, sums.cross[..., None] / noise)
        mean = np.linalg.solve(root.swapaxes(1, 2), half)[..., 0]
        log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        of_rows = -0.5 * (sums.number * np.log(2.0 * np.pi * noise) + sums.square / noise)
        return Posterior(mean, root, 0.5 * (half[..., 0] ** 2).sum(axis=1) - log_det + of_rows)

    def predict(self, posterior: Posterior, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the function at x (n, D), (m, n) each; a block of rows at a time."""
        inverse = np.linalg.inv(posterior.root)
        learnt = np.eye(self.size) - inverse.swapaxes(1, 2) @ inverse  # I − Λ⁻¹
        parts = []
        for first in range(0, len(x), _BLOCK):
            across = self.whitened(x[first : first + _BLOCK])
            mean = (posterior.mean[:, None] @ across)[:, 0]
            known = (across * (learnt @ across)).sum(axis=1)
            parts.append((mean, np.maximum(1.0 - known, 0.0)))
        means, variances = zip(*parts, strict=True)
        return np.concatenate(means, axis=1), np.concatenate(variances, axis=1)
