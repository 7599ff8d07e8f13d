"""The Python door: frames in, the same answer as the command gives, and what it says of mistakes."""

import gc
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flyrun as flyrun_package
from flyrun.experiments.python import run
from flyrun.families.family import family
from flyrun.fitting.python import fit, load
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.paths import datasets_dir
from tests.in_process import flyrun

ROOT = Path(__file__).parents[2]
FILE = datasets_dir() / "tables" / "breast_cancer.csv"


@pytest.fixture(scope="module")
def frame():
    return pd.read_csv(FILE)[["diagnosis", "radius", "texture"]]


@pytest.fixture(scope="module")
def made(frame):
    return fit(frame, "diagnosis")


@pytest.mark.thorough
def test_a_frame_gives_what_its_file_gives(frame, made, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert flyrun(tmp_path, "fit", "t.csv", "--target", "diagnosis", "--quiet").returncode == 0
    other = load(tmp_path / "results" / "runs" / "t")
    pd.testing.assert_frame_equal(made.summary(), other.summary())
    beta = made.posterior["posterior"]["beta"]
    assert beta.dims == ("chain", "draw", "coefficient")
    assert np.array_equal(beta, other.posterior["posterior"]["beta"])
    assert repr(made).startswith(made.checks()["how"])
    assert "radius" in made._repr_html_()
    assert "Calibration: rows alike" in made.report.read_text(encoding="utf-8")


def test_ratios_are_of_the_draws(made):
    ratios = made.summary(exp=True)
    draws = np.exp(made.posterior["posterior"]["beta"].sel(coefficient="radius").to_numpy())
    assert list(ratios.index) == ["radius", "texture"]
    assert ratios.loc["radius", "odds_ratio"] == pytest.approx(np.median(draws), rel=1e-12)
    numbers = fit(
        pd.DataFrame({"x": np.arange(30.0) ** 1.5, "y": np.sin(np.arange(30.0))}), "y", model="gaussian"
    )
    with pytest.raises(ConfigError, match="no logs of ratios; leave exp out"):
        numbers.summary(exp=True)


def test_predictions_are_those_of_the_command(frame, made):
    found = made.predict(frame.head(5))
    beta = made.posterior["posterior"]["beta"].stack(s=("chain", "draw")).transpose("s", ...).to_numpy()
    x = np.column_stack([frame.head(5)[["radius", "texture"]], np.ones(5)])
    by_hand = (1 / (1 + np.exp(-beta @ x.T))).mean(axis=0)
    assert np.abs(found["mean"] - by_hand).max() < 1e-12


@pytest.mark.thorough
def test_draws_go_with_a_fit_without_a_name_and_stay_with_one(frame, tmp_path):
    one = fit(frame, "diagnosis")
    folder = one.folder
    assert folder.is_dir()
    del one
    gc.collect()
    assert not folder.exists()
    fit(frame, "diagnosis", name="kept", results_dir=str(tmp_path), priors={"radius": "normal(0, 1)"})
    again = load(tmp_path / "runs" / "kept")
    assert again.priors.loc["radius", "prior"] == "normal(0, 1)"


def test_mistakes_are_told_in_one_line(frame):
    with pytest.raises(DataError, match="no column 'diagnosi'"):
        fit(frame, "diagnosi")
    with pytest.raises(TypeError, match="unknown option 'feature'"):
        fit(frame, "diagnosis", feature=["radius"])
    with pytest.raises(TypeError, match="not list"):
        fit([1, 2], "y")
    with pytest.raises(ConfigError, match="priors: radius: wide"):
        fit(frame, "diagnosis", priors={"radius": "wide"})
    with pytest.raises(ConfigError, match="holds no finished fit"):
        load("nowhere")


@pytest.mark.thorough
def test_an_experiment_gives_its_table_and_draws(tmp_path):
    words = ["protocol=smoke", "only=[regular]", "executor.workers=1", f"results_dir={tmp_path}"]
    found = run("toy_flymc", words)
    assert found.arms == ["regular"]
    assert found.table.loc["regular", "queries_per_iter"] > 0
    assert all("posterior" in tree for tree in found.draws("regular"))
    with pytest.raises(ConfigError, match="did you mean regular"):
        found.draws("regulr")
    assert found.report.is_file()


@pytest.fixture(scope="module")
def trial():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"arm": rng.choice(["a", "b", "c"], 300), "dose": rng.normal(size=300)})
    eta = 0.3 * frame["dose"] + frame["arm"].map({"a": 0.0, "b": 0.5, "c": -1.0})
    return frame.assign(ill=(rng.random(300) < 1 / (1 + np.exp(-eta))).astype(int))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("target", ["ill", "ill ~ dose * arm"])
