"""Rules that read batches: what they must read, what that costs, and what they do where they read all."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.samplers.chain import random_walk
from flyrun.experiments.samplers.chain.acceptance.austerity import austerity
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.loop import empty_draws, run_chain
from flyrun.experiments.samplers.chain.targets.subset import subset
from flyrun.ground.numerics.state import arrays_of, with_arrays
from tests.exactness.chains import begin, full_target, toy

N, BATCH = 600, 50
PROBLEM = toy(N)


def _target():
    return subset(PROBLEM.prior, PROBLEM.model, PROBLEM.features, 2)


def _kernel(rule=None, step=None):
    kernel = random_walk.build(SimpleNamespace(target_accept=0.35, step=step), 2)
    return kernel if rule is None else kernel._replace(rule=rule)


def _run(target, kernel, n, first=0, theta=None, rng=None):
    """Draws of n iterations, from the mode where no state is given."""
    if theta is None:
        theta, rng = PROBLEM.mode.copy(), np.random.default_rng(3)
        begin(target, np.random.default_rng(5), theta)
    draws = empty_draws(n, 1, first, 2)
    run_chain(rng, target, kernel, NoBrightness(), theta, first, 100, 1, draws)
    return draws, theta, rng


@pytest.mark.thorough
def test_a_test_that_is_never_sure_gives_the_bits_of_metropolis_hastings():
    regular, _, _ = _run(full_target(PROBLEM), _kernel(), 500)
    draws, _, _ = _run(_target(), _kernel(austerity(N, BATCH, 0.0)), 500)
    for name in ("theta", "accepted", "log_joint", "queries"):  # N an iteration, tuning of steps included
        np.testing.assert_array_equal(getattr(draws, name), getattr(regular, name))
    np.testing.assert_array_equal(draws.queries, N)
    np.testing.assert_array_equal(draws.bright, N)


@pytest.mark.thorough(but="0.05")
@pytest.mark.parametrize(("epsilon", "once"), [(0.5, True), (0.05, False)])
def test_queries_are_the_data_read_that_were_not_known(epsilon, once):
    target, kernel = _target(), _kernel(austerity(N, BATCH, epsilon), step=0.2)
    _, theta, rng = _run(target, kernel, 1)
    sizes: list[int] = []
    order, here = target.memory.deck.order, target.memory.here
    known = set(np.flatnonzero(here.stamp == here.state[0]).tolist())
    for i in range(1, 300):
        before = theta.copy()
        draws, _, _ = _run(target, kernel, 1, i, theta, rng)
        read = set(order[: draws.bright[0]].tolist())
        assert draws.queries[0] == len(read) + len(read - known)
        known = read if (theta != before).any() else known | read
        sizes.append(len(read))
    assert set(sizes) == {BATCH} if once else len(set(sizes)) > 3
    assert all(size % BATCH == 0 for size in sizes)


def test_a_checkpoint_goes_on_bit_for_bit():
    rule = austerity(N, BATCH, 0.05)
    whole, _, _ = _run(_target(), _kernel(rule), 60)
    target, kernel = _target(), _kernel(rule)
    part, theta, rng = _run(target, kernel, 23)
    saved = arrays_of(target.memory, "m"), arrays_of(kernel, "k")
    fresh = _target()
    target = fresh._replace(memory=with_arrays(fresh.memory, saved[0], "m"))
    kernel = with_arrays(_kernel(rule), saved[1], "k")
    rest, _, _ = _run(target, kernel, 37, 23, theta, rng)
    for name in ("theta", "queries", "accepted"):
        both = np.concatenate([getattr(part, name), getattr(rest, name)])
        np.testing.assert_array_equal(both, getattr(whole, name))


def test_the_stages_of_austerity_end_with_all_data():
    rule = austerity(120, 50, 0.05)
    np.testing.assert_array_equal(rule.sizes, [50, 100, 120])
    assert rule.by_sd[0] == pytest.approx(1.67655 * np.sqrt(70 / 119 / 50), rel=1e-5)  # t, 49 degrees, 95 %
    assert rule.by_sd[-1] == 0.0
    np.testing.assert_array_equal(austerity(120, 50, 0.5).by_sd, 0.0)
    np.testing.assert_array_equal(austerity(100, 500, 0.1).sizes, [100])
