"""`flyrun fit` from a file to a posterior, against references worked out apart (reference.py)."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import arviz_stats
import numpy as np
import pandas as pd
import pytest
import xarray

from flyrun.cli.main import main
from flyrun.fitting import coefficients
from flyrun.models.fits import modes
from flyrun.runner import store
from flyrun.samplers.chain.method import Chain
from tests.fit.reference import LOADERS, reference, stored

CHAINS = ["sampler=hmc"]  # else weighted draws answer


def fit(name, folder, monkeypatch, *words, code=(0,), chains=CHAINS):
    """The table of coefficients that a fit of one of the tables leaves; it ends with one of these codes."""
    monkeypatch.chdir(folder)
    LOADERS[name](as_frame=True).frame.to_csv(f"{name}.csv", index=False)
    assert main(["fit", f"{name}.csv", "--target", "target", *words, *chains]) in code
    return pd.read_csv(f"results/runs/{name}/table.csv", keep_default_na=False)


def found(folder):
    """What a fit of diabetes noted."""
    return json.loads((folder / "results/runs/diabetes/fit.json").read_text())


def apart(table, wanted, shift=0.0):
    """Largest difference of means in standard errors of both sides, and largest relative one of sds."""
    width = table.coefficient.nunique()
    # here the intercept is first in its class, in the reference last
    table = table.iloc[np.concatenate([np.r_[k + 1 : k + width, k] for k in range(0, len(table), width)])]
    size = table.filter(like="ess").replace("", np.nan).astype(float).min(axis=1).to_numpy()
    off = table["mean"].to_numpy() + shift * wanted.sd - wanted.mean
    off /= np.hypot(wanted.sd / np.sqrt(size), wanted.error)
    return np.abs(off).max(), np.abs(table["sd"].to_numpy() / wanted.sd - 1.0).max()


def test_diabetes_as_its_reference(tmp_path, monkeypatch, capsys):
    table = fit("diabetes", tmp_path, monkeypatch)
    said = capsys.readouterr().out
    assert "the chains agree" in said
    assert 'open it with xarray.open_datatree("results/runs/diabetes/posterior.nc"' in said
    assert (table.rhat < 1.01).all()
    assert (table.ess_bulk >= 400).all()
    # 11 means: 4.2 standard errors have a level below 0.001
    wanted = reference("diabetes")
    off, sds = apart(table, wanted)
    assert off < 4.2
    assert sds < 0.12
    assert apart(table, wanted, shift=0.3)[0] > 4.2
    iterations = found(tmp_path)["iterations"]
    with xarray.open_datatree("results/runs/diabetes/posterior.nc", engine="h5netcdf") as tree:
        assert tree["posterior"]["beta"].sizes == {"chain": 4, "draw": iterations - 500, "coefficient": 11}
        summary = arviz_stats.summary(tree, round_to="none")
        np.testing.assert_allclose(
            summary["mean"].to_numpy(float), np.r_[table["mean"][1:], table["mean"][0]], rtol=1e-6
        )
    page = (tmp_path / "results/runs/diabetes/report.html").read_text()
    assert "flyrun fit diabetes.csv --target target" in page
    assert "Student-t noise of 4 degrees of freedom" in page
    # again: nothing is run, the report is made anew; and by its own verb
    assert fit("diabetes", tmp_path, monkeypatch).equals(table)
    assert f"round 1: {iterations:,} iterations" in capsys.readouterr().out
    assert main(["report", "diabetes"]) == 0


def test_a_budget_that_is_too_short_says_so_and_goes_on_later(tmp_path, monkeypatch, capsys):
    table = fit("diabetes", tmp_path, monkeypatch, "--budget", "620", "--name", "diabetes", code=(3,))
    said = capsys.readouterr().out
    assert "the budget of 620 iterations a chain ends" in said
    assert "The chains do not agree yet" in said
    assert (table.ess_bulk < 400).any()
    fit("diabetes", tmp_path, monkeypatch)
    assert found(tmp_path)["agreed"]
    assert found(tmp_path)["iterations"] >= 1500
    cells = list((tmp_path / "results/runs/diabetes").glob("*/*/seed=*/cell.json"))
    assert len(cells) == 4
    assert all(json.loads(path.read_text())["sessions"] >= 2 for path in cells)


def test_normal_noise_has_the_widths_of_least_squares(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 2))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": 1.0 + x @ [2.0, -1.0] + rng.normal(0, 2.0, 400)})
    frame.to_csv("mine.csv", index=False)
    words = ["fit", "mine.csv", "--target", "y", "model.nu=1e6"]
    assert main([*words, "--name", "ml", "protocol.iterations=8500"]) == 0
    assert ", its maximum likelihood value, held fixed" in capsys.readouterr().out
    rows = np.column_stack([np.ones(400), x])
    residuals = frame.y - rows @ np.linalg.lstsq(rows, frame.y)[0]
    sds = residuals.std() * np.sqrt(np.diag(np.linalg.inv(rows.T @ rows)))  # the variance of most likelihood
    table = pd.read_csv("results/runs/ml/table.csv")
    np.testing.assert_allclose(table.sd, sds, rtol=0.03)
    # a scale that was typed is called that
    assert main([*words, "--name", "typed", "model.scale=0.5"]) == 0
    said = capsys.readouterr().out
    assert f"and scale {0.5 * frame.y.std(ddof=0):.4g}, as given, held fixed" in said
    assert "maximum likelihood" not in said


@pytest.mark.parametrize(("nu", "noise", "code"), [("4", 0.0, 0), ("0.01", 1.0, 3)])
def test_a_scale_that_has_no_estimate_is_refused(nu, noise, code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    x = rng.normal(size=(30, 2))
    y = 1.0 + x @ [2.0, -1.0] + rng.normal(size=30) * noise
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y}).to_csv("mine.csv", index=False)
    words = ["fit", "mine.csv", "--target", "y", f"model.nu={nu}"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("flyrun: error: model.scale=estimated: ")
    assert error.count("\n") == 1
    assert main([*words, "model.scale=0.1", "--budget", "2000"]) == code


class Never:
    """A timer of seconds that are not those of the clock below."""

    def __init__(self, *about):
        self.daemon = True

    def start(self):
        pass

    cancel = start


def slowed(monkeypatch, seconds):
    """Iterations of chain s take seconds[s] more; its state tells which it is.

    By a clock that goes while this process computes, and on by what an iteration takes more: a budget's end
    comes at once, and as late where others work.
    """
    advance, init, more = Chain.advance, Chain.init, [0.0]

    def begun(self, seed, needed=()):
        return {**init(self, seed), "chain": np.array([seed])}

    def slow(self, state, n):
        seed = int(state["chain"][0])
        more[0] += seconds[seed] * n
        after, draws = advance(self, {key: value for key, value in state.items() if key != "chain"}, n)
        return {**after, "chain": np.array([seed])}, draws

    monkeypatch.setattr(Chain, "init", begun)
    monkeypatch.setattr(Chain, "advance", slow)
    monkeypatch.setattr(threading, "Timer", Never)
    computed = time.process_time
    for name in ("time", "monotonic", "perf_counter"):
        first = getattr(time, name)() - computed()
        monkeypatch.setattr(time, name, lambda first=first: first + computed() + more[0])


BRIEF = ["--workers", "1", "--name", "diabetes", "protocol.burn_in=100", "protocol.chunk_seconds=0.2"]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A budget in seconds is not to be spent on compiling, where no other test did before."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("flyrun.fitting.second_process.cores", lambda: 1)
        folder = tmp_path_factory.mktemp("compiled")
        fit("diabetes", folder, monkeypatch, *BRIEF, "--budget", "200", code=(3,))


@pytest.mark.usefixtures("compiled")
def test_chains_share_a_budget_that_ends_too_soon(tmp_path, monkeypatch):
    words = (*BRIEF, "protocol.iterations=2500", "--budget")
    with monkeypatch.context() as slow:
        slowed(slow, [0.004] * 4)
        slow.setattr(Chain, "warm_up", lambda self: 0.0)
        began = time.monotonic()
        # whether so few draws agree is luck
        fit("diabetes", tmp_path, monkeypatch, *words, "13s", code=(0, 3))
        assert time.monotonic() - began < 13 + 12
    about = found(tmp_path)
    assert about["chains"] == 4
    assert 100 < about["iterations"] < 2500
    done = [store.iterations_done(path) for path in (tmp_path / "results/runs/diabetes").glob("*/*/seed=*")]
    assert len(done) == 4
    assert max(done) < 3 * min(done)
    # and goes on
    fit("diabetes", tmp_path, monkeypatch, *words, "10m")
    assert found(tmp_path)["iterations"] >= 2500


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("quick", "meaning"), [(1, "nothing tells whether chains agree"), (2, "R-hat compares these only")]
)
def test_chains_that_got_beyond_burn_in_are_reported(quick, meaning, tmp_path, monkeypatch, capsys):
    slowed(monkeypatch, [0.0] * quick + [0.05] * (4 - quick))
    table = fit(
        "diabetes", tmp_path, monkeypatch, *BRIEF, "--budget", "5s", "protocol.iterations=2000", code=(3,)
    )
    said = " ".join(capsys.readouterr().out.split())
    assert f"nly {quick} of 4 chains got beyond burn-in before the budget ended, and {meaning}" in said
    assert "the chains agree" not in said
    assert found(tmp_path)["chains"] == quick
    assert not found(tmp_path)["agreed"]
    assert np.isfinite(table["mean"]).all()
    assert (table.rhat == "").all() == (quick == 1)


def test_a_budget_without_a_draw_says_so(tmp_path, monkeypatch, capsys):
    slowed(monkeypatch, [0.05] * 4)
    monkeypatch.chdir(tmp_path)
    LOADERS["diabetes"](as_frame=True).frame.to_csv("diabetes.csv", index=False)
    assert main(["fit", "diabetes.csv", "--target", "target", *BRIEF, "--budget", "2s", *CHAINS]) == 1
    assert "the budget of 2 seconds ended at iteration 10, too early" in capsys.readouterr().out


def test_a_second_is_budget_enough_for_a_small_table(tmp_path, monkeypatch):
    monkeypatch.setattr(coefficients, "ESS", 1e9)  # else a quick machine may be done with it
    began = time.monotonic()
    table = fit("diabetes", tmp_path, monkeypatch, "--budget", "1s", "--name", "diabetes", code=(3,))
    assert time.monotonic() - began < 60  # compiling, if this is the first to
    assert np.isfinite(table["mean"]).all()


def two_groups(folder):
    """30 rows about each of two planes 40 apart: two modes of like shares."""
    rng = np.random.default_rng(5)
    x, noise = rng.normal(size=30), rng.normal(size=30)
    y = 20.0 + 2.0 * x + noise
    frame = pd.DataFrame({"x": np.r_[x, x], "y": np.r_[y, -y]})
    frame.to_csv(folder / "mine.csv", index=False)
    return ["fit", "mine.csv", "--target", "y", "model.scale=0.05", "--budget", "1500"]


def test_chains_of_two_modes_do_not_agree(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = two_groups(tmp_path)
    assert main([*words, "--name", "two"]) == 3
    said = capsys.readouterr().out
    assert "the chains agree" not in said
    assert "the posterior has more than one mode: 2 were found, of about 50 % and 50 % of it" in said
    assert "The posterior has more than one mode" in Path("results/runs/two/report.md").read_text()
    table = pd.read_csv("results/runs/two/table.csv")
    assert (table.rhat > 1.5).all()
    assert table.q03[0] < -19
    assert table.q97[0] > 19


def test_chains_started_at_one_of_two_modes_would_agree(tmp_path, monkeypatch, capsys):
    """The control: what finding the modes is for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path))  # where modes that were found are kept

    def one(module, model, features, penalty, normaliser, first):
        return modes.Modes(first.theta[None], first.log_posterior, np.ones(1), 0)

    monkeypatch.setattr("flyrun.models.problem.find_modes", one)
    assert main([*two_groups(tmp_path), "--name", "one"]) == 0
    assert "the chains agree" in capsys.readouterr().out


