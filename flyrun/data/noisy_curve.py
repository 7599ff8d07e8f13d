"""A function of one variable seen with noise, generated: where a Gaussian process can be worked out exactly.

Recipe: y = sin 3x + ½ cos 10x + noise·e, x uniform on (-1, 1), e standard normals. Test rows: 401 places
spaced evenly, the function itself without noise. The function of Dai et al. (2016, H.3.1) is lost with the
formulas of the text that we have: this one is ours.
"""

import numpy as np

from flyrun.config.dataset.row_data import NoisyCurve
from flyrun.data import archive
from flyrun.data.dataset import Dataset

NAME = "noisy_curve"
PLACES = 401


def load(config: NoisyCurve) -> Dataset:
    """Features (n_data, 1), no bias; target y; test rows the curve without noise."""
    stream = np.random.RandomState(config.seed)  # whose streams are frozen for good
    x = stream.uniform(-1.0, 1.0, config.n_data)
    places = np.linspace(-1.0, 1.0, PLACES)
    return Dataset(
        name=NAME,
        features=x[:, None],
        target=curve(x) + config.noise * stream.standard_normal(config.n_data),
        test_features=places[:, None],
        test_target=curve(places),
        feature_names=("x",),
        sha256=fingerprint(config),
        info={"title": "A curve with noise", "source": "generated", "test rows": "without noise"},
        task="regression",
    )


def curve(x: np.ndarray) -> np.ndarray:
    """The function, elementwise."""
    return np.sin(3.0 * x) + 0.5 * np.cos(10.0 * x)


def fingerprint(config: NoisyCurve) -> str:
    """Digest of the recipe's numbers."""
    return archive.recipe(NAME, config.n_data, config.noise, config.seed)
