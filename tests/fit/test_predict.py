"""Predictions of new rows by a fit's draws: against sums written out, and rows that a fit does not fit."""

import io
import json
import re
import shlex
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
import xarray
from formulaic import model_matrix
from scipy.special import expit, gamma, ndtr

import flyrun
from flyrun.cli.main import main
from flyrun.families.family import family, names
from flyrun.fitting import predict
from flyrun.fitting import stored as files_of_fits
from flyrun.fitting.predict import overflow, summary
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.paths import conf_dir
from flyrun.tables.layout import Column, Layout

CHAINS, LENGTH = 2, 15
ROWS = pd.DataFrame(
    {"age": [31.0, 44.5, 60.0, 52.0], "sex": ["m", "f", "f", "m"], "years": [1.0, 2.5, 0.5, 4.0]},
    index=[3, 5, 8, 9],
)
#: of e^η and the auxiliary numbers as people read them, where the mean is not the link's inverse alone
MEANS = {
    "weibull": lambda level, shape: level * gamma(1.0 + 1.0 / shape),
    "log_logistic": lambda level, shape: level / np.sinc(1.0 / shape) if shape > 1.0 else np.inf,
    "lognormal": lambda level, sigma: level * np.exp(sigma**2 / 2.0),
    "zero_inflated_poisson": lambda level, zi: (1.0 - zi) * level,
    "zero_inflated_negative_binomial": lambda level, phi, zi: (1.0 - zi) * level,
    "hurdle_gamma": lambda level, shape, hu: (1.0 - hu) * level,
    "hurdle_lognormal": lambda level, sigma, hu: (1.0 - hu) * level * np.exp(sigma**2 / 2.0),
    "hurdle_poisson": lambda level, hu: (1.0 - hu) * level / (1.0 - np.exp(-level)),
    "hurdle_negative_binomial": lambda level, phi, hu: (
        (1.0 - hu) * level / (1.0 - (phi / (phi + level)) ** phi)
    ),
}
AT = {"log_logistic": 1.5}  # log shapes at which there is a mean, and a variance
TASKS = {name: family(name).target for name in names()}


def predictions(folder, *given, **more):
    """Of the fit in a folder."""
    return predict.predictions(files_of_fits.fitted(folder), *given, **more)


def stored(folder, model, beside=None, sd=1.0):
    """A finished fit's files; its draws beta (S, ...) and what was read of the auxiliary numbers."""
    rng = np.random.default_rng(7)
    task = TASKS[model]
    levels = {"binary": ["no", "yes"], "classes": ["a", "b", "c"], "ordered": ["1", "2", "3"]}.get(task)
    features = [Column("age", mean=45.0, sd=12.0), Column("sex", ["f", "m"], True)]
    layout = Layout(task, Column("y", levels, levels is not None), features, 40, beside=beside or {})
    one = family(model)
    width = (2, 3) if task == "classes" else (3 if one.intercept else 2,)
    beta = rng.normal(0.0, 0.02, (CHAINS, LENGTH, *width))
    auxiliary = one.auxiliary(len(levels or []), 1.0)
    a = rng.normal(AT.get(model, 0.0), 0.3, (CHAINS, LENGTH, len(auxiliary)))
    read = one.read(a) if auxiliary else a
    even = {"beta": beta} | {other.name: read[..., k] for k, other in enumerate(auxiliary)}
    folder.mkdir(exist_ok=True)
    files_of_fits._write_draws(folder / "posterior.nc", even, {}, layout, {}, {})
    told = {"layout": asdict(layout), "link": one.link, "settings": {"model": model}}
    (folder / "fit.json").write_text(json.dumps(told))
    return beta.reshape(-1, *width), read.reshape(CHAINS * LENGTH, -1)


