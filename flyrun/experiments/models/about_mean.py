"""One global mean θ ~ N(0, spread²), and of each row a local variable z_n ~ N(θ, between²) that the row sees.

q(θ) is Gaussian, of natural parameters precision and precision·mean. What a row says of its z_n is up to
those that derive from this.
"""

from abc import abstractmethod

import numpy as np

from flyrun.experiments.models.hierarchy import Hierarchy


class AboutMean(Hierarchy):
    """Derive from it: `local`, `log_likelihood`, `redrawn`, and set `exact`."""

    exact: np.ndarray  # (2,): natural parameters of the Gaussian with the posterior's mean and sd

    def __init__(self, spread: float, between: float, target: np.ndarray):
        """target: (N,)."""
        self.target, self.n_data = target, len(target)
        self.tight = between**-2  # precision of z given θ
        self.prior = np.array([spread**-2, 0.0])

    def start(self, rng: np.random.Generator) -> np.ndarray:
        return self.prior

    @abstractmethod
    def log_likelihood(self, z: np.ndarray) -> np.ndarray:
        """log p(y_n | z_n), (S, N), at z (S, N)."""

    @abstractmethod
    def redrawn(
        self, rng: np.random.Generator, theta: np.ndarray, z: np.ndarray | None, index: np.ndarray
    ) -> np.ndarray:
        """z of rows index, (b,), after a step that leaves p(z | θ, y) as it is; z: before, None at first."""

    def log_joint(self, theta: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log p(θ), (S,), log p(z_n | θ) and log p(y_n | z_n), (S, N), at θ (S,) and z (S, N)."""
        given, seen = log_normal(self.tight, z - theta[:, None]), self.log_likelihood(z)
        return log_normal(self.prior[0], theta), given, seen

    def divergence(self, natural: np.ndarray) -> float:
        (precision, linear), wide = natural, self.prior[0]
        ratio = wide / precision
        return float(0.5 * (ratio - 1 - np.log(ratio) + wide * (linear / precision) ** 2))

    def estimates(self, natural: np.ndarray) -> dict[str, float]:
        """mean_off: of θ's mean, in posterior sds.  sd_ratio: its sd to the posterior's.  natural: (2,)."""
        (precision, linear), (right, exact) = natural, self.exact
        return {
            "mean_off": float(abs(linear / precision - exact / right) * np.sqrt(right)),
            "sd_ratio": float(np.sqrt(right / precision)),
        }


def log_normal(precision: float, off: np.ndarray) -> np.ndarray:
    """Log density of N(0, 1/precision), elementwise."""
    return 0.5 * (np.log(precision / (2 * np.pi)) - precision * off**2)
