"""Points of the same Parquet files by other tools: those that are installed and have the memory."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tools.billion.shards import TARGET

_IN_MEMORY = 2_000_000_000  # bytes of a table as float64 that a tool may take


def groups(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Features (n, D), float32, and targets (n,) of each row group."""
    import pyarrow.parquet as parquet  # late: an extra

    for path in sorted(folder.glob("*.parquet")):
        with parquet.ParquetFile(path) as opened:
            for k in range(opened.metadata.num_row_groups):
                table = opened.read_row_group(k, use_threads=False)
                names = [name for name in table.column_names if name != TARGET]
                yield (
                    np.column_stack([table[name].to_numpy() for name in names]),
                    table[TARGET].to_numpy(),
                )


def sgd(folder: Path) -> np.ndarray:
    """One epoch of averaged stochastic gradients, row group by row group."""
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(loss="log_loss", average=True, random_state=0)
    for x, y in groups(folder):
        model.partial_fit(x, y, classes=[0, 1])
    return np.append(model.coef_[0], model.intercept_)


def newton(folder: Path) -> np.ndarray:
    """Newton's method on the whole table in memory."""
    from sklearn.linear_model import LogisticRegression

    x, y = whole(folder)
    model = LogisticRegression(C=1e9, solver="newton-cholesky", tol=1e-8).fit(x, y)
    return np.append(model.coef_[0], model.intercept_)


def stats_models(folder: Path) -> np.ndarray:
    """Iteratively reweighted least squares, which gives standard errors, too."""
    import statsmodels.api as sm

    x, y = whole(folder)
    return sm.GLM(y, np.column_stack([x, np.ones(len(y))]), family=sm.families.Binomial()).fit().params


def dask_ml(folder: Path) -> np.ndarray:
    """Newton's method by blocks of Dask."""
    import dask.array
    from dask_ml.linear_model import LogisticRegression

    parts = list(groups(folder))
    x, y = (dask.array.concatenate([dask.array.from_array(one[k]) for one in parts]) for k in (0, 1))
    model = LogisticRegression(solver="newton", C=1e9).fit(x, y)
    return np.append(model.coef_, model.intercept_)


def whole(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """All rows in memory."""
    x, y = zip(*groups(folder), strict=True)
    return np.concatenate(x), np.concatenate(y)


#: name -> (what it gives, the function, whether all rows are in memory)
TOOLS: dict[str, tuple[str, Callable[[Path], np.ndarray], bool]] = {
    "scikit-learn SGD, one epoch": ("point", sgd, False),
    "scikit-learn newton-cholesky": ("point", newton, True),
    "statsmodels GLM": ("point, standard errors", stats_models, True),
    "dask-ml newton": ("point", dask_ml, True),
}


def measured(
    folder: Path, rows: int, columns: int, known: dict[str, tuple[float, float]]
) -> list[dict[str, Any]]:
    """A row for each tool that is installed and has room. known: posterior mean and sd by coefficient."""
    mean, sd = np.array([known[name] for name in (*(f"x{k}" for k in range(columns)), "intercept")]).T
    found = []
    for name, (gives, of, in_memory) in TOOLS.items():
        if in_memory and 8 * rows * columns > _IN_MEMORY:
            continue
        with contextlib.suppress(ImportError):
            began = time.process_time()
            point = of(folder)
            seconds = time.process_time() - began
            off = float(np.max(np.abs(point - mean) / sd))
            found.append({"rows": rows, "tool": name, "seconds": seconds, "gives": gives, "off": off})
    return found
