"""Logistic regression with features that few rows have, generated: tall data that tell little of these.

Recipe: a bias, `dense` standard normals, and `rare` indicators that are 1 with probabilities from 0.1 down to
`least`, evenly on a logarithmic scale; coefficients are standard normals times 0.5, the bias -1.
"""

import numpy as np

from flyrun.config.dataset.row_data import RareFeatures
from flyrun.data import archive
from flyrun.data.dataset import Dataset, without_test_rows

NAME = "rare_features"
_MOST = 0.1


def load(config: RareFeatures) -> Dataset:
    """Features (n_data, dense + rare + 1), the bias last; target ±1; no test rows."""
    stream = np.random.RandomState(config.seed)  # whose streams are frozen for good
    shares = np.geomspace(_MOST, config.least, config.rare) if config.rare > 1 else np.array([config.least])
    normals = stream.standard_normal((config.n_data, config.dense))
    there = stream.random_sample((config.n_data, config.rare)) < shares
    rows = np.hstack([normals, there, np.ones((config.n_data, 1))])
    theta = np.append(0.5 * stream.standard_normal(config.dense + config.rare), -1.0)
    target = np.where(stream.random_sample(config.n_data) * (1.0 + np.exp(-(rows @ theta))) < 1.0, 1.0, -1.0)
    dense = (f"x{d}" for d in range(1, config.dense + 1))
    return without_test_rows(
        name=NAME,
        features=rows,
        target=target,
        feature_names=(*dense, *(f"rare{d}" for d in range(1, config.rare + 1)), "bias"),
        sha256=fingerprint(config),
        info={"title": "Rare features", "source": "generated", "coefficients": theta.tolist()},
    )


def fingerprint(config: RareFeatures) -> str:
    """Digest of the recipe's numbers."""
    return archive.recipe(NAME, config.n_data, config.dense, config.rare, config.least, config.seed)
