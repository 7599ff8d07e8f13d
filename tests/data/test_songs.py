"""The public file of songs, as a person has it: split as its authors ask, and refused where it is another."""

import numpy as np
import pytest

from flyrun.experiments import data
from flyrun.experiments.config.dataset.row_data import Songs
from flyrun.experiments.data import songs
from flyrun.ground.errors import DataError


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A file of so many songs and numbers, of which the public split keeps the last 20 apart."""
    monkeypatch.setattr(songs, "N_TRAIN", 80)
    monkeypatch.setattr(songs, "N_TEST", 20)

    def to(n=100, width=90, mark=None):
        rng = np.random.default_rng(0)
        rows = np.column_stack([rng.integers(1922, 2012, n), rng.normal(size=(n, width))]).astype(object)
        if mark:
            rows[7, 3] = mark
        path = tmp_path / "YearPredictionMSD.txt"
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
        return str(path), rows

    return to


def test_the_public_split_is_by_the_files_order(write):
    path, rows = write()
    held = data.load(Songs(path=path))
    assert held.features.shape == (80, 90)
    year = rows[:, 0].astype(float)
    wanted = (year[80:] - year[:80].mean()) / year[:80].std()
    np.testing.assert_allclose(held.test_target, wanted)
    assert sorted(held.target) == pytest.approx(sorted((year[:80] - year[:80].mean()) / year[:80].std()))
    assert held.info["target_unit"] == "years"
    random = data.load(Songs(path=path, split="held_out"))
    assert random.test_features.shape == (10, 90)
    assert not set(np.round(random.test_target, 6)) <= set(np.round(held.test_target, 6))
    assert data.load(Songs(path=path, split="all", bias=True)).features.shape == (100, 91)


def test_a_file_whose_year_is_elsewhere_is_refused(write, tmp_path):
    _, rows = write()
    np.savetxt(path := tmp_path / "last.csv", np.roll(rows.astype(float), -1, axis=1), delimiter=",")
    with pytest.raises(DataError, match=r"line 1 begins with .*, which is no year"):
        data.load(Songs(path=str(path)))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"n": 90}, "has 90 lines.*dataset.split=held_out"),
        ({"width": 12}, "has 13 columns, not a year and 90 numbers"),
        ({"mark": "loud"}, "line 8: has a value that is no number"),
    ],
)
def test_another_file_is_refused_in_one_line(write, made, words):
    with pytest.raises(DataError, match=words):
        data.load(Songs(path=write(**made)[0]))