def by_hand(model, beta, read):
    """Means of every draw and row, (S, N, K), written out."""
    x = np.column_stack([ROWS.age, ROWS.sex == "m", np.ones(4)]).astype(float)
    found = np.empty((len(beta), 4, 3 if TASKS[model] in ("classes", "ordered") else 1))
    for s in range(len(beta)):
        for n in range(4):
            if model == "softmax":
                odds = np.exp([0.0, x[n] @ beta[s, 0], x[n] @ beta[s, 1]])
                found[s, n] = odds / odds.sum()
                continue
            eta = x[n, : beta.shape[1]] @ beta[s]
            if model == "ordinal":
                first, second = expit(read[s, 0] - eta), expit(read[s, 1] - eta)
                found[s, n] = first, second - first, 1.0 - second
                continue
            if model in MEANS:
                found[s, n] = MEANS[model](np.exp(eta), *read[s])
                continue
            inverse = {"identity": float, "log": np.exp, "logit": expit, "probit": ndtr}
            found[s, n] = inverse[family(model).link](eta)
    return found


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("model", TASKS)
def test_predictions_are_sums_over_draws_written_out(tmp_path, model):
    beta, read = stored(tmp_path / "run", model)
    means = by_hand(model, beta, read)
    found = predictions(tmp_path / "run", ROWS, interval=0.8)
    assert list(found.index) == [3, 5, 8, 9]
    labels = [""] if means.shape[2] == 1 else [f"[{one}]" for one in ("abc" if model == "softmax" else "123")]
    for k, label in enumerate(labels):
        np.testing.assert_allclose(found[f"mean{label}"], means[..., k].mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(found[f"sd{label}"], means[..., k].std(axis=0, ddof=1), rtol=1e-12)
        low, high = np.quantile(means[..., k], [0.1, 0.9], axis=0)
        np.testing.assert_allclose(found[[f"low{label}", f"high{label}"]], np.c_[low, high], rtol=1e-12)
    # six draws of thirty are other draws: the control
    few = predictions(tmp_path / "run", ROWS, draws=6)
    assert np.abs(few - predictions(tmp_path / "run", ROWS)).to_numpy().max() > 1e-9


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("model", TASKS)
def test_new_targets_follow_their_means_and_the_seed(tmp_path, model):
    beta, read = stored(tmp_path / "run", model)
    many = pd.concat([ROWS.iloc[[1]]] * 700, ignore_index=True)
    found = predictions(tmp_path / "run", many, "response", seed=3)
    pd.testing.assert_frame_equal(found, predictions(tmp_path / "run", many, "response", seed=3))
    other = predictions(tmp_path / "run", many, "response", seed=4)
    assert not found.equals(other)
    means = by_hand(model, beta, read)[:, 1].mean(axis=0)
    heads = [name for name in found if name.startswith("mean")]
    error = found[heads].std() / np.sqrt(len(many))
    if model != "student_t":  # of so few degrees of freedom that means need not settle
        assert (np.abs(found[heads].mean().to_numpy() - means) < 4.5 * error.to_numpy()).all()
    # as many rows alone give the same: a block's generator knows nothing of the others
    pd.testing.assert_frame_equal(found[:512], predictions(tmp_path / "run", many[:512], "response", seed=3))


def test_exposure_trials_and_offset_are_read_from_the_new_rows(tmp_path):
    beta, _ = stored(tmp_path / "counts", "poisson", {"exposure": Column("years")})
    x = np.column_stack([ROWS.age, ROWS.sex == "m", np.ones(4)]).astype(float)
    eta = beta @ x.T
    wanted = (np.exp(eta) * ROWS.years.to_numpy()).mean(axis=0)
    np.testing.assert_allclose(predictions(tmp_path / "counts", ROWS)["mean"], wanted, rtol=1e-12)
    stored(tmp_path / "moved", "poisson", {"offset": Column("years")})
    wanted = np.exp(eta + ROWS.years.to_numpy()).mean(axis=0)
    np.testing.assert_allclose(predictions(tmp_path / "moved", ROWS)["mean"], wanted, rtol=1e-12)
    stored(tmp_path / "hits", "binomial", {"trials": Column("n")})
    tried = ROWS.assign(n=[4, 0, 7, 10])
    found = predictions(tmp_path / "hits", tried)["mean"]
    np.testing.assert_allclose(found, tried.n * expit(eta).mean(axis=0), rtol=1e-12)
    assert (predictions(tmp_path / "hits", tried, "response")["high"] <= tried.n).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.rename(columns={"age": "agee"}), "no column 'age', .*did you mean agee"),
        (lambda rows: rows.assign(sex=["m", "f", "x", "m"]), "row 8, column sex holds 'x'.*seen f and m"),
        (lambda rows: rows.assign(age=[1.0, np.nan, 2.0, 3.0]), "row 5, column age has no value"),
        (lambda rows: rows.assign(age=["1", "2", "old", "4"]), "row 8, column age holds 'old', but held num"),
        (
            lambda rows: rows.assign(years=[1.0, 0.0, 2.0, 3.0]),
            "row 5, column years is 0, but exposures are numbers above 0",
        ),
    ],
)
def test_rows_that_do_not_fit_are_named(tmp_path, change, said):
    stored(tmp_path / "run", "poisson", {"exposure": Column("years")})
    with pytest.raises(DataError, match=said):
        predictions(tmp_path / "run", change(ROWS))


