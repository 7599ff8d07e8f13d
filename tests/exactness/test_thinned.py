"""Rules that read few data, all orders on one small posterior against quadrature; what they cost; faults."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.samplers.chain import mala, pcn, surrogate_transition
from flyrun.experiments.samplers.chain.acceptance import delayed
from flyrun.experiments.samplers.chain.acceptance.exact import Exact
from flyrun.experiments.samplers.chain.acceptance.thinned import FACTORISED, POISSON, SPARED, thinned
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.ground.errors import DensityError
from tests.exactness import broken
from tests.exactness.chains import full_target, normal_toy, sample, toy, z_scores
from tests.exactness.expansions import about, bounds, expanded_target, expansion
from tests.exactness.test_moments import LEVEL

PROBLEM, N, ITERATIONS = toy(), 40, 60_000
NUMBERS = normal_toy()
KINDS = {"smh": FACTORISED, "tuna": POISSON, "mh_ss": SPARED}
CASES = [
    ("smh", 1, "local"),
    ("smh", 2, "local"),
    ("smh", 2, "cornish"),
    ("tuna", 0, "local"),
    ("tuna", 1, "local"),
    ("tuna", 2, "global"),
    ("mh_ss", 1, "global"),
    ("mh_ss", 2, "local"),
    ("mh_ss", 3, "local"),
    ("mh_ss", 3, "global"),
]


def _rule(name, order, kind="local", problem=PROBLEM):
    return thinned(KINDS[name], bounds(problem, order, kind), 0.02 if name == "tuna" else 0.0)


def _pcn(rule, persistence=0.5, problem=PROBLEM):
    kernel = pcn.build(SimpleNamespace(persistence=persistence), 2, about(problem))
    return kernel._replace(rule=rule)


def _moves(rule):
    config = SimpleNamespace(persistence=0.6, moves=4)
    return surrogate_transition.build(config, 2, about(PROBLEM))._replace(rule=rule)


def _draws(kernel, target, n_iterations=ITERATIONS, seed=5):
    return sample(target, kernel, NoBrightness(), PROBLEM.mode.copy(), n_iterations, seed)


def _score(draws):
    return np.abs(z_scores(draws.theta, PROBLEM)).max()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("name", "order", "kind"), CASES)
def test_moments_are_the_posteriors_and_two_queries_a_candidate(name, order, kind):
    rule = _rule(name, order, kind)
    target = expanded_target(PROBLEM, order)
    draws = _draws(_pcn(rule), target)
    assert _score(draws) < LEVEL
    # besides candidates, all data at one position or at both where the bounds are no help
    whole = int(target.memory.queries[0]) - 2 * int(rule.candidates[0])
    assert whole >= 0
    assert whole % N == 0
    assert np.all(draws.queries[draws.queries < N] % 2 == 0)
    few = (draws.bright < N) & (draws.queries < N)
    np.testing.assert_array_equal(2 * draws.bright[few], draws.queries[few])
    assert order == 0 or draws.queries.mean() < 0.75 * N


@pytest.mark.slow  # compiles anew for these bounds
@pytest.mark.parametrize("share", [1.0, 0.0])
def test_so_they_are_for_a_model_with_bounds_of_its_own_and_not_without_candidates(share):
    rule = _rule("mh_ss", 2, problem=NUMBERS)
    rule = rule._replace(remainder=rule.remainder._replace(total=share * rule.remainder.total))
    start, target = NUMBERS.mode.copy(), expanded_target(NUMBERS, 2)
    draws = sample(target, _pcn(rule, problem=NUMBERS), NoBrightness(), start, ITERATIONS, 5)
    score = np.abs(z_scores(draws.theta, NUMBERS)).max()
    assert score < LEVEL if share else score > 1.5 * LEVEL


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("name", "order"), [("smh", 2), ("tuna", 1), ("mh_ss", 2), ("mh_ss", 3)])
def test_a_surrogate_transition_has_the_posteriors_moments(name, order):
    draws = _draws(_moves(_rule(name, order)), expanded_target(PROBLEM, order))
    assert _score(draws) < LEVEL


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "order"), [("mh_ss", 1), ("tuna", 2)])
def test_langevin_steps_drift_by_the_surrogate_and_have_the_posteriors_moments(name, order):
    kernel = mala.build(SimpleNamespace(target_accept=0.57, step=1.2), 2, about(PROBLEM))
    draws = _draws(kernel._replace(rule=_rule(name, order)), expanded_target(PROBLEM, order, True))
    assert _score(draws) < LEVEL


@pytest.mark.thorough
@pytest.mark.parametrize("order", [1, 2, 3])
def test_delayed_acceptance_has_them_and_reads_all_where_the_first_stage_accepts(order):
    rule = delayed.Delayed(expansion(PROBLEM, order)[0], np.zeros(2))
    draws = _draws(_pcn(rule), full_target(PROBLEM))
    assert _score(draws) < LEVEL
    assert set(np.unique(draws.queries)) == {0, N}
    moved = np.any(np.diff(draws.theta, axis=0) != 0, axis=1)
    assert np.all(draws.queries[1:][moved] == N)
    assert np.all(draws.accepted[draws.queries == 0] == 0)


@pytest.mark.thorough
def test_where_bounds_are_no_help_steps_are_those_of_the_exact_rule():
    """C so large that every step reads all: the same draws, bit for bit, at N queries each."""
    rule = _rule("mh_ss", 2)
    rule = rule._replace(remainder=rule.remainder._replace(total=1e9))
    all_read = _draws(_pcn(rule), expanded_target(PROBLEM, 2), 500)
    regular = _draws(_pcn(Exact()), full_target(PROBLEM), 500)
    np.testing.assert_array_equal(all_read.theta, regular.theta)
    assert np.all(all_read.queries[1:] == N)


@pytest.mark.parametrize(
    ("name", "order", "share", "least"),
    [
        ("smh", 1, 0.0, 1.5),
        ("mh_ss", 1, 0.2, 1.5),
        ("mh_ss", 2, 0.0, 1.5),
        ("mh_ss", 3, 0.0, 1.5),  # half of the candidates would not show there
        ("tuna", 0, 0.3, 2),
    ],
)
def test_negative_control_a_share_of_the_candidates_gives_other_moments(name, order, share, least):
    """As if the remainders did not matter, wholly (share 0) or in part."""
    rule = _rule(name, order)
    rule = rule._replace(remainder=rule.remainder._replace(total=share * rule.remainder.total))
    n_iterations = 6 * ITERATIONS if order == 3 else ITERATIONS
    assert _score(_draws(_pcn(rule), expanded_target(PROBLEM, order), n_iterations)) > least * LEVEL


def _faulty(fault):
    rule = broken.FaultyRule(fault, thinned(POISSON, bounds(PROBLEM, 1), 1.0))
    return _score(_draws(_pcn(rule), expanded_target(PROBLEM, 1)))


@pytest.mark.parametrize("fault", [broken.UNKEPT, broken.UNWEIGHED, broken.UNDIVIDED])
def test_negative_control_of_what_a_rule_multiplies_by(fault):
    assert _faulty(fault) > 1.5 * LEVEL


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("twin", [broken.SOUND, broken.WHOLE])
def test_the_same_without_a_fault_has_the_posteriors_moments(twin):
    assert _faulty(twin) < LEVEL


@pytest.mark.parametrize("name", KINDS)
def test_a_remainder_beyond_its_bound_is_an_error(name):
    rule = _rule(name, 2)
    wrong = rule.remainder._replace(weights=0.1 * rule.remainder.weights)
    with pytest.raises(DensityError, match="exceeds its bound"):
        _draws(_pcn(rule._replace(remainder=wrong)), expanded_target(PROBLEM, 2), 5000)
