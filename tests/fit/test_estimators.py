"""The estimators for scikit-learn: its own checks, and that they are what `flyrun.fit` is."""

import pickle
import time

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from flyrun.fitting import weighted_draws
from flyrun.fitting.estimators import FlyrunClassifier, FlyrunRegressor
from flyrun.fitting.python import fit

#: checks that do not apply, and why
_NO_NOISE = "its targets are a linear function of the columns: a posterior of the noise's sd has none left"
NOT_OURS = {
    "FlyrunClassifier": {},
    "FlyrunRegressor": {
        "check_sample_weights_shape": _NO_NOISE,
        "check_sample_weights_not_overwritten": _NO_NOISE,
        "check_sample_weight_equivalence_on_dense_data": f"{_NO_NOISE}; below it is asked with noise",
        "check_sample_weight_equivalence_on_sparse_data": f"{_NO_NOISE}; below it is asked with noise",
        "check_regressors_no_decision_function": _NO_NOISE,
    },
}


@pytest.fixture
def quick(monkeypatch):
    """Without the chains that draws of few rows are held against: what they find is no matter here."""
    monkeypatch.setattr(weighted_draws, "in_doubt", lambda posterior, share: False)


@pytest.mark.thorough(but=30)
@parametrize_with_checks(
    [FlyrunClassifier(draws=100, prior_scale=0.5), FlyrunRegressor(draws=100)],
    expected_failed_checks=lambda estimator: NOT_OURS[type(estimator).__name__],
)
@pytest.mark.filterwarnings("ignore")
def test_what_scikit_learn_asks_of_an_estimator(estimator, check, quick):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    x = pd.DataFrame(rng.normal(size=(600, 2)) * [1.0, 5.0], columns=["age", "dose"])
    eta = 0.5 + x["age"] - 0.2 * x["dose"]
    chance = 1 / (1 + np.exp(-eta))
    return x, {
        "logistic": np.where(rng.random(600) < chance, "ill", "well"),
        "softmax": np.where(rng.random(600) < chance, rng.choice(["ill", "worse"], 600), "well"),
        "ordinal": np.digitize(eta + rng.logistic(size=600), [-1.0, 1.0]),
        "gaussian": (eta + rng.normal(size=600)).to_numpy(),
        "poisson": rng.poisson(np.exp(0.3 * eta)),
    }


@pytest.mark.thorough(but="logistic")
@pytest.mark.parametrize("model", ["logistic", "softmax", "ordinal"])
def test_a_classifier_is_the_fit_of_its_table(table, model):
    x, targets = table
    one = FlyrunClassifier(model, priors={"dose": "normal(0, 1)"}, draws=9_000).fit(x, targets[model])
    other = fit(x.assign(y=targets[model]), "y", model=model, priors={"dose": "normal(0, 1)"})
    told = other.predict(x.head(50))
    names = [f"[{name}]" for name in one.classes_] if model != "logistic" else [""]
    chance = one.predict_proba(x.head(50))[:, -len(names) :]
    assert np.abs(chance - told[[f"mean{name}" for name in names]]).to_numpy().max() < 1e-12
    means = other.summary()["mean"]
    if model == "logistic":
        assert one.coef_[0] == pytest.approx(means[["age", "dose"]].to_numpy(), abs=0.01)
        assert one.intercept_ == pytest.approx(means["intercept"], abs=0.02)
    elif model == "softmax":
        assert one.coef_[1:] == pytest.approx(
            means.unstack()[["age", "dose"]].loc[one.classes_[1:]].to_numpy(), abs=0.03
        )
        assert not one.coef_[0].any()
    else:
        assert one.intercept_ == pytest.approx(-means.filter(like="cut").to_numpy(), abs=0.02)
    # what coefficients at their means say is near the average over draws
    eta = x.to_numpy() @ one.coef_.T + one.intercept_
    at = {
        "logistic": lambda: 1 / (1 + np.exp(-eta[:, 0])),
        "softmax": lambda: np.exp(eta[:, -1]) / np.exp(eta).sum(axis=1),
        "ordinal": lambda: 1 / (1 + np.exp(-eta[:, -1])),
    }[model]()
    assert np.abs(at - one.predict_proba(x)[:, -1]).max() < 0.02
    assert one.score(x, targets[model]) > 0.5
    assert "weighted draws" in one.how_


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", ["gaussian", "poisson"])
def test_a_regressor_is_the_fit_of_its_table(table, model):
    x, targets = table
    one = FlyrunRegressor(model, draws=9_000).fit(x, targets[model])
    other = fit(x.assign(y=targets[model]), "y", model=model)
    mean, sd = one.predict(x, return_std=True)
    assert np.abs(mean - other.predict(x)["mean"]).max() < 1e-9
    told = other.predict(x, kind="response")
    assert np.abs(sd - told["sd"]).max() < 1e-9
    assert one.coef_ == pytest.approx(other.summary()["mean"][["age", "dose"]].to_numpy(), abs=0.01)


