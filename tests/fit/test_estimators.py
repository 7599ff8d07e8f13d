"""The estimators for scikit-learn: its own checks, and that they are what `flyrun.fit` is."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
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
