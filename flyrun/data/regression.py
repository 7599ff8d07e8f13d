"""From raw columns to rows of a regression: winsorised, shuffled, standardised, split.

The intercept: features and target are centred by the means of the training rows, which takes the
least-squares intercept out, and there is no column of ones, so that θ has one entry per feature as in the
paper. `bias=True` adds such a column (of D + 1 features the last) for a likelihood whose best intercept is
not that of least squares.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flyrun.data import checks, features

TAIL = 1e-4  # share of the rows on either side of a column that are set to the quantile there
HELD_OUT = 0.1
SEED = 0


class Rows(NamedTuple):
    """Arrays for a Dataset, and what turns a standardised target y back: mean + sd·y."""

    features: np.ndarray
    target: np.ndarray
    test_features: np.ndarray
    test_target: np.ndarray
    mean: float
    sd: float


def winsorised(columns: np.ndarray, tail: float = TAIL) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`columns` (N, D) cut off at their quantiles `tail` and 1 - `tail`, and these (D,) and (D,).

    The quantiles are values that occur, so that counts stay counts.
    """
    low, high = np.quantile(columns, [tail, 1 - tail], axis=0, method="inverted_cdf")
    return np.clip(columns, low, high), low, high


def prepared(
    columns: np.ndarray,
    target: np.ndarray,
    split: str,
    limit: int | None,
    bias: bool,
    what: str,
    names: tuple[str, ...],
) -> Rows:
    """Rows in a fixed random order (files are sorted by size), standardised by the training rows.

    split: "all" trains on every row, "held_out" keeps the last tenth of the shuffled rows apart.  limit:
    keeps the first training rows, features as they are.  DataError for a column or target that is
    constant; ConfigError for a limit out of range.
    """
    # RandomState's streams are frozen for good, those of numpy's newer generators are not.
    order = np.random.RandomState(SEED).permutation(len(target))
    n_test = round(HELD_OUT * len(target)) if split == "held_out" else 0
    train, test = order[: len(order) - n_test], order[len(order) - n_test :]
    checks.not_constant(columns[train], what, names)
    checks.not_constant(target[train, None], what, ("target",))
    limit = features.checked_limit(limit, len(train))
    mean, sd = columns[train].mean(axis=0), columns[train].std(axis=0)
    centre, spread = float(target[train].mean()), float(target[train].std())

    def standard(rows: np.ndarray) -> np.ndarray:
        scores = (columns[rows] - mean) / sd
        return features.with_bias(scores) if bias else scores

    return Rows(
        standard(train[:limit]),
        (target[train[:limit]] - centre) / spread,
        standard(test),
        (target[test] - centre) / spread,
        centre,
        spread,
    )


def facts(rows: Rows, bias: bool, unit: str) -> dict[str, float | str]:
    """For Dataset.info: how the target was centred and scaled, and what became of the intercept."""
    return {
        "target": "gap, standardised by the training rows",
        "target_mean": rows.mean,
        "target_sd": rows.sd,
        "target_unit": unit,
        "intercept": "a last column of ones" if bias else "none: features and target are centred",
    }