def test_what_scripts_are_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flyrun.fitting.second_process.report", lambda folder: folder)
    monkeypatch.setattr("flyrun.report.document.show", lambda *_: print("a table"))
    LOADERS["diabetes"](as_frame=True).frame.to_csv("diabetes.csv", index=False)
    words = ["fit", "diabetes.csv", "--target", "target", "--budget", "620", "--workers", "1", *CHAINS]
    assert main([*words, "--json"]) == 3
    printed = capsys.readouterr()
    said = [json.loads(line) for line in printed.out.splitlines()]
    kinds = [one["event"] for one in said]
    assert printed.err == ""
    assert kinds[-5:] == ["round", "note", "note", "table", "ended"]
    assert kinds.count("cell_started") == kinds.count("cell_finished") == 4
    assert "diabetes.csv: 442 rows, 10 columns, 11 coefficients" in said[0]["text"]
    assert (said[-5]["number"], said[-5]["iterations"], said[-5]["agreed"]) == (1, 620, False)
    assert said[-5]["next_iterations"] is None
    assert said[-5]["ess_bulk_min"] < 400
    assert said[-2]["posterior"] == "results/runs/diabetes/posterior.nc"
    assert said[-1]["exit_code"] == 3
    assert main([*words, "--quiet"]) == 3
    printed = capsys.readouterr()
    assert printed.out == "results/runs/diabetes/table.csv\n"
    assert "the chains do not agree yet; the budget of 620 iterations a chain ends" in printed.err
    assert "json" not in json.loads((tmp_path / "results/runs/diabetes/run.json").read_text())["command"]
    assert main([*words[:3], "nothing", "--json"]) == 2
    printed = capsys.readouterr()
    assert [json.loads(line)["event"] for line in printed.out.splitlines()] == ["error", "ended"]
    assert printed.err.startswith("flyrun: error: ")


