"""`flyrun fit` from a file to a posterior, against references worked out apart (reference.py)."""

import json
import re
from pathlib import Path

import arviz_stats
import numpy as np
import pandas as pd
import pytest
import xarray

from flyrun.cli.main import main
from flyrun.fitting import weighted_draws
from tests.fit.reference import LOADERS, stored


def fit(name, folder, monkeypatch, *words, code=0):
    """The table of coefficients that a fit of one of the tables leaves; it ends with this code."""
    monkeypatch.chdir(folder)
    LOADERS[name](as_frame=True).frame.to_csv(f"{name}.csv", index=False)
    assert main(["fit", f"{name}.csv", "--target", "target", *words]) == code
    return pd.read_csv(f"results/runs/{name}/table.csv", keep_default_na=False)


def apart(table, wanted, shift=0.0):
    """Largest difference of means in standard errors of both sides, and largest relative one of sds."""
    width = table.coefficient.nunique()
    # here the intercept is first in its class, in the reference last
    table = table.iloc[np.concatenate([np.r_[k + 1 : k + width, k] for k in range(0, len(table), width)])]
    size = table.filter(like="ess").replace("", np.nan).astype(float).min(axis=1).to_numpy()
    off = table["mean"].to_numpy() + shift * wanted.sd - wanted.mean
    off /= np.hypot(wanted.sd / np.sqrt(size), wanted.error)
    return np.abs(off).max(), np.abs(table["sd"].to_numpy() / wanted.sd - 1.0).max()


@pytest.fixture
def refused(monkeypatch):
    """Weighted draws that are never to be used."""
    monkeypatch.setattr(weighted_draws, "doubts", lambda found: "this is a test")


@pytest.mark.thorough
def test_chains_leave_what_weighted_draws_leave(tmp_path, monkeypatch, capsys, refused):
    table = fit("diabetes", tmp_path, monkeypatch, "--model", "gamma")
    said = capsys.readouterr().out
    assert "weighted draws are not used, because this is a test: chains are run instead" in said
    assert 'open it with xarray.open_datatree("results/runs/diabetes/posterior.nc"' in said
    assert (table.rhat < 1.01).all()
    assert (table.ess_bulk >= 400).all()
    with xarray.open_datatree("results/runs/diabetes/posterior.nc", engine="h5netcdf") as tree:
        assert dict(tree["posterior"]["beta"].sizes) == {"chain": 4, "draw": 500, "coefficient": 11}
        summary = arviz_stats.summary(tree["posterior"].dataset[["beta"]], round_to="none")
        means = table["mean"][:11]
        np.testing.assert_allclose(summary["mean"].to_numpy(float), np.r_[means[1:], means[0]], rtol=1e-6)
    page = (tmp_path / "results/runs/diabetes/report.html").read_text()
    assert "flyrun fit diabetes.csv --target target" in page
    assert "the same command with a longer --budget" not in page
    # again: and the report by its own verb
    assert fit("diabetes", tmp_path, monkeypatch, "--model", "gamma").equals(table)
    assert main(["report", "diabetes"]) == 0


def test_a_budget_that_is_too_short_for_chains_says_so(tmp_path, monkeypatch, capsys, refused):
    table = fit("diabetes", tmp_path, monkeypatch, "--model", "gamma", "--budget", "60", code=3)
    said = " ".join(capsys.readouterr().out.split())
    assert "The chains do not agree yet" in said
    assert (table.ess_bulk < 400).any()
    assert not json.loads(Path("results/runs/diabetes/fit.json").read_text())["agreed"]
    fit("diabetes", tmp_path, monkeypatch, "--model", "gamma")
    assert json.loads(Path("results/runs/diabetes/fit.json").read_text())["agreed"]


