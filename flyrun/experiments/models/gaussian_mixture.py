"""A mixture of K round Gaussians with weights.

π ~ Dirichlet(α), μ_k ~ N(0, spread²·I), x_n ~ N(μ_{z_n}, σ²·I): π and μ are global, the labels z_n local.
Rows are the features that differ; the target is not looked at.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, psi

from flyrun.experiments.config.model import GaussianMixture as Options
from flyrun.experiments.models.hierarchy import Hierarchy, Local
from flyrun.ground.errors import ConfigError
from flyrun.tables.dataset import Dataset


class Parts(NamedTuple):
    """q(φ): Dirichlet(counts), and N(mean_k, I/precision_k)."""

    counts: np.ndarray  # (K,)
    precision: np.ndarray  # (K,)
    mean: np.ndarray  # (K, D)


class GaussianMixture(Hierarchy):
    """Natural parameters: K counts, K precisions, K·D precisions times means."""

    def __init__(self, config: Options, rows: np.ndarray, test_rows: np.ndarray):
        """rows: (N, D); test_rows: (T, D)."""
        self.rows, self.test_rows, (self.n_data, self.dims) = rows, test_rows, rows.shape
        self.n_components, self.precision = config.n_components, config.scale**-2
        ones = np.ones(self.n_components)
        means = np.zeros(self.n_components * self.dims)
        self.prior = np.concatenate([config.concentration * ones, config.spread**-2 * ones, means])

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """As if N/K rows of each component lay at one drawn, (2K + K·D,). ConfigError where K > N."""
        if self.n_components > self.n_data:
            raise ConfigError(
                f"model.n_components={self.n_components}: the data have {self.n_data:,} rows; take at "
                "most as many"
            )
        centres = self.rows[rng.choice(self.n_data, self.n_components, replace=False)]
        return self.prior + self.n_data / self.n_components * self._stacked(
            np.ones(self.n_components), centres
        )

    def parts(self, natural: np.ndarray) -> Parts:
        """Of natural parameters, (2K + K·D,)."""
        counts, precision, linear = np.split(natural, [self.n_components, 2 * self.n_components])
        return Parts(counts, precision, linear.reshape(self.n_components, -1) / precision[:, None])

    def local(self, natural: np.ndarray, index: np.ndarray) -> Local:
        counts, precision, mean = self.parts(natural)
        rows = self.rows[index]
        log_weight = psi(counts) - psi(counts.sum()) - 0.5 * self.dims * self.precision / precision
        joint = log_weight + self._log_normal(rows, mean, self.precision * np.ones_like(precision))
        total = logsumexp(joint, axis=1)
        share = np.exp(joint - total[:, None])
        return Local(self._stacked(share.sum(axis=0), share.T @ rows), float(total.sum()))

    def _stacked(self, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Statistics of (K,) rows by component that add up to (K, D)."""
        return np.concatenate([counts, self.precision * counts, self.precision * sums.ravel()])

    def _log_normal(self, rows: np.ndarray, mean: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """log N(x; mean_k, I/precision_k), (n, K)."""
        square = (rows**2).sum(axis=1)[:, None] - 2 * rows @ mean.T + (mean**2).sum(axis=1)
        return 0.5 * self.dims * np.log(precision / (2 * np.pi)) - 0.5 * precision * square

    def divergence(self, natural: np.ndarray) -> float:
        (counts, precision, mean), (first, wide, _) = self.parts(natural), self.parts(self.prior)
        weights = gammaln(counts.sum()) - gammaln(counts).sum() - gammaln(first.sum()) + gammaln(first).sum()
        weights += (counts - first) @ (psi(counts) - psi(counts.sum()))
        ratio = wide / precision
        means = 0.5 * (self.dims * (ratio - 1 - np.log(ratio)) + wide * (mean**2).sum(axis=1))
        return float(weights + means.sum())

    def estimates(self, natural: np.ndarray) -> dict[str, float]:
        """held_out_nats: −log q(x) of a test row, mean.  components: exp of the weights' entropy."""
        counts, precision, mean = self.parts(natural)
        weight = counts / counts.sum()
        estimates = {"components": float(np.exp(-(weight * np.log(weight)).sum()))}
        if len(self.test_rows):
            width = 1.0 / (1.0 / self.precision + 1.0 / precision)
            each = np.log(weight) + self._log_normal(self.test_rows, mean, width)
            estimates["held_out_nats"] = -float(logsumexp(each, axis=1).mean())
        return estimates


def bind(config: Options, data: Dataset) -> GaussianMixture:
    """The mixture of a dataset's rows, columns left out that are all the same. ConfigError where all are."""
    kept = np.ptp(data.features, axis=0) > 0
    if not kept.any():
        raise ConfigError(
            f"dataset={data.name}: no feature differs between rows; model={config.name} needs one that does, "
            "such as dataset=mnist_7v9 has"
        )
    rows, test_rows = (
        np.ascontiguousarray(table[:, kept], float) for table in (data.features, data.test_features)
    )
    return GaussianMixture(config, rows, test_rows)
