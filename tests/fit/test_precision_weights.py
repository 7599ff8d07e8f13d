"""Precision weights: a row that is an average of w targets tells what the w rows tell."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import flyrun
from flyrun.cli.main import main
from flyrun.families.family import family
from flyrun.ground.errors import ConfigError, DataError


def averages(model, seed=3, groups=60):
    """Rows of 1 to 9 targets each, alike but for chance, and a table of their averages."""
    rng = np.random.default_rng(seed)
    w = rng.integers(1, 10, groups)
    x = np.repeat(rng.normal(size=groups), w)
    mean = 1.0 + 0.5 * x
    if model == "gamma":
        y = np.exp(mean) * rng.gamma(3.0, size=len(x)) / 3.0
    elif model == "inverse_gaussian":
        y = rng.wald(np.exp(mean), 5.0)
    else:
        y = mean + rng.normal(size=len(x))
    rows = pd.DataFrame({"x": x, "y": y, "of": np.repeat(np.arange(groups), w)})
    table = rows.groupby("of").agg(x=("x", "first"), y=("y", "mean")).assign(w=w)
    return table.reset_index(drop=True)


def log_likelihood(model, table, slope, level, scale):
    """Of the averages, from the sums' distributions as SciPy has them: w targets each."""
    eta, w, y = level + slope * table.x, table.w, table.y
    if model == "gaussian":
        return stats.norm(eta, scale / np.sqrt(w)).logpdf(y).sum()
    if model == "gamma":
        return stats.gamma(scale * w, scale=np.exp(eta) / (scale * w)).logpdf(y).sum()
    return stats.invgauss(np.exp(eta) / (scale * w), scale=scale * w).logpdf(y).sum()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", ["gaussian", "gamma", "inverse_gaussian"])
def test_an_average_is_as_much_as_the_targets_that_it_is_of(model):
    table, name = averages(model), family(model).precise[0]
    wide = {"intercept": "normal(0, 100)", "x": "normal(0, 100)", name: "lognormal(0, 10)"}
    fit = flyrun.fit(table, "y ~ x", model=model, precision_weights="w", priors=wide)
    found = fit.summary()
    mode = minimum(lambda p: -log_likelihood(model, table, p[0], p[1], np.exp(p[2])))
    assert abs(found["mean"]["x"] - mode[0]) < 0.25 * found["sd"]["x"]
    # on the log scale, where a number of 60 rows is about normal
    away = np.log(found["mean"][name]) - mode[2]
    assert abs(away) < 0.5 * found["sd"][name] / found["mean"][name]
    alike = flyrun.fit(table, "y ~ x", model=model, priors=wide).summary()  # the control: as if w were 1
    assert abs(np.log(alike["mean"][name]) - mode[2]) > 3.0 * found["sd"][name] / found["mean"][name]


def minimum(of):
    """Where a function of three numbers is least."""
    precisely = {"xatol": 1e-6, "fatol": 1e-8}
    return optimize.minimize(of, [0.4, 0.9, 0.5], method="Nelder-Mead", options=precisely).x


@pytest.mark.thorough
def test_weights_of_1_change_nothing_and_all_alike_scale_the_variance():
    table = averages("gaussian")
    plain = flyrun.fit(table, "y ~ x", model="student_t").summary()
    for w in (1.0, 16.0):
        found = flyrun.fit(table.assign(w=w), "y ~ x", model="student_t", precision_weights="w").summary()
        sigma = found["mean"]["sigma"] / np.sqrt(w)
        assert abs(found["mean"]["x"] - plain["mean"]["x"]) < 0.1 * plain["sd"]["x"]
        assert sigma == pytest.approx(plain["mean"]["sigma"], rel=0.05)


@pytest.mark.slow
def test_new_targets_of_more_precise_rows_vary_less():
    table = averages("gaussian")
    fit = flyrun.fit(table, ["y ~ x", "sigma ~ x"], model="gaussian", precision_weights="w")
    rows = pd.DataFrame({"x": [0.0, 0.0], "w": [1.0, 100.0]})
    wide = np.ptp(fit.predict(rows, kind="response").iloc[:, -2:].to_numpy(), axis=1)
    assert wide[0] / wide[1] > 5.0


def test_what_it_does_not_go_with_is_refused():
    table = averages("gaussian").assign(g=lambda rows: np.arange(len(rows)) % 5)
    with pytest.raises(ConfigError, match=r"poisson has no variance.*choose model=.*gamma"):
        flyrun.fit(table.assign(y=range(len(table))), "y ~ x", model="poisson", precision_weights="w")
    with pytest.raises(DataError, match="precision_weights w is 0, but"):
        flyrun.fit(table.assign(w=0.0), "y ~ x", precision_weights="w")


@pytest.mark.thorough
@pytest.mark.parametrize(("model", "further"), [("gamma", []), ("gaussian", ["sigma ~ x"])])
def test_a_scan_says_of_them_what_one_table_says(tmp_path, monkeypatch, model, further):
    monkeypatch.chdir(tmp_path)
    table = averages(model, groups=3_000)
    (tmp_path / "shards").mkdir()
    for k in range(6):
        table[500 * k : 500 * (k + 1)].to_parquet(f"shards/{k}.parquet")
    asked = {"target": ["y ~ x", *further], "model": model}
    one, many, alike = (
        flyrun.fit(data, **asked, **weights).summary()
        for data, weights in (
            (table, {"precision_weights": "w"}),
            ("shards", {"precision_weights": "w"}),
            ("shards", {}),  # the control
        )
    )
    assert (abs(many["mean"] - one["mean"]) / one["sd"]).max() < 0.1
    assert abs(many["sd"] / one["sd"] - 1.0).max() < 0.06
    assert (abs(alike["mean"] - one["mean"]) / one["sd"]).max() > 3.0
    with pytest.raises(ConfigError, match=r"^precision_weights='w': is not for groups of many files, as"):
        flyrun.fit("shards", "y ~ x + (1 | w)", model=model, precision_weights="w")
    with pytest.raises(ConfigError, match=r"^precision_weights: poisson has no variance"):
        flyrun.fit("shards", "y ~ x", model="poisson", precision_weights="w")


def test_weights_of_how_a_sample_was_drawn_are_refused_with_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = averages("gaussian").assign(w=lambda rows: np.arange(len(rows)) % 3 + 1)
    table.to_csv("t.csv", index=False)
    words = ["fit", "t.csv", "y ~ x", "--quiet", "--fresh"]
    for typed in (["--sampling-weights", "w"], ["--sampling-weights=w"], ["sampling_weights=w"]):
        assert main([*words, *typed]) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert "--sampling-weights w: is not offered, because weights that undo how a sample was" in said
        for remedy in (["--weights", "w"], ["--precision-weights", "w"]):
            assert " ".join(remedy) in said
            assert main([*words, *remedy]) == 0
    with pytest.raises(
        ConfigError, match=r"^sampling_weights='w': is not .*; weights='w' is .*precision_wei"
    ):
        flyrun.fit(table, "y ~ x", sampling_weights="w")
    with pytest.raises(TypeError, match="unknown option 'sampling'"):
        flyrun.fit(table, "y ~ x", sampling="w")
    assert main(["fit", "--help"]) == 0
    assert "sampling" not in capsys.readouterr().out
