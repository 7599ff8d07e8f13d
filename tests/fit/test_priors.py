"""Priors on a table's coefficients: typed per unit of a column, sampled per sd, told in both."""

import argparse

import numpy as np
import pytest

from flyrun.families.family import Normal, family
from flyrun.fitting.coefficients import Scales
from flyrun.fitting.priors import INTERCEPT_SD, Priors, Typed, lines, priors, typed
from flyrun.fitting.table_posterior import posterior_of
from flyrun.ground.errors import ConfigError
from flyrun.tables.dataset import Dataset
from flyrun.tables.layout import Column, Layout

AGE = Column("age", mean=40.0, sd=10.0, low=18.0, high=90.0)
SEX = Column("sex", mean=1.0, sd=1.0, low=1.0, high=2.0)  # 1 and 2: 0 and 1
DOSE = Column("dose", levels=["none", "low", "high"], text=True)


def layout(task="binary", **target):
    return Layout(task, Column("y", **target), [AGE, SEX, DOSE], 100)


def test_a_prior_is_read_as_it_is_written():
    assert typed("age: normal(0, 1)") == Typed("age", Normal(0.0, 1.0))
    assert typed(" dose[low]:NORMAL( -1e-2,.5 ) ") == Typed("dose[low]", Normal(-0.01, 0.5))
    for text in ("sd(g): half_normal(1)", "shape: gamma(2, 0.1)", "sigma[x]: student_t(3, 0, 2.5)", "x: flat",
                 "a:b: laplace(0, 1)", "zi: beta(1, 9)", "cor(x by g): lkj(2)"):  # fmt: skip
        assert str(typed(text)) == text
    assert str(typed("s: half_t(1, 2)")) == "s: half_cauchy(2)"
    assert typed("a: b: normal(1, 2)").term == "a: b"
    assert str(typed("age: normal(0, 1)")) == "age: normal(0, 1)"
    for wrong in ("age: normal(0)", "age: normal(0, 0)", "age: normal(0, -1)", "age: normal(0, 1e999)"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"must be normal\(MEAN, SD\)"):
            typed(wrong)
    for wrong, remedy in (("age", "must be TERM: PRIOR"), (": normal(0, 1)", "must be TERM: PRIOR"),
                          ("age: norml(0, 1)", "did you mean normal"), ("s: half_t(3, 1, 2)", "half_t"),
                          ("s: exponential(-1)", "above 0"), ("x: flat(1)", "must be flat")):  # fmt: skip
        with pytest.raises(argparse.ArgumentTypeError, match=remedy):
            typed(wrong)


def test_by_default_all_have_one_sd_but_the_intercept():
    found = priors(layout(), [], 2.5)
    np.testing.assert_array_equal(found.mean, np.zeros(5))
    np.testing.assert_array_equal(found.sd, [2.5, 2.5, 2.5, 2.5, INTERCEPT_SD])
    assert [row["term"] for row in found.table] == ["intercept", "age", "sex", "dose[low]", "dose[high]"]
    assert [row["prior"] for row in found.table[:3]] == ["normal(0, 10)", "normal(0, 0.25)", "normal(0, 2.5)"]
    assert [row["per_sd"] for row in found.table[:3]] == [None, 2.5, None]
    assert priors(layout(), [], 30.0).sd[-1] == 30.0  # an intercept is never held more than slopes are
    assert len(priors(layout(), [], 2.5, intercept=False).sd) == 4


@pytest.mark.parametrize("target", [{}, {"mean": 7.0, "sd": 3.0}])
def test_a_typed_prior_holds_per_unit_of_the_column(target):
    """Drawn on standardised columns and put on the columns' own scales, it is what was typed."""
    own = [typed("age: normal(0.3, 0.2)"), typed("dose: normal(-1, 4)"), typed("sex: normal(0.5, 0.1)")]
    table = layout("regression", **target)
    found = priors(table, own, 2.5)
    theta = found.mean + found.sd * np.random.default_rng(0).standard_normal((200_000, 5))
    beta = Scales.of(table).apply(theta)
    np.testing.assert_allclose(beta[:, :4].mean(axis=0), [0.3, 0.5, -1.0, -1.0], atol=0.05)
    np.testing.assert_allclose(beta[:, :4].std(axis=0), [0.2, 0.1, 4.0, 4.0], rtol=0.01)
    assert [row["prior"] for row in found.table[1:4]] == [
        "normal(0.3, 0.2)",
        "normal(0.5, 0.1)",
        "normal(-1, 4)",
    ]


def test_an_intercept_is_where_numbers_are_at_their_means():
    table = layout("regression", mean=7.0, sd=3.0)
    found = priors(table, [typed("intercept: normal(5, 2)")], 2.5)
    beta = Scales.of(table).apply(np.repeat(found.mean[None], 2, axis=0))
    assert beta[0] @ [40.0, 1.0, 0.0, 0.0, 1.0] == pytest.approx(5.0)
    assert found.table[0]["prior"] == "normal(5, 2)"
    assert priors(table, [], 2.5).table[0]["prior"] == "normal(7, 30)"


def test_of_classes_contrasts_are_told():
    found = priors(layout("classes", levels=["a", "b", "c"]), [], 2.5)
    assert found.table[1]["per_sd"] == pytest.approx(2.5 * np.sqrt(2.0))
    found = priors(layout("classes", levels=["a", "b", "c"]), [typed("age: normal(1, 2)")], 2.5)
    assert found.table[1]["prior"] == "normal(1, 2)"


def test_a_prior_of_classes_is_of_each_against_the_first():
    rng = np.random.default_rng(0)
    told = Priors(np.array([0.7, -0.3]), np.array([2.0, 5.0]), [])
    rows, classes = rng.normal(size=(9, 2)), np.arange(9) % 3
    data = Dataset("mine", rows, classes, rows[:0], classes[:0], ("age", "intercept"), "", task="classes")
    made = posterior_of(data, family("softmax"), told)
    read = np.kron(family("softmax").contrasts(3), np.eye(2))
    np.testing.assert_allclose(read @ made.prior.mean, [0.7, -0.3, 0.7, -0.3], atol=1e-12)
    covariance = read @ np.diag(made.prior.sd**2) @ read.T
    apart = np.kron([[2.0, 1.0], [1.0, 2.0]], np.diag([4.0, 25.0]))  # of two classes, one shared
    np.testing.assert_allclose(covariance, apart, atol=1e-12)


@pytest.mark.parametrize(
    ("own", "task", "said"),
    [
        (["ag: normal(0, 1)"], "binary", r"called 'ag' \(did you mean age\?\); there are age, sex, dose"),
        (["dose: normal(0, 1)", "dose[low]: normal(0, 2)"], "binary", r"has .*dose: n.* too; keep one"),
    ],
)  # fmt: skip
def test_a_prior_of_nothing_is_refused(own, task, said):
    with pytest.raises(ConfigError, match=said):
        priors(layout(task), [typed(one) for one in own], 2.5)


def test_on_a_screen_columns_stand_below_each_other():
    said = lines(priors(layout(), [], 2.5).table, 4)
    assert said[1] == "  intercept  normal(0, 10)    where numbers are at their means"
    assert said[2] == "  age        normal(0, 0.25)  sd 2.5 per sd of the column"
    assert said[-1] == "  and 2 more priors, which --check shows"
