"""Dual averaging: the recursion, the acceptance it reaches, short burn-ins, and what nothing bounds."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.samplers.chain import hmc
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.dual_averaging import REACH, dual_averaging, learn
from tests.exactness.chains import firefly_target, reference, sample, toy

PROBLEM = toy(10)  # so few data that the bounds' Gaussian is far from the posterior
N = PROBLEM.features.rows.shape[0]
# Means of 20,000 correlated acceptance probabilities wander by up to 0.005, tuned steps' by up to 0.02.
TOLERANCE = 0.03


def _fed(acceptances, longest=1e9):
    """A step of first guess ½, target 0.8, tuned on these; and what it was in between."""
    step, seen = dual_averaging(0.8, None, 0.5, longest), []
    for i, acceptance in enumerate(acceptances):
        learn(step, acceptance, i, len(acceptances))
        seen.append(step.current[0])
    return step, np.array(seen)


def test_steps_are_those_of_algorithm_5():
    acceptances = np.random.default_rng(0).uniform(0.6, 1.0, 50)
    _, seen = _fed(acceptances)
    m = np.arange(1, 51)
    # its H̄ in closed form: m + t₀ cancels from one m to the next, so that all count alike
    shortfall = np.cumsum(0.8 - acceptances) / (m + 10.0)
    log_steps = np.log(10 * 0.5) - np.sqrt(m) / 0.2 * shortfall
    np.testing.assert_allclose(seen[:-1], np.exp(log_steps[:-1]), rtol=1e-12)
    shares = m**-0.85
    weights = shares * np.append(np.cumprod(1.0 - shares[:0:-1])[::-1], 1.0)
    assert weights.sum() == pytest.approx(1.0)
    assert seen[-1] == pytest.approx(np.exp(weights @ log_steps))


def _acceptance(step=None, burn_in=2000):
    """Mean acceptance probability of Firefly-HMC after burn-in."""
    config = SimpleNamespace(target_accept=0.8, step=step, n_steps=5, jitter=0.2)
    target = firefly_target(PROBLEM, gradients=True)
    kernel = hmc.build(config, 2, reference(PROBLEM, target))
    return sample(target, kernel, implicit(0.3, N), np.zeros(2), 20_000, 5, burn_in).accepted.mean()


@pytest.mark.thorough
def test_burn_in_reaches_the_stated_acceptance():
    assert _acceptance() == pytest.approx(0.8, abs=TOLERANCE)


@pytest.mark.parametrize("untuned", [{"burn_in": 1}, {"step": 0.25}], ids=["one iteration", "first guess"])
def test_negative_control_a_step_that_is_not_tuned(untuned):
    assert _acceptance(**untuned) != pytest.approx(0.8, abs=TOLERANCE)


def test_without_burn_in_the_first_guess_stays_and_one_iteration_will_do():
    step, _ = _fed([])
    assert step.current[0] == 0.5
    for acceptance in (0.0, 0.5, 1.0):
        step, seen = _fed([acceptance])
        assert 0.5 < seen[-1] < 10.0


@pytest.mark.parametrize("acceptance", [0.0, 1.0])
def test_steps_stay_numbers_whatever_is_accepted(acceptance):
    _, seen = _fed(np.full(20_000, acceptance), longest=0.7)
    assert seen.max() <= 0.7 * (1 + 1e-12)
    assert seen.min() >= 5.0 * np.exp(-REACH) * (1 - 1e-12)


def test_a_given_step_is_kept():
    step = dual_averaging(0.8, 3.0, 0.5, 1.0)
    learn(step, 0.0, 0, 10)
    assert step.current[0] == 3.0