@pytest.mark.slow
def test_interrupted_it_says_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    LOADERS["diabetes"](as_frame=True).frame.to_csv("diabetes.csv", index=False)
    words = [
        sys.executable,
        "-m",
        "flyrun",
        "fit",
        "diabetes.csv",
        "--target",
        "target",
        "sampler.n_steps=3000",
    ]
    ran = subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    folder = tmp_path / "results/runs/diabetes"
    deadline = time.monotonic() + 200
    while not list(folder.glob("*/*/seed=0/checkpoint-*.npz")) and time.monotonic() < deadline:
        time.sleep(0.1)
    ran.send_signal(signal.SIGINT)
    said, _ = ran.communicate(timeout=100)
    assert ran.returncode == 130
    assert "To go on: flyrun fit diabetes.csv --target target sampler.n_steps=3000" in said


@pytest.mark.slow  # each compiles a combination of its own
@pytest.mark.parametrize("name", ["breast_cancer", "wine"])
def test_classifications_as_their_references(name, tmp_path, monkeypatch):
    model = {"breast_cancer": "logistic", "wine": "softmax"}[name]
    # their priors are alike for intercepts
    table = fit(name, tmp_path, monkeypatch, "--budget", "5m", "--model", model, "dataset.ones=1")
    # 31 and 28 means: 4.4 standard errors have a level below 0.001
    wanted = stored(name)
    off, sds = apart(table, wanted)
    assert off < 4.4
    assert sds < 0.15
    assert apart(table, wanted, shift=0.5)[0] > 4.4


