"""A fit held against its own rows: right models lie in their intervals, wrong ones do not."""

import numpy as np
import pandas as pd
import pytest

from flyrun.fitting import engine, page_figures, predictive_checks, question
from flyrun.fitting.request import Request
from flyrun.ground.page import figures
from flyrun.tables import frames, loader

N = 600


def checked(model, prior_scale=2.5, **columns):
    table = {role: role for role in ("weights", "trials") if role in columns}
    with frames.held(pd.DataFrame(columns)) as name:
        request = Request(name, "y", model=model, table=table, prior_scale=prior_scale)
        asked = question.of(request)
    made = engine.by_weights(asked, engine.draw(asked.posterior))
    return predictive_checks.of(asked.dataset, asked.posterior, asked.layout, made.even)


def outside(told):
    """Of how many bins what was observed lies outside the interval."""
    observed, low, high = (np.array(told[name]) for name in ("observed", "low", "high"))
    return int(((observed < low) | (observed > high)).sum())


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=N)


def test_yes_and_no_are_calibrated_where_the_model_is_right(x):
    rng = np.random.default_rng(1)
    right = (rng.random(N) < 1 / (1 + np.exp(-x))).astype(int)
    (told,) = checked("logistic", x=x, y=right)["calibration"]
    assert told["class"] == "1"
    assert len(told["observed"]) == 10
    assert np.all(np.diff(told["predicted"]) > 0)
    assert np.mean(told["observed"]) == pytest.approx(right.mean(), abs=1e-12)  # bins of equal size
    assert outside(told) <= 2
    wrong = (rng.random(N) < 1 / (1 + np.exp(2 - 2 * x**2))).astype(int)
    assert outside(checked("logistic", x=x, y=wrong)["calibration"][0]) >= 5


def test_counts_that_spread_too_much_show(x):
    rng = np.random.default_rng(2)
    y = rng.negative_binomial(2, 2 / (2 + np.exp(0.3 + 0.5 * x)))
    found = checked("negative_binomial", x=x, y=y)
    told = found["distribution"]
    assert told["edges"][:3] == [-0.5, 0.5, 1.5]
    assert told["observed"][0] == np.mean(y == 0)
    assert outside(told) <= 2
    too_narrow = checked("poisson", x=x, y=y)
    assert too_narrow["distribution"]["observed"][0] > 1.1 * too_narrow["distribution"]["high"][0]
    # of means the wrong family knows as much
    assert outside(too_narrow["calibration"][0]) <= 3


def test_numbers_are_in_their_own_units(x):
    y = 100 + 20 * (x + np.random.default_rng(3).normal(size=N))
    found = checked("gaussian", x=x, y=y)
    assert outside(found["distribution"]) <= 6  # of 30
    assert outside(found["calibration"][0]) <= 2
    assert np.mean(found["calibration"][0]["observed"]) == pytest.approx(y.mean())
    skewed = checked("gaussian", x=x, y=np.exp(0.1 * (y - 100) / 2))
    assert outside(skewed["distribution"]) > 10


def test_classes_and_trials(x):
    rng = np.random.default_rng(4)
    eta = x + rng.logistic(size=N)
    several = checked("ordinal", x=x, y=np.digitize(eta, [-1, 1]))["calibration"]
    assert [one["class"] for one in several] == ["0", "1", "2"]
    assert max(map(outside, several)) <= 3
    many = np.full(N, 9)
    many[:9] = 0
    hits = rng.binomial(many, 1 / (1 + np.exp(-x)))
    (told,) = checked("binomial", x=x, y=hits, trials=many)["calibration"]
    assert 0 < min(told["observed"]) < max(told["observed"]) < 1
    assert outside(told) <= 2


def test_a_row_of_weight_two_is_two_rows(x):
    y = (x + np.random.default_rng(5).logistic(size=N) > 0).astype(int)
    copies = np.arange(N) % 3
    one = checked("logistic", x=x, y=y, weights=copies)
    other = checked("logistic", x=np.repeat(x, copies), y=np.repeat(y, copies))
    assert one["rows"] == other["rows"] == copies.sum()
    assert one["calibration"][0]["observed"] == pytest.approx(other["calibration"][0]["observed"])


def test_of_many_rows_some_are_looked_at(x, monkeypatch):
    y = (x + np.random.default_rng(5).logistic(size=N) > 0).astype(int)
    monkeypatch.setattr(predictive_checks, "_ROWS", 300)
    assert checked("logistic", x=x, y=y)["rows"] == 300


def test_captions_are_two_sentences():
    for plot in (page_figures.distribution, page_figures.calibration):
        assert figures.caption(plot).count(". ") == 1


def test_mapped_rows_of_two_classes_are_unfolded(x, monkeypatch):
    y = (x + np.random.default_rng(5).logistic(size=N) > 0).astype(int)
    one = checked("logistic", x=x, y=y)["calibration"][0]
    monkeypatch.setattr(loader, "IN_MEMORY", 0)
    other = checked("logistic", x=x, y=y)["calibration"][0]
    assert other["observed"] == pytest.approx(one["observed"], abs=0.02)  # rounding moves a row or two
    assert other["predicted"] == pytest.approx(one["predicted"], abs=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["negative_binomial", "gamma"])
def test_new_targets_beyond_any_whole_number_cost_no_fit(model, recwarn):
    found = checked(model, x=np.arange(4.0), y=np.array([1.0, 8.0, 1.0, 1.0]), prior_scale=1000.0)
    numbers = [found["calibration"][0]["high"], found["distribution"]["edges"]]
    assert all(np.isfinite(one).all() for one in numbers)
    assert not [one for one in recwarn.list if issubclass(one.category, RuntimeWarning)]
