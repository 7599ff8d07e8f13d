"""Numbers, generated: normal, as their model has it, or lognormal, whose few largest tell most.

Recipe: x_n = z_n, or e^{sd·z_n}, z standard normals (Bardenet, Doucet & Holmes 2017, §2, who take 10⁵).
"""

import numpy as np

from flyrun.config.dataset.row_data import GaussianToy
from flyrun.data import archive
from flyrun.data.dataset import Dataset, without_test_rows

NAME = "gaussian_toy"


def load(config: GaussianToy) -> Dataset:
    """Features (n_data, 1), ones: each datum sees θ itself; target x; no test rows."""
    stream = np.random.RandomState(config.seed)  # whose streams are frozen for good
    numbers = stream.standard_normal(config.n_data)
    return without_test_rows(
        name=NAME,
        features=np.ones((config.n_data, 1)),
        target=np.exp(config.log_sd * numbers) if config.law == "lognormal" else numbers,
        feature_names=("theta",),
        sha256=fingerprint(config),
        info={"title": f"Numbers, {config.law}", "source": "generated"},
        task="regression",
    )


def fingerprint(config: GaussianToy) -> str:
    """Digest of the recipe's numbers."""
    return archive.recipe(NAME, config.n_data, config.law, config.log_sd, config.seed)
