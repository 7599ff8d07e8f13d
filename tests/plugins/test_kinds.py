"""All kinds of what a package brings; and libraries with switches of the whole process, apart from others."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import pytest

from tests.plugins.processes import copies
from tests.plugins.test_plugins import install, python
from tests.runner import fake_slurm
from tests.runner.dask_processes import Cluster

#: stands for JAX, which tests run without: the switch alone
JAX = """
import os

class config:
    jax_enable_x64 = os.environ.get("JAX_ENABLE_X64") == "1"

    @classmethod
    def update(cls, name, value):
        setattr(cls, name, value)
"""
MIXED = """# @package _global_
# Kinds of worker in one run.
defaults: [override /dataset: toy_2d, override /model: logistic, override /prior: gaussian, _self_]
protocol: {init: map, iterations: 40, burn_in: 20, seeds: 2}
arms:
  wide: [sampler=wide]
  narrow: [sampler=narrow]
"""
SEEDS = ("seed=0", "seed=1")
SLURM = ["executor.slurm.jobs=1", "executor.slurm.memory=1GB"]
SOURCE = Path(__file__).with_name("flyrun_wide.py").read_text()
SWITCH = 'import jax\n\njax.config.update("jax_enable_x64", True)\n'


@pytest.fixture(scope="module")
def copy():
    with copies() as made:
        yield made


@pytest.fixture
def site(tmp_path):
    """Two samplers of two precisions, in packages of their own, and an experiment of both in one's folder."""
    folder = tmp_path / "site"
    install(folder, "wide = flyrun_wide:Wide", "experiments: wide = wide_parts", package="flyrun-wide")
    install(folder, "narrow = flyrun_narrow:Narrow", package="flyrun-narrow")
    head, narrow, rest = SOURCE.partition('@option("sampler", "narrow")')
    narrow, wide, rest = (narrow + rest).partition('@option("sampler", "wide")')
    wide, methods, rest = (wide + rest).partition("def prepare")
    (folder / "flyrun_wide.py").write_text(head + wide + methods + rest)
    (folder / "flyrun_narrow.py").write_text(head + narrow + methods + rest)
    (folder / "jax.py").write_text(JAX)
    (folder / "wide_parts/experiment").mkdir(parents=True)
    (folder / "wide_parts/__init__.py").touch()
    (folder / "wide_parts/experiment/mixed.yaml").write_text(MIXED)
    return folder


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Folder of the jobs of SLURM's stand-in."""
    return fake_slurm.put_on_path(tmp_path / "slurm", monkeypatch)


def states(site, run="mixed"):
    folders = (site / "results/runs" / run).glob("*/*/seed=*")
    return {(at.parts[-3], at.name): (at / "done").exists() for at in folders}


def sent(site, **variables):
    return python(site, "-m", "flyrun", "experiment=mixed", *variables.pop("words", ()), **variables)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["executor.workers=1"], marks=pytest.mark.slow),
        ["executor.workers=2"],
        pytest.param(["executor=dask"], marks=pytest.mark.slow),
    ],
    ids=",".join,
)
def test_kinds_of_worker_never_share_a_process(site, words):
    done = sent(site, words=words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert states(site) == {(arm, f"seed={s}"): True for arm in ("wide", "narrow") for s in (0, 1)}


@pytest.mark.thorough
def test_without_kinds_the_same_run_fails(site):
    """The broken twin: cells of one process, of which one has switched JAX."""
    source = (site / "flyrun_wide.py").read_text()
    (site / "flyrun_wide.py").write_text(source.replace('"jax64"', '""'))
    done = sent(site, words=["executor.workers=1"])
    assert done.returncode == 1
    assert "JAX is in single precision" in done.stdout + done.stderr


@pytest.mark.thorough
def test_a_switch_as_a_package_is_imported_is_its_samplers_alone(site):
    source = (site / "flyrun_wide.py").read_text()
    (site / "flyrun_wide.py").write_text(SWITCH + source.replace('    worker: ClassVar[str] = "jax64"\n', ""))
    done = sent(site, words=["executor.workers=1"])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
def test_a_switch_in_prepare_is_refused_in_a_line(copy, site):
    source = (site / "flyrun_wide.py").read_text().replace('    worker: ClassVar[str] = "jax64"\n', "")
    late = "def prepare(arm, folder):\n" + "".join(f"    {line}\n" for line in SWITCH.splitlines() if line)
    (site / "flyrun_wide.py").write_text(source.replace("def prepare(arm, folder):\n", late))
    done = copy.flyrun(site, "experiment=mixed", "executor.workers=1")
    assert (done.returncode, done.stderr.count("sampler=wide: switches JAX")) == (2, 1), done.stderr
    assert 'write worker = "jax64" in its class' in done.stderr


MORE = '''
from typing import ClassVar

import numpy as np

from flyrun.extend import Acceptance, Bound, Metric, decide, implements, log_data, kept_log_data, keep, option


@option("bound", "origin")
class Origin(Bound):
    """Bounds tight at θ = 0."""

    exact: ClassVar[bool] = True
    suggests: ClassVar[tuple[str, ...]] = ("brightness=implicit", "brightness.q=0.1")


def build(config, setup, expects):
    return setup.touching(np.zeros(setup.n_params)), np.empty(0)


TWICE = Metric("twice_done", "2 × seeds", lambda run, arm: 2.0 * arm.done, "of the arm")
'''


@pytest.mark.thorough
def test_a_bound_a_metric_and_an_experiment_come_from_a_package(copy, site):
    (site / "flyrun_more.py").write_text(MORE)
    install(
        site,
        "bounds: origin = flyrun_more:Origin",
        "metrics: twice = flyrun_more:TWICE",
        package="flyrun-more",
    )
    (site / "wide_parts/experiment/near.yaml").write_text(
        MIXED.replace("wide: [sampler=wide]", "regular: [sampler=random_walk, bound=none]").replace(
            "narrow: [sampler=narrow]", "origin: [sampler=random_walk, bound=origin]"
        )
    )
    done = copy.flyrun(site, "experiment=near", "executor.workers=1")
    assert done.returncode == 0, done.stderr
    rows = [*csv.DictReader((site / "results/runs/near/table.csv").open())]
    assert {(row["arm"], row["exact"], float(row["twice_done"])) for row in rows} == {
        ("regular", "True", 4.0),
        ("origin", "unknown", 4.0),
    }
    assert "near " in copy.flyrun(site, "list", "experiments").stdout


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda folder: (folder / "mixed.yaml").write_text("a: [1"), "mixed.yaml cannot be read: "),
        (lambda folder: (folder / "mixed.yaml").rename(folder / "toy_flymc.yaml"), "whose name another"),
        (lambda folder: (folder / "mixed.yaml").unlink(), "wide_parts/experiment has no YAML file"),
    ],
)
def test_experiments_of_a_package_that_cannot_be_used_are_told_who_chooses_one(copy, site, spoil, text):
    spoil(site / "wide_parts/experiment")
    done = copy.flyrun(site, "experiment=mixed")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert text in done.stderr
    words = ["dataset=toy_2d", "model=logistic", "bound=map", "sampler=random_walk", "protocol=smoke"]
    assert copy.flyrun(site, *words, "executor.workers=1").returncode == 0


