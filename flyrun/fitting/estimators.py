"""Regressions as scikit-learn has them: arrays in, draws of the exact posterior inside.

A column that is the same in every row is left out, with a warning; its coefficient is 0.
"""

import warnings
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import spmatrix
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.utils import Tags, check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from flyrun.families.domains import BESIDE, Domain
from flyrun.families.family import family, names
from flyrun.fitting import engine, fitted_draws, predict, question
from flyrun.fitting.python import typed_prior
from flyrun.fitting.request import Budget, Clock, Request
from flyrun.fitting.scan.mappers import OF_MEMORY, memory
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

    def __sklearn_tags__(self) -> Tags:
        """That sparse matrices are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _draw(
        self,
        x: np.ndarray,
        target: np.ndarray | pd.Categorical,
        model: str,
        sample_weight: ArrayLike | None,
        beside: Mapping[str, ArrayLike | None] = MappingProxyType({}),
    ) -> None:
        """Draw from the posterior of features (N, D) and a column of targets. beside: (N,) each, by role."""
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
        for role, values in beside.items():
            if values is not None:
                table[role] = _unused(role, [*of_columns, *table.values()])
                frame[table[role]] = _column(role, values, x)
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
        fit = fitted_draws.of_draws(
            asked.layout, asked.family.link, asked.family, {"model": model}, answer.even
        )
        fit = fit.thinned(min(self.draws, len(fit.beta)))
        self._layout, self._family = (
            asked.layout,
            asked.family.name,
        )  # a family holds functions, which cannot be stored
        self.draws_, self.noise_ = fit.beta, fit.aux
        self.how_ = answer.how
        return answer

    def _fitted(self) -> fitted_draws.Fitted:
        model_family, settings = family(self._family), {"model": self._family}
        drawn = self.draws_, self.noise_
        return fitted_draws.Fitted(self._layout, model_family.link, model_family, settings, *drawn)

    def _rows(self, X: ArrayLike, beside: Mapping[str, ArrayLike | None] = MappingProxyType({})) -> Rows:
        """New rows. beside: (N,) each, by role. Raises ValueError where the fit had none, or others."""
        check_is_fitted(self)
        x = _dense(validate_data(self, X, reset=False, dtype=np.float64, accept_sparse="csr"))
        names = [column.name for column in self._layout.features]
        columns = dict(zip(names, x.T[self._kept], strict=True))
        for role, values in beside.items():
            column = self._layout.beside.get(role)
            if (column is None) != (values is None):
                had, mend = (
                    ("no", f"leave {role}= out") if column is None else ("an", f"give {role}= here, too")
                )
                raise ValueError(f"{role}: the fit had {had} {role}; {mend}")
            if column is not None and values is not None:
                columns[column.name] = _column(role, values, x)
        return Rows(range(len(x)), columns, {})

    def _whole(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slopes (..., D) of all columns and intercepts (...) of coefficients (..., D' + 1) of those kept."""
        slopes = np.zeros((*beta.shape[:-1], len(self._kept)))
        slopes[..., self._kept] = beta[..., :-1]
        return slopes, beta[..., -1]


def _unused(name: str, known: Collection[object]) -> str:
    """A name that no column has."""
    while name in known:
        name += "_"
    return name


def _column(role: str, values: ArrayLike, x: np.ndarray) -> np.ndarray:
    """A column (N,) beside features (N, D). Raises ValueError for what cannot be one."""
    column: np.ndarray = check_array(values, ensure_2d=False, dtype=np.float64, input_name=role)
    if column.shape != (len(x),):
        raise ValueError(f"{role}: must be a number a row, of shape ({len(x)},), not {column.shape}")
    if role != "offset" and (refusal := BESIDE[role].refusal(column)):
        raise ValueError(f"{role}: row {refusal[0]} is {column[refusal[0]]:g}, but {refusal[1]}")
    return column


def _dense(x: np.ndarray | spmatrix) -> np.ndarray:
    """Features (N, D) of a matrix that may be sparse. Raises ValueError where memory has no room for them."""
    if isinstance(x, np.ndarray):
        return x
    size, most = 8 * x.shape[0] * x.shape[1], memory() // OF_MEMORY
    if size > most:
        raise ValueError(
            f"X: {x.shape[0]:,} rows of {x.shape[1]:,} columns are {size / 1e9:.3g} GB as numbers, and "
            f"{most / 1e9:.3g} GB a {OF_MEMORY}th of the memory; take rare levels together, as "
            "OneHotEncoder(min_frequency=...), or fit groups, flyrun.fit(frame, 'y ~ x + (1 | column)')"
        )
    return x.toarray()


class FlyrunClassifier(ClassifierMixin, _Regression):
    """Classes by the exact posterior of a regression, as an estimator of scikit-learn.

    model: logistic or probit of two classes, softmax or ordinal (in the order of `classes_`) of more; by
    default logistic or softmax. priors: by column, as {"x0": "normal(0, 1)"}, per unit of it; columns without
    names are x0, x1, … prior_scale: sd of the other coefficients' priors, per sd of a column. draws: how many
    are kept, over which predictions average. budget: seconds for chains, where weighted draws do not serve.
    seed: of the draws.
    X may be sparse, as of OneHotEncoder; it is made dense.

    coef_, intercept_: posterior means, (1, D) and (1,) of two classes, (K, D) and (K,) of K with 0 for the
    first, on the columns' own scales; of ordered classes (1, D) and (K-1,), minus the cutpoints.
    draws_: (S, ..., D + 1) of the columns that were kept, the intercept last; how_: what vouches for them.
    """

    _classes = True

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw. X: (N, D) numbers; y: (N,) classes; sample_weight: (N,), how many rows each stands for.

        Raises ValueError for what the posterior cannot be of.
        """
        x, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr", ensure_min_samples=2)
        x = _dense(x)
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
    model's link. A pipeline or search passes exposure= and offset= on, where
    `sklearn.set_config(enable_metadata_routing=True)` and `set_fit_request(exposure=True)`,
    `set_predict_request` and `set_score_request` ask for it.
    """

    _classes = False

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Draw. X: (N, D) numbers, dense or sparse; y: (N,) targets; sample_weight: (N,), how many rows each
        stands for; offset: (N,), added to the linear predictor; exposure: (N,), whose log is.

        Raises ValueError for what the posterior cannot be of.
        """
        x, y = validate_data(
            self, X, y, dtype=np.float64, accept_sparse="csr", y_numeric=True, ensure_min_samples=2
        )
        beside = {"exposure": exposure, "offset": offset}
        self._draw(_dense(x), np.asarray(y, np.float64), self._model("gaussian"), sample_weight, beside)
        self.coef_, intercept = self._whole(self.draws_.mean(axis=0))
        self.intercept_ = float(intercept)
        return self

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """(N,): the expected targets, averaged over draws; return_std: and the sds of new targets, (N,).

        exposure, offset: (N,), where the fit had them. Raises ValueError where one lacks, or is needless.
        """
        rows, fitted = self._rows(X, {"exposure": exposure, "offset": offset}), self._fitted()
        with np.errstate(over="ignore"):  # far out it is inf
            mean = np.concatenate([block.mean(axis=0)[:, 0] for block in predict.means(fitted, rows)])
        if not return_std:
            return mean
        return mean, predict.predicted(fitted, rows, "response", seed=self.seed)["sd"].to_numpy()

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> float:
        """R² of `predict` against targets y (N,), as of any regressor."""
        mean = self.predict(X, exposure=exposure, offset=offset)
        return float(r2_score(y, mean, sample_weight=sample_weight))
