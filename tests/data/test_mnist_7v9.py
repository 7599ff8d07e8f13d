from __future__ import annotations

import numpy as np
import pytest

from flyrun.experiments import data
from flyrun.experiments.data import mnist_7v9, registry
from flyrun.ground import feature_cache, paths
from flyrun.ground.errors import ConfigError


@pytest.fixture(scope="module")
def fresh_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLYRUN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield patch


@pytest.fixture(scope="module")
def rows(config, fresh_cache):
    return data.load(config())


@pytest.fixture(scope="module")
def stored():
    with np.load(registry.path("mnist_7v9"), allow_pickle=False) as file:
        return dict(file)


@pytest.mark.thorough
def test_counts(rows, stored):
    assert rows.features.shape == (12214, 51)
    assert rows.test_features.shape == (2037, 51)
    assert (np.sum(rows.target == 1), np.sum(rows.target == -1)) == (6265, 5949)
    assert (np.sum(rows.test_target == 1), np.sum(rows.test_target == -1)) == (1028, 1009)
    np.testing.assert_array_equal(rows.target == 1, stored["train_labels"] == 7)
    assert {values.dtype for values in stored.values()} == {np.dtype(np.uint8)}


@pytest.mark.thorough
def test_arrays_suit_the_compiled_loops(rows):
    for values in (rows.features, rows.target, rows.test_features, rows.test_target):
        assert values.dtype == np.float64
        assert values.flags.c_contiguous
        assert values.flags.writeable


@pytest.mark.thorough
def test_features_by_numpy_alone(rows, stored):
    """Pixels/255, centred by the training mean, times V of the SVD, largest loading positive."""
    train, test = (stored[part].reshape(-1, 784) / 255.0 for part in ("train_images", "test_images"))
    mean = train.mean(axis=0)
    components = np.linalg.svd(train - mean, full_matrices=False)[2][:50]
    largest = np.take_along_axis(components, np.abs(components).argmax(axis=1)[:, None], axis=1)
    components = components * np.sign(largest)
    np.testing.assert_allclose(rows.features[:, :50], (train - mean) @ components.T, atol=1e-9)
    np.testing.assert_allclose(rows.test_features[:, :50], (test - mean) @ components.T, atol=1e-9)
    assert np.all(rows.features[:, 50] == 1)
    assert np.all(rows.test_features[:, 50] == 1)
    assert (rows.feature_names[0], rows.feature_names[-2:]) == ("pc1", ("pc50", "bias"))
    assert rows.info["explained_variance"] == pytest.approx(
        np.var(rows.features, axis=0).sum() / np.var(train, axis=0).sum(), rel=1e-9
    )


@pytest.mark.thorough
def test_cached_features_have_the_same_bits(rows, config, fresh_cache):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature_cache, "principal_scores", lambda *_: pytest.fail("computed again"))
        again = data.load(config())
    np.testing.assert_array_equal(again.features, rows.features)
    np.testing.assert_array_equal(again.test_features, rows.test_features)
    assert again.features.flags.writeable


@pytest.mark.thorough
def test_a_changed_dataset_leaves_no_trace_in_the_next_load(rows, config, fresh_cache):
    first = data.load(config())
    first.features[:] = 0
    np.testing.assert_array_equal(data.load(config()).features, rows.features)


@pytest.mark.thorough
def test_limit_keeps_the_first_rows(rows, config, fresh_cache):
    some = data.load(config(limit=100))
    np.testing.assert_array_equal(some.features, rows.features[:100])
    np.testing.assert_array_equal(some.target, rows.target[:100])
    assert len(some.test_target) == 2037


def test_the_first_class_is_positive(rows, config, fresh_cache):
    turned = data.load(config(classes=(9, 7)))
    np.testing.assert_array_equal(turned.target, -rows.target)
    np.testing.assert_array_equal(turned.features, rows.features)


@pytest.mark.parametrize("number", [0, -1, 785])
def test_components_out_of_range(config, number):
    with pytest.raises(ConfigError, match=rf"dataset\.n_components={number}: choose 1 to 784"):
        data.load(config(n_components=number))


@pytest.mark.parametrize("limit", [-1, 0, 1, 12215])
def test_limit_out_of_range(rows, config, fresh_cache, limit):
    with pytest.raises(ConfigError, match=rf"dataset\.limit={limit}: choose 2 to 12214"):
        data.load(config(limit=limit))


def test_limit_that_leaves_one_class():
    target = np.array([1.0, 1, 1, -1])
    with pytest.raises(
        ConfigError, match=r"dataset\.limit=3: keeps rows of one class only; choose 4 or more"
    ):
        mnist_7v9._limit(3, target)
    assert mnist_7v9._limit(4, target) == 4


@pytest.mark.parametrize("classes", [(7, 7), (7,), (7, 9, 1), (7, 10), (-1, 3)])
def test_classes_that_are_none(config, classes):
    with pytest.raises(ConfigError, match=r"dataset\.classes=.*two different digits"):
        data.load(config(classes=classes))


def test_scores_do_not_depend_on_blas_threads():
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(3)
    train, test = rng.normal(size=(600, 120)), rng.normal(size=(50, 120))
    with threadpool_limits(1):
        one = feature_cache.principal_scores(train, test, 20)
    with threadpool_limits(4):
        four = feature_cache.principal_scores(train, test, 20)
    for name, values in one.items():
        np.testing.assert_array_equal(four[name], values)


def test_a_damaged_or_unwritable_cache_costs_a_computation_only(home, monkeypatch):
    calls = []

    def compute():
        calls.append(1)
        return {"a": np.arange(3.0)}

    def get(key):
        return feature_cache.cached(("a",), {"key": key}, compute)["a"].tolist()

    assert [get(1), get(1), len(calls)] == [[0, 1, 2], [0, 1, 2], 1]
    (file,) = paths.cache_dir("features").iterdir()
    file.write_bytes(file.read_bytes()[:-40])
    assert [get(1), get(1), len(calls)] == [[0, 1, 2], [0, 1, 2], 2]
    assert [get(2), len(calls)] == [[0, 1, 2], 3]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flyrun.ground.archive.write", full)
    assert [get(3), get(3), len(calls)] == [[0, 1, 2], [0, 1, 2], 5]


def test_fingerprint_is_the_stored_files(rows, config):
    assert data.fingerprint(config()) == rows.sha256 == registry.describe("mnist_7v9")["sha256"]


def test_unknown_loader(config):
    with pytest.raises(ConfigError, match=r"its code, flyrun\.experiments\.data\.nonsense, is missing"):
        data.load(config(name="nonsense"))