@pytest.mark.thorough
def test_a_cluster_that_lacks_the_package_says_so_in_a_line(site):
    with Cluster() as cluster:
        done = sent(site, words=["executor=dask", f"executor.address={cluster.address}"])
    assert done.returncode == 2, done.stderr
    (line,) = [text for text in done.stderr.splitlines() if "error" in text]
    assert "cannot take this work (ModuleNotFoundError: No module named 'flyrun_" in line
    assert "install the same flyrun and packages there as here" in line


@pytest.mark.slow
def test_a_worker_that_may_start_no_process_says_how_to_start_it(site, monkeypatch):
    monkeypatch.syspath_prepend(site)  # where the cluster's Python looks
    with Cluster(0) as cluster:
        cluster.worker(nanny=True)
        done = sent(site, words=["executor=dask", f"executor.address={cluster.address}"])
    assert done.returncode == 1, done.stderr
    assert "sampler=wide: runs in a process of its own" in done.stdout
    assert "start them with `dask worker ADDRESS --nthreads 1 --no-nanny`" in done.stdout
    assert states(site) == {("wide", s): False for s in SEEDS} | {("narrow", s): True for s in SEEDS}


@pytest.mark.slow
def test_slurms_jobs_that_lack_the_package_say_so_in_a_line(site, slurm):
    elsewhere = f"executor.slurm.prologue=['cd /','export PYTHONPATH={os.environ['PYTHONPATH']}']"
    done = sent(site, words=["executor=dask", *SLURM, elsewhere])
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = [text for text in done.stderr.splitlines() if "error" in text]
    assert "cannot take this work (ModuleNotFoundError: No module named 'flyrun_" in line
    assert "install the same flyrun and packages there as here" in line


def draws(site, results):
    """Digest of each cell's draws, by job, arm and seed."""
    files = sorted((site / results / "runs").glob("*/*/*/seed=*/posterior.nc"))
    found = {}
    for path in files:
        with h5py.File(path) as file:
            found[path.parts[-5], path.parts[-4], path.parts[-2]] = file["posterior/theta"][:].tobytes()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("further", [[], SLURM], ids=["dask", "slurm"])
def test_a_sweep_of_a_packages_key_is_killed_and_goes_on(site, slurm, further):
    """By SIGKILL of all of it; then it is the same, bit for bit, as one that nobody broke."""
    executor = ["executor=dask", *further]
    length = ["protocol.iterations=6000", "protocol.burn_in=100", "protocol.seeds=1"]
    sweep = ["-m", "experiment=mixed", "sampler.step=0.1,0.2", *length]
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    here = {"cwd": site, "env": {**os.environ, "PYTHONPATH": path}, "start_new_session": True}
    command = [sys.executable, "-m", "flyrun", *sweep, *executor]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **here) as process:
        until = time.monotonic() + 120
        while not [*site.glob("results/runs/*/*/*/*/checkpoint-*.npz")] and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        fake_slurm.kill_jobs(slurm)
    again = python(site, "-m", "flyrun", *sweep, *executor)
    assert again.returncode == 0, again.stdout + again.stderr
    whole = python(site, "-m", "flyrun", *sweep, "executor.workers=1", "results_dir=unbroken")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert len(draws(site, "unbroken")) == 4
    assert draws(site, "results") == draws(site, "unbroken")
