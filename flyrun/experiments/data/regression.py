"""From raw columns to rows of a regression: winsorised, shuffled, standardised, split.

The intercept: features and target are centred by the means of the training rows, which takes the
least-squares intercept out, and there is no column of ones, so that θ has one entry per feature as in the
paper. `bias=True` adds such a column (of D + 1 features the last) for a likelihood whose best intercept is
not that of least squares.
"""

from typing import Any

import numpy as np

from flyrun.experiments.config.dataset.row_data import OpvCep, Qm9Gap, Songs
from flyrun.ground import feature_cache
from flyrun.tables import checks
from flyrun.tables.dataset import Dataset

TAIL = 1e-4  # share of the rows on either side of a column that are set to the quantile there
HELD_OUT = 0.1
SEED = 0
TARGETS = {"qm9_gap": "gap", "opv_cep": "gap", "songs": "year"}


def winsorised(columns: np.ndarray) -> np.ndarray:
    """`columns` (N, D) cut off at their quantiles TAIL and 1 - TAIL.

    The quantiles are values that occur, so that counts stay counts.
    """
    return np.clip(columns, *np.quantile(columns, [TAIL, 1 - TAIL], axis=0, method="inverted_cdf"))


def prepared(
    config: Qm9Gap | OpvCep | Songs,
    columns: np.ndarray,
    gap: np.ndarray,
    names: tuple[str, ...],
    what: str,
    sha256: str,
    info: dict[str, Any],
    *,
    n_train: int | None = None,
    unit: str = "eV",
) -> Dataset:
    """Rows in a fixed random order (files are sorted by size), standardised by the training rows.

    columns: (N, D); gap: (N,), the target, in `unit`.
    config.split: "all" trains on every row, "held_out" keeps the last tenth of the shuffled rows apart (the
    same at all times).  n_train: trains on so many first rows instead, and tests on the others.  limit: keeps
    the first training rows, features as they are.  bias: adds a column.
    DataError for a column or gap that is constant; ConfigError for a limit out of range.
    """
    # RandomState's streams are frozen for good, those of numpy's newer generators are not.
    draws = np.random.RandomState(SEED)
    order = np.append(draws.permutation(n_train or len(gap)), np.arange(n_train or len(gap), len(gap)))
    n_test = len(gap) - n_train if n_train else round(HELD_OUT * len(gap)) * (config.split == "held_out")
    train, test = order[: len(order) - n_test], order[len(order) - n_test :]
    checks.not_constant(columns[train], what, names)
    checks.not_constant(gap[train, None], what, ("target",))
    limit = feature_cache.checked_limit(config.limit, len(train))
    mean, sd = columns[train].mean(axis=0), columns[train].std(axis=0)
    centre, spread = float(gap[train].mean()), float(gap[train].std())

    def standard(rows: np.ndarray) -> np.ndarray:
        scores = (columns[rows] - mean) / sd
        return feature_cache.with_bias(scores) if config.bias else scores

    return Dataset(
        name=config.name,
        features=standard(train[:limit]),
        target=(gap[train[:limit]] - centre) / spread,
        test_features=standard(test),
        test_target=(gap[test] - centre) / spread,
        feature_names=(*names, "bias") if config.bias else names,
        sha256=sha256,
        info={
            **info,
            "split": config.split,
            "target": f"{TARGETS[config.name]}, standardised by the training rows",
            "target_mean": centre,
            "target_sd": spread,
            "target_unit": unit,
            "intercept": "a last column of ones" if config.bias else "none: features and target are centred",
        },
        task="regression",
    )
