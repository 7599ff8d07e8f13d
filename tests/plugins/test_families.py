"""Methods of other packages that answer with a density or weighted draws, or read other arms' cells.

Nothing in flyrun/ knows them: they are found by entry point, run, resumed, and reported beside a chain.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray

from tests.plugins.processes import copies

HERE = Path(__file__).parent
TOYS = {"newton": "Newton", "toy_importance": "ToyImportance", "average": "Average"}
EXPERIMENT = """# @package _global_
# One chain and three answers that are none
defaults:
  - override /dataset: tall
  - override /model: logistic
  - override /protocol: smoke
dataset: { n_data: 4000 }
protocol: { seeds: 1, iterations: 400, burn_in: 100, chunk_seconds: 0.02, init: zero }
arms:
  regular: [sampler=random_walk, bound=none]
  newton: [sampler=newton, protocol.iterations=40, protocol.burn_in=0]
  toy_importance: [sampler=toy_importance]
  average: [sampler=average]
"""


@pytest.fixture
def site(tmp_path):
    """A folder of packages with the three in it, as pip would leave them, and an experiment of theirs."""
    told = tmp_path / "flyrun_toys-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: flyrun-toys\nVersion: 1.0\n")
    points = [f"{name} = flyrun_{name}:{cls}" for name, cls in TOYS.items()]
    (told / "entry_points.txt").write_text("\n".join(["[flyrun.samplers]", *points, ""]))
    for name in TOYS:
        shutil.copy(HERE / f"flyrun_{name}.py", tmp_path)
    (tmp_path / "mine/experiment").mkdir(parents=True)
    (tmp_path / "mine/experiment/toys.yaml").write_text(EXPERIMENT)
    return tmp_path


@pytest.fixture(scope="module")
def copy():
    with copies() as made:
        yield made


COMMAND = ("experiment=toys", "--config-dir", "mine", "executor.workers=1")
# these packages compile nothing: flyrun's own cache of compiled code, which is inherited, serves them too


def start(site, *words):
    """In a process of its own, which can be killed."""
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "flyrun", *COMMAND, *words]
    return subprocess.Popen(
        command, cwd=site, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL
    )


def run(copy, site, *words):
    done = copy.flyrun(site, *COMMAND, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def cells(site, name="toys"):
    """arm -> (cell.json, {group/variable: values}), of the finished cells."""
    found = {}
    for done in (site / "results/runs" / name).glob("*/*/seed=0/done"):
        with xarray.open_datatree(done.with_name("posterior.nc"), engine="h5netcdf") as tree:
            arrays = {
                f"{node.name}/{name}": np.array(variable)
                for node in tree.children.values()
                for name, variable in node.data_vars.items()
                if name != "seconds"
            }
        found[done.parents[2].name] = json.loads(done.with_name("cell.json").read_text()), arrays
    return found


@pytest.mark.parametrize("name", TOYS)
def test_they_are_short(name):
    assert len((HERE / f"flyrun_{name}.py").read_text().splitlines()) <= 60


@pytest.mark.thorough
def test_they_run_beside_a_chain_in_one_table(copy, site):
    run(copy, site)
    found = cells(site)
    assert set(found) == {"regular", "hmc", *TOYS}  # the random walk that the average reads is `regular`
    answers = {arm: info["answers"] for arm, (info, _) in found.items()}
    assert [answers[name] for name in ("regular", *TOYS)] == ["draws", "density", "weighted", "density"]
    means = {arm: arrays["estimate/mean"][-1] for arm, (_, arrays) in found.items()}
    sd = np.sqrt(np.diag(found["newton"][1]["approximation/covariance"]))
    for arm in ("newton", "toy_importance", "hmc"):  # 400 steps of a random walk from 0 are too few
        assert np.abs((means[arm] - means["newton"]) / sd).max() < 0.6, arm
    assert found["toy_importance"][1]["weighted/theta"].shape == (400, 21)
    assert found["newton"][1]["estimate/queries"][-1] == 40 * 4000
    spent = sum(found[arm][1]["estimate/queries"][-1] for arm in ("regular", "hmc"))
    assert found["average"][1]["estimate/queries"][-1] == spent
    rows = {row["arm"]: row for row in csv.DictReader((site / "results/runs/toys/table.csv").open())}
    assert list(rows) == ["regular", *TOYS]
    assert {row["seeds"] for row in rows.values()} == {"1"}
    assert (rows["newton"]["update"], rows["newton"]["exact"]) == ("Newton", "False")
    assert "all 5 cells cached" in run(copy, site)


@pytest.mark.thorough
def test_an_arena_ranks_them_without_knowing_them(copy, site):
    (site / "mine/experiment/toys.yaml").write_text(EXPERIMENT + "arena: true\n")
    words = ["dataset.n_data=10000", "prior=gaussian", "prior.scale=1"]
    run(copy, site, "name=ranked", "only=[regular,newton,toy_importance]", *words)
    rows = {row["arm"]: row for row in csv.DictReader((site / "results/runs/ranked/table.csv").open())}
    assert {row["reference"] for row in rows.values()} == {"tall_1e4"}
    # a Gaussian's small bias, independent weighted draws, and a chain that is still on its way from 0
    worth = [float(rows[name]["draws_worth"]) for name in ("newton", "toy_importance", "regular")]
    assert worth[0] > worth[1] > 100 > 1 > worth[2]
    assert rows["newton"]["regime"] == "bias that did not fall"
    page = (site / "results/runs/ranked/report.html").read_text()
    assert "toy importance" in page or "toy_importance" in page


@pytest.mark.parametrize(
    ("name", "iterations"),
    [
        pytest.param("newton", 1500, id="newton"),  # a second after the first checkpoint
        pytest.param("toy_importance", 5000, id="toy_importance", marks=pytest.mark.slow),
    ],
)
def test_they_are_resumed_bit_for_bit(copy, site, name, iterations):
    words = [f"only={name}", f"arms.{name}.protocol.iterations={iterations}"]
    run(copy, site, *words, "name=unbroken")
    process = start(site, *words, "name=broken")
    deadline = time.monotonic() + 120
    while not list(site.glob("results/runs/broken/*/*/*/checkpoint*")) and time.monotonic() < deadline:
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert not cells(site, "broken"), "killed too late"
    assert "resume seed 0" in run(copy, site, *words, "name=broken")
    (_, wanted), (_, found) = cells(site, "unbroken")[name], cells(site, "broken")[name]
    assert found.keys() == wanted.keys()
    for key, values in wanted.items():
        np.testing.assert_array_equal(found[key], values, err_msg=key)


@pytest.mark.thorough
def test_a_cell_that_lacks_what_it_reads_says_so(copy, site):
    toy = site / "flyrun_average.py"
    hurried = "replace(arm, protocol=replace(arm.protocol, budget=Budget(queries=1e5)), name="
    text = toy.read_text().replace("replace(arm, name=", hurried)
    toy.write_text(
        text.replace("import numpy", "from flyrun.experiments.config.protocol import Budget\nimport numpy")
    )
    done = copy.flyrun(site, *COMMAND, "only=average")
    assert done.returncode == 1
    assert "needs arm random_walk, seed=0, which is failed: protocol.budget" in done.stdout + done.stderr
