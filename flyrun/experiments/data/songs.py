"""The songs of Particle Mirror Descent's Figure 2 (2): years by 90 numbers, out of a file that you have.

YearPredictionMSD.txt (Bertin-Mahieux et al. 2011, the UCI repository): a line a song without a header, its
year, then 12 means and 78 covariances of its timbre. Its authors ask that the last 51,630 lines be tested on,
which no artist of the first 463,715 has recorded.
"""

from pathlib import Path

import numpy as np

from flyrun.experiments.config.dataset.row_data import Songs
from flyrun.experiments.data import regression
from flyrun.ground import sources
from flyrun.ground.errors import DataError
from flyrun.tables.dataset import Dataset
from flyrun.tables.your_file import YourFile

NAME = "songs"
N_FEATURES, N_TRAIN, N_TEST = 90, 463_715, 51_630
YEARS = 1900, 2100
NAMES = tuple(f"mean_{k}" for k in range(12)) + tuple(f"covariance_{k}" for k in range(78))
WHERE = (
    "YearPredictionMSD.txt of the UCI repository, as it is there or gzipped; name it with dataset.path=FILE"
)


def load(config: Songs) -> Dataset:
    """Features (N, 90), or (N, 91) with `bias`, and the year, both standardised; see regression.py.

    DataError for a file of other columns, with a value that is no number, or whose lines are not as many as
    the public split is of.
    """
    path = store().path(config.path)
    rows = _rows(path)
    if config.split == "public" and len(rows) != N_TRAIN + N_TEST:
        raise DataError(
            f"{path}: has {len(rows):,} lines, and dataset.split=public is of the whole file's "
            f"{N_TRAIN + N_TEST:,}; choose dataset.split=held_out or dataset.split=all"
        )
    info = {"title": "Years of songs by their sound", "source": f"your file {path.name}", "songs": len(rows)}
    public = {"n_train": N_TRAIN} if config.split == "public" else {}
    columns, digest = regression.winsorised(rows[:, 1:]), sources.sha256_of(path)
    return regression.prepared(
        config, columns, rows[:, 0], NAMES, f"{path}", digest, info, unit="years", **public
    )


def _rows(path: Path) -> np.ndarray:
    """The file, (N, 91): the year first."""
    import pandas as pd  # late: half a second, only for this file

    try:
        table = pd.read_csv(path, header=None)
    except (OSError, ValueError) as error:  # pandas' parser errors are ValueErrors
        raise DataError(f"{path}: cannot be read as CSV ({' '.join(str(error).split())})") from error
    if table.shape[1] != 1 + N_FEATURES:
        raise DataError(
            f"{path}: has {table.shape[1]} columns, not a year and {N_FEATURES} numbers; {NAME} needs {WHERE}"
        )
    rows = table.apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)
    if not (fine := np.isfinite(rows).all(axis=1)).all():
        line = int(np.argmin(fine))
        raise DataError(
            f"{path}: line {line + 1}: has a value that is no number; mend it or leave the line out"
        )
    year = rows[:, 0]
    if not (strange := (year % 1 != 0) | (year < YEARS[0]) | (year > YEARS[1])).any():
        return rows
    line = int(np.argmax(strange))
    raise DataError(
        f"{path}: line {line + 1} begins with {year[line]:g}, which is no year; put the year first in a line"
    )


def fingerprint(config: Songs) -> str:
    """sha256 of the file; DataError where it is not there."""
    return sources.sha256_of(store().path(config.path))


def store() -> YourFile:
    """The file, which is not ours."""
    return YourFile(
        NAME, WHERE, (("features", f"{N_FEATURES} numbers of a song's timbre"),), (".txt", ".txt.gz", ".csv")
    )
