"""References of a person's own: built by the rules of flyrun's, kept beside the runs, in their reports."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from flyrun.experiments.config.prior import Gaussian
from flyrun.experiments.gold import build, store
from flyrun.experiments.gold.reference import arm_of, settings_of
from flyrun.ground.errors import ConfigError, DataError
from tests.plugins.processes import copies
from tests.plugins.test_plugins import install

SMALL = ["dataset=toy_2d", "dataset.n_data=200", "dataset.separation=1.5", "model=logistic", "prior=gaussian"]
QUICK = {"draws": 4_000, "iterations": 20_000}
MINE = """# @package _global_
# A likelihood of my own.
defaults:
  - override /dataset: drifts
  - override /model: logistic_noise
  - override /prior: gaussian
  - _self_
arena: true
protocol: {init: map, iterations: 400, burn_in: 100, seeds: 2}
arms:
  regular: [sampler=hmc, bound=none]
  laplace: [sampler=laplace, protocol.iterations=1, protocol.burn_in=0]
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A folder with a reference of a small posterior, and what its building printed."""
    folder, lines = tmp_path_factory.mktemp("results") / "gold", []
    assert build.build_own(SMALL, folder=folder, name="small", echo=lines.append, **QUICK)
    return folder, lines


@pytest.mark.thorough
def test_it_is_certified_and_found_by_its_settings(own):
    folder, lines = own
    assert sum(line.startswith("holds") for line in lines) == 4
    settings = settings_of(arm_of(SMALL))
    name, gold = store.matching(settings, folder)
    assert (name, gold.facts["command"]) == (
        "small",
        "flyrun gold build " + " ".join(SMALL) + " --name small",
    )
    assert store.matching(settings) is None
    assert store.matching(settings_of(arm_of([*SMALL, "prior.scale=3"])), folder) is None
    assert store.own_of(folder.parent / "runs/run/arm/key/seed=0") == folder
    assert "small" in store.names(folder)
    with pytest.raises(DataError, match=r"no reference is called 'smal' \(did you mean small"):
        store.load("smal", folder)


@pytest.mark.thorough
def test_draws_grow_until_the_floors_are_low(tmp_path):
    lines = []
    assert build.build_own(SMALL, folder=tmp_path, echo=lines.append, iterations=20_000)
    gold = store.load("toy_2d-logistic-gaussian", tmp_path)
    assert max(gold.floors) <= build.MOST_FLOOR


@pytest.mark.thorough
def test_a_chain_on_another_posterior_is_noticed_and_nothing_is_written(tmp_path, monkeypatch):
    """The broken twin: the exact chain's prior is another."""
    exact, lines = build._exact_chain, []
    monkeypatch.setattr(
        build, "_exact_chain", lambda arm: dataclasses.replace(exact(arm), prior=Gaussian(scale=0.2))
    )
    assert not build.build_own(SMALL, folder=tmp_path, echo=lines.append, **QUICK)
    assert any(line.startswith("FAILS  exact_chain") for line in lines)
    assert "not written" in lines[-1]
    assert "--iterations N" in lines[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_a_file_that_has_changed_has_no_reference(tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "data.npz"
    words = [
        f"dataset.path={path}",
        "dataset=table",
        "dataset.target=target",
        "model=logistic",
        "prior=gaussian",
    ]

    def write(place):
        np.savez(place, features=rng.standard_normal((40, 2)), target=rng.integers(0, 2, 40))

    write(path)
    assert build.build_own(words, folder=tmp_path / "gold", name="table", echo=lambda _: None, **QUICK)
    settings = settings_of(arm_of(words))
    assert store.matching(settings, tmp_path / "gold")[0] == "table"
    moved = shutil.copy(path, tmp_path / "moved.npz")
    elsewhere = {**settings, "dataset": {**settings["dataset"], "path": str(moved)}}
    assert store.matching(elsewhere, tmp_path / "gold")[0] == "table"
    write(path)
    assert store.matching(settings, tmp_path / "gold") is None


@pytest.mark.parametrize(
    ("words", "name", "text"),
    [
        (["dataset=lattice", "model=ising", "sampler=gibbs"], None, "is not of rows under a prior"),
        (SMALL, "tall_300", "tall_300 is a reference of flyrun's"),
    ],
)
def test_what_can_have_none_is_refused(tmp_path, words, name, text):
    with pytest.raises(ConfigError, match=text):
        build.build_own(words, folder=tmp_path, name=name)


@pytest.mark.slow
def test_a_packages_posterior_has_one_and_its_own_arena(tmp_path):
    """From an empty folder: gold of an experiment of a person's own on a package's data and likelihood."""
    site = tmp_path / "site"
    points = (
        "datasets: drifts = flyrun_quakes:Drifts",
        "models: logistic_noise = flyrun_quakes:LogisticNoise",
    )
    install(site, *points, package="flyrun-quakes")
    source = (Path(__file__).parents[1] / "plugins/flyrun_quakes.py").read_text()
    (site / "flyrun_quakes.py").write_text(source)
    (site / "conf/experiment").mkdir(parents=True)
    (site / "conf/experiment/mine.yaml").write_text(MINE)
    mine = ["--config-dir", "conf"]
    with copies() as copy:
        run = copy.flyrun(site, "arena", "mine", *mine, "executor.workers=1")
        assert run.returncode == 0, run.stderr
        report = (site / "results/runs/mine/report.md").read_text()
        remedy = "flyrun gold build --config-dir conf experiment=mine executor.workers=1"
        assert f"`{remedy}` makes one" in report.replace("\\", "")
        built = copy.flyrun(site, *remedy.split()[1:], "--draws", "4000")
        assert built.returncode == 0, built.stdout + built.stderr
        assert copy.flyrun(site, "report", "mine").returncode == 0
        assert "Error: mine" in (site / "results/runs/mine/report.md").read_text()
        assert "mine: of your own" in copy.flyrun(site, "gold").stdout
        assert "mine: verified" in copy.flyrun(site, "gold", "verify", "mine").stdout
        # another likelihood under the same name and settings: its reference is another
        (site / "flyrun_quakes.py").write_text(
            source.replace("2.0 * log(1.0 + small)", "2.1 * log(1.0 + small)")
        )
        changed = copy.flyrun(site, "gold", "verify", "mine")
        assert changed.returncode == 2
        assert "its file or package is not as it was; `flyrun gold build" in changed.stderr
        assert copy.flyrun(site, "arena", "mine", *mine, "executor.workers=1", "--fresh").returncode == 0
        assert "No reference is of this posterior" in (site / "results/runs/mine/report.md").read_text()
        (site / "conf/experiment/mine.yaml").write_text(MINE.replace("arena: true\n", ""))
        refused = copy.flyrun(site, "arena", "mine", *mine)
        assert refused.returncode == 2
        assert "add `arena: true` to conf/experiment/mine.yaml" in refused.stderr
