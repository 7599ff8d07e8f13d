"""Numbers from a mixture of two normals that share a parameter, generated.

Recipe: x_n ~ ½N(θ1, σ²) + ½N(θ1 + θ2, σ²), θ = (1, −2) (Welling & Teh 2011, §5.1, with the σ = 2.5 of Dai
et al. 2016): (−1, 2) explains them equally well.
"""

import numpy as np

from flyrun.config.dataset.row_data import Mixture
from flyrun.data import archive
from flyrun.data.dataset import Dataset, without_test_rows

NAME, CENTRES = "mixture", (1.0, -1.0)


def load(config: Mixture) -> Dataset:
    """Features (n_data, 1), ones: each datum sees θ itself; target x; no test rows."""
    stream = np.random.Generator(np.random.PCG64(config.seed))
    centre = np.where(stream.random(config.n_data) < 0.5, *CENTRES)
    return without_test_rows(
        name=NAME,
        features=np.ones((config.n_data, 1)),
        target=centre + config.sd * stream.standard_normal(config.n_data),
        feature_names=("theta",),
        sha256=fingerprint(config),
        info={"title": "A mixture of two normals", "source": "generated"},
        task="regression",
    )


def fingerprint(config: Mixture) -> str:
    """Digest of the recipe's numbers."""
    return archive.recipe(NAME, CENTRES, config.sd, config.n_data, config.seed)
