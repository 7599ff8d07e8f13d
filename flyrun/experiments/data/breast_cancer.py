"""scikit-learn's breast cancer data (Street, Wolberg & Mangasarian 1993): two classes that a plane nearly
parts.
"""

import numpy as np

from flyrun.experiments.config.dataset.row_data import BreastCancer
from flyrun.ground import archive, feature_cache
from flyrun.tables.dataset import Dataset, without_test_rows

NAME = "breast_cancer"


def load(config: BreastCancer) -> Dataset:
    """Features (569, 31): 30 measurements, standardised, and a bias; target +1 benign, -1 malignant."""
    from sklearn.datasets import load_breast_cancer  # late: half a second

    table = load_breast_cancer()
    rows = (table.data - table.data.mean(axis=0)) / table.data.std(axis=0)
    return without_test_rows(
        name=NAME,
        features=feature_cache.with_bias(rows),
        target=np.where(table.target == 1, 1.0, -1.0),
        feature_names=(*map(str, table.feature_names), "bias"),
        sha256=archive.sha256(table.data.tobytes()),
        info={"title": "Breast cancer, diagnostic", "source": "UCI, as scikit-learn brings it"},
    )


def fingerprint(config: BreastCancer) -> str:
    """Digest of the library's file."""
    return load(config).sha256
