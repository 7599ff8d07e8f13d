"""One-pass and tempered sequential Monte Carlo: what they answer, what they cost, that cuts do not matter."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import softmax

from flyrun.experiments.config.sampler.particles import OnePassSmc, TemperedSmc
from flyrun.experiments.prove import posteriors
from flyrun.experiments.prove.counted import COUNT
from flyrun.experiments.samplers.method import prepare
from flyrun.experiments.samplers.particles import one_pass_smc, tempered_smc
from flyrun.experiments.samplers.particles.weights import normalised
from flyrun.ground.numerics.resampling import effective, systematic
from tests.samplers.particles.toys import Normal, same_bits

X = np.random.default_rng(0).normal(0.5, 1.0, (50, 2))


def _method(kind, code, target, **options):
    sampler = kind(**options)
    arm = SimpleNamespace(sampler=sampler, method=sampler.settings, protocol=SimpleNamespace(iterations=99))
    return code.build(arm, target)


def _one_pass(target, **options):
    return _method(OnePassSmc, one_pass_smc, target, **options)


def _tempered(target, **options):
    return _method(TemperedSmc, tempered_smc, target, **options)


def test_cuts_do_not_matter():
    same_bits(_one_pass(Normal(X), particles=60, batch=7), (1, 3, 7))
    same_bits(_tempered(Normal(X), particles=60), (1, 2, 6))


def test_one_pass_without_redrawing_is_bayes_rule():
    target = Normal(X)
    method = _one_pass(target, particles=60, batch=7, ess=1e-9)
    state, records = method.advance(method.init(0), 12)
    wanted = softmax(target.log_likelihood(state["theta"], np.arange(50)))
    np.testing.assert_allclose(softmax(state["log_weight"]), wanted, atol=1e-12)
    assert records["visits"].tolist() == [6, 6, 6, 7] * 2 + [0] * 4
    assert records["queries"].tolist() == (60 * records["visits"]).tolist()


def test_redrawing_keeps_mean_and_covariance():
    """Over 200 redraws of 500 particles, within 4 standard errors; without the shrinkage it spreads."""
    rng = np.random.default_rng(0)
    theta, weight = rng.standard_normal((500, 2)) * [1, 3], rng.random(500)
    weight /= weight.sum()
    method = _one_pass(Normal(X), particles=500, discount=0.8)
    drawn = np.concatenate([method._redrawn(rng, theta, weight) for _ in range(200)])
    mean = weight @ theta
    variance = weight @ (theta - mean) ** 2
    assert np.abs((drawn.mean(axis=0) - mean) / np.sqrt(variance / len(drawn))).max() < 4
    assert drawn.var(axis=0) / variance == pytest.approx(np.ones(2), rel=4 * np.sqrt(2 / len(drawn)))
    a = (3 * 0.8 - 1) / 1.6
    assert 2 - a**2 > 1.2  # what the variance would be times, were particles not drawn to their mean


@pytest.mark.parametrize("make", [_one_pass, _tempered])
def test_both_come_near_a_posterior_of_one_mode(make):
    target = Normal(X)
    method = make(target, particles=3000)
    found = method.estimates(method.advance(method.init(0), 12)[0])
    sd = target.precision**-0.5
    assert np.abs(found["mean"] - target.mean).max() < 0.2 * sd
    spread = np.sqrt(found["square"] - found["mean"] ** 2) / sd
    assert spread == pytest.approx(np.ones(2), abs=0.15)


def test_tempered_costs_its_moves_and_stops_at_power_one():
    target = Normal(X)
    method = _tempered(target, particles=40, moves=3)
    state, records = method.advance(method.init(0), 9)
    stages = int((records["queries"] > 0).sum())
    assert records["queries"].sum() == target.looked == 40 * 50 * (1 + 3 * stages)
    assert records["visits"].sum() == 50 * (1 + 3 * stages)
    assert 1 < stages < 9
    assert records["power"][stages - 1 :].tolist() == [1] * (10 - stages)
    assert np.all(np.diff(records["power"]) >= 0)
    assert state["log_weight"].tolist() == [0] * 40


def test_before_the_end_what_is_left_is_in_the_weights():
    target = Normal(X)
    method = _tempered(target, particles=4000)
    state, records = method.advance(method.init(0), 1)
    assert records["power"][0] < 1
    left = (1 - records["power"][0]) * target.log_likelihood(state["theta"], np.arange(50))
    np.testing.assert_allclose(state["log_weight"], left - left.max(), rtol=1e-12)
    sd = target.precision**-0.5
    assert np.abs(method.estimates(state)["mean"] - target.mean).max() < 0.5 * sd


def test_systematic_resampling_is_even_and_unbiased():
    weight = np.array([0.5, 0.0, 0.26, 0.24])
    rng = np.random.default_rng(0)
    counts = np.array([np.bincount(systematic(rng, weight, 10), minlength=4) for _ in range(4000)])
    assert np.abs(counts - 10 * weight).max() < 1
    assert counts.mean(axis=0) == pytest.approx(10 * weight, abs=0.04)


def test_weights_and_their_effective_number():
    weight = normalised(np.array([0.0, np.log(3.0), -np.inf]), 1, "")
    assert weight == pytest.approx([0.25, 0.75, 0])
    assert effective(weight) == pytest.approx(1 / 0.625)


@pytest.mark.parametrize("sampler", [OnePassSmc(particles=20), TemperedSmc(particles=20)])
def test_the_queries_told_of_are_those_that_the_steps_make(tmp_path, sampler):
    """The first likelihoods too: a proof counts what `advance` evaluates."""
    arm = posteriors.arms(sampler, 100)["logistic"]
    method = prepare(arm, tmp_path)
    state = method.init(0)
    COUNT[0] = 0
    records = method.advance(state, 100)[1]
    assert records["queries"].sum() == COUNT[0] > 0
