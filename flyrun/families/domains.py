"""What a target may hold. A family says it once, in `domain`; tables, scans and refusals read it there."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from flyrun.families.options import for_tables
from flyrun.ground.errors import DataError
from flyrun.ground.schema import SCHEMAS


def _any(y: np.ndarray) -> np.ndarray:
    return np.ones(len(y), bool)


@dataclass(frozen=True)
class Domain:
    """The values that a target may have.

    name: as `dataset.task` has it. words: what the values are, for a refusal: "whole numbers from 0"; many:
    what they are called in it. holds(y): which values (n,) it has, (n,). classes: how many levels the target
    has: none (0), two, or two and more (inf); ordered: of classes. whole: of whole numbers, which a figure
    counts one by one. of_trials: of successes, at most a row's trials. standardized: whether the model is of
    the target less its mean, in sds. meaning: what whole numbers are that may be of this domain, or "".
    """

    name: str
    words: str
    holds: Callable[[np.ndarray], np.ndarray] = _any
    classes: float = 0
    ordered: bool = False
    whole: bool = False
    of_trials: bool = False
    standardized: bool = False
    meaning: str = ""
    many: str = "such targets"

    def __str__(self) -> str:
        """What its targets are, told apart from those of all other domains."""
        return f"{self.name} of trials" if self.of_trials else self.words

    @property
    def nominal(self) -> bool:
        """Whether its classes are several and have no order: a linear predictor each, but the first."""
        return self.classes > 2 and not self.ordered

    @property
    def has_chance(self) -> bool:
        """Whether an expected target is a chance, of a class or in a trial."""
        return self.classes > 0 or self.of_trials

    def refusal(
        self, values: np.ndarray, trials: np.ndarray | None = None, of: str = "the trials"
    ) -> tuple[int, str] | None:
        """The first of values (n,) that it does not hold, by number, and why; None where it holds all.

        trials: (n,), of successes, called `of`.
        """
        fine = self.holds(values)
        if not fine.all():
            return int(np.argmin(fine)), f"{self.many} are {self.words}"
        if self.of_trials and trials is not None and not (fine := values <= trials).all():
            return int(np.argmin(fine)), f"{self.many} are at most {of}"
        return None


def _whole(y: np.ndarray) -> np.ndarray:
    return (y >= 0.0) & (y == np.rint(y))


def _zero_one(y: np.ndarray) -> np.ndarray:
    return (y == 0.0) | (y == 1.0)


def _signs(y: np.ndarray) -> np.ndarray:
    return _zero_one(np.abs(y))


def _ways(y: np.ndarray) -> np.ndarray:
    return np.isin(y, (-1.0, 0.0, 1.0, 2.0))


def _events(y: np.ndarray) -> np.ndarray:
    return np.isin(y, (0.0, 1.0, 2.0, 3.0))


BINARY = Domain("binary", "two labels, -1 and +1", classes=2)
CLASSES = Domain("classes", "classes 0 … K-1", classes=math.inf, meaning="classes")
ORDERED = Domain("ordered", "classes in order", classes=math.inf, ordered=True, meaning="classes in order")
COUNTS = Domain("counts", "whole numbers from 0", _whole, whole=True, meaning="counts", many="counts")
SUCCESSES = Domain("successes", "whole numbers from 0", _whole, whole=True, of_trials=True, many="successes")
POSITIVE = Domain("positive", "numbers above 0", lambda y: y > 0.0)
AMOUNTS = Domain("amounts", "numbers from 0", lambda y: y >= 0.0, many="amounts")
NUMBERS = Domain("regression", "numbers", standardized=True, meaning="measurements")

#: those that several families share, or datasets have; a family's file may have one more
SHARED = {one.name: one for one in (COUNTS, CLASSES, ORDERED, NUMBERS, BINARY, SUCCESSES, POSITIVE, AMOUNTS)}
#: of the columns that are no features, by role; an offset is any number
BESIDE = {
    "exposure": replace(POSITIVE, many="exposures"),
    "trials": replace(COUNTS, many="trials"),
    "weights": replace(COUNTS, many="weights"),
    "precision_weights": replace(POSITIVE, many="precision weights"),
    "event": Domain("event", "1 where it was seen and 0 where it was not", _zero_one, many="events"),
    "cens": Domain(
        "cens", "0 where it was seen, 1 where it is beyond, -1 where it is below", _signs, many="ways of it"
    ),
}
#: of those of targets of which some are known to be between two ends
OF_INTERVALS = {
    "event": replace(
        BESIDE["event"],
        words="1 where it was seen, 0 where it is beyond, 2 where it is below and 3 where it is between",
        holds=_events,
    ),
    "cens": replace(BESIDE["cens"], words=f"{BESIDE['cens'].words}, 2 where it is between", holds=_ways),
}


def of(name: str) -> Domain:
    """The domain of this name. DataError where no family has it."""
    if (known := SHARED.get(name)) is not None:
        return known
    if not (models := for_tables(name)):
        raise DataError(f"dataset.task={name}: no model is for such targets; name one that has a model")
    return SCHEMAS["model"][models[0]].family().domain  # type: ignore[attr-defined]
