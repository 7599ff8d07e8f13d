"""A run keeps its composed YAML, and the YAML makes the same job again; what is in it is data alone."""

from pathlib import Path

import pytest
import yaml

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.config.composed import as_job, as_yaml
from flyrun.experiments.runner.cell import cells
from flyrun.ground.errors import ConfigError
from flyrun.ground.executor import Local

EXPERIMENTS = ["toy_flymc", "gibbs_cost", "clutter", "prefetching", "topics", "hogwild_ising"]


def again(text, folder):
    return as_job(text, "b.zip", "again", Path(folder), Local())


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_yaml_makes_the_same_arms(experiment, tmp_path):
    job = compose_job([f"experiment={experiment}", "protocol=smoke"])
    made = again(as_yaml(job, "", [arm.name for arm in job.arms]), tmp_path)
    assert made.arms == job.arms
    assert (made.title, made.figures, made.drawn) == (job.title, job.figures, job.drawn)


def test_cells_of_the_yaml_have_the_same_keys(tmp_path):
    job = compose_job(["experiment=toy_flymc", "protocol=smoke"])
    made = again(as_yaml(job, "", [arm.name for arm in job.arms]), tmp_path)
    assert [cell.key for cell in cells(made)] == [cell.key for cell in cells(job)]


def test_arms_of_an_earlier_call_stay(tmp_path):
    whole = compose_job(["experiment=toy_flymc", "protocol=smoke"])
    first, later = (
        compose_job(["experiment=toy_flymc", "protocol=smoke", f"only=[{arm}]"])
        for arm in ("regular", "untuned")
    )
    before = as_yaml(first, "", ["regular"])
    both = again(as_yaml(later, before, ["regular", "untuned"]), tmp_path)
    assert both.arms == whole.arms[:2]
    assert [arm.name for arm in again(as_yaml(later, before, ["untuned"]), tmp_path).arms] == ["untuned"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda arm: arm.update(sampler={"name": "no_such"}), "no such sampler"),
        (lambda arm: arm.update(sampler={"_target_": "os.system"}), "no such sampler"),
        (lambda arm: arm["prior"].update(scale=-1), "prior.scale"),
        (lambda arm: arm.update(evil={"name": "x"}), "evil is no key of an arm"),
        (lambda arm: arm.update(dataset="toy_2d"), "must name one option"),
    ],
)
def test_what_is_unsuitable_is_refused(change, text, tmp_path):
    job = compose_job(["experiment=toy_flymc", "protocol=smoke", "only=[regular]"])
    stored = yaml.safe_load(as_yaml(job, "", ["regular"]))
    change(stored["arms"]["regular"])
    with pytest.raises(ConfigError, match=text):
        again(yaml.safe_dump(stored), tmp_path)


@pytest.mark.parametrize("text", ["", "arms: 3", "arms: {a: 3}", "{", "!!python/object/apply:os.system [ls]"])
def test_what_is_no_yaml_of_a_job_is_refused(text, tmp_path):
    with pytest.raises(ConfigError, match=r"b\.zip: config\.yaml cannot be read"):
        again(text, tmp_path)


@pytest.mark.parametrize("name", ["../up", "a/b", ".."])
def test_an_arm_is_never_a_path(name, tmp_path):
    job = compose_job(["experiment=toy_flymc", "protocol=smoke", "only=[regular]"])
    text = as_yaml(job, "", ["regular"]).replace("  regular:", f"  {name}:")
    with pytest.raises(ConfigError, match="folder name"):
        again(text, tmp_path)
