"""The generated logistic data: what is stored, by which recipe, and that nothing is copied to be used."""

from __future__ import annotations

import numpy as np
import pytest

from flyrun.experiments import data
from flyrun.experiments.config.dataset.row_data import Tall
from flyrun.experiments.data import registry, tall
from flyrun.experiments.models import logistic
from flyrun.ground.errors import DataError


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("FLYRUN_CACHE", str(folder))
        patch.setattr(tall, "BLOCK", 4_000)
        patch.setattr(tall, "FULL", 10_000)
        yield folder


@pytest.fixture(scope="module")
def rows(home):
    return data.load(Tall(n_data=10_000))


def test_rows_are_mapped_and_bound_without_a_copy(rows):
    assert rows.features.shape == (10_000, 21)
    assert rows.features.dtype == np.float32
    assert isinstance(rows.features.base, np.memmap)
    assert rows.folded
    assert len(rows.feature_names) == 21
    assert logistic.bind(rows.features, None)[1].rows is rows.features


def test_the_recipe(rows):
    x = rows.features.astype(float) * rows.target[:, None]
    assert np.all(x[:, -1] == 1.0)
    np.testing.assert_allclose(x[:, :-1].mean(axis=0), 0.0, atol=0.045)
    np.testing.assert_allclose(x[:, :-1].T @ x[:, :-1] / len(x), np.eye(20), atol=0.06)
    theta = np.array(rows.info["coefficients"])
    assert (x[:, :-1] @ theta[:-1]).std() == pytest.approx(tall.MARGIN_SD, rel=0.03)
    # E (t − E t) x = 0 at the true θ, 4.5 sds of each mean
    p = 1.0 / (1.0 + np.exp(-x @ theta))
    score = ((rows.target + 1) / 2 - p)[:, None] * x
    assert np.abs(score.mean(axis=0) / score.std(axis=0)).max() * 100 < 4.5


def test_a_smaller_set_is_the_beginning_of_a_larger_one(rows):
    some = data.load(Tall(n_data=5_000))
    np.testing.assert_array_equal(some.features, rows.features[:5_000])
    np.testing.assert_array_equal(some.target, rows.target[:5_000])
    assert data.fingerprint(Tall(n_data=5_000)) == some.sha256 != rows.sha256


def test_files_are_checked(rows):
    assert registry.state("tall") == "built"
    assert registry.verify("tall").startswith("verified")
    path = tall.store(10_000).folder / "rows.npy"
    assert registry.describe("tall")["path"] == str(path.parent)
    content = path.read_bytes()
    path.write_bytes(content[:-5] + b"\0" + content[-4:])
    with pytest.raises(DataError, match=r"rows\.npy: is altered"):
        registry.verify("tall")
    path.write_bytes(content[:-1])
    with pytest.raises(DataError, match=r"rows\.npy: is cut short or damaged; delete the folder"):
        data.load(Tall(n_data=10_000))
    registry.build("tall", echo=str)
    assert path.read_bytes() == content
