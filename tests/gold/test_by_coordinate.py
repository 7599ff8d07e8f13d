"""Quadrature of many independent coordinates: held against the grid of one."""

from dataclasses import replace

import numpy as np
import pytest

from flyrun.experiments import data
from flyrun.experiments.data import toys
from flyrun.experiments.gold import by_coordinate, grid_moments
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.problem import bind
from flyrun.ground.errors import FlyrunError

WORDS = ["dataset=clutter", "dataset.n_data=30", "model=clutter"]


def _moments(tmp_path, *words, prior=("prior=gaussian", "prior.scale=10")):
    arm = arm_of([*WORDS, *words, *prior])
    return by_coordinate.moments(arm, bind(arm, tmp_path, needs_map=False))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "prior", [("prior=gaussian", "prior.scale=10"), ("prior=laplace", "prior.scale=0.5")]
)
def test_of_one_coordinate_it_is_the_grids(tmp_path, prior):
    arm = arm_of([*WORDS, *prior])
    theta, log_weight, _, cell = grid_moments.weigh(arm, bind(arm, tmp_path, needs_map=True), 4_001)
    known, found = grid_moments.moments(theta, log_weight, cell), _moments(tmp_path, prior=prior)
    close = 1e-9 if prior[0] == "prior=gaussian" else 1e-4  # a kink costs the rule its digits
    np.testing.assert_allclose(found.mean, known.mean, rtol=close)
    np.testing.assert_allclose(found.variance, known.variance, rtol=10 * close)
    assert found.log_z == pytest.approx(known.log_z, abs=close)


@pytest.mark.thorough
def test_sets_are_each_for_themselves(tmp_path, monkeypatch):
    both = _moments(tmp_path, "dataset.n_sets=2")
    load, log_z = toys.load, 0.0
    for k in range(2):

        def one(config, k=k):
            found = load(config)
            mine = found.features[:, k] == 1
            rows = found.features[mine][:, [k]]
            kept = {
                "features": rows,
                "target": found.target[mine],
                "test_features": found.test_features[:, :1],
            }
            return replace(found, **kept, feature_names=("theta",))

        monkeypatch.setattr(toys, "load", one)
        monkeypatch.setattr(data, "_last", None)
        alone = _moments(tmp_path, "dataset.n_sets=2")
        assert both.mean[k] == pytest.approx(alone.mean[0], rel=1e-9)
        assert both.variance[k] == pytest.approx(alone.variance[0], rel=1e-8)
        assert both.mean[k] != pytest.approx(both.mean[1 - k], rel=1e-3)
        log_z += alone.log_z
    assert both.log_z == pytest.approx(log_z, abs=1e-8)


def test_rows_of_several_coordinates_are_refused(tmp_path):
    arm = arm_of(["dataset=toy_2d", "model=logistic", "prior=gaussian"])
    with pytest.raises(FlyrunError, match="drop quadrature=true"):
        by_coordinate.moments(arm, bind(arm, tmp_path, needs_map=False))
