"""Results at an address: a run is sent whole, and read whole or not at all."""

import json

import numpy as np
import pandas as pd
import pytest

import flyrun
from flyrun.cli.main import main
from flyrun.ground import sent_runs
from flyrun.ground.errors import StoreError

pytest.importorskip("pyarrow")

RESULTS = "s3://insurer/results"
JUNE = f"{RESULTS}/runs/june"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch, s3):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(3)
    x = rng.standard_normal((400, 2))
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": rng.random(400) < 1 / (1 + np.exp(-x[:, 0]))})
    table["y"] = table["y"].astype(int)
    table.to_csv("june.csv", index=False)
    table[100:].to_csv("july.csv", index=False)


def fit(month, *words):
    """Exit code of a month's fit, sent."""
    return main(["fit", f"{month}.csv", "--target", "y", "--results-dir", RESULTS, "--quiet", *words])


def line(capsys):
    """What is said in one line."""
    (said,) = capsys.readouterr().err.splitlines()
    return said


@pytest.mark.thorough
def test_a_fit_at_an_address_is_that_of_a_folder(capsys, s3, tmp_path):
    assert fit("june") == 0
    assert main(["fit", "june.csv", "--target", "y", "--quiet"]) == 0
    sent = {key for key in s3.objects if key.startswith("insurer/results/runs/june/")}
    assert {key.rpartition("/")[2] for key in sent} >= {
        "fit.json",
        "posterior.nc",
        "report.html",
        "sent.json",
    }
    assert not any("lock" in key or "/scan" in key for key in sent)
    there, here = flyrun.load(JUNE), flyrun.load("june")
    assert there.summary().equals(here.summary())
    assert flyrun.load("june", results_dir=RESULTS).summary().equals(here.summary())
    capsys.readouterr()
    assert main(["predict", JUNE, "july.csv"]) == 0
    predicted = capsys.readouterr().out
    assert main(["predict", "june", "july.csv"]) == 0
    assert capsys.readouterr().out == predicted
    for words in (["report", JUNE], ["compare", JUNE, "june"]):
        assert main(words) == 0


def test_a_run_whose_sending_is_cut_off_is_not_read(capsys, s3):
    assert fit("june") == 0
    before = dict(s3.objects)
    assert fit("june", "--fresh", "--prior-scale", "1") == 0
    after = dict(s3.objects)
    for name in ("fit.json", "posterior.nc"):  # of two that were sent at once, and of one cut off
        key = f"insurer/results/runs/june/{name}"
        s3.objects[key] = before[key]
        with pytest.raises(StoreError, match="is of another fit than sent"):
            flyrun.load(JUNE)
        s3.objects[key] = after[key]
    flyrun.load(JUNE)  # the control
    del s3.objects["insurer/results/runs/june/sent.json"]
    capsys.readouterr()
    assert main(["predict", JUNE, "july.csv"]) == 2
    assert f"{JUNE}: holds no fit that was sent whole" in line(capsys)


@pytest.mark.thorough
def test_another_fit_of_the_name_is_refused_as_in_a_folder(capsys, s3, tmp_path, monkeypatch):
    assert fit("june") == 0
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "another machine's"))
    capsys.readouterr()
    assert fit("june", "--prior-scale", "1") == 2
    said = line(capsys)
    assert said.startswith(f"flyrun: error: {JUNE}: holds finished results with other settings (prior_scale")
    assert fit("june") == 0
    assert json.loads(s3.objects["insurer/results/runs/june/fit.json"])["settings"]["prior_scale"] == 2.5


def test_what_cannot_be_sent_stays_here(capsys, s3, monkeypatch):
    def refuse(path):
        raise StoreError(f"{path}: cannot be written (no room); name another place")

    monkeypatch.setattr("flyrun.ground.sent_runs.addresses.replacing", refuse)
    assert fit("june") == 2
    said = line(capsys)
    assert "cannot be written (no room)" in said
    folder = said.rpartition("the run is whole in ")[2].rstrip(".")
    assert flyrun.load(folder).summary().shape[0] == 3
    assert not any("results" in key for key in s3.objects)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["fit", "june.csv", "--target", "y", "--by", "a", "--results-dir", RESULTS],
            "is for one run, and --by",
        ),
        (["predict", "june", "july.csv", "--results-dir", RESULTS], f"as {RESULTS}/runs/NAME"),
        (["predict", f"{RESULTS}/runs/may", "july.csv"], "runs/may: holds no fit that was sent whole"),
        (["predict", "s3://insurer/m.flyrun", "july.csv"], "s3://insurer: holds no model"),
    ],
)
def test_what_is_at_no_address_is_one_line(capsys, words, said):
    assert main([*words, *(["--quiet"] if words[0] == "fit" else [])]) == 2
    assert said in line(capsys)


def test_a_name_outside_the_run_is_refused(s3):
    s3.objects["insurer/results/runs/june/sent.json"] = json.dumps({"../../x": "0"}).encode()
    with pytest.raises(StoreError, match="which is in no run"):
        sent_runs.fetched(JUNE)


@pytest.mark.thorough
def test_a_model_at_an_address_is_read(s3, tmp_path):
    frame = pd.read_csv("june.csv")
    fitted = flyrun.fit(frame, "y", name="june", results_dir=RESULTS)
    fitted.save("m.flyrun")
    s3.objects["insurer/m.flyrun"] = (tmp_path / "m.flyrun").read_bytes()
    assert flyrun.load("s3://insurer/m.flyrun").summary().equals(flyrun.load(JUNE).summary())
