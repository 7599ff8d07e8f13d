"""The pairs: a table that scikit-learn or statsmodels brings along, and a family for its target."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Pair:
    """A table and a family. target: its column; frame: makes the table, columns named as typed.

    beside: columns that are no features, by option, as `exposure`. Every other column is a feature.
    numeric: a column that is one, though it looks as if it held codes or numbers of rows.
    """

    table: str
    family: str
    target: str
    frame: Callable[[], pd.DataFrame]
    beside: dict[str, str] = field(default_factory=dict)
    numeric: str = ""

    @property
    def name(self) -> str:
        """As the reference has it."""
        return f"{self.table} {self.family}"

    def words(self) -> list[str]:
        """`flyrun fit` of the table's file, less the file."""
        beside = [word for role, column in self.beside.items() for word in (f"--{role}", column)]
        numeric = ["--numeric", self.numeric] if self.numeric else []
        return ["--target", self.target, "--model", self.family, *beside, *numeric]

    def features(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The columns that are features."""
        return frame.drop(columns=[self.target, *self.beside.values()])


def _sklearn(name: str) -> Any:
    return getattr(importlib.import_module("sklearn.datasets"), f"load_{name}")(as_frame=True)


def _statsmodels(name: str) -> Any:
    found = getattr(importlib.import_module("statsmodels.api").datasets, name).load_pandas()
    frame = found.data.reset_index(drop=True)
    return frame.rename(columns=lambda one: str(one).strip().lower())


def breast_cancer() -> pd.DataFrame:
    """569 tumours, separable."""
    return _sklearn("breast_cancer").frame


def diabetes() -> pd.DataFrame:
    """442 patients."""
    return _sklearn("diabetes").frame


def iris() -> pd.DataFrame:
    """150 flowers."""
    return _sklearn("iris").frame


def two_irises() -> pd.DataFrame:
    """The first two kinds, which each of two columns separates."""
    frame = iris()
    return frame[frame["target"] < 2]


def wine() -> pd.DataFrame:
    """178 wines."""
    return _sklearn("wine").frame


def spector() -> pd.DataFrame:
    """32 students."""
    return _statsmodels("spector")


def star98() -> pd.DataFrame:
    """303 school districts: pupils above the median, of all."""
    frame = _statsmodels("star98")
    frame["pupils"] = frame["nabove"] + frame["nbelow"]
    return frame.drop(columns="nbelow")


def cpunish() -> pd.DataFrame:
    """Executions in 17 states."""
    return _statsmodels("cpunish")


def randhie() -> pd.DataFrame:
    """20,190 persons' visits to a doctor."""
    return _statsmodels("randhie")


def fair() -> pd.DataFrame:
    """6,366 women on their marriages, from 1 to 5."""
    return _statsmodels("fair").drop(columns="affairs")


def affairs() -> pd.DataFrame:
    """The same women: whether there was an affair."""
    frame = _statsmodels("fair")
    frame["affairs"] = (frame["affairs"] > 0).astype(int)
    return frame


def stackloss() -> pd.DataFrame:
    """21 days of a plant."""
    return _statsmodels("stackloss")


def scotland() -> pd.DataFrame:
    """32 regions' share of yes."""
    return _statsmodels("scotland")


def longley() -> pd.DataFrame:
    """16 years, collinear columns."""
    return _statsmodels("longley")


def anes96() -> pd.DataFrame:
    """944 voters: which party, from 0 to 6."""
    return _statsmodels("anes96")[["logpopul", "tvnews", "selflr", "age", "educ", "income", "pid"]]


def votes() -> pd.DataFrame:
    """The same voters: which of two."""
    return _statsmodels("anes96")[["logpopul", "tvnews", "selflr", "age", "educ", "income", "pid", "vote"]]


def ccard() -> pd.DataFrame:
    """72 persons' spending by credit card."""
    return _statsmodels("ccard")


def copper() -> pd.DataFrame:
    """25 years of the copper market, less the count of the years."""
    return _statsmodels("copper").drop(columns="time")


def committee() -> pd.DataFrame:
    """Bills before 20 committees."""
    return _statsmodels("committee")


def cancer() -> pd.DataFrame:
    """Cancer in 301 counties."""
    frame = _statsmodels("cancer")
    return frame.assign(people=frame["population"], log_people=np.log(frame["population"])).drop(
        columns="population"
    )


def engel() -> pd.DataFrame:
    """What 235 households spend on food."""
    return _statsmodels("engel")


def statecrime() -> pd.DataFrame:
    """51 states."""
    return _statsmodels("statecrime")[["murder", "hs_grad", "poverty", "single", "urban"]]


def strikes() -> pd.DataFrame:
    """How long 62 strikes were."""
    return _statsmodels("strikes")


PAIRS = [
    *(Pair("breast_cancer", family, "target", breast_cancer) for family in ("logistic", "probit")),
    *(Pair("diabetes", family, "target", diabetes) for family in ("gaussian", "student_t", "gamma")),
    Pair("two_irises", "logistic", "target", two_irises),
    Pair("iris", "softmax", "target", iris),
    Pair("wine", "softmax", "target", wine),
    *(Pair("spector", family, "grade", spector) for family in ("logistic", "probit")),
    Pair("star98", "binomial", "nabove", star98, {"trials": "pupils"}),
    *(Pair("cpunish", family, "executions", cpunish) for family in ("poisson", "negative_binomial")),
    *(
        Pair("randhie", family, "mdvis", randhie, numeric="physlm")
        for family in ("poisson", "negative_binomial")
    ),
    Pair("fair", "ordinal", "rate_marriage", fair),
    *(Pair("affairs", family, "affairs", affairs) for family in ("logistic", "probit")),
    *(Pair("stackloss", family, "stackloss", stackloss) for family in ("gaussian", "student_t")),
    Pair("scotland", "gamma", "yes", scotland),
    Pair("longley", "gaussian", "totemp", longley),
    *(Pair("anes96", family, "pid", anes96) for family in ("ordinal", "softmax")),
    Pair("votes", "logistic", "vote", votes),
    *(Pair("ccard", family, "avgexp", ccard) for family in ("gaussian", "student_t", "gamma")),
    Pair("copper", "gaussian", "worldconsumption", copper),
    *(Pair("committee", family, "bills104", committee) for family in ("poisson", "negative_binomial")),
    *(
        Pair("cancer", family, "cancer", cancer, {"exposure": "people"})
        for family in ("poisson", "negative_binomial")
    ),
    *(Pair("engel", family, "foodexp", engel) for family in ("gaussian", "student_t")),
    Pair("statecrime", "gaussian", "murder", statecrime),
    Pair("strikes", "gamma", "duration", strikes),
]


def pair(name: str) -> Pair:
    """By its name."""
    return next(one for one in PAIRS if one.name == name)
