"""Two classes, one of them rare, generated: the posterior is skewed however many rows there are.

Recipe: x a standard normal; the `events` rows with the largest x + 2·e, e standard normals, are +1.
"""

import numpy as np

from flyrun.config.dataset.row_data import FewEvents
from flyrun.data import archive, feature_cache
from flyrun.data.dataset import Dataset, without_test_rows

NAME = "few_events"


def load(config: FewEvents) -> Dataset:
    """Features (n_data, 2): x and a bias; target ±1; no test rows."""
    stream = np.random.RandomState(config.seed)  # whose streams are frozen for good
    x, noise = stream.standard_normal((2, config.n_data))
    target = np.full(config.n_data, -1.0)
    target[np.argsort(x + 2 * noise)[-config.events :]] = 1.0
    return without_test_rows(
        name=NAME,
        features=feature_cache.with_bias(x[:, None]),
        target=target,
        feature_names=("x", "bias"),
        sha256=fingerprint(config),
        info={"title": "A rare class", "source": "generated"},
    )


def fingerprint(config: FewEvents) -> str:
    """Digest of the recipe's numbers."""
    return archive.recipe(NAME, config.n_data, config.events, config.seed)
