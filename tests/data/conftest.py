from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from flyrun.experiments.config.dataset import Dataset
from flyrun.ground import archive, paths


@dataclass(frozen=True)
class Config:
    """Stands in for the configuration's Mnist7v9, which would refuse some of what its loader must refuse."""

    group = "dataset"
    code, path_of_code = Dataset.code, Dataset.path_of_code
    name: str = "mnist_7v9"
    n_components: int = 50
    limit: int | None = None
    classes: tuple[int, int] = (7, 9)

    @property
    def kernel(self) -> str:
        """The loader, which is none of this module's."""
        return f"{Dataset.home}.{self.name}"


@pytest.fixture(scope="session")
def config():
    return Config


@pytest.fixture
def digits():
    """A tiny MNIST: 40 training and 20 test images of random pixels, digits 0..9 in turn."""
    rng = np.random.default_rng(1)
    return {
        "train_images": rng.integers(0, 256, (40, 28, 28), dtype=np.uint8),
        "train_labels": np.arange(40, dtype=np.uint8) % 10,
        "test_images": rng.integers(0, 256, (20, 28, 28), dtype=np.uint8),
        "test_labels": np.arange(20, dtype=np.uint8) % 10,
    }


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A copy of datasets/ to spoil, and an empty cache; returns the copy's folder."""
    folder = tmp_path / "datasets"
    folder.mkdir()
    for name in ("registry.yaml", "mnist_7v9.npz"):
        archive.write(folder / name, (paths.datasets_dir() / name).read_bytes())
    monkeypatch.setattr(paths, "datasets_dir", lambda: folder)
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FLYRUN_DATA", raising=False)
    return folder