@pytest.mark.slow
def test_classes_without_compiled_chains_as_their_reference(tmp_path, monkeypatch, capsys):
    prior = ("--prior", f"intercept: normal(0, {2.5 * 2**0.5})")
    table = fit("wine", tmp_path, monkeypatch, "--model", "softmax", *prior, chains=())
    assert "weighted draws" in capsys.readouterr().out
    off, sds = apart(table, stored("wine"))
    assert off < 4.4
    assert sds < 0.15
    assert apart(table, stored("wine"), shift=0.5)[0] > 4.4


def test_a_fit_of_something_else_leaves_the_first_where_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    table["y"], table["z"] = table.a + rng.normal(size=60) > 0, rng.permutation(table.b > 0)
    table.to_csv("mine.csv", index=False)
    short = ("--budget", "600", "--workers", "1", *CHAINS, "--drop")
    assert main(["fit", "mine.csv", "--target", "y", *short, "z"]) == 3
    phases = [rf"{name} \d+\.\d s" for name in ("read", "MAP and bounds", "draws", "R-hat and ESS", "report")]
    assert re.search(f"{', '.join(phases)}; \\d+\\.\\d s in all", capsys.readouterr().out)
    first = (tmp_path / "results/runs/mine/table.csv").read_text()
    assert main(["fit", "mine.csv", "--target", "z", *short, "y"]) == 2
    told = capsys.readouterr().err
    assert "with other settings (dataset.target=y, now z" in told
    assert "--name mine_2 keeps both, --fresh replaces them" in told
    assert main(["fit", "mine.csv", "--target", "y", *short, "z,b"]) == 2
    assert main(["fit", "mine.csv", "--target", "y", *short, "z"]) == 3  # the same again is cached
    assert (tmp_path / "results/runs/mine/table.csv").read_text() == first
    assert main(["fit", "mine.csv", "--target", "z", *short, "y", "--name", "mine_2"]) == 3
    assert (tmp_path / "results/runs/mine/table.csv").read_text() == first
    assert main(["fit", "mine.csv", "--target", "z", *short, "y", "--fresh"]) == 3
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