def test_comparisons_are_means_over_rows_of_every_draw(trial, target):
    made = fit(trial, target)
    found = made.comparisons("arm")
    assert list(found.index) == ["b against a", "c against a"]
    of_arm = {arm: made.predict(trial.assign(arm=arm))["mean"].mean() for arm in "ab"}
    by_hand = of_arm["b"] - of_arm["a"]
    assert found.loc["b against a", "mean"] == pytest.approx(by_hand, abs=1e-12)
    one = found.loc["b against a"]
    assert 0 < one["sd"] < 0.2
    assert one["low"] < one["mean"] < one["high"]
    more = made.comparisons("dose").loc["dose + 1", "mean"]
    ends = [made.predict(trial.assign(dose=trial["dose"] + k))["mean"].mean() for k in (0, 1)]
    assert more == pytest.approx(ends[1] - ends[0], abs=1e-12)


def test_slopes_are_derivatives(trial):
    made = fit(trial, "ill")
    beta = made.posterior["posterior"]["beta"].stack(s=("chain", "draw"))
    dose = beta.sel(coefficient="dose").to_numpy()
    levels = {name: beta.sel(coefficient=f"arm[{name}]").to_numpy() for name in "bc"}
    eta = np.outer(trial["dose"], dose) + beta.sel(coefficient="intercept").to_numpy()
    for name, effect in levels.items():
        eta += np.outer(trial["arm"] == name, effect)
    chance = 1 / (1 + np.exp(-eta))
    slope = chance * (1 - chance) * dose
    found = made.slopes("dose", by="arm")
    for name in "abc":
        own = slope[trial["arm"] == name].mean(axis=0)
        assert found.loc[f"dose, arm = {name}", "mean"] == pytest.approx(own.mean(), rel=1e-6)
        assert found.loc[f"dose, arm = {name}", "sd"] == pytest.approx(own.std(ddof=1), rel=1e-5)
    with pytest.raises(ConfigError, match="is a category"):
        made.slopes("arm")
    with pytest.raises(ConfigError, match="did you mean dose"):
        made.slopes("doses")


def test_a_file_is_read_again_for_comparisons(trial, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trial.to_csv("t.csv", index=False)
    made = fit("t.csv", "ill", name="t")
    pd.testing.assert_frame_equal(made.comparisons("arm"), fit(trial, "ill").comparisons("arm"))
    trial.head(200).to_csv("t.csv", index=False)
    with pytest.raises(DataError, match="changed"):
        load("results/runs/t").comparisons("arm")


@pytest.mark.thorough
def test_every_block_of_the_page_runs_as_printed(monkeypatch, tmp_path):
    """One after the other in one namespace, from a folder with the sample table."""
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "datasets").symlink_to(datasets_dir())
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert len(blocks) >= 6
    assert names["run"].arms
    assert callable(flyrun_package.fit)


