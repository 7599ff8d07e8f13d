"""Small tables of 15 to 60 rows that are hard on weighted draws: made, or drawn of the pairs' real ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from flyrun.families.family import Family, family, names
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.priors import INTERCEPT_SD
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.table_rows import Rows
from tools.pairs.tables import PAIRS, Pair, pair

#: plain; columns all but alike; the target's order is a column's; targets and columns far off; columns with
#: heavy tails; almost all targets alike; almost no noise
KINDS = ("plain", "collinear", "separable", "outliers", "leverage", "few", "exact")
NUMBERS = 4  # tables of a family and kind; one of each real table's rows beside them
FEWEST, MOST = 15, 60  # rows
_COLUMNS = 6
_LEVELS = 3
_COEFFICIENT_SD = 2.5


@dataclass(frozen=True)
class Case:
    """A table that is made when it is asked for. kind: one of KINDS, or a real table's name."""

    family: str
    kind: str
    number: int

    @property
    def name(self) -> str:
        """As the table of results has it."""
        return f"{self.family} {self.kind} {self.number}"

    def posterior(self) -> Posterior:
        """Under `flyrun fit`'s default priors; the same whenever it is made."""
        rng = np.random.default_rng(crc32(self.name.encode()))
        one = family(self.family)
        while True:
            made = _made(one, self.kind, rng) if self.kind in KINDS else _drawn(self, rng)
            if made is not None:
                return _posterior(one, *made)


def cases() -> Iterator[Case]:
    """All of them."""
    for one in names():
        yield from (Case(one, kind, number) for kind in KINDS for number in range(NUMBERS))
    yield from (Case(real.family, real.table, 0) for real in PAIRS)


def _made(
    one: Family, kind: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Columns (N, D), y and trials (N,) each; None where the target has not all that it should."""
    n, width = int(rng.integers(FEWEST, MOST + 1)), int(rng.integers(1, _COLUMNS))
    columns = rng.standard_normal((n, width))
    if kind == "collinear":
        columns = np.column_stack([columns, columns[:, 0] + 0.02 * rng.standard_normal(n)])
    if kind == "leverage":
        columns = rng.standard_t(1.5, columns.shape)
    size = {"separable": 30.0, "few": 0.5}.get(kind, 1.0)
    slopes = size * rng.standard_normal(columns.shape[1]) / np.sqrt(columns.shape[1])
    eta = columns @ slopes
    if one.link == "log":
        eta = np.clip(eta, -4.0, 4.0)
    level = -3.0 if kind == "few" else 0.3
    levels = _LEVELS if one.target in ("ordered", "classes") else 0
    trials = rng.integers(1, 9, n) if one.target == "successes" else np.ones(n, int)
    own = one.auxiliary(levels, 1.0)
    aux: list[float] = []
    if one.target == "ordered":
        aux = [-level, 0.0]
    elif levels == 0:
        aux = [{"exact": -6.0}.get(kind, -0.5) if one.link == "identity" else np.log(2.0), np.log(4.0)]
        if one.link == "log" and kind == "exact":
            aux[0] = np.log(1e3)
        if one.link == "log" and own and own[0].name == "sigma":  # a noise, and no precision
            aux[0] = -6.0 if kind == "exact" else -0.5
    predictors = [eta + (0.0 if one.target == "ordered" else level)]
    for k in range(1, one.linear(levels)):
        predictors.append(size * columns @ rng.standard_normal(columns.shape[1]) + k * level)
    y = np.asarray(one.draw(rng, trials, [*predictors, *aux[: len(own)]]), float)
    if kind == "outliers":
        _outliers(one, columns, y, rng)
    return (columns, y, trials) if _usable(one, columns, y, levels) else None


def _outliers(one: Family, columns: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> None:
    """Move a few rows' columns and targets far off, in place."""
    which = rng.choice(len(y), 2, replace=False)
    columns[which[0]] *= 6.0
    if one.target == "regression":
        y[which] += 15.0 * rng.standard_normal(2)
    elif one.target in ("counts", "positive"):
        y[which] = 20.0 * (y[which] + 1.0)
    else:
        y[which] = y[which[::-1]]


def _usable(one: Family, columns: np.ndarray, y: np.ndarray, levels: int) -> bool:
    found = len(np.unique(y))
    enough = {"binary": 2, "ordered": levels, "classes": levels}.get(one.target, 2)
    bounded = one.target != "positive" or (y > 0.0).all()
    return found >= enough and bounded and bool((columns.std(axis=0) > 0.0).all())


def _drawn(case: Case, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Rows and columns of a real table."""
    real: Pair = pair(f"{case.kind} {case.family}")
    frame, one = real.frame(), family(case.family)
    if len(frame) > FEWEST:
        n = min(len(frame), int(rng.integers(FEWEST, MOST + 1)))
        frame = frame.iloc[rng.choice(len(frame), n, replace=False)]
    columns = real.features(frame).to_numpy(float)
    columns = columns[:, columns.std(axis=0) > 0.0]
    most = min(columns.shape[1], _COLUMNS)
    columns = columns[:, rng.choice(columns.shape[1], most, replace=False)]
    y = frame[real.target].to_numpy(float)
    trials = frame[real.beside["trials"]].to_numpy(int) if "trials" in real.beside else np.ones(len(y), int)
    levels = 0
    if one.target in ("ordered", "classes"):
        values, y = np.unique(y, return_inverse=True)
        y, levels = y.astype(float), len(values)
        if levels < 2:
            return None
    return (columns, y, trials) if _usable(one, columns, y, levels) else None


def _posterior(one: Family, columns: np.ndarray, y: np.ndarray, trials: np.ndarray) -> Posterior:
    """Of columns as they are: standardised here, and numbers as `fit` does a target."""
    standard = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    if one.target == "regression":
        y = (y - y.mean()) / y.std()
    sd = np.full(standard.shape[1], _COEFFICIENT_SD)
    if one.intercept:
        standard, sd = np.column_stack([standard, np.ones(len(y))]), np.append(sd, INTERCEPT_SD)
    levels = int(y.max()) + 1 if one.target in ("ordered", "classes") else 0
    rows = Rows(standard, y, trials.astype(float) if one.target == "successes" else 1.0)
    sd = np.tile(sd, one.linear(levels))
    return Posterior(one, rows, CoefficientPrior(np.zeros(len(sd)), sd), levels)
