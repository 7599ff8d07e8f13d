"""Two groups of a quantity, generated: with a Student-t likelihood of small scale the posterior has two
modes.

Recipe: y = ±1 + 0.4·x + 0.1·e, `low` rows below and the others above; x and e standard normals.
"""

import numpy as np

from flyrun.config.dataset.row_data import TwoModes
from flyrun.data import archive, feature_cache
from flyrun.data.dataset import Dataset, without_test_rows

NAME = "two_modes"


def load(config: TwoModes) -> Dataset:
    """Features (n_data, 2): x and a bias; target y; no test rows."""
    stream = np.random.RandomState(config.seed)  # whose streams are frozen for good
    x, noise = stream.standard_normal((2, config.n_data))
    group = np.where(np.arange(config.n_data) < config.low, -1.0, 1.0)
    return without_test_rows(
        name=NAME,
        features=feature_cache.with_bias(x[:, None]),
        target=group + 0.4 * x + 0.1 * noise,
        feature_names=("x", "bias"),
        sha256=fingerprint(config),
        info={"title": "Two groups of a quantity", "source": "generated"},
        task="regression",
    )


def fingerprint(config: TwoModes) -> str:
    """Digest of the recipe's numbers."""
    return archive.recipe(NAME, config.n_data, config.low, config.seed)
