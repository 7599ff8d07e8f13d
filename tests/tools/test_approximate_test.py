"""The chance with which a test accepts, worked out, against the rules' own code; and one without error."""

import numpy as np
import pytest

from flyrun.experiments.models import gaussian_prior, logistic
from flyrun.experiments.samplers.chain.acceptance.austerity import austerity
from flyrun.experiments.samplers.chain.acceptance.confidence import confidence
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.targets.subset import subset
from tests.exactness.chains import begin
from tools.theorems.approximate_test import (
    EVENTS,
    GRID,
    MODE,
    N,
    chance,
    exact_chance,
    log_ratios,
    proxy_ratios,
    told,
)

TRIALS = 2_000


def _accepted(rule, here, there):
    """Share of trials that a rule accepts."""
    signs = np.where(np.arange(N) < EVENTS, 1.0, -1.0)
    model, features = logistic.bind(np.ones((N, 1)), signs)
    target, rng, moved = subset(gaussian_prior.prior(1.0), model, features, 1), np.random.default_rng(1), 0
    theta = np.array([here])
    begin(target, rng, theta)
    for _ in range(TRIALS):
        decide(rule, rng, target, theta, np.array([there]), 0.0)
        if theta[0] != here:
            moved += 1
            theta[0] = here
            begin(target, rng, theta)
    return moved / TRIALS


@pytest.mark.thorough
@pytest.mark.parametrize(("i", "j"), [(2, 1), (2, 3)])
def test_a_t_tests_chance_is_what_its_code_does(i, j):
    rule, pair = austerity(N, 100, 0.05), (GRID[i], GRID[j])
    worked_out, _ = chance(rule, *pair)
    error = np.sqrt(worked_out * (1.0 - worked_out) / TRIALS)
    share = _accepted(rule, *pair)
    assert abs(share - worked_out) < 4.5 * error
    if j == 1:  # and not the exact test's
        assert abs(share - exact_chance(*pair)) > 9 * error


def test_a_test_that_reads_all_data_has_no_error():
    never = confidence(N, 20, 2.0, 0.0, "hoeffding_serfling")
    assert told(never).error < 1e-12


def test_with_proxies_a_bound_reads_few_data_and_hardly_errs():
    rule = confidence(N, 20, 2.0, 0.01, "empirical_bernstein")
    plain, aided = told(rule), told(rule, proxies=True)
    assert plain.read > 0.99 > 0.5 > aided.read
    assert aided.error < 0.01
    # a twin that takes the polynomials off and forgets to add their sum errs
    for here, there in ((GRID[2], GRID[1]), (GRID[2], GRID[3])):
        left = [
            whole - of for whole, of in zip(log_ratios(here, there), proxy_ratios(here, there), strict=True)
        ]
        forgetful = float(np.exp(min(0.0, EVENTS * left[0] + (N - EVENTS) * left[1])))
        assert chance(rule, here, there, proxies=True)[0] == pytest.approx(
            exact_chance(here, there), abs=1e-9
        )
        assert abs(forgetful - exact_chance(here, there)) > 0.1


def test_proxies_are_tight_at_the_mode_to_second_order():
    for step in (1e-2, -1e-2):
        left = np.subtract(log_ratios(MODE, MODE + step), proxy_ratios(MODE, MODE + step))
        assert np.abs(left).max() < 0.1 * abs(step) ** 3
