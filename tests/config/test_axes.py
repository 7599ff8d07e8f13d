"""A sweep of settings written as axes: which arms it gives, what is kept of it, what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from flyrun.cli.listing import info_text
from flyrun.experiments.config.axes import Swept, expand
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.runner import cell, launch, store
from flyrun.ground.errors import ConfigError

#: arm -> digest of its settings, as when these experiments still listed every arm by hand
ARMS = json.loads(Path(__file__).with_name("swept_arms.json").read_text())


def digest(arm) -> str:
    settings = {group: choice.non_default() for group, choice in arm.choices().items()}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:10]


@pytest.mark.parametrize("name", ARMS)
def test_the_experiments_have_the_arms_that_they_had(name):
    found = {arm.name: digest(arm) for arm in compose_job([f"experiment={name}"]).arms}
    assert found == ARMS[name]
    assert list(found) == list(ARMS[name])


def test_names_origins_and_overrides():
    sweep = {
        "total": {"points": {8: ["d=8"], "all": []}, "except": {"b_8": ["p=1"], "8": ["p=2"]}},
        "many": ["d=9"],
        "edges": {"arms": ["b"], "points": ["m=e"], "except": {"b": ["p=3"]}},
    }
    assert expand({"b": ["s=b"], "": ["s=c"]}, sweep) == {
        "b": (["s=b"], None),
        "b_total_8": (["s=b", "d=8", "p=1"], Swept("b", "total", 8)),
        "total_8": (["s=c", "d=8", "p=2"], Swept("", "total", 8)),
        "b_total_all": (["s=b"], Swept("b", "total", "all")),
        "total_all": (["s=c"], Swept("", "total", "all")),
        "b_many": (["s=b", "d=9"], Swept("b", "many", None)),
        "many": (["s=c", "d=9"], Swept("", "many", None)),
        "b_edges": (["s=b", "m=e", "p=3"], Swept("b", "edges", None)),
    }
    assert list(expand({}, {"n": {1: [], 2: []}})) == ["n_1", "n_2"]
    assert expand({"": ["s=c"]}, {}) == {"": (["s=c"], None)}  # which compose refuses as a name


@pytest.mark.parametrize(
    ("point", "name"),
    [(2500, "2500"), (1e4, "1e4"), (2.5e6, "2.5e6"), (3.0, "3"), (0.5, "0.5"), (1e-5, "1e-5"), (0.0, "0"),
     ("1e+4", "1e+4"), (float("inf"), "inf"), (-20000.0, "-2e4")],
)  # fmt: skip
def test_points_in_names(point, name):
    assert list(expand({}, {"n": {point: []}})) == [f"n_{name}"]


BAD = [
    (3, "sweep=3: must map each axis"),
    ({"n": 3}, "sweep.n: must map points to overrides, as in {2: "),
    ({"n": {"arms": ["a"]}}, "sweep.n: must map points"),
    ({"n": {1: "d=1"}}, "sweep.n.1: must be a list of overrides"),
    ({"n": {"points": {1: []}, "exept": {}}}, "sweep.n.exept: no such key of an axis (did you mean except?)"),
    ({"n": {"points": {1: []}, "arms": "a"}}, "sweep.n.arms=a: must be a list of arms, such as [a,b]"),
    ({"n": {"points": {1: []}, "arms": ["aa"]}}, "sweep.n.arms: aa names nothing there"),
    ({"n": {"points": {1: []}, "except": ["a_1"]}}, "sweep.n.except=[a_1]: must map"),
    ({"n": {"points": {1: []}, "except": {"a_2": []}}}, "a_2 names nothing there (did you mean a_1?)"),
    ({"n": {"points": {1: []}, "arms": ["a"], "except": {"b_1": []}}}, "sweep.n.except: b_1 names nothing"),
    ({"n": {"points": {1: []}, "except": {"a_1": 3}}}, "sweep.n.except.a_1: must be a list of overrides"),
    ({"n": {True: []}}, "sweep.n.true: a point must be a number or text; quote it"),
    ({"n": {1: [], "1": []}}, "sweep.n: a second arm a_n_1; rename"),
    ({"n": {"arms": ["a", "a"], "points": []}}, "sweep.n: a second arm a_n; rename"),
]


@pytest.mark.parametrize(("sweep", "text"), BAD)
def test_bad_sweeps_in_one_line(sweep, text):
    with pytest.raises(ConfigError) as caught:
        expand({"a": [], "b": []}, sweep)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def mine(tmp_path):
    """Folder with an experiment of two arms along one axis, whose second point is a number such as 1e4."""
    text = """# @package _global_
defaults: [override /dataset: toy_2d, override /model: logistic, override /sampler: random_walk]
arms: { '': [bound=map], all: [] }
sweep:
  data: { 30: [dataset.n_data=30], 1e4: [dataset.n_data=10000] }
"""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(text)
    return tmp_path


def test_swept_arms_are_arms(mine):
    job = compose_job(["experiment=mine", "arms.data_30.dataset.seed=1"], [mine])
    found = {arm.name: (arm.dataset.n_data, arm.dataset.seed) for arm in job.arms}
    assert found == {
        "all": (40, 0),
        "data_30": (30, 1),
        "all_data_30": (30, 0),
        "data_1e4": (10000, 0),
        "all_data_1e4": (10000, 0),
    }
    only = compose_job(["experiment=mine", "only=[data_1e4,all]"], [mine])
    assert [arm.name for arm in only.arms] == ["all", "data_1e4"]
    text = info_text("mine", [mine])
    assert "data: 30 (dataset.n_data=30), 1e4 (dataset.n_data=10000)" in text
    assert "5 arms in all, from all to all_data_1e4" in text


@pytest.mark.thorough
def test_run_json_says_where_an_arm_comes_from_and_draws_do_not_depend_on_it(mine):
    job = compose_job(["experiment=mine"], [mine])
    entry = launch._entry(job, cell.cells(job))
    listed = {arm["name"]: arm.get("sweep") for arm in entry["arms"]}
    assert listed["all"] is None
    assert listed["data_1e4"] == {"arm": "", "axis": "data", "point": 10000.0}
    assert listed["all_data_30"] == {"arm": "all", "axis": "data", "point": 30}
    assert store.swept(entry, "data") == dict.fromkeys(("data_30", "all_data_30"), 30) | dict.fromkeys(
        ("data_1e4", "all_data_1e4"), 10000.0
    )
    typed = compose_job(["experiment=mine", "only=all", "dataset.n_data=30"], [mine]).arms[0]
    swept = next(arm for arm in job.arms if arm.name == "all_data_30")
    assert typed.swept is None
    assert (typed.settings(), typed.method()) == (swept.settings(), swept.method())
    assert cell.cell_key(typed) == cell.cell_key(swept)


def test_a_wrong_name_among_many_arms_is_told_the_closest_and_a_dozen():
    for word in ("only=[gibbs,gibs_many]", "arms.gibs_many.dataset.degree=3"):
        with pytest.raises(ConfigError, match="choose from gibbs, min, ") as caught:
            compose_job(["experiment=gibbs_cost", word])
        assert str(caught.value).endswith(
            " and 70 more, see `flyrun info gibbs_cost` (did you mean gibbs_many?)"
        )
        assert len(str(caught.value)) < 400


def test_info_shows_axes_not_arms():
    text = info_text("gibbs_cost")
    assert "total: 8 (dataset.n_variables=8)" in text
    assert "of gibbs, local, mgpmh, poisson; besides" in " ".join(text.split())
    assert "82 arms in all" in text
    assert "gibbs_degree_2500" not in text