def test_a_row_of_weight_two_is_two_rows(table):
    x, targets = table
    copies = np.arange(600) % 3
    one = FlyrunRegressor().fit(x, targets["gaussian"], sample_weight=copies)
    other = FlyrunRegressor().fit(x.loc[x.index.repeat(copies)], np.repeat(targets["gaussian"], copies))
    np.testing.assert_allclose(one.predict(x), other.predict(x), rtol=1e-9)
    with pytest.raises(ValueError, match="whole numbers"):
        FlyrunRegressor().fit(x, targets["gaussian"], sample_weight=np.full(600, 0.5))


def test_it_stands_in_pipelines_and_is_cross_validated(table):
    x, targets = table
    found = cross_val_score(make_pipeline(StandardScaler(), FlyrunClassifier()), x, targets["logistic"], cv=3)
    assert found.min() > 0.6


def test_a_column_without_spread_is_left_out_and_said_to_be(table):
    x, targets = table
    with pytest.warns(UserWarning, match="left out, for every row has the same: one"):
        found = FlyrunRegressor().fit(x.assign(one=3.0), targets["gaussian"])
    assert found.coef_[2] == 0.0
    assert found.coef_[:2] == pytest.approx(FlyrunRegressor().fit(x, targets["gaussian"]).coef_)
    assert found.predict(x.assign(one=9.0)).shape == (600,)


def test_mistakes_are_value_errors(table):
    x, targets = table
    for estimator, target, said in (
        (FlyrunClassifier("logistics"), "logistic", "did you mean logistic"),
        (FlyrunRegressor("logistic"), "gaussian", "choose from beta, exponential, gamma"),
        (FlyrunClassifier("logistic"), "softmax", "has 3 values, ill, well and worse"),
        (FlyrunRegressor("poisson"), "gaussian", "whole numbers"),
        (FlyrunRegressor(priors={"agee": "normal(0, 1)"}), "gaussian", "did you mean age"),
    ):
        with pytest.raises(ValueError, match=said):
            estimator.fit(x, targets[target])


@pytest.fixture(scope="module")
def claims():
    rng = np.random.default_rng(8)
    n = 900
    frame = pd.DataFrame(
        {"age": rng.uniform(18.0, 80.0, n), "region": rng.choice(["north", "south", "east"], n)}
    )
    frame["years"] = rng.uniform(0.05, 1.0, n)
    eta = -1.0 + 0.02 * frame["age"] + 0.6 * (frame["region"] == "north")
    return frame, rng.poisson(frame["years"] * np.exp(eta)).astype(float)


def one_hot(**options):
    return ColumnTransformer(
        [("kind", OneHotEncoder(drop="first", **options), ["region"]), ("number", StandardScaler(), ["age"])],
        sparse_threshold=1.0,
    )


def test_exposure_and_offset_are_those_of_a_fit(claims):
    frame, y = claims
    x = frame[["age"]]
    fitted = FlyrunRegressor("poisson", draws=9_000).fit(x, y, exposure=frame["years"])
    other = fit(x.assign(y=y, years=frame["years"]), "y", model="poisson", exposure="years")
    mean, sd = fitted.predict(x, return_std=True, exposure=frame["years"])
    right = other.predict(frame)
    np.testing.assert_allclose(mean, right["mean"], rtol=1e-12)
    np.testing.assert_allclose(sd, other.predict(frame, kind="response")["sd"], rtol=1e-12)
    moved = FlyrunRegressor("poisson", draws=9_000).fit(x, y, offset=np.log(frame["years"]))
    np.testing.assert_allclose(moved.predict(x, offset=np.log(frame["years"])), mean, rtol=1e-12)
    without = FlyrunRegressor("poisson").fit(x, y)  # the control
    assert np.abs(without.predict(x) / mean - 1.0).max() > 0.5
    for call, fault in (
        (lambda: fitted.predict(x), "exposure: the fit had an exposure; give exposure= here, too"),
        (lambda: without.predict(x, offset=y), "offset: the fit had no offset; leave offset= out"),
        (lambda: fitted.predict(x, exposure=frame["years"] - 0.5), r"row \d+ is -0.*above 0"),
        (lambda: without.fit(x, y, exposure=0.0 * y), "row 0 is 0, but exposures are numbers above 0"),
        (lambda: without.fit(x, y, exposure=y[:5]), r"exposure: must be a number a row, of shape \(900,\)"),
    ):
        with pytest.raises(ValueError, match=fault):
            call()


