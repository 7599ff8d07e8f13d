"""Normal means about a mean: θ ~ N(0, spread²), z_n ~ N(θ, between²), y_n ~ N(z_n, noise²).

θ is global, the z_n are local. Given all y, θ is normal of precision spread⁻² + N/(between² + noise²); mean
field has spread⁻² + N/between², the same mean, and is too narrow by about √(1 + noise²/between²).
"""

import numpy as np

from flyrun.experiments.config.model import NormalMeans as Options
from flyrun.experiments.models.about_mean import AboutMean, log_normal
from flyrun.experiments.models.hierarchy import Local, free_energy
from flyrun.ground.errors import ConfigError
from flyrun.tables.dataset import Dataset


class NormalMeans(AboutMean):
    """Rows that see their z_n with normal noise."""

    def __init__(self, config: Options, target: np.ndarray):
        """target: (N,)."""
        super().__init__(config.spread, config.between, target)
        self.seen = config.noise**-2  # precision of y given z
        self.marginal = 1.0 / (config.between**2 + config.noise**2)  # precision of y given θ
        self.exact = self.prior + self.sites(np.arange(self.n_data))
        best = self.prior[0] + self.n_data * self.tight  # mean field's precision; its mean is the exact one
        self.least_free_energy = free_energy(self, best * np.array([1.0, self.exact[1] / self.exact[0]]))

    def sites(self, index: np.ndarray) -> np.ndarray:
        """Natural parameters of Π p(y_n | θ) of the rows index, z integrated out, (2,)."""
        return self.marginal * np.array([len(index), self.target[index].sum()])

    def given(self, theta: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, float]:
        """Means, (..., b), and variance of the z_n of rows index given θ, (...)."""
        width = 1.0 / (self.tight + self.seen)
        return width * (self.seen * self.target[index] + self.tight * theta[..., None]), width

    def redrawn(
        self, rng: np.random.Generator, theta: np.ndarray, z: np.ndarray | None, index: np.ndarray
    ) -> np.ndarray:
        mean, width = self.given(theta, index)
        return mean + np.sqrt(width) * rng.standard_normal(len(index))

    def log_likelihood(self, z: np.ndarray) -> np.ndarray:
        return log_normal(self.seen, self.target - z)

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


def bind(config: Options, data: Dataset) -> NormalMeans:
    """The means of a dataset's targets. ConfigError where they are classes."""
    if data.task != "regression":
        raise ConfigError(
            f"dataset={data.name}: model={config.name} is for numbers, not for classes; choose "
            "dataset=gaussian_toy"
        )
    return NormalMeans(config, np.asarray(data.target, float))