@pytest.mark.thorough
def test_a_row_of_weight_two_is_two_rows_and_rows_left_out_are_out(trial):
    many = trial.assign(n=np.arange(len(trial)) % 3)
    doubled = trial.loc[trial.index.repeat(many["n"])]
    one, other = fit(many, "ill ~ dose", weights="n"), fit(doubled, "ill ~ dose")
    beta = one.posterior["posterior"]["beta"].stack(s=("chain", "draw")).transpose("s", ...).to_numpy()
    chance = 1 / (1 + np.exp(-beta @ np.stack([doubled["dose"] + 1, np.ones(len(doubled))])))
    before = 1 / (1 + np.exp(-beta @ np.stack([doubled["dose"], np.ones(len(doubled))])))
    found = one.comparisons("dose").loc["dose + 1", "mean"]
    assert found == pytest.approx((chance - before).mean(), abs=1e-12)
    assert one.loo().elpd == pytest.approx(other.loo().elpd, abs=0.1)
    assert one.loo().se == pytest.approx(other.loo().se, rel=0.01)
    lacking = trial.assign(ill=trial["ill"].where(trial["dose"] < 0.5))
    kept = lacking.dropna().astype({"ill": int})
    drop = fit(lacking, "ill ~ dose", missing="drop")
    assert drop.comparisons("dose").loc["dose + 1", "mean"] == pytest.approx(
        fit(kept, "ill ~ dose").comparisons("dose").loc["dose + 1", "mean"], abs=1e-9
    )


def test_rows_of_many_files_are_not_read_again(trial, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shards").mkdir()
    for k in range(2):
        trial[["dose", "ill"]].iloc[k::2].to_parquet(f"shards/{k}.parquet", index=False)
    made = fit("shards", "ill", name="scan")
    with pytest.raises(ConfigError, match="by a scan of shards"):
        made.loo()


def test_comparisons_of_successes_name_their_unit():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"arm": rng.choice(["a", "b"], 200), "n": rng.integers(0, 30, 200)})
    chance = np.where(frame.arm == "b", 0.6, 0.3)
    made = fit(frame.assign(hits=rng.binomial(frame.n, chance)), "hits | n ~ arm")
    number, share = made.comparisons("arm"), made.comparisons("arm", kind="chance")
    assert number.index.name == "change of hits, expected successes among a row's n trials"
    assert share.index.name == "change of the chance of hits in one trial"
    assert number["mean"].iloc[0] == pytest.approx(share["mean"].iloc[0] * frame.n.mean(), rel=1e-9)
    assert share["mean"].iloc[0] == pytest.approx(0.3, abs=0.05)
    new = frame.head(2).assign(n=[10, 20])
    chances, means = made.predict(new, kind="chance"), made.predict(new)
    np.testing.assert_allclose(chances["mean"] * [10, 20], means["mean"])


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("model", "unit"),
    [("poisson", "the expected y"), ("logistic", "the chance of y = 1"), ("ordinal", "the chance of y")],
)
def test_other_comparisons_name_theirs(model, unit):
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(
        {"x": rng.normal(size=90), "y": rng.integers(0, 2 if model == "logistic" else 3, 90)}
    )
    made = fit(frame, "y ~ x", model=model)
    for found in (made.comparisons("x"), made.slopes("x")):
        assert found.index.name == f"change of {unit}"
    if model == "poisson":
        with pytest.raises(ConfigError, match=r"kind='chance': y has an expectation, no chance; take mean"):
            made.comparisons("x", kind="chance")
    with pytest.raises(ConfigError, match="kind='response': must be mean or chance"):
        made.comparisons("x", kind="response")


def test_the_prior_of_cutpoints_is_printed_as_it_is_used():
    """The prior of a cutpoint but the first is of a log distance, and of the first at the columns' means."""
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"x": rng.normal(3.0, 1.0, 90), "y": rng.integers(0, 4, 90)})
    found = fit(frame, "y ~ x", model="ordinal").priors["prior"]
    assert found["cut_1"] == "normal(0, 5) where numbers are at their means"
    assert found["cut_3"] == "normal(0, 1.5) of log(cut_3 - cut_2)"
    a = np.stack([one.prior.draw(rng) * np.ones(4) for one in family("ordinal").auxiliary(4, 1.0)], axis=-1)
    cuts = family("ordinal").read(a)
    np.testing.assert_allclose(np.log(cuts[:, 2] - cuts[:, 1]), a[:, 2])
