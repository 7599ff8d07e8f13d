"""The tables: of each family one that is small, one or two that are hard, and one of 10⁶ rows.

Hard is what a family's users meet: few events, almost all zeros, all times but one censored, a power near 1
or 2, targets next to an end of their range. Columns: a normal one, a skew one and one of two values.
"""

from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pandas as pd

LONG = 1_000_000
TRIALS = 6
_COLUMNS = ("normal", "skew", "two")


@dataclass(frozen=True)
class Table:
    """A table that is made when it is asked for. kind: "small", "hard …" or "long".

    rows: how many; level, slopes: of the linear predictor; others: the family's other parameters, as people
    read them; end: at which quantile of times all rows are censored, 1 of none; seen: how many events remain
    then, 0 of all.
    """

    family: str
    kind: str
    rows: int
    level: float
    others: tuple[float, ...] = ()
    slopes: tuple[float, float, float] = (0.4, -0.2, 0.5)
    end: float = 1.0
    seen: int = 0

    @property
    def name(self) -> str:
        """As the references have it."""
        return f"{self.family} {self.kind}"

    @property
    def formula(self) -> str:
        """What `flyrun fit` is asked."""
        target = "Surv(y, event)" if self.end < 1.0 else "y | n" if self.family == "beta_binomial" else "y"
        return f"{target} ~ {' + '.join(_COLUMNS)}"

    def frame(self) -> pd.DataFrame:
        """The same whenever it is made. Beside y and columns it has `event`, or `n` of successes."""
        rng = np.random.default_rng(crc32(self.name.encode()))
        normal, skew = rng.normal(size=self.rows), rng.exponential(size=self.rows)
        two = (rng.random(self.rows) < 0.4).astype(float)
        columns = dict(zip(_COLUMNS, (normal, skew, two), strict=True))
        eta = self.level + self.slopes[0] * normal + self.slopes[1] * skew + self.slopes[2] * two
        y = _drawn(self.family, rng, eta, self.others)
        if self.family == "beta_binomial":
            return pd.DataFrame(columns | {"y": y, "n": TRIALS})
        if self.end == 1.0:
            return pd.DataFrame(columns | {"y": y})
        # the study ends, and rows leave it before
        left = np.quantile(y, self.end) * rng.uniform(0.5, 1.0, self.rows)
        event = y <= left
        if self.seen:
            event &= np.cumsum(event) <= self.seen
        return pd.DataFrame(columns | {"y": np.where(event, y, np.minimum(y, left)), "event": 1 * event})


def _drawn(family: str, rng: np.random.Generator, eta: np.ndarray, others: tuple[float, ...]) -> np.ndarray:
    """Targets (N,) by NumPy's distributions."""
    n, mean = len(eta), np.exp(eta)
    chance = 1.0 / (1.0 + np.exp(-eta))
    if family.startswith("zero_inflated"):
        some = rng.random(n) >= others[-1]
        return some * _drawn(family.removeprefix("zero_inflated_"), rng, eta, others[:-1])
    if family.startswith("hurdle"):
        some, of_rest = rng.random(n) >= others[-1], family.removeprefix("hurdle_")
        y = _drawn(of_rest, rng, eta, others[:-1])
        while (none := y == 0.0).any():
            y[none] = _drawn(of_rest, rng, eta[none], others[:-1])
        return some * y
    if family == "poisson":
        return rng.poisson(mean).astype(float)
    if family == "negative_binomial":
        return rng.poisson(mean * rng.gamma(others[0], 1.0 / others[0], n)).astype(float)
    if family == "gamma":
        return np.maximum(rng.gamma(others[0], mean / others[0]), 1e-300)
    if family == "lognormal":
        return np.exp(rng.normal(eta, others[0]))
    if family == "inverse_gaussian":
        return rng.wald(mean, others[0])
    if family == "exponential":
        return rng.exponential(mean)
    if family == "weibull":
        return mean * rng.weibull(others[0], n)
    if family == "log_logistic":
        return mean * np.exp(rng.logistic(size=n) / others[0])
    if family == "beta":
        y = rng.beta(chance * others[0], (1.0 - chance) * others[0])
        return np.clip(y, 1e-12, 1.0 - 1e-12)
    if family == "beta_binomial":
        return rng.binomial(TRIALS, rng.beta(chance * others[0], (1.0 - chance) * others[0])).astype(float)
    phi, power = others  # of Tweedie
    number = rng.poisson(mean ** (2.0 - power) / (phi * (2.0 - power)))
    shape = (2.0 - power) / (power - 1.0)
    y = rng.gamma(np.maximum(number, 1) * shape, phi * (power - 1.0) * mean ** (power - 1.0))
    # in cents, as amounts are: many rows share one
    return np.where(number > 0, np.maximum(np.rint(100.0 * y), 1.0) / 100.0, 0.0)


def _tables() -> list[Table]:
    counts = {
        "zero_inflated_poisson": (0.3,),
        "hurdle_poisson": (0.3,),
        "zero_inflated_negative_binomial": (1.5, 0.3),
        "hurdle_negative_binomial": (1.5, 0.3),
    }
    made = []
    for name, others in counts.items():
        many_zeros = (*others[:-1], 0.85)
        made += [
            Table(name, "small", 60, 1.0, others),
            Table(name, "hard: many zeros", 40, 0.3, many_zeros),
            Table(name, "long", LONG, 0.7, others),
        ]
    for name, others in {"hurdle_gamma": (2.0, 0.3), "hurdle_lognormal": (0.8, 0.3)}.items():
        made += [
            Table(name, "small", 60, 1.0, others),
            Table(name, "hard: many zeros", 40, 1.0, (others[0], 0.85)),
            Table(name, "long", LONG, 1.0, others),
        ]
    times: dict[str, tuple[float, ...]] = {
        "exponential": (), "weibull": (1.5,), "log_logistic": (2.0,), "lognormal": (0.8,),
    }  # fmt: skip
    for name, others in times.items():
        made += [
            Table(name, "small", 60, 1.0, others),
            Table(name, "hard: one event", 40, 1.0, others, end=0.5, seen=1),
            Table(name, "long", LONG, 1.0, others, end=0.4),
        ]
    made += [
        Table("inverse_gaussian", "small", 60, 0.5, (2.0,)),
        Table("inverse_gaussian", "hard: skew", 20, 1.0, (0.05,)),
        Table("inverse_gaussian", "long", LONG, 0.5, (2.0,)),
        Table("beta", "small", 60, 0.3, (5.0,)),
        Table("beta", "hard: at the ends", 20, 0.3, (0.2,)),
        Table("beta", "long", LONG, 0.3, (5.0,)),
        Table("beta_binomial", "small", 60, 0.3, (4.0,)),
        Table("beta_binomial", "hard: few events", 30, -4.0, (2.0,)),
        Table("beta_binomial", "long", LONG, 0.3, (4.0,)),
        Table("tweedie", "small", 60, 0.7, (1.2, 1.5)),
        Table("tweedie", "hard: power near 1", 40, 0.7, (1.0, 1.04)),
        Table("tweedie", "hard: power near 2", 40, 0.7, (3.0, 1.93)),
        Table("tweedie", "long", LONG, 0.5, (1.5, 1.4), slopes=(0.2, -0.1, 0.3)),
    ]
    return made


TABLES = _tables()


def table(name: str) -> Table:
    """By its name."""
    return next(one for one in TABLES if one.name == name)
