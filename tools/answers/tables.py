"""Generated rows of each model: independent standard normal columns and a target drawn from the model.

Weibull times are seen until a time that differs by row: 70 % are censored, and `event` says which.
"""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from flyrun.families.family import family

COLUMNS = 20
_PIECE = 250_000  # rows held at once


class Truth(NamedTuple):
    """spread: the sd of coefficients; auxiliary: the model's numbers beside them, as its family has them."""

    intercept: float
    spread: float
    auxiliary: tuple[float, ...] = ()


POWER = 1.4  # of Tweedie's variance
DISPERSION = 0.5  # of the negative binomial: variance μ + μ²/2
#: counts are 1.8 on average, half the time 0 or 1
TRUTHS = {
    "logistic": Truth(0.0, 0.5),
    "poisson": Truth(0.4, 0.15),
    "negative_binomial": Truth(0.4, 0.15, (-math.log(DISPERSION),)),
    "gaussian": Truth(0.0, 0.5, (0.0,)),
    "zero_inflated_poisson": Truth(0.4, 0.15, (math.log(0.3 / 0.7),)),
    "weibull": Truth(1.0, 0.15, (math.log(1.5),)),
    "tweedie": Truth(0.4, 0.15, tuple(family("tweedie").unread(np.array([1.5, POWER])))),
}


def write(file: Path, model: str, n: int) -> None:
    """A file of n rows, .csv or .parquet: columns x0, x1, … and y, six digits each, always the same."""
    truth, rng = TRUTHS[model], np.random.default_rng(n)
    beta = rng.normal(0.0, truth.spread, COLUMNS)
    parts = []
    for begin in range(0, n, _PIECE):
        x = rng.standard_normal((min(_PIECE, n - begin), COLUMNS)).round(6)
        y = family(model).draw(rng, 1, [truth.intercept + x @ beta, *truth.auxiliary])
        if family(model).target in ("binary", "counts"):
            y = y.astype(np.int64)
        columns = {"y": np.round(y, 6)}
        if model == "weibull":
            end = np.exp(truth.intercept) * rng.random(len(y))
            columns = {"event": 1 * (y <= end), "y": np.maximum(np.minimum(y, end).round(6), 1e-6)}
        part = pd.DataFrame(x, columns=[f"x{i}" for i in range(COLUMNS)]).assign(**columns)
        if file.suffix == ".csv":
            part.to_csv(file, index=False, mode="a" if begin else "w", header=not begin)
        else:
            parts.append(part)
    if parts:
        pd.concat(parts).to_parquet(file, index=False)
