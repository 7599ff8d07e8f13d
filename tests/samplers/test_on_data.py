"""What methods of rows with a prior share."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.models.problem import bind, log_densities
from flyrun.experiments.samplers.method import agreed, prepare
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.errors import ConfigError, DensityError, FlyrunError, factoring, no_digits

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


@pytest.mark.parametrize("init", ["map", "ep"])
def test_a_start_that_a_method_does_not_fit_is_refused_in_a_line(tmp_path, init):
    """Zeros in place of what was asked for, or an array of no numbers: one of another package's binds so."""
    arm = compose_job([*WORDS, "sampler=sgld", f"protocol.init={init}"]).arms[0]
    whole = type("Whole", (OnData,), {"init": None, "advance": None})
    method = whole(arm, bind(arm, tmp_path, needs_map=False))
    with pytest.raises(
        ConfigError, match=f"protocol.init={init}: sampler=sgld .*choose protocol.init=prior"
    ) as said:
        method.starting_point(0)
    assert "\n" not in str(said.value)


def _agreed(records, n=4, kept=2):
    return agreed(SimpleNamespace(arm=SimpleNamespace(sampler=SimpleNamespace(name="x"))), records, n, kept)


def test_single_precision_is_taken_as_double():
    """JAX's default: means over draws were worked out in it."""
    found = _agreed({"queries": [1, 0, 2, 1], "theta": np.ones((2, 3), np.float32)})
    assert found["theta"].dtype == np.float64
    assert found["queries"].tolist() == [1, 0, 2, 1]


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ({"theta": np.ones((2, 3))}, "queries are missing"),
        ({"queries": np.ones(3)}, "queries are float64 of shape (3,); of 4 steps it must be numbers, 4 rows"),
        ({"queries": np.ones(4), "theta": np.ones((4, 3))}, "theta are float64 of shape (4, 3)"),
        ({"queries": np.array([1, 1, -1, 1])}, "queries must be numbers of at least 0"),
        ({"queries": np.array([1, 1, np.nan, 1])}, "queries must be numbers of at least 0"),
        ({"queries": np.ones(4), "theta": np.array([None, None])}, "theta are object"),
        ({"queries": np.ones(4), "mark": np.array(["a"] * 4)}, "mark are <U1"),
        ((np.ones(4),), "no dictionary of arrays"),
    ],
)
def test_what_a_step_may_not_leave_is_refused_in_a_line(records, text):
    with pytest.raises(FlyrunError) as said:
        _agreed(records)
    assert text in str(said.value)
    assert str(said.value).startswith("sampler=x: ")


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


BIG = (
    "model=softmax", "dataset=table", "dataset.path=big.csv", "dataset.target=y", "dataset.task=classes",
    "protocol.iterations=4", "protocol.burn_in=0",
)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        pytest.param("sampler=hmc bound=local", marks=pytest.mark.slow),
        "sampler=independence",
        "sampler=prefetching",
    ],
)
def test_a_curvature_without_digits_is_one_line_with_a_remedy_that_works(tmp_path, monkeypatch, words):
    """Columns at 1e10 beside an intercept, as they are: there is no matrix to factor."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = np.column_stack([1e10 + rng.normal(size=(60, 3)), np.arange(60) % 3])
    np.savetxt("big.csv", rows, "%.15g", ",", header="a,b,c,y", comments="")

    def made(*more):
        return prepare(compose_job([*BIG, *words.split(), *more]).arms[0], tmp_path / "setup")

    with pytest.raises(
        DensityError, match=r"no digits left .*; leave dataset\.standardize=false out$"
    ) as told:
        made("dataset.standardize=false")
    assert isinstance(told.value.__cause__, np.linalg.LinAlgError)
    method = made()
    assert np.isfinite(method.advance(method.init(0), 2)[1]["queries"]).all()


def test_only_what_cannot_be_factored_is_told_so():
    for error in (
        np.linalg.LinAlgError("Singular matrix"),
        ValueError("array must not contain infs or NaNs"),
    ):
        assert "choose a prior of smaller scale" in str(no_digits(error))
    assert no_digits(ValueError("another")) is None
    with pytest.raises(ValueError, match="another"), factoring():
        raise ValueError("another")
