"""One epoch without replacement at γ = 1/t is Bayes' rule on the particles, and what is left out shows.

Particles that stay where the prior put them: their weights are their likelihoods, whatever the batches.
"""

import itertools

import numpy as np
import pytest
from scipy.special import softmax

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.method import prepare
from flyrun.experiments.samplers.particles import pmd
from tests.samplers.particles.toys import Normal, descent

MODELS = {
    "mixture": ["dataset=mixture", "dataset.n_data=47", "model=mixture", "prior=gaussian"],
    "logistic": ["dataset=toy_2d", "dataset.n_data=47", "model=logistic", "prior=gaussian"],
    "student_t": ["dataset=two_modes", "dataset.n_data=47", "model=student_t", "prior=laplace"],
}
FIXED = ["sampler=pmd", "sampler.rejuvenate=never", "sampler.particles=60", "sampler.batch=7"]


def _error(method, steps):
    """Largest difference of log weights to log likelihoods, both normalised."""
    state, _ = method.advance(method.init(3), steps)
    exact = method.target.log_likelihood(state["theta"], np.arange(method.target.n_data))
    found = np.log(softmax(state["log_weight"])) - np.log(softmax(exact))
    return np.abs(found - found.mean()).max()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", MODELS)
def test_one_epoch_is_bayes_rule(tmp_path, model):
    method = prepare(arm_of(MODELS[model], tuple(FIXED)), tmp_path)
    assert method.batches.in_epoch == 7  # of 6 or 7 rows
    assert _error(method, 7) < 1e-9
    assert _error(method, 6) > 1e-3
    assert _error(method, 14) < 1e-9  # and so is every further one


@pytest.mark.parametrize("more", ["sampler.batches=replacement", "sampler.t0=1", "sampler.schedule=root"])
def test_other_settings_are_not(tmp_path, more):
    method = prepare(arm_of(MODELS["mixture"], (*FIXED, more)), tmp_path)
    assert _error(method, 7) > 1e-3


def _not_decayed(log_a, towards, gamma):
    return log_a + gamma * towards


def _not_scaled(method):
    method.batches.__class__ = type("Plain", (type(method.batches),), {"factor": 1.0})


def test_weights_that_do_not_decay_are_caught(tmp_path, monkeypatch):
    method = prepare(arm_of(MODELS["mixture"], tuple(FIXED)), tmp_path)
    monkeypatch.setattr(pmd, "mirror", _not_decayed)
    assert _error(method, 7) > 1e-3


def test_batches_that_are_not_scaled_up_are_caught(tmp_path):
    method = prepare(arm_of(MODELS["mixture"], tuple(FIXED)), tmp_path)
    _not_scaled(method)
    assert _error(method, 7) > 1e-3


def _five(log_base, monkeypatch=None):
    """Five particles, three rows, one a step, in an order that a seed draws: (order, weights)."""
    target = Normal(np.array([[0.3], [-1.1], [2.0]]), grid=np.array([[-1.0], [-0.2], [0.1], [0.7], [1.9]]))
    method = descent(target, rejuvenate="never", particles=5, batch=1)
    for seed in itertools.count():
        state = method.init(seed)
        state["log_base"] = np.full(5, log_base)
        state["log_weight"] = state["log_prior"] - log_base
        key = int(state["key"][0])
        order = tuple(int(method.batches.rows(t, None, key)[0]) for t in range(3))
        yield order, softmax(method.advance(state, 3)[0]["log_weight"]), target, state["theta"]


@pytest.mark.parametrize("broken", [None, "decay", "scale"])
def test_enumeration_of_five_particles_and_three_rows(monkeypatch, broken):
    """All six orders of the rows: the weights are the joint's, up to rounding, only if nothing is broken."""
    if broken == "decay":
        monkeypatch.setattr(pmd, "mirror", _not_decayed)
    if broken == "scale":
        monkeypatch.setattr("flyrun.ground.numerics.batches.Batches.factor", 1.0)
    worst, seen = 0.0, set()
    for order, weight, target, theta in _five(log_base=-0.4):
        joint = softmax(target.log_prior(theta) + target.log_likelihood(theta, np.arange(3)))
        worst = max(worst, np.abs(weight - joint).max())
        seen.add(order)
        if len(seen) == 6:
            break
    assert (worst < 1e-15) == (broken is None)
    assert broken is None or worst > 0.05


def test_a_batch_stands_for_all_rows_on_average():
    """Exactly: the mean of (N/b) Σ_B over all batches of two of four rows is the sum over all rows."""
    target = Normal(np.array([[0.3], [-1.1], [2.0], [0.4]]))
    method = descent(target, batch=2, batches="replacement", particles=3)
    theta = np.array([[-1.0], [0.3], [2.0]])
    pairs = [
        method.batches.factor * target.log_likelihood(theta, np.array(pair))
        for pair in itertools.product(range(4), repeat=2)
    ]
    np.testing.assert_allclose(np.mean(pairs, axis=0), target.log_likelihood(theta, np.arange(4)), rtol=1e-14)
