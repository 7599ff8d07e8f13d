"""Counts about a mean rate: θ ~ N(0, spread²), z_n ~ N(θ, between²), y_n ~ Poisson(exp z_n).

z_n is not conjugate to its likelihood: given θ, or q(θ) of mean m, its best density ∝ N(z; m, between²)·
Poisson(y_n | e^z) is of no family. Its normaliser and mean are by quadrature about its mode, so that what
fits conjugate models fits this one (§5.1.1, §5.1.2 and §5.3.1 of the survey, which leave z's density open).
"""

import numpy as np
from scipy.special import gammaln, logsumexp

from flyrun.experiments.config.model import PoissonMeans as Options
from flyrun.experiments.models.about_mean import AboutMean, log_normal
from flyrun.experiments.models.hierarchy import Local
from flyrun.ground.errors import ConfigError
from flyrun.tables.dataset import Dataset

_NODES, _NEWTON, _CLOSE = 40, 60, 1e-10
_GRID, _FAR = 401, 10.0  # points of θ that its exact moments are by, so many sds about its mean


class PoissonMeans(AboutMean):
    """Rows that are counts, of log rates z_n."""

    def __init__(self, config: Options, target: np.ndarray):
        """target: (N,), counts."""
        super().__init__(config.spread, config.between, target)
        self.constant = gammaln(target + 1.0)
        self.exact = self._exact()

    def log_likelihood(self, z: np.ndarray) -> np.ndarray:
        return self.target * z - np.exp(z) - self.constant

    def mode(self, y: np.ndarray, m: np.ndarray) -> np.ndarray:
        """Of N(z; m, 1/tight)·Poisson(y | e^z), elementwise: Newton's steps from above never pass it."""
        z = np.maximum(m, np.log(y + 1.0))
        for _ in range(_NEWTON):
            rate = np.exp(z)
            step = (y - rate - self.tight * (z - m)) / (rate + self.tight)
            z = z + step
            if not (np.abs(step) > _CLOSE).any():
                break
        return z

    def tilted(self, y: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log ∫ N(z; m, 1/tight)·Poisson(y | e^z) dz, and z's mean under it, elementwise."""
        y, m = np.broadcast_arrays(np.asarray(y, float), np.asarray(m, float))
        top = self.mode(y, m)
        node, weight = np.polynomial.hermite_e.hermegauss(_NODES)
        width = 1.0 / np.sqrt(np.exp(top) + self.tight)
        z = top[..., None] + width[..., None] * node
        log_density = y[..., None] * z - np.exp(z) + log_normal(self.tight, z - m[..., None])
        terms = np.log(weight) + 0.5 * node**2 + log_density
        total = logsumexp(terms, axis=-1)
        mean = (np.exp(terms - total[..., None]) * z).sum(axis=-1)
        return total + np.log(width) - gammaln(y + 1.0), mean

    def local(self, natural: np.ndarray, index: np.ndarray) -> Local:
        variance = 1.0 / natural[0]
        log_z, mean = self.tilted(self.target[index], natural[1] * variance)
        statistics = self.tight * np.array([len(index), mean.sum()])
        return Local(statistics, float((log_z - 0.5 * self.tight * variance).sum()))

    def redrawn(
        self, rng: np.random.Generator, theta: np.ndarray, z: np.ndarray | None, index: np.ndarray
    ) -> np.ndarray:
        """A Metropolis step by proposals about the mode, as wide as z's prior: weights are bounded."""
        y = self.target[index]
        top = self.mode(y, np.broadcast_to(theta, y.shape))
        z = top if z is None else z
        proposal = top + rng.standard_normal(len(index)) / np.sqrt(self.tight)

        def log_weight(at: np.ndarray) -> np.ndarray:
            return y * at - np.exp(at) - 0.5 * self.tight * ((at - theta) ** 2 - (at - top) ** 2)

        taken = np.log(rng.random(len(index))) < log_weight(proposal) - log_weight(z)
        return np.where(taken, proposal, z)

    def _exact(self) -> np.ndarray:
        """Natural parameters, (2,), of the Gaussian of θ's mean and sd given the counts, z integrated out."""
        counts, often = np.unique(self.target, return_counts=True)
        mean, sd = np.log(self.target.mean() + 0.5), np.sqrt((1 / self.tight + 1) / self.n_data)
        for _ in range(3):  # the last grid is about the posterior itself
            theta = mean + sd * np.linspace(-_FAR, _FAR, _GRID)
            log_density = log_normal(self.prior[0], theta) + self.tilted(counts, theta[:, None])[0] @ often
            share = np.exp(log_density - logsumexp(log_density))
            mean = share @ theta
            sd = np.sqrt(share @ (theta - mean) ** 2)
        return np.array([1.0, mean]) / sd**2


def bind(config: Options, data: Dataset) -> PoissonMeans:
    """The rates of a dataset's counts. ConfigError where they are none."""
    if data.task != "counts":
        raise ConfigError(
            f"dataset={data.name}: model={config.name} is for counts, and its targets are "
            f"{data.domain}; choose dataset=counts_toy"
        )
    return PoissonMeans(config, np.asarray(data.target, float))
