"""The main job at `smoke` size, as a person runs it: results, caching, and the same bits on any workers."""

import csv
import json

import h5py
import numpy as np
import pytest

from tests.in_process import flyrun

ARMS = ("regular", "untuned", "map_tuned")
MAIN = ("experiment=mnist_logreg", f"only=[{','.join(ARMS)}]", "protocol=smoke")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    return folder, flyrun(folder, *MAIN, "executor.workers=2")


@pytest.mark.thorough
def test_another_length_leaves_the_run_as_it_is(run):
    folder, _ = run
    table = folder / "results" / "runs" / "mnist_logreg" / "table.csv"
    before = table.read_bytes()
    done = flyrun(folder, *MAIN[:2], "protocol=brisk")
    assert done.returncode == 2
    assert "name=mnist_logreg_2 keeps both, fresh=true replaces them" in done.stderr
    assert done.stderr.count("\n") == 1
    assert table.read_bytes() == before


def _draws(folder, name="mnist_logreg"):
    found = {}
    for path in sorted((folder / "results" / "runs" / name).glob("*/*/seed=*/posterior.nc")):
        with h5py.File(path) as file:
            found[path.parents[2].name, path.parent.name] = {
                "theta": file["posterior/theta"][()],
                "queries": file["sample_stats/queries"][()],
                "log_joint": file["sample_stats/log_joint"][()],
            }
    return found


def test_it_ends_well_and_leaves_its_table(run):
    folder, done = run
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    results = folder / "results" / "runs" / "mnist_logreg"
    rows = {row["arm"]: row for row in csv.DictReader((results / "table.csv").open())}
    assert tuple(rows) == ARMS
    assert float(rows["regular"]["queries_per_iter"]) == 12_214
    assert float(rows["map_tuned"]["paper_speedup"]) == 22
    for name in ("report.html", "report.md", "table.json"):
        assert (results / name).stat().st_size > 0
    assert json.loads((results / "table.json").read_text())
    assert sorted(path.name for path in folder.iterdir()) == ["results"]


def test_a_second_call_runs_nothing(run):
    folder, _ = run
    again = flyrun(folder, *MAIN)
    assert again.returncode == 0
    assert "all 6 cells cached" in again.stdout


@pytest.mark.thorough
def test_one_worker_gives_the_same_bits(run):
    folder, _ = run
    other = flyrun(folder, *MAIN, "executor.workers=1", "name=alone")
    assert other.returncode == 0, other.stderr
    two, one = _draws(folder), _draws(folder, "alone")
    assert set(two) == set(one) == {(arm, f"seed={seed}") for arm in ARMS for seed in (0, 1)}
    for cell, values in two.items():
        for name in values:
            np.testing.assert_array_equal(values[name], one[cell][name])


def test_one_arm_without_an_experiment(run):
    folder, _ = run
    words = ["dataset=mnist_7v9", "dataset.limit=500", "model=logistic", "bound=map", "sampler=random_walk"]
    done = flyrun(folder, *words, "protocol=smoke", "protocol.seeds=1")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
