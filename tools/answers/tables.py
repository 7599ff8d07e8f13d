"""Generated rows of each model: independent standard normal columns and a target drawn from the model."""

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


DISPERSION = 0.5  # of the negative binomial: variance μ + μ²/2
#: counts are 1.8 on average, half the time 0 or 1
TRUTHS = {
    "logistic": Truth(0.0, 0.5),
    "poisson": Truth(0.4, 0.15),
    "negative_binomial": Truth(0.4, 0.15, (-math.log(DISPERSION),)),
    "gaussian": Truth(0.0, 0.5, (0.0,)),
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
        part = pd.DataFrame(x, columns=[f"x{i}" for i in range(COLUMNS)]).assign(y=np.round(y, 6))
        if file.suffix == ".csv":
            part.to_csv(file, index=False, mode="a" if begin else "w", header=not begin)
        else:
            parts.append(part)
    if parts:
        pd.concat(parts).to_parquet(file, index=False)
