"""Stochastic gradient ascent: where it ends, with and without control variates, counts, cuts, and that a run
with an arm whose answer is a point is reported.
"""

import csv
import json

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.problem import scores
from flyrun.experiments.report.build import load
from flyrun.experiments.report.illustrations.error_by_rows import against_rows
from flyrun.experiments.samplers.approximations.sga import StochasticAscent
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError, FlyrunError
from tests.samplers.particles.toys import same_bits

SMALL = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic", "prior=gaussian"]


def _method(tmp_path, *more, words=SMALL, sampler="sga"):
    return prepare(arm_of(words, (f"sampler={sampler}", *more)), tmp_path)


def _off(method, n, laplace, seed=0):
    """Root mean square distance from the MAP in posterior sds, and what the facts say of it."""
    state, _ = method.advance(method.init(seed), n)
    apart = method.result(state)["mean"] - laplace["mean"]
    told = method.facts(state).more["off_map"]
    return float(np.sqrt(np.mean(apart**2 / np.diag(laplace["covariance"])))), told


@pytest.mark.parametrize(
    "more", [(), ("sampler.control=true",), ("sampler.batches=replacement",), ("sampler.stale=3",)]
)
def test_cuts_do_not_matter(tmp_path, more):
    method = _method(tmp_path, "sampler.batch=7", *more)
    same_bits(method, (1, 8, 11))
    ends = [method.advance(method.init(seed), 15)[0]["theta"] for seed in (0, 1)]
    assert not np.array_equal(*ends)


@pytest.mark.parametrize("metric", ["smoothness", "newton"])
def test_all_rows_are_gradient_ascent(tmp_path, metric):
    method = _method(tmp_path, "sampler.batch=60", f"sampler.metric={metric}", "sampler.average=0")
    slope = scores(method.arm, method.problem, np.zeros((1, 3)))[0]
    rows = method.problem.features.rows
    bend = 0.25 * rows.T @ rows + np.eye(3)
    step = slope / np.linalg.eigvalsh(bend).max() if metric == "smoothness" else np.linalg.solve(bend, slope)
    np.testing.assert_allclose(method.result(method.advance(method.init(0), 1)[0])["mean"], step, rtol=1e-9)


def test_a_stale_slope_is_that_of_steps_before(tmp_path):
    """As plain recursion has it; fresh slopes, the negative control, lead elsewhere."""
    ends = {}
    for stale in (0, 2):
        method = _method(tmp_path, "sampler.batch=60", "sampler.average=0", f"sampler.stale={stale}")
        places = [np.zeros(3)]
        for t in range(6):
            slope = scores(method.arm, method.problem, places[max(0, t - stale)][None])[0]
            places.append(places[-1] + method.gain @ slope)
        ends[stale] = method.advance(method.init(0), 6)[0]["theta"]
        np.testing.assert_allclose(ends[stale], places[-1], rtol=1e-9)
    assert np.abs(ends[2] - ends[0]).max() > 0.01


class OldCentre(StochasticAscent):
    """Broken: the slope of all rows is forgotten, that of the batch at the centre is not."""

    def _slope(self, theta, index=None):
        return super()._slope(theta, index) if index is not None else np.zeros_like(theta)


def test_control_variates_lead_to_the_map_and_batches_alone_do_not(tmp_path):
    laplace = _method(tmp_path, sampler="laplace").result({})
    few = ("sampler.batch=6", "sampler.metric=newton", "sampler.rate=0.3")
    off, told = _off(_method(tmp_path, *few, "sampler.control=true", "sampler.average=0"), 600, laplace)
    assert off < 1e-6
    assert told < 1e-6
    alone, told = _off(_method(tmp_path, *few, "sampler.average=0"), 600, laplace)
    assert alone > 0.1
    assert told == pytest.approx(alone, rel=0.2)
    mean, _ = _off(_method(tmp_path, *few, "sampler.average=0.5"), 600, laplace)
    assert mean < alone / 2
    method = _method(tmp_path, *few, "sampler.control=true", "sampler.average=0")
    assert _off(OldCentre(method.arm, method.problem), 600, laplace)[0] > 0.1


def test_what_it_costs(tmp_path):
    """b queries a step; with control variates b rows at two places, and all rows at an epoch's start."""
    method = _method(tmp_path, "sampler.batch=25")
    assert method.facts().setup_queries == 60
    _, records = method.advance(method.init(0), 4)
    assert records["queries"].tolist() == records["visits"].tolist() == [20, 20, 20, 20]
    control = _method(tmp_path, "sampler.batch=25", "sampler.control=true")
    _, records = control.advance(control.init(0), 4)
    assert records["queries"].tolist() == [100, 40, 40, 100]
    assert records["visits"].tolist() == [80, 20, 20, 80]


def test_bad_input_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="choose prior=gaussian"):
        _method(tmp_path, "sampler.batch=9", words=[*SMALL[:-1], "prior=laplace"])
    student = ["dataset=two_modes", "dataset.low=4", "model=student_t", "model.scale=0.1", "prior=gaussian"]
    newton = "sampler.metric=newton"
    with pytest.raises(FlyrunError, match=r"take sampler\.metric=smoothness"):
        _method(tmp_path, "sampler.batch=9", newton, words=[*student, "prior.scale=10"])
    _method(tmp_path, "sampler.batch=9", words=[*student, "prior.scale=10"])


EXPERIMENT = """# @package _global_
# A point beside densities
defaults:
  - override /dataset: few_events
  - override /model: logistic
  - override /prior: gaussian
  - override /sampler: sga
  - override /protocol: smoke
title: A point beside densities
prior: {scale: 5}
protocol: {iterations: 30, burn_in: 0, seeds: 2}
figures: [error_by_rows]
arms:
  point: [sampler=sga, sampler.batch=10]
  sep: [sampler=sep, sampler.batch=10]
  laplace: [sampler=laplace]
"""


@pytest.mark.thorough
def test_a_point_among_the_arms_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf/experiment").mkdir(parents=True)
    (tmp_path / "conf/experiment/points.yaml").write_text(EXPERIMENT)
    assert main(["--config-dir", "conf", "experiment=points", "executor.workers=1"]) == 0
    folder = tmp_path / "results/runs/points"
    rows = {row["arm"]: row for row in csv.DictReader((folder / "table.csv").open())}
    assert rows.keys() == {"point", "sep", "laplace"}
    n_data = float(rows["point"]["n_data"])
    assert float(rows["point"]["total_queries"]) == n_data + 30 * 10  # a look at 0 before the steps
    assert "which never become the posterior however long they run" in (folder / "report.md").read_text()
    figure = against_rows(load(folder), folder)
    assert [line.get_label() for line in figure.axes[0].lines] == ["point", "sep", "laplace"]
    told = json.loads(next((folder / "point").rglob("cell.json")).read_text())
    assert 0 < told["facts"]["off_map"] < 4  # its means are 3 sds off, as the table says
