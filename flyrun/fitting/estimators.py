"""Regressions as scikit-learn has them: arrays in, draws of the exact posterior inside.

A column that is the same in every row is left out, with a warning; its coefficient is 0.
"""

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from flyrun.families.domains import Domain
from flyrun.families.family import family, names
from flyrun.fitting import engine, predict, question
from flyrun.fitting.python import typed_prior
from flyrun.fitting.request import Budget, Clock, Request
from flyrun.ground.errors import FlyrunError
from flyrun.ground.schema import did_you_mean, listing
from flyrun.tables import frames
from flyrun.tables.new_rows import Rows


class _Regression(BaseEstimator):
    """What both have in common."""

    _classes: ClassVar[bool]

    def __init__(
        self,
        model: str | None = None,
        *,
        priors: Mapping[str, str] | None = None,
        prior_scale: float = Request.prior_scale,
        draws: int = 1_000,
        budget: float = 600.0,
        seed: int = 0,
    ):
        self.model = model
        self.priors = priors
        self.prior_scale = prior_scale
        self.draws = draws
        self.budget = budget
        self.seed = seed

    def _model(self, usual: str) -> str:
        known = [name for name in names() if self._takes(family(name).domain)]
        if self.model is not None and self.model not in known:
            close = did_you_mean(str(self.model), known)
            raise ValueError(f"model={self.model!r}: no such model here{close}; choose from {listing(known)}")
        return self.model or usual

    def _takes(self, domain: Domain) -> bool:
        return domain.classes > 0 if self._classes else not domain.has_chance

    def _draw(
        self, x: np.ndarray, target: np.ndarray | pd.Categorical, model: str, sample_weight: ArrayLike | None
    ) -> None:
        """Draw from the posterior of features (N, D) and a column of targets."""
        of_columns = [str(name) for name in getattr(self, "feature_names_in_", [])]
        of_columns = of_columns or [f"x{d}" for d in range(x.shape[1])]
        self._kept = np.ptp(x, axis=0) > 0.0
        kept = [name for name, stays in zip(of_columns, self._kept, strict=True) if stays]
        if len(kept) < len(of_columns):
            alike = [name for name in of_columns if name not in kept]
            warnings.warn(f"left out, for every row has the same: {listing(alike)}", stacklevel=3)
        aim, weights = _unused("y", of_columns), _unused("weight", of_columns)
        frame = pd.DataFrame(x[:, self._kept], columns=kept).assign(**{aim: target})
        table: dict[str, Any] = {"features": tuple(kept), "numeric": tuple(kept)}
        if not isinstance(target, pd.Categorical):
            table["numeric"] += (aim,)
        if sample_weight is not None:
            frame[weights] = _check_sample_weight(sample_weight, x)
            table["weights"] = weights
        try:
            with frames.held(frame) as name:
                answer = self._answer(name, aim, model, table)
        except FlyrunError as error:
            raise ValueError(str(error)) from error
        if answer.doubt:
            warnings.warn(answer.doubt.replace("--budget", "budget"), ConvergenceWarning, stacklevel=3)

    def _answer(self, name: str, aim: str, model: str, table: dict[str, Any]) -> engine.Answer:
        priors = tuple(typed_prior(term, prior) for term, prior in (self.priors or {}).items())
        settings: dict[str, Any] = {"prior_scale": self.prior_scale, "budget": Budget(self.budget)}
        asked = question.of(Request(name, aim, model=model, table=table, priors=priors, **settings))
        answer = engine.answer(asked, Clock().spent(asked.request.budget), seed=self.seed)
        fit = predict.of_draws(asked.layout, asked.family.link, asked.family, {"model": model}, answer.even)
        fit = fit.thinned(min(self.draws, len(fit.beta)))
        self._layout, self._family = asked.layout, model  # a family holds functions, which cannot be stored
        self.draws_, self.noise_ = fit.beta, fit.aux
        self.how_ = answer.how
        return answer

    def _fitted(self) -> predict.Fitted:
        model_family, settings = family(self._family), {"model": self._family}
        drawn = self.draws_, self.noise_
        return predict.Fitted(self._layout, model_family.link, model_family, settings, *drawn)

    def _rows(self, X: ArrayLike) -> Rows:
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=np.float64)
        names = [column.name for column in self._layout.features]
        return Rows(range(len(x)), dict(zip(names, x.T[self._kept], strict=True)), {})

    def _whole(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slopes (..., D) of all columns and intercepts (...) of coefficients (..., D' + 1) of those kept."""
        slopes = np.zeros((*beta.shape[:-1], len(self._kept)))
        slopes[..., self._kept] = beta[..., :-1]
        return slopes, beta[..., -1]


def _unused(name: str, known: list[str]) -> str:
    """A name that no column has."""
    while name in known:
        name += "_"
    return name


class FlyrunClassifier(ClassifierMixin, _Regression):
    """Classes by the exact posterior of a regression, as an estimator of scikit-learn.

    model: logistic or probit of two classes, softmax or ordinal (in the order of `classes_`) of more; by
    default logistic or softmax. priors: by column, as {"x0": "normal(0, 1)"}, per unit of it; columns without
    names are x0, x1, … prior_scale: sd of the other coefficients' priors, per sd of a column. draws: how many
    are kept, over which predictions average. budget: seconds for chains, where weighted draws do not serve.
    seed: of the draws.

    coef_, intercept_: posterior means, (1, D) and (1,) of two classes, (K, D) and (K,) of K with 0 for the
    first, on the columns' own scales; of ordered classes (1, D) and (K-1,), minus the cutpoints.
    draws_: (S, ..., D + 1) of the columns that were kept, the intercept last; how_: what vouches for them.
    """

    _classes = True

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw. X: (N, D) numbers; y: (N,) classes; sample_weight: (N,), how many rows each stands for.

        Raises ValueError for what the posterior cannot be of.
        """
        x, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("y holds 1 class; a classifier needs 2 or more")
        levels = [str(label) for label in self.classes_]
        target = pd.Categorical.from_codes(codes, levels, ordered=True)
        self._draw(x, target, self._model("logistic" if len(levels) == 2 else "softmax"), sample_weight)
        beta = self.draws_.mean(axis=0)
        if self._layout.task == "ordered":
            cuts = family(self._family).read(self.noise_).mean(axis=0)
            slopes, _ = self._whole(np.append(beta, 0.0)[None])
            self.coef_, self.intercept_ = slopes, -cuts
        elif beta.ndim == 2:
            self.coef_, self.intercept_ = self._whole(np.pad(beta, ((1, 0), (0, 0))))
        else:
            self.coef_, self.intercept_ = self._whole(beta[None])
        return self

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """(N, K): each class's chance, averaged over draws."""
        rows = self._rows(X)
        chance = np.concatenate([block.mean(axis=0) for block in predict.means(self._fitted(), rows)])
        return np.hstack([1.0 - chance, chance]) if chance.shape[1] == 1 else chance

    def predict(self, X: ArrayLike) -> np.ndarray:
        """(N,): the likeliest class."""
        chance = self.predict_proba(X)
        return self.classes_[chance.argmax(axis=1)]


class FlyrunRegressor(RegressorMixin, _Regression):
    """Numbers by the exact posterior of a regression, as an estimator of scikit-learn.

    model: one of numbers or counts, by default gaussian. Other parameters and draws_, how_: as of
    FlyrunClassifier. coef_, intercept_: posterior means, (D,) and a number, on the scale of the
    model's link.
    """

    _classes = False

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw. X: (N, D) numbers; y: (N,) targets; sample_weight: (N,), how many rows each stands for.

        Raises ValueError for what the posterior cannot be of.
        """
        x, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        self._draw(x, np.asarray(y, np.float64), self._model("gaussian"), sample_weight)
        self.coef_, intercept = self._whole(self.draws_.mean(axis=0))
        self.intercept_ = float(intercept)
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """(N,): the expected targets, averaged over draws; return_std: and the sds of new targets, (N,)."""
        rows, fitted = self._rows(X), self._fitted()
        with np.errstate(over="ignore"):  # far out it is inf
            mean = np.concatenate([block.mean(axis=0)[:, 0] for block in predict.means(fitted, rows)])
        if not return_std:
            return mean
        return mean, predict.predicted(fitted, rows, "response", seed=self.seed)["sd"].to_numpy()
