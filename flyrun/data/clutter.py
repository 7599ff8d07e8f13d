"""Numbers about a mean, half of which is clutter, generated: Minka's (2001) problem, any number of times.

Recipe: y ~ ½N(2, 1) + ½N(0, 10), 10 a variance; n_data of them for each of n_sets means. Set k is column k of
the features, ones where a row belongs to it: the sets share nothing, and one run answers for all of them.
"""

import numpy as np

from flyrun.config.dataset.row_data import Clutter
from flyrun.data import archive
from flyrun.data.dataset import Dataset, without_test_rows

NAME, MEAN, SHARE, VARIANCE = "clutter", 2.0, 0.5, 10.0


def load(config: Clutter) -> Dataset:
    """Features (n_sets·n_data, n_sets), 0 and 1; target y; no test rows."""
    stream = np.random.RandomState(config.seed)  # whose streams are frozen for good
    size = (config.n_sets, config.n_data)
    clutter, noise = stream.uniform(size=size) < SHARE, stream.standard_normal(size)
    target = np.where(clutter, np.sqrt(VARIANCE) * noise, MEAN + noise)
    names = tuple(f"theta_{k}" for k in range(config.n_sets)) if config.n_sets > 1 else ("theta",)
    return without_test_rows(
        name=NAME,
        features=np.repeat(np.eye(config.n_sets), config.n_data, axis=0),
        target=target.ravel(),
        feature_names=names,
        sha256=fingerprint(config),
        info={"title": "Numbers, half of them clutter", "source": "generated"},
        task="regression",
    )


def fingerprint(config: Clutter) -> str:
    """Digest of the recipe's numbers."""
    return archive.recipe(NAME, MEAN, SHARE, VARIANCE, config.n_data, config.n_sets, config.seed)