def test_exposures_are_routed_through_a_search(claims):
    frame, y = claims
    with config_context(enable_metadata_routing=True):
        asked = FlyrunRegressor("poisson", draws=200).set_fit_request(exposure=True)
        asked.set_score_request(exposure=True).set_predict_request(exposure=True)
        chain = make_pipeline(one_hot(), asked)
        folds = KFold(3)
        scores = cross_val_score(chain, frame, y, cv=folds, params={"exposure": frame["years"]})
        by_hand = []
        for train, rest in folds.split(frame):
            years = frame["years"]
            part = clone(chain).fit(frame.iloc[train], y[train], exposure=years.iloc[train])
            mean = part.predict(frame.iloc[rest], exposure=years.iloc[rest])
            by_hand.append(r2_score(y[rest], mean))
        np.testing.assert_allclose(scores, by_hand, rtol=1e-12)
        search = GridSearchCV(chain, {"flyrunregressor__prior_scale": [0.1, 10.0]}, cv=folds)
        search.fit(frame, y, exposure=frame["years"])
        assert search.best_score_ > max(
            cross_val_score(
                make_pipeline(one_hot(), FlyrunRegressor("poisson", draws=200)), frame, y, cv=folds
            )
        )


def test_sparse_one_hot_columns_are_those_of_dense_ones(claims, monkeypatch):
    frame, y = claims
    sparse = make_pipeline(one_hot(), FlyrunRegressor("poisson")).fit(frame, y)
    assert issparse(sparse[0].transform(frame))
    dense = make_pipeline(one_hot(sparse_output=False), FlyrunRegressor("poisson")).fit(frame, y)
    assert np.array_equal(sparse.predict(frame), dense.predict(frame))
    named = make_pipeline(one_hot(sparse_output=False), FlyrunRegressor("poisson")).set_output(
        transform="pandas"
    )
    named[-1].set_params(priors={"kind__region_north": "normal(0, 0.001)"})
    named.fit(frame, y)
    assert list(named[-1].feature_names_in_) == ["kind__region_north", "kind__region_south", "number__age"]
    assert np.array_equal(named[-1].coef_.shape, dense[-1].coef_.shape)
    assert abs(named[-1].coef_[0]) < 0.01 < abs(dense[-1].coef_[0])
    labels = np.where(y > 0, "some", "none")
    classes = make_pipeline(one_hot(), FlyrunClassifier()).fit(frame, labels)
    assert classes.score(frame, labels) > 0.5
    monkeypatch.setattr("flyrun.fitting.estimators.memory", lambda: 8_000)
    with pytest.raises(ValueError, match=r"OneHotEncoder\(min_frequency=...\), or fit groups"):
        sparse.predict(frame)


@pytest.mark.parametrize("estimator", [FlyrunClassifier("ordinal"), FlyrunRegressor("negative_binomial")])
def test_a_fitted_estimator_is_pickled_whole(claims, estimator):
    frame, y = claims
    beside = {"exposure": frame["years"]} if isinstance(estimator, FlyrunRegressor) else {}
    estimator.fit(frame[["age"]], np.minimum(y, 3.0) if not beside else y, **beside)
    again = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(
        again.predict(frame[["age"]], **beside), estimator.predict(frame[["age"]], **beside)
    )
    assert again.how_ == estimator.how_
    fresh = clone(estimator)
    assert fresh.get_params() == estimator.get_params()
    assert not hasattr(fresh, "draws_")


def test_many_dense_columns_are_fitted(table):
    """300 of them: 20,000 rows took 2 CPU seconds of normal noise, 17 of counts."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2_000, 300))
    y = x[:, 0] + rng.normal(size=2_000)
    began = time.process_time()
    fitted = FlyrunRegressor(draws=100).fit(x, y)
    assert time.process_time() - began < 8.0
    right = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)[0]
    assert np.abs(fitted.coef_ - right[:-1]).max() < 0.03
