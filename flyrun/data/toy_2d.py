"""Two classes of points in the plane, to look at: the toy data of Maclaurin & Adams (2014), Figure 2.

Recipe: t = +1 for the even rows, -1 for the odd ones; x ~ N(t·separation/2·u, I), u = (1, 1)/√2.
"""

import numpy as np

from flyrun.config.dataset.row_data import Toy2d
from flyrun.data import archive, feature_cache
from flyrun.data.dataset import Dataset, without_test_rows

NAME = "toy_2d"


def load(config: Toy2d) -> Dataset:
    """Features (n_data, 3): x₁, x₂ and a bias; target ±1, both labels as often; no test rows."""
    # RandomState's streams are frozen for good, those of numpy's newer generators are not.
    stream = np.random.RandomState(config.seed)
    target = np.where(np.arange(config.n_data) % 2, -1.0, 1.0)
    centre = target[:, None] * config.separation / 2 * np.sqrt([0.5, 0.5])
    points = centre + stream.standard_normal((config.n_data, 2))
    return without_test_rows(
        name=NAME,
        features=feature_cache.with_bias(points),
        target=target,
        feature_names=("x1", "x2", "bias"),
        sha256=fingerprint(config),
        info={"title": "Two classes of points in the plane", "source": "generated"},
    )


def fingerprint(config: Toy2d) -> str:
    """Digest of the recipe's numbers."""
    return archive.recipe(NAME, config.n_data, config.seed, config.separation)
