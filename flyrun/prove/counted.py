"""Logistic regression that counts its own evaluations: an account of queries that no meter keeps."""

from typing import Any, NamedTuple

import numpy as np

from flyrun.models import logistic
from flyrun.models.likelihood import log_likelihood
from flyrun.models.taylor import subtract_expansion
from flyrun.numerics.compiled import implements

COUNT = np.zeros(1, np.int64)
"""Likelihoods evaluated since it was last set to 0, in this process."""


class Counted(NamedTuple):
    """The likelihood, and the count that it adds to."""

    inner: Any
    evaluated: np.ndarray  # (1,) int64
    n_predictors: int = 1


def bind(features: np.ndarray, target: np.ndarray | None) -> tuple[Counted, Any]:
    """Model and features, as of logistic regression."""
    model, rows = logistic.bind(features, target)
    return Counted(model, COUNT), rows


@implements(log_likelihood, Counted)
def _log_likelihood(model, index, eta, values, slopes):
    log_likelihood(model.inner, index, eta, values, slopes)
    model.evaluated[0] += index.shape[0]
    if index.itemsize == 4:  # Firefly's blocks, of different data, are filled up with their last one
        for i in range(1, index.shape[0]):
            model.evaluated[0] -= index[i] == index[i - 1]


@implements(subtract_expansion, Counted)
def _subtract_expansion(model, index, centres, eta, order, values):
    subtract_expansion(model.inner, index, centres, eta, order, values)


def part(model: Counted, which: Any) -> Counted:
    """The likelihood of some of the rows."""
    return model


def __getattr__(name: str) -> Any:
    """What else logistic regression has, which takes the model that does not count."""
    found = getattr(logistic, name)
    if not callable(found) or isinstance(found, type):
        return found
    return lambda *words, **named: found(*(w.inner if isinstance(w, Counted) else w for w in words), **named)
