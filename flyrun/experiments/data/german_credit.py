"""German credit (Hofmann 1994), 24 numeric attributes: whose posterior others published (inference_gym)."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flyrun.experiments.config.dataset.row_data import GermanCredit
from flyrun.experiments.data import registry
from flyrun.ground import feature_cache, sources
from flyrun.tables.dataset import Dataset, without_test_rows

NAME = "german_credit"
ARRAYS = ("attributes", "label")
FILE = "german_credit_numeric.csv"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/german/german.data-numeric"


def load(config: GermanCredit) -> Dataset:
    """Features (1000, 25): attributes standardised by their population sds, and a bias; +1 is bad credit."""
    stored, digest = registry.arrays(NAME, ARRAYS)
    raw = stored["attributes"].astype(np.float64)
    rows = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    return without_test_rows(
        name=NAME,
        features=feature_cache.with_bias(rows),
        target=np.where(stored["label"] == 2, 1.0, -1.0),
        feature_names=(*(f"a{k}" for k in range(1, 25)), "bias"),
        sha256=digest,
        info=registry.origin(NAME),
    )


def collect(echo: Callable[[str], object]) -> dict[str, np.ndarray]:
    """attributes (N, 24) and label (N,), out of FILE in the folder named by FLYRUN_DATA, or of UCI's."""

    def downloaded() -> np.ndarray:
        with tempfile.TemporaryDirectory() as folder:
            return np.loadtxt(sources.download(UCI, Path(folder)))

    def read(folder: Path) -> np.ndarray:
        return np.loadtxt(folder / FILE, delimiter=",", skiprows=1)

    remedy = f"set FLYRUN_DATA to a folder holding {FILE}, columns a1 to a24 and class"
    table = sources.fetch(NAME, read, [sources.Source("UCI", downloaded)], echo, remedy)
    return {"attributes": table[:, :-1].astype(np.int16), "label": table[:, -1].astype(np.uint8)}