def test_a_folder_without_a_fit_and_too_many_draws_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="holds no finished fit"):
        predictions(tmp_path, ROWS)
    stored(tmp_path / "run", "logistic")
    with pytest.raises(ConfigError, match="--draws 31: must be from 1 to 30"):
        predictions(tmp_path / "run", ROWS, draws=31)


def test_a_formula_fitted_is_predicted_by_its_own_matrix(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    made = pd.DataFrame({"age": rng.normal(50, 9, 200), "sex": rng.choice(["f", "m"], 200)})
    made["n"] = rng.poisson(np.exp(0.5 + 0.01 * made.age + 0.3 * (made.sex == "m")))
    made.to_csv("rows.csv", index=False)
    written = "n ~ bs(age, df=4) * C(sex, Treatment('m'))"
    assert main(["fit", "rows.csv", written, "--model", "poisson", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["predict", "rows", "rows.csv", "--interval", "80"]) == 0
    found = pd.read_csv(io.StringIO(capsys.readouterr().out))
    matrix = model_matrix(written.partition("~")[2], pd.read_csv("rows.csv"))
    matrix = np.c_[np.asarray(matrix)[:, 1:], np.ones(200)]
    with xarray.open_dataset("results/runs/rows/posterior.nc", group="posterior", engine="h5netcdf") as draws:
        beta = draws["beta"].to_numpy().reshape(-1, matrix.shape[1])
    means = np.exp(beta @ matrix.T)
    np.testing.assert_allclose(found["mean"], means.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found["low"], np.quantile(means, 0.1, axis=0), rtol=1e-5)
    assert main(["fit", "rows.csv", "n ~ age", "--model", "poisson", "--quiet"]) == 2
    assert "other settings (dataset.formula" in capsys.readouterr().err
    made.assign(sex="q").to_csv("new.csv")
    assert main(["predict", "rows", "new.csv"]) == 2
    assert "row 0 (line 2 of the file), column sex holds 'q', a level" in capsys.readouterr().err


def test_the_first_door_of_the_readme_opens(tmp_path, monkeypatch, capsys):
    """Its two commands say what it prints: the rows of coefficients and of predictions."""
    page = (conf_dir().parent / "README.md").read_text("utf-8")
    blocks = re.findall(r"```\n(.*?)```", page, re.DOTALL)[:4]
    (tmp_path / "datasets").symlink_to(conf_dir().parent / "datasets")
    monkeypatch.chdir(tmp_path)
    for command, printed in (blocks[:2], blocks[2:]):
        assert main(shlex.split(command)[1:]) == 0
        out = [line.split()[:5] for line in capsys.readouterr().out.splitlines()]
        lines = [line.split()[:5] for line in printed.splitlines() if line and "likelihoods" not in line]
        assert len(lines) > 2
        assert all(line in out for line in lines)


def test_columns_that_say_the_same_are_left_out_of_a_formula(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    made = pd.DataFrame({"x": rng.normal(size=80)})
    made["y"] = made.x + rng.normal(size=80)
    made.to_csv("rows.csv", index=False)
    assert main(["fit", "rows.csv", "y ~ x + I(2 * x + 1)", "--model", "gaussian"]) == 0
    assert "leave one of them out of the formula" in capsys.readouterr().out


def test_tables_are_read_from_stdin(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    made = pd.DataFrame({"x": rng.normal(size=50)})
    made["y"] = made.x + rng.normal(size=50)
    content = made.to_csv(index=False).encode()

    def piped(text):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))

    piped(content)
    assert main(["fit", "-", "y ~ x", "--model", "gaussian", "--name", "mine"]) == 0
    assert "50 rows, 1 column," in capsys.readouterr().out
    piped(content)
    assert main(["predict", "mine", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 51
    piped(b"")
    assert main(["predict", "mine", "-"]) == 2
    assert "is stdin, which is empty" in capsys.readouterr().err


def test_ratios_stand_beside_coefficients_where_they_are_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    made = pd.DataFrame({"x": rng.normal(size=300)})
    made["n"] = rng.poisson(np.exp(0.3 * made.x))
    made["y"] = np.exp(made.x + rng.normal(size=300))
    made.to_csv("rows.csv", index=False)
    assert main(["fit", "rows.csv", "n ~ x", "--model", "poisson", "--exp"]) == 0
    assert re.search(r"rate ratio.*\n.*\n.*\n x .* 1\.\d+ \(1\.\d+ to 1\.\d+\)", capsys.readouterr().out)
    table = pd.read_csv("results/runs/rows/table.csv", index_col="coefficient")
    with xarray.open_dataset("results/runs/rows/posterior.nc", group="posterior", engine="h5netcdf") as draws:
        slope = draws["beta"].sel(coefficient="x").to_numpy()
    assert table.loc["x", "rate_ratio"] == pytest.approx(np.median(np.exp(slope)))
    assert table.loc["x", "rate_ratio_q97"] == pytest.approx(np.exp(table.loc["x", "q97"]))
    assert np.isnan(table.loc["intercept", "rate_ratio"])
    assert "rate ratio: e to the coefficient" in " ".join(
        (tmp_path / "results/runs/rows/report.md").read_text("utf-8").split()
    )
    assert main(["fit", "rows.csv", "log(y) ~ x", "--exp", "--name", "logged"]) == 0
    assert "ratio" in pd.read_csv("results/runs/logged/table.csv")
    for words in (["y ~ x", "--model", "gaussian"], ["x ~ y", "--model", "student_t"]):
        capsys.readouterr()
        assert main(["fit", "rows.csv", *words, "--exp", "--name", "none"]) == 2
        assert "no logs of ratios; leave --exp out" in capsys.readouterr().err
    assert "rate_ratio" not in pd.read_csv("results/runs/logged/table.csv")


@pytest.mark.thorough(but=5)
@pytest.mark.parametrize("kind", ["mean", "response"])
@pytest.mark.parametrize("model", TASKS)
def test_a_row_far_out_is_inf_and_leaves_the_others_alone(tmp_path, model, kind, recwarn):
    stored(tmp_path / "run", model)
    far = ROWS.assign(age=[31.0, 1e6, 60.0, -1e308])
    found = predictions(tmp_path / "run", far, kind)
    usual = predictions(tmp_path / "run", ROWS, kind)
    if kind == "mean":
        pd.testing.assert_frame_equal(found.loc[[3, 8]], usual.loc[[3, 8]])
    assert np.isfinite(found.loc[[3, 8]].to_numpy()).all()
    if family(model).link == "log":
        assert found.loc[5, ["mean", "sd", "high"]].tolist() == [np.inf] * 3
        assert "row" not in overflow(found)
        assert overflow(found).startswith("5 and 1 more: beyond 1.8e308")
    elif family(model).link != "identity":
        assert np.isfinite(found.to_numpy()).all()
        assert overflow(found) == ""
    assert not recwarn.list


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", ["poisson", "negative_binomial"])
def test_counts_beyond_whole_numbers_of_64_bits_are_drawn(tmp_path, monkeypatch, capsys, model):
    monkeypatch.chdir(tmp_path)
    x = np.arange(30) / 10
    pd.DataFrame({"x": x, "y": np.rint(np.exp(x))}).to_csv("rows.csv", index=False)
    assert main(["fit", "rows.csv", "y ~ x", "--model", model]) == 0
    predict = ["predict", "rows", "new.csv", "--kind", "response"]
    for far, said in ((60.0, r"$"), (1e6, r"flyrun: note: row 1: beyond 1\.8e308.*\n$")):
        pd.DataFrame({"x": [1.0, far]}).to_csv("new.csv", index=False)
        capsys.readouterr()
        assert main(predict) == 0
        out, err = capsys.readouterr()
        usual, large = pd.read_csv(io.StringIO(out))["mean"]
        assert usual < 10.0
        assert large > 2.0**63
        assert re.match(said, err)


def test_summaries_have_no_number_in_between_that_overflows():
    draws = np.array([[1e308, 1e200, np.inf], [1.2e308, 3e200, 2.0], [1.1e308, 2e200, 1.0]])
    mean, sd, low, high = summary(draws, 0.5)
    assert mean[:2] == pytest.approx([1.1e308, 2e200])
    assert sd[:2] == pytest.approx([1e307, 1e200])
    assert low[:2] == pytest.approx([1.05e308, 1.5e200])
    assert [mean[2], sd[2], low[2], high[2]] == [np.inf, np.inf, 1.5, np.inf]


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_predictions_are_of_the_kind_that_their_file_is_called(tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"x": np.linspace(0.0, 2.0, 40), "y": np.random.default_rng(0).normal(size=40)})
    flyrun.fit(frame, "y ~ x", model="gaussian", name="run")
    frame[:4].to_csv("new.csv", index=False)
    words = ["predict", "run", "new.csv", "--out", f"out.{kind}"]
    assert main(words) == 0
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "tsv": lambda path: pd.read_csv(path, sep="\t")}
    table = read[kind](f"out.{kind}")
    assert list(table) == ["row", "mean", "sd", "low", "high"]
    assert len(table) == 4
    for out, said in (("out.feather", "is not written"), ("s3://bucket/out.csv", "is an address")):
        assert main([*words[:-1], out]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "s3:").exists()
