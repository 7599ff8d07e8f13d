"""Normal means about a mean: θ ~ N(0, spread²), z_n ~ N(θ, between²), y_n ~ N(z_n, noise²).

θ is global, the z_n are local. Given all y, θ is normal of precision spread⁻² + N/(between² + noise²); mean
field has spread⁻² + N/between², the same mean, and is too narrow by about √(1 + noise²/between²).
"""

import numpy as np

from flyrun.experiments.config.model import NormalMeans as Options
from flyrun.experiments.models.hierarchy import Hierarchy, Local, free_energy
from flyrun.ground.errors import ConfigError
from flyrun.tables.dataset import Dataset


class NormalMeans(Hierarchy):
    """Natural parameters: the precision of θ, and that times its mean."""

    def __init__(self, config: Options, target: np.ndarray):
        """target: (N,)."""
        self.target, self.n_data = target, len(target)
        self.tight, self.seen = config.between**-2, config.noise**-2  # precisions of z given θ, of y given z
        self.prior = np.array([config.spread**-2, 0.0])
        self.marginal = 1.0 / (config.between**2 + config.noise**2)  # precision of y given θ
        self.exact = self.prior + self.sites(np.arange(self.n_data))
        best = self.prior[0] + self.n_data * self.tight  # mean field's precision; its mean is the exact one
        self.least_free_energy = free_energy(self, best * np.array([1.0, self.exact[1] / self.exact[0]]))

    def start(self, rng: np.random.Generator) -> np.ndarray:
        return self.prior

    def sites(self, index: np.ndarray) -> np.ndarray:
        """Natural parameters of Π p(y_n | θ) of the rows index, z integrated out, (2,)."""
        return self.marginal * np.array([len(index), self.target[index].sum()])

    def given(self, theta: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, float]:
        """Means, (..., b), and variance of the z_n of rows index given θ, (...)."""
        width = 1.0 / (self.tight + self.seen)
        return width * (self.seen * self.target[index] + self.tight * theta[..., None]), width

    def log_joint(self, theta: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log p(θ), (S,), log p(z_n | θ) and log p(y_n | z_n), (S, N), at θ (S,) and z (S, N)."""
        precisions, away = (
            (self.prior[0], self.tight, self.seen),
            (theta, z - theta[:, None], self.target - z),
        )
        first, second, third = (
            0.5 * (np.log(precision / (2 * np.pi)) - precision * off**2)
            for precision, off in zip(precisions, away, strict=True)
        )
        return first, second, third

    def local(self, natural: np.ndarray, index: np.ndarray) -> Local:
        variance, target = 1.0 / natural[0], self.target[index]
        theta = natural[1] * variance
        mean, width = self.given(np.asarray(theta), index)
        near = self.seen * ((target - mean) ** 2 + width) + self.tight * (
            (mean - theta) ** 2 + width + variance
        )
        level = np.log(self.tight * self.seen * width / (2 * np.pi)) + 1.0
        statistics = self.tight * np.array([len(index), mean.sum()])
        return Local(statistics, float(0.5 * (level - near).sum()))

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


def bind(config: Options, data: Dataset) -> NormalMeans:
    """The means of a dataset's targets. ConfigError where they are classes."""
    if data.task != "regression":
        raise ConfigError(
            f"dataset={data.name}: model={config.name} is for numbers, not for classes; choose "
            "dataset=gaussian_toy"
        )
    return NormalMeans(config, np.asarray(data.target, float))
