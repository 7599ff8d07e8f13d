"""Data of the arm before are used again where they are the same, small, and no person's own file."""

from __future__ import annotations

import numpy as np

from flyrun.experiments import data
from flyrun.experiments.config.dataset.row_data import Mnist7v9, Tall
from flyrun.tables.options import Table


def test_the_same_data_are_read_once_and_others_replace_them():
    first = data.load_again(Tall(n_data=100))
    assert data.load_again(Tall(n_data=100)) is first
    assert len(data.load_again(Tall(n_data=101)).features) == 101
    again = data.load_again(Tall(n_data=100))
    assert again is not first
    np.testing.assert_array_equal(again.features, first.features)


def test_shards_and_precision_are_other_data():
    assert len(data.load_again(Mnist7v9(limit=100)).features) == 100
    assert len(data.load_again(Mnist7v9(limit=100, shard=(0, 4))).features) == 25
    assert data.load_again(Mnist7v9(limit=100, dtype="float32")).features.dtype == np.float32
    assert data.load_again(Mnist7v9(limit=100)).features.dtype == np.float64


def test_large_data_do_not_stay_in_memory(monkeypatch):
    monkeypatch.setattr(data, "_SMALL_BYTES", 100)
    assert data.load_again(Tall(n_data=100)) is not data.load_again(Tall(n_data=100))


def test_a_persons_file_is_read_each_time(tmp_path):
    path = tmp_path / "mine.csv"
    for rows in (20, 30):
        path.write_text("x,y\n" + "".join(f"{k / 7},{k % 2}\n" for k in range(rows)))
        assert len(data.load_again(Table(path=str(path), target="y")).target) == rows
