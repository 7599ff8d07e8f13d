"""Likelihoods that count their own evaluations: an account of queries that no meter keeps."""

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.likelihood import log_likelihood
from flyrun.experiments.models.taylor import subtract_expansion
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.schema import Choice

COUNT = np.zeros(1, np.int64)
"""Likelihoods evaluated since it was last set to 0, in this process."""


class Counted(NamedTuple):
    """The likelihood, and the count that it adds to."""

    inner: Any
    evaluated: np.ndarray  # (1,) int64
    n_predictors: int = 1


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


class Counting:
    """A likelihood's code, whose models count."""

    def __init__(self, code: Any):
        self._code = code

    def bind(self, *arguments: Any, **named: Any) -> tuple[Counted, Any]:
        """Model and features, as of the likelihood."""
        model, features = self._code.bind(*arguments, **named)
        return Counted(model, COUNT, model.n_predictors), features

    def part(self, model: Counted, which: slice | np.ndarray) -> Counted:
        """The likelihood of some of the rows."""
        return model._replace(inner=self._code.part(model.inner, which))

    def __getattr__(self, name: str) -> Any:
        """What else the likelihood has, which takes the model that does not count."""
        attribute = getattr(self._code, name)
        if not callable(attribute) or isinstance(attribute, type):
            return attribute
        return lambda *arguments, **named: attribute(
            *(w.inner if isinstance(w, Counted) else w for w in arguments), **named
        )


def counted(choice: Choice) -> Any:
    """The same choice of likelihood, whose code counts."""
    cls = type(choice)
    counting = property(lambda self: Counting(cls.code.fget(self)))  # type: ignore[attr-defined]
    counting_cls = type(cls.__name__, (cls,), {"code": counting, "__module__": cls.__module__})
    return counting_cls(**{field.name: getattr(choice, field.name) for field in fields(choice)})


def counts(choice: Choice) -> bool:
    """Whether a choice of likelihood was made to count."""
    return isinstance(choice.code, Counting)
