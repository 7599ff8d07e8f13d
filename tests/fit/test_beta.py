"""Beta regression, whose kind of target no other family has: every engine takes it, and is exact."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, logsumexp

import flyrun
from flyrun.cli.main import main
from flyrun.experiments import data
from flyrun.families import domains
from flyrun.families.family import family
from flyrun.fitting import finished, loo, mode, weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.table_rows import Rows
from flyrun.ground.errors import DataError
from flyrun.tables import frames
from flyrun.tables.options import Table
from tests.fit.test_predictive_checks import checked, outside

BETA = family("beta")
N, PHI = 600, 12.0
FORMULA = "y ~ x + k"
FIT = (FORMULA, "--model", "beta", "--quiet")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Proportions about a mean that x and k move."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    x, k = rng.normal(size=N).astype(np.float32), rng.choice(["a", "b"], N)
    mean = expit(0.3 + 0.8 * x - 0.5 * (k == "b"))
    made = pd.DataFrame({"x": x, "k": k, "y": rng.beta(mean * PHI, (1.0 - mean) * PHI)})
    made.to_csv("mine.csv", index=False)
    return made


def test_the_density_is_scipys_however_far_the_mean():
    eta, a = np.array([-30.0, -2.0, 0.0, 0.5, 3.0, 30.0]), np.array([-8.0, 0.0, 2.0, 7.0, 4.0, 1.0])
    y = np.array([1e-12, 0.2, 0.5, 0.6, 0.97, 1.0 - 1e-12])
    ours = BETA.log_density(y, 1.0, [eta, a]) + BETA.alone(y, 1.0, [a]) + BETA.constant(y, 1.0)
    theirs = stats.beta.logpdf(y, np.exp(a) * expit(eta), np.exp(a) * expit(-eta))
    np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-9)


def test_draws_have_the_mean_and_variance_that_they_should():
    rng, p = np.random.default_rng(0), [np.full(40_000, 0.7), np.full(40_000, 1.5)]
    drawn, mean = BETA.draw(rng, 1.0, p), expit(0.7)
    assert drawn.mean() == pytest.approx(mean, abs=5 * drawn.std() / 200)
    assert drawn.var() == pytest.approx(mean * (1.0 - mean) / (1.0 + np.exp(1.5)), rel=0.03)


def grid(made):
    """Positions about the mode of a posterior of two numbers, (G, 2), and their weights, (G,)."""
    at, likelihood = mode.find(made)
    root = np.linalg.cholesky(mode.covariance(likelihood.curvature + made.prior_at(at).curvature))
    line = np.linspace(-9, 9, 181)
    x = at + np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2) @ root.T
    log = made.log_density(x)
    return x, np.exp(log - logsumexp(log))


def test_weighted_draws_are_of_the_posterior_by_quadrature():
    rng = np.random.default_rng(3)
    rows = Rows(np.ones((14, 1)), rng.beta(2.0, 5.0, 14))
    made = Posterior(BETA, rows, CoefficientPrior(np.zeros(1), np.full(1, 1.5)))
    x, weight = grid(made)
    mean = weight @ x
    sd = np.sqrt(weight @ (x - mean) ** 2)
    found = weighted_draws.fit(made)
    got, covariance = found.moments()
    error = 4.5 / np.sqrt(found.effective)
    assert np.abs((got - mean) / sd).max() < error
    assert np.abs(np.sqrt(np.diag(covariance)) / sd - 1).max() < error
    w = found.weights * np.exp(-found.x[:, 1])  # the control: φ's prior without the Jacobian of the logarithm
    assert np.abs((w @ found.x / w.sum() - mean) / sd).max() > error


@pytest.mark.thorough
def test_a_table_and_its_shards_have_one_posterior(table):
    pytest.importorskip("pyarrow")
    for number, part in table.groupby(table.index // 200):
        part.to_parquet(f"{number}.parquet", row_group_size=50)
    assert main(["fit", "mine.csv", *FIT]) == main(["fit", "*.parquet", *FIT, "--name", "many"]) == 0
    one, many = (pd.read_csv(f"results/runs/{name}/table.csv") for name in ("mine", "many"))
    assert list(one.coefficient) == list(many.coefficient)
    assert (np.abs(one["mean"] - many["mean"]) < 0.15 * one["sd"]).all()
    assert np.abs(one["sd"] / many["sd"] - 1.0).max() < 0.06
    truth = one["coefficient"].map({"intercept": 0.3, "x": 0.8, "k[b]": -0.5, "phi": PHI})
    assert (np.abs(one["mean"] - truth) < 4.0 * one["sd"]).all()


def test_a_weight_of_two_is_two_rows(table):
    again = pd.concat([table, table[:150]])
    weighted = table.assign(w=[2] * 150 + [1] * (N - 150))
    one = flyrun.fit(again, FORMULA, model="beta").summary()
    other = flyrun.fit(weighted, FORMULA, model="beta", weights="w").summary()
    assert (np.abs(one["mean"] - other["mean"]) < 0.1 * one["sd"]).all()


@pytest.mark.thorough
def test_predictions_comparisons_and_checks_are_of_the_mean(table):
    made = flyrun.fit(table, FORMULA, model="beta")
    mean, new = made.predict(table), made.predict(table, kind="response")
    expected = expit(0.3 + 0.8 * table.x - 0.5 * (table.k == "b"))
    assert np.abs(mean["mean"] - expected).max() < 0.04
    assert np.abs(new["sd"] / np.sqrt(expected * (1.0 - expected) / (1.0 + PHI)) - 1.0).mean() < 0.1
    assert new.to_numpy()[:, 2:].min() > 0.0
    assert new.to_numpy()[:, 2:].max() < 1.0
    (change,) = made.comparisons("k")["mean"]
    by_hand = [made.predict(table.assign(k=level))["mean"].mean() for level in ("b", "a")]
    assert change == pytest.approx(by_hand[0] - by_hand[1], abs=1e-6)
    checks = checked("beta", x=table.x, k=table.k, y=table.y)
    (calibration,) = checks["calibration"]
    assert outside(calibration) <= 3
    assert sum(checks["distribution"]["observed"]) == pytest.approx(1.0, abs=0.02)


@pytest.mark.thorough
def test_each_row_left_out_is_as_by_quadrature(table):
    few = table[:25]
    made = flyrun.fit(few, "y ~ 1", model="beta")
    with frames.held(few) as name:
        one = finished.read(made.folder, path=name)
    x, weight = grid(one.posterior)
    each = loo.pointwise(one, np.arange(len(few)), x)  # (n, grid)
    exact = -logsumexp(-each, b=weight, axis=1)
    np.testing.assert_allclose(made.loo().each, exact, atol=0.03)
    assert np.abs(logsumexp(each, b=weight, axis=1) - exact).max() > 0.05  # a row that was seen: the control


@pytest.mark.parametrize("value", [0.0, 1.0, -0.2])
def test_what_is_not_between_0_and_1_is_refused_in_a_table_and_in_shards(table, value, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    table.loc[7, "y"] = value
    table.to_csv("bad.csv", index=False)
    Path("many").mkdir()
    table.to_parquet("many/0.parquet")
    for file, remedy in (
        ("bad.csv", "choose --model student_t or --model gaussian"),
        ("many", "another --model"),
    ):
        assert main(["fit", file, *FIT]) == 2
        error = capsys.readouterr().err
        assert f"target y is {value:g}, but such targets are numbers between 0 and 1" in error
        assert remedy in error
    assert main(["fit", "bad.csv", "y ~ x", "--model", "gaussian", "--quiet"]) == 0
    words = {"path": "bad.csv", "target": "y", "task": "proportions"}
    with pytest.raises(DataError):
        data.load(Table(**words))
    monkeypatch.setattr(domains, "of", lambda name: replace(BETA.domain, holds=np.isfinite))
    data.load(Table(**words))  # the broken twin: a family that takes any number
