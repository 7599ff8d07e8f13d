"""ESS and R-hat on chains of every temper: ArviZ's values, and zero for what never moves."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.signal import lfilter

from flyrun.ground.diagnostics import ess
from tests.diagnostics import marginals
from tests.diagnostics.marginals import mean_size


def _chains(kind: str) -> np.ndarray:
    """(C, T, 3) draws."""
    rng = np.random.default_rng(len(kind))
    noise = rng.normal(size=(4, 1500, 3))
    if kind == "odd_length":
        return noise[:, :1235]
    if kind == "one_chain":
        return lfilter([1], [1, -0.9], noise[:1], axis=1)
    if kind == "antithetic":
        return lfilter([1], [1, 0.9], noise, axis=1)
    if kind == "sticky":
        return lfilter([1], [1, -0.995], noise, axis=1)
    if kind == "repeats":
        moved = rng.random((4, 1500, 1)) < 0.2
        last = np.maximum.accumulate(np.where(moved, np.arange(1500)[:, None], 0), axis=1)
        return np.take_along_axis(noise, np.broadcast_to(last, noise.shape), axis=1)
    if kind == "disagree":
        return noise + 3 * rng.normal(size=(4, 1, 3))
    if kind == "integers":
        return np.round(noise)
    if kind == "tiny":
        return noise[:, :5]
    return noise


KINDS = [
    "independent",
    "odd_length",
    "one_chain",
    "antithetic",
    "sticky",
    "repeats",
    "disagree",
    "integers",
    "tiny",
]


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_arviz(kind):
    chains = _chains(kind)
    axes = {"chain_axis": 0, "draw_axis": 1}
    ours = ess.summary(chains)
    np.testing.assert_allclose(ours.bulk, array_stats.ess(chains, method="bulk", **axes), rtol=1e-8)
    tail = array_stats.ess(chains, method="tail", prob=(0.05, 0.95), **axes)
    np.testing.assert_allclose(ours.tail, tail, rtol=1e-8)
    np.testing.assert_allclose(ours.square, array_stats.ess(chains, method="sd", **axes), rtol=1e-8)
    np.testing.assert_allclose(ours.rhat, array_stats.rhat(chains, method="rank", **axes), rtol=1e-10)
    np.testing.assert_allclose(mean_size(chains), array_stats.ess(chains, method="mean", **axes), rtol=1e-8)


def test_what_is_not_wanted_is_not_worked_out():
    chains = _chains("disagree")
    whole, part = ess.summary(chains), ess.summary(chains, wanted=("square", "rhat"))
    np.testing.assert_array_equal(part.square, whole.square)
    np.testing.assert_array_equal(part.rhat, whole.rhat)
    assert np.isnan([part.bulk, part.tail]).all()


def test_thinning_sticky_chains_changes_little():
    chains = lfilter([1], [1, -0.995], np.random.default_rng(1).normal(size=(4, 30_000, 2)), axis=1)
    axes = {"chain_axis": 0, "draw_axis": 1}
    found = ess.summary(chains)
    np.testing.assert_allclose(found.bulk, array_stats.ess(chains, method="bulk", **axes), rtol=0.02)
    np.testing.assert_allclose(found.square, array_stats.ess(chains, method="sd", **axes), rtol=0.05)
    np.testing.assert_allclose(found.rhat, array_stats.rhat(chains, method="rank", **axes), rtol=0.002)


def test_chains_at_rest_have_no_effective_draws():
    chains = np.random.default_rng(0).normal(size=(3, 100, 3))
    chains[:, :, 1] = 0.1
    chains[:, :, 2] = np.arange(3)[:, None]
    found = ess.summary(chains)
    assert found.bulk[0] > 0
    assert found.bulk[1:].tolist() == found.tail[1:].tolist() == found.square[1:].tolist() == [0, 0]
    assert np.isnan(found.rhat[1])
    assert found.rhat[2] == np.inf
    assert mean_size(chains)[1] == 0


def test_too_short_or_not_finite_is_nan():
    assert np.isnan(ess.summary(np.zeros((2, 3, 1)))).all()
    chains = np.random.default_rng(0).normal(size=(2, 50, 2))
    chains[0, 7, 1] = np.nan
    found = ess.summary(chains)
    assert np.isfinite(found.bulk[0])
    assert np.isnan(found.bulk[1])


def test_monte_carlo_error_is_the_spread_of_means():
    rng = np.random.default_rng(5)
    chains = lfilter([1], [1, -0.8], rng.normal(size=(300, 600, 1)), axis=1)[:, 100:]
    errors = [marginals.means(chain).error[0] for chain in chains[:40]]
    assert np.median(errors) == pytest.approx(chains.mean(axis=1).std(), rel=0.2)


def test_differences_see_a_shift_and_only_a_shift():
    draws = np.random.default_rng(6).normal(size=(2, 4, 2000, 5))
    assert np.abs(marginals.differences(draws[0], draws[1])).max() < 4
    assert marginals.differences(draws[0] + 0.2, draws[1]).min() > 6
