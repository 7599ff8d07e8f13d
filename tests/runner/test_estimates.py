"""Snapshots of E f against cost: where they fall, what they hold, and that chunks decide nothing."""

import numpy as np
import pytest
import runner_fakes as fakes

from flyrun.experiments.config.protocol import Budget
from flyrun.experiments.runner import estimates, store
from flyrun.experiments.runner.draws import Chunk
from flyrun.experiments.runner.launch import run
from flyrun.ground.errors import ConfigError


def of_f(theta):
    return {"mean": theta, "square": theta**2}


def chunks(theta, thin, cuts):
    n = len(theta) * thin
    for low, high in zip([0, *cuts], [*cuts, n], strict=True):
        size = high - low
        draws = {"theta": theta[low // thin : high // thin], "queries": np.arange(low, high) + 1.0}
        yield Chunk(low, size, draws, seconds=0.5 * size)


def test_steps_lie_six_to_a_doubling():
    steps = estimates.grid(1 << 30)
    assert len(steps) < 200
    assert steps[-1] == 1 << 30
    assert set(2 ** np.arange(31)) <= set(steps.tolist())
    assert np.all(np.diff(steps) > 0)
    for step in (0, 1, 7, 100, 4095):
        assert estimates.next_snapshot(step) == steps[steps > step][0]


@pytest.mark.parametrize("thin", [1, 3])
@pytest.mark.parametrize("cuts", [[], [300], [3, 6, 9, 150, 597]])
def test_an_estimate_is_the_mean_over_the_last_half(thin, cuts):
    theta = 1e6 + np.random.default_rng(1).normal(size=(600 // thin, 4))
    found = estimates.of_chunks(chunks(theta, thin, cuts), 600, thin, of_f, (10, 10, 10, 2))
    assert found["step"][-1] == 600
    for k, step in enumerate(found["step"]):
        last = theta[step // thin // 2 : step // thin]
        np.testing.assert_allclose(found["mean"][k], last.mean(axis=0), rtol=1e-14)
        np.testing.assert_allclose(found["square"][k], (last**2).mean(axis=0), rtol=1e-13)
        assert found["queries"][k] == found["span"][k] == 10 + step * (step + 1) / 2
        assert found["seconds"][k] == pytest.approx(2 + step / 2)


def test_what_costs_more_than_queries_is_told_apart():
    chunk = Chunk(0, 4, {"theta": np.zeros((4, 1)), "queries": np.full(4, 6), "visits": np.full(4, 2)})
    found = estimates.of_chunks([chunk], 4, 1, of_f, (0, 0, 0, 0))
    assert (found["queries"][-1], found["visits"][-1], found["span"][-1]) == (24, 8, 24)


def test_too_many_numbers_are_no_estimands():
    chunk = Chunk(0, 2, {"theta": np.zeros((2, 20_000)), "queries": np.ones(2)})
    assert set(estimates.of_chunks([chunk], 2, 1, of_f, (0, 0, 0, 0))) == {"step", *estimates.COSTS}


def stored(result):
    (cell,) = [one for one in store.open_cells(result.run_dir) if one.arm == "one"]
    with cell.tree() as tree:
        found = {name: tree["estimate"][name].values for name in ("step", "queries", "mean")}
        return cell.info, found, tree["posterior"]["theta"].values[0], tree["sample_stats"]["queries"].size


def budget_run(folder, arms=("one",), **budget):
    return run(fakes.make_job(folder, seeds=1, arms=arms, budget=Budget(**budget)), None, fakes.prepare)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("budget", [{"queries": 5000.0}, {"passes": 5000 / 7}])
def test_a_budget_ends_a_chain_at_the_step_that_reaches_it(tmp_path, budget):
    info, found, theta, kept = stored(budget_run(tmp_path / "some", **budget))
    length = -(-5000 // 7)  # 7 queries a step, none to set up
    length -= length % info["thin"]
    assert (info["iterations"], kept) == (length, length - fakes.BURN_IN)
    assert found["queries"][-1] == 7 * length
    *_, whole, _ = stored(run(fakes.make_job(tmp_path / "all", seeds=1), None, fakes.prepare))
    np.testing.assert_array_equal(theta, whole[: len(theta)])


def test_a_budget_that_ends_in_burn_in_says_what_to_change(tmp_path):
    result = budget_run(tmp_path, queries=700.0)
    assert "protocol.budget.queries=700: is spent at iteration 10" in result.failed[0].message
    assert "within burn-in; take protocol.budget.queries=" in result.failed[0].message


def test_a_budget_counts_one_thing():
    with pytest.raises(ConfigError, match="choose one of them"):
        Budget(queries=10, passes=2)
    with pytest.raises(ConfigError, match="this model has no data"):
        Budget(passes=2).in_queries(None)