@pytest.mark.thorough
def test_what_scripts_are_told(tmp_path, monkeypatch, capsys, refused):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flyrun.fitting.second_process.report", lambda folder: folder)
    monkeypatch.setattr("flyrun.ground.page.document.show", lambda *_: print("a table"))
    LOADERS["diabetes"](as_frame=True).frame.to_csv("diabetes.csv", index=False)
    words = ["fit", "diabetes.csv", "--target", "target", "--model", "gamma", "--budget", "60"]
    assert main([*words, "--json"]) == 3
    printed = capsys.readouterr()
    said = [json.loads(line) for line in printed.out.splitlines()]
    assert printed.err == ""
    assert {one["event"] for one in said[:-3]} == {"note"}
    assert [one["event"] for one in said[-3:]] == ["warning", "table", "ended"]
    assert "the chains do not agree yet" in said[-3]["text"]
    assert "diabetes.csv: 442 rows, 10 columns, 11 coefficients" in said[0]["text"]
    assert said[-2]["posterior"] == "results/runs/diabetes/posterior.nc"
    assert said[-1]["exit_code"] == 3
    assert main([*words, "--quiet"]) == 3
    printed = capsys.readouterr()
    assert printed.out == "results/runs/diabetes/table.csv\n"
    assert "the chains do not agree yet; a longer --budget runs longer" in printed.err
    assert "json" not in json.loads((tmp_path / "results/runs/diabetes/run.json").read_text())["command"]
    assert main([*words[:3], "nothing", "--json"]) == 2
    printed = capsys.readouterr()
    assert [json.loads(line)["event"] for line in printed.out.splitlines()] == ["error", "ended"]
    assert printed.err.startswith("flyrun: error: ")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "chains"),
    [("breast_cancer", False), ("breast_cancer", True), pytest.param("wine", True, marks=pytest.mark.slow)],
)
def test_classifications_as_their_references(name, chains, tmp_path, monkeypatch, capsys):
    if chains and name == "breast_cancer":  # wine's weights have a heavy tail
        monkeypatch.setattr(weighted_draws, "doubts", lambda found: "this is a test")
    model = {"breast_cancer": "logistic", "wine": "softmax"}[name]
    scale = 2.5 * 2**0.5 if name == "wine" else 2.5  # their priors are alike for intercepts
    prior = ("--prior", f"intercept: normal(0, {scale})")
    table = fit(name, tmp_path, monkeypatch, "--model", model, *prior)
    assert ("weighted draws, " in capsys.readouterr().out) != chains
    # 31 and 28 means: 4.4 standard errors have a level below 0.001
    off, sds = apart(table, stored(name))
    assert off < 4.4
    assert sds < 0.15
    assert apart(table, stored(name), shift=0.5)[0] > 4.4


@pytest.mark.thorough
def test_a_fit_of_something_else_leaves_the_first_where_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    table["y"], table["z"] = table.a + rng.normal(size=60) > 0, rng.permutation(table.b > 0)
    table.to_csv("mine.csv", index=False)
    assert main(["fit", "mine.csv", "--target", "y", "--drop", "z"]) == 0
    phases = [rf"{name} \d+\.\d s" for name in ("read", "draws", "report")]
    assert re.search(f"{', '.join(phases)}; \\d+\\.\\d s in all", capsys.readouterr().out)
    first = (tmp_path / "results/runs/mine/table.csv").read_text()
    assert main(["fit", "mine.csv", "--target", "z", "--drop", "y"]) == 2
    told = capsys.readouterr().err
    assert "with other settings (dataset.target=y, now z" in told
    assert "--name mine_2 keeps both, --fresh replaces them" in told
    assert main(["fit", "mine.csv", "--target", "y", "--drop", "z,b"]) == 2
    assert main(["fit", "mine.csv", "--target", "y", "--drop", "z"]) == 0  # the same again is cached
    assert (tmp_path / "results/runs/mine/table.csv").read_text() == first
    assert main(["fit", "mine.csv", "--target", "z", "--drop", "y", "--name", "mine_2"]) == 0
    assert (tmp_path / "results/runs/mine/table.csv").read_text() == first
    assert main(["fit", "mine.csv", "--target", "z", "--drop", "y", "--fresh"]) == 0
    assert (
        json.loads((tmp_path / "results/runs/mine/fit.json").read_text())["layout"]["target"]["name"] == "z"
    )


@pytest.mark.parametrize("files_of", ["one", "many"])
def test_a_folder_that_cannot_be_written_is_refused_before_any_draw(tmp_path, monkeypatch, capsys, files_of):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40.0) % 7})
    file = "t.csv"
    frame.to_csv(file, index=False)
    if files_of == "many":
        file = "parts"
        Path(file).mkdir()
        for k in range(2):
            frame.to_parquet(f"parts/{k}.parquet")
    Path("taken").write_text("")
    assert main(["fit", file, "--target", "y", "--model", "gaussian", "--results-dir", "taken"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("flyrun: error: taken/runs/")
    assert "cannot be written (Not a directory); move the file that is in its way, or choose another" in err
    assert "rows" not in out
