"""Leave-one-out against refits without each row, and against all rows where it looks at some."""

import shlex

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from flyrun.cli.main import main
from flyrun.experiments.python import Run
from flyrun.fitting import engine, finished, loo, weighted_draws
from flyrun.fitting.python import fit
from flyrun.fitting.rows_posterior import Posterior
from flyrun.ground.errors import ConfigError, StoreError
from flyrun.tables import frames
from tests.in_process import flyrun

ROWS = 60


def table(model, n=ROWS):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 3))
    eta = 0.2 + x @ [-0.8, 0.0, 0.8]
    y = {
        "logistic": lambda: (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "gaussian": lambda: 3 + 5 * (eta + 0.5 * rng.normal(size=n)),
        "ordinal": lambda: 1 + (eta > -0.7 + rng.logistic(size=n)) + (eta > 0.9 + rng.logistic(size=n)) * 1,
    }[model]()
    return pd.DataFrame(x, columns=["a", "b", "c"]).assign(y=y)


def read(frame, made):
    with frames.held(frame) as name:
        return finished.read(made.folder, path=name)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", ["logistic", "poisson", "gaussian"])
def test_every_row_left_out_is_as_a_fit_without_it(model):
    frame = table(model)
    made = fit(frame, "y", model=model)
    one, told = read(frame, made), made.loo()
    weight = np.exp(one.log_weight - one.log_weight.max())
    weight /= weight.sum()
    centre = weight @ one.x
    away = one.x - centre
    proposal = weighted_draws.Mixture.of(centre, 1.3 * (away * weight[:, None]).T @ away)
    exact = np.empty(ROWS)
    for i in range(ROWS):
        rest = one.posterior.rows.take(np.delete(np.arange(ROWS), i))
        without = Posterior(one.posterior.family, rest, one.posterior.prior, one.posterior.levels)
        rng = np.random.default_rng(i)
        found = weighted_draws.by_all_rows(without, proposal, rng, 8_000)
        values = loo.pointwise(one, np.array([i]), found.x)[0]
        exact[i] = logsumexp(values, b=found.weights) - np.log(one.layout.target.sd)
    assert np.sqrt(np.mean((told.each - exact) ** 2)) < 0.013
    # what predicts a row that it has seen is better than it should be
    seen = loo.pointwise(one, np.arange(ROWS), one.x)
    within = logsumexp(seen, b=weight, axis=1) - np.log(one.layout.target.sd)
    assert np.sqrt(np.mean((within - exact) ** 2)) > 0.03


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["logistic", "ordinal"])
def test_some_rows_and_cavities_tell_the_same_as_all_rows(model, monkeypatch):
    frame = table(model, 1_500)
    made = fit(frame, "y", model=model)
    whole = made.loo()
    monkeypatch.setattr(loo, "_ALL_ROWS", 1_000)
    monkeypatch.setattr(loo, "_SAMPLED", 300)
    some = made.loo()
    assert whole.subsampling == 0.0
    assert some.subsampling < 0.3
    assert abs(some.elpd - whole.elpd) < 4 * some.subsampling + 0.1
    # without the cavity the sample alone would tell less
    alone = 1_500 * whole.each.std() / np.sqrt(300)
    assert some.subsampling < 0.1 * alone


@pytest.mark.thorough
def test_compare_tells_which_of_two_fits_predicts_better(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = table("logistic", 400)
    frame.to_csv(tmp_path / "t.csv", index=False)
    for name, features in (("both", "a,c"), ("none", "b")):
        words = ("fit", "t.csv", "--target", "y", "--features", features, "--name", name, "--quiet")
        assert flyrun(tmp_path, *words).returncode == 0
    said = flyrun(tmp_path, "compare", "both", "none")
    assert said.returncode == 0
    assert "the first predicts rows better" in said.stdout
    words = ("compare", "both", "HEAD")
    assert "HEAD: is no fit" in flyrun(tmp_path, *words).stderr
    for words in (["publish", "both"], ["report", "both", "none"], ["diagnose", "both"]):
        refused = flyrun(tmp_path, *words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "results/runs/both: is a fit of a table" in refused.stderr
        assert "`flyrun report results/runs/both` shows it" in refused.stderr
    assert not (tmp_path / "results/measured").exists()
    with pytest.raises(StoreError, match="is a fit of a table"):
        Run("results/runs/both")
    fit("t.csv", "y", name="fewer", features=["a", "c"], rows=300)
    with pytest.raises(ConfigError, match="not of the same rows"):
        loo.compare(tmp_path / "results/runs/both", tmp_path / "results/runs/fewer")
    (tmp_path / "results").rename(tmp_path / "my results")
    said = flyrun(tmp_path, "publish", "both", "--results-dir", "my results").stderr
    remedy = shlex.split(said.split("`")[1])
    assert remedy == ["flyrun", "report", "my results/runs/both"]
    assert flyrun(tmp_path, *remedy[1:]).returncode == 0


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", ["ordinal", "softmax", "student_t", "negative_binomial"])
def test_stored_draws_are_read_as_they_were_sampled(model):
    kind = {"softmax": "ordinal", "student_t": "gaussian", "negative_binomial": "poisson"}.get(model, model)
    frame = table(kind, 1_300)
    if model == "softmax":
        frame["y"] = frame["y"].map({1: "one", 2: "two", 3: "three"})
    found = read(frame, fit(frame, "y", model=model))
    assert np.allclose(found.x, engine.draw(found.posterior).x, rtol=1e-8, atol=1e-10)


@pytest.mark.thorough
def test_fits_of_log_y_and_of_y_are_compared_as_of_y(tmp_path, monkeypatch):
    """A lognormal regression of y is the normal one of log(y): elpds differ by Σ log y alone."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(8)
    x = rng.normal(size=150)
    table = pd.DataFrame({"x": x, "y": np.exp(2.0 + 0.5 * x + 0.4 * rng.normal(size=150))})
    table.to_csv("t.csv", index=False)
    runs = (("log", "log(y) ~ x", "gaussian"), ("whole", "y ~ x", "lognormal"), ("flat", "y ~ x", "gaussian"))
    for name, formula, model in runs:
        assert main(["fit", "t.csv", formula, "--model", model, "--name", name, "--quiet"]) == 0
    folders = {name: tmp_path / "results/runs" / name for name, *_ in runs}
    logged, whole, same = loo.compare(folders["log"], folders["whole"])
    assert abs(same.elpd) < 0.5
    assert "of y, with Σ log y taken off" in str(logged)
    assert "Σ" not in str(whole)
    assert loo.compare(folders["whole"], folders["log"])[2].elpd == pytest.approx(-same.elpd)
    assert loo.compare(folders["log"], folders["flat"])[2].elpd > 20.0
    first, other = (loo.loo(finished.read(folders[name])) for name in ("log", "whole"))
    assert first.elpd - other.elpd > 100.0  # without Σ log y: the control
    table.assign(y=2.0 * table.y).to_csv("u.csv", index=False)
    assert main(["fit", "u.csv", "y ~ x", "--model", "lognormal", "--name", "twice", "--quiet"]) == 0
    with pytest.raises(ConfigError, match="of log\\(y\\) and y, Σ log y is taken off"):
        loo.compare(folders["log"], tmp_path / "results/runs/twice")
