"""What methods of rows with a prior share."""

import numpy as np
import pytest

from flyrun.config.compose import compose_job
from flyrun.models.problem import log_densities
from flyrun.samplers.method import prepare
from flyrun.samplers.on_data import OnData

WORDS = (
    "dataset=toy_2d", "dataset.n_data=600", "model=logistic", "protocol.iterations=4", "protocol.burn_in=0",
)  # fmt: skip


def _made(tmp_path, sampler, init="zero"):
    return prepare(compose_job([*WORDS, f"sampler={sampler}", f"protocol.init={init}"]).arms[0], tmp_path)


@pytest.mark.parametrize("init", ["zero", "prior", "map"])
def test_arms_of_one_seed_start_at_one_point(tmp_path, init):
    sgld, ahead = (_made(tmp_path, sampler, init) for sampler in ("sgld", "prefetching"))
    start = sgld.starting_point(3)
    np.testing.assert_array_equal(start, ahead.starting_point(3))
    np.testing.assert_array_equal(start, sgld.init(3)["theta"])
    assert (init == "prior") == (start != sgld.starting_point(4)).any()
    if init == "map":
        np.testing.assert_array_equal(start, sgld.problem.fit.theta_map)


@pytest.mark.parametrize("sampler", ["sgld", "laplace", "pathfinder", "npv", "random_walk"])
def test_facts_count_the_fits_and_what_the_method_adds(tmp_path, sampler):
    method = _made(tmp_path, sampler)
    facts, fit = method.facts(), method.problem.fit
    assert isinstance(method, OnData)
    assert (facts.n_data, facts.n_params, len(facts.coordinates)) == (600, 3, 3)
    assert facts.setup_queries == fit.queries + method.own_queries
    assert facts.more["map_queries"] == fit.queries
    assert facts.update == method.label != ""


def test_log_densities_of_stored_draws(tmp_path):
    method, theta = _made(tmp_path, "sgld"), np.zeros((2, 3))
    prior, likelihood = log_densities(method.arm, method.problem, theta)
    told = method.trace(theta)
    np.testing.assert_array_equal(told["log_posterior"], prior + likelihood)
    np.testing.assert_array_equal(told["log_likelihood"], likelihood)
