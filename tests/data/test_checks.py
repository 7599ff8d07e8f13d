from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flyrun.ground.errors import DataError
from flyrun.tables import checks
from flyrun.tables.dataset import Dataset
from flyrun.tables.options import Table
from flyrun.tables.shards import shard


def small(**changes):
    rng = np.random.default_rng(0)
    data = Dataset(
        name="small",
        features=rng.normal(size=(6, 2)),
        target=np.array([1.0, -1, 1, -1, 1, -1]),
        test_features=rng.normal(size=(2, 2)),
        test_target=np.array([1.0, -1]),
        feature_names=("height", "bias"),
        sha256="0" * 64,
    )
    return replace(data, **changes)


def spoilt(values, index, value):
    values = values.copy()
    values[index] = value
    return values


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_row_and_column_are_named(value):
    data = small()
    with pytest.raises(DataError, match=r"small: row 4, column height is (nan|-?inf)"):
        checks.prepared(replace(data, features=spoilt(data.features, (4, 0), value)))
    with pytest.raises(DataError, match=r"test rows: row 1, column bias"):
        checks.prepared(replace(data, test_features=spoilt(data.test_features, (1, 1), value)))
    with pytest.raises(DataError, match=r"target: row 2 is"):
        checks.prepared(replace(data, target=spoilt(data.target, 2, value)))


def test_the_first_bad_row_is_named_and_the_others_counted():
    values = np.zeros((5, 3))
    values[[1, 3], [2, 0]] = np.nan
    with pytest.raises(DataError, match=r"table: row 1, column 2 is nan \(2 such rows\)"):
        checks.finite(values, "table")


def test_one_class_only():
    with pytest.raises(DataError, match=r"target holds only the class 1"):
        checks.prepared(small(target=np.ones(6)))


def test_wrong_labels():
    with pytest.raises(DataError, match=r"row 3 is 0\.0; labels must be -1 or \+1"):
        checks.prepared(small(target=np.array([1.0, -1, 1, 0, 1, -1])))
    with pytest.raises(DataError, match="no row of class 1"):
        checks.prepared(small(task="classes", target=np.array([0, 2, 0, 2, 0, 2])))
    with pytest.raises(DataError, match="a class that no training row has"):
        checks.prepared(small(task="classes", target=np.arange(6) % 2, test_target=np.array([0, 2])))


@pytest.mark.parametrize(
    "changes",
    [
        {"target": np.ones(5)},
        {"features": np.ones((6, 3))},
        {"feature_names": ("height",)},
        {"features": np.ones((0, 2)), "target": np.ones(0)},
    ],
)
def test_shapes_that_do_not_match(changes):
    with pytest.raises(DataError, match="dataset small"):
        checks.prepared(small(**changes))


def test_arrays_become_what_the_compiled_loops_take():
    fixed = np.asfortranarray(small().features.astype(np.float32))
    fixed.setflags(write=False)
    data = checks.prepared(small(features=fixed, target=np.array([1, -1, 1, -1, 1, -1])))
    for values in (data.features, data.target, data.test_features, data.test_target):
        assert values.dtype == np.float64
        assert values.flags.c_contiguous
        assert values.flags.writeable
    np.testing.assert_array_equal(data.features, fixed)


def test_other_tasks_fit():
    classes = checks.prepared(small(task="classes", target=np.arange(6) % 3, test_target=np.array([2, 0])))
    assert (classes.target.dtype, classes.n_classes) == (np.int64, 3)
    real = checks.prepared(
        small(
            task="regression",
            target=np.linspace(0, 1, 6),
            test_features=np.ones((0, 2)),
            test_target=np.ones(0),
        )
    )
    assert real.n_classes == 0


def test_what_stands_beside_the_rows_is_checked_and_goes_with_them():
    data = small(offset=np.arange(6.0), weights=np.arange(6))
    ready = checks.prepared(data)
    assert ready.weights.dtype == np.float64
    assert list(ready.beside) == ["offset", "weights"]
    part = shard(ready, Table(shard=(1, 2), shards_by="order"))
    np.testing.assert_array_equal(part.offset, [3.0, 4.0, 5.0])
    with pytest.raises(DataError, match=r"small, offset: row 2 is inf"):
        checks.prepared(replace(data, offset=spoilt(data.offset, 2, np.inf)))
    with pytest.raises(DataError, match=r"weights: features \(6, 2\) and target \(5,\) do not match"):
        checks.prepared(replace(data, weights=np.ones(5)))
