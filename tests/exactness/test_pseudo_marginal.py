"""Firefly's θ and z proposed together: one step over all states exactly, moments, costs, cuts, and faults."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.chain import random_walk
from flyrun.experiments.samplers.chain.acceptance.pseudo_marginal import pseudo_marginal
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.brightness.partition import is_bright
from flyrun.experiments.samplers.chain.loop import begin_chain, empty_draws, run_chain
from flyrun.experiments.samplers.chain.targets.firefly import brighten, query
from flyrun.experiments.samplers.chain.targets.known_base import log_base_at
from flyrun.experiments.samplers.chain.targets.target import kept_log_data
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError
from tests.exactness.chains import firefly_target, sample, toy, z_scores
from tests.exactness.enumeration import outcomes
from tests.exactness.expansions import about
from tests.exactness.test_enumeration import ALL_Z, BOUNDS, GRID, _log_joint, _target
from tests.exactness.test_moments import LEVEL
from tests.numerics.test_state import _cut

PROBLEM, N = toy(), 40
# at q = 0.1 chains stay put for up to some 8,000 steps: batches of the scores outlast that, 20,000 steps each
ITERATIONS = 2_000_000
TOY = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic", "prior=gaussian"]
WORDS = [*TOY, "acceptance=pseudo_marginal"]
PLACES = [GRID[0], GRID[4], GRID[7]]
STATES = list(itertools.product(range(3), ALL_Z))


def _error(bound, rule):
    """The most by which one step from π(θ, z), θ' even on the grid, is off π."""
    pi = np.exp([_log_joint(bound, PLACES[k], z) for k, z in STATES])
    pi /= pi.sum()
    after = np.zeros(len(STATES))
    for (here, (k, z)), there in itertools.product(enumerate(STATES), range(3)):

        def step(rng, k=k, z=z, there=there):
            target, theta = _target(bound, PLACES[k], z), PLACES[k].copy()
            log_ratio = log_base_at(target, PLACES[there]) - log_base_at(target, theta)
            decide(rule, rng, target, theta, PLACES[there], log_ratio)
            at = next(i for i, place in enumerate(PLACES) if (place == theta).all())
            return at, tuple(bool(is_bright(target.memory.partition, n)) for n in range(3))

        for chance, state in outcomes(step, most=4):
            after[STATES.index(state)] += pi[here] * chance / 3
    assert after.sum() == pytest.approx(1.0, abs=1e-13)
    return np.abs(after - pi).max()


@pytest.mark.thorough(but="untuned")
@pytest.mark.parametrize(("bound", "q"), [("map", 0.5), ("untuned", 0.1)])
def test_a_step_leaves_the_joint_of_theta_and_brightness_invariant(bound, q):
    assert _error(BOUNDS[bound], pseudo_marginal(q, 3)) < 1e-15


def test_negative_control_without_the_density_of_the_proposed_brightness_it_does_not():
    assert _error(BOUNDS["untuned"], pseudo_marginal(0.1, 3)._replace(log_odds=0.0)) > 1e-3


def _kernel(rule):
    made = random_walk.build(SimpleNamespace(target_accept=0.234, step=1.0), 2, about(PROBLEM))
    return made._replace(rule=rule)


@pytest.mark.thorough(but="0.1")
@pytest.mark.parametrize(("q", "weighed"), [(0.1, True), (0.05, True), (0.1, False)])
def test_moments_are_the_posteriors_unless_brightness_goes_unweighed(q, weighed):
    rule = pseudo_marginal(q, N)
    rule = rule if weighed else rule._replace(log_odds=0.0)
    target = firefly_target(PROBLEM)
    draws = sample(target, _kernel(rule), NoBrightness(), PROBLEM.mode, ITERATIONS, seed=11)
    score = np.abs(z_scores(draws.theta, PROBLEM)).max()
    assert score < LEVEL if weighed else score > 2 * LEVEL
    # as many data as are proposed to be bright, a share q of them all
    assert draws.queries.mean() == pytest.approx(q * N, abs=LEVEL * np.sqrt(q * N / ITERATIONS))


def test_queries_are_the_proposals_bright_data_and_what_is_kept_is_the_states():
    target, kernel = firefly_target(PROBLEM), _kernel(pseudo_marginal(0.05, N))
    rng, theta, moves = np.random.default_rng(3), np.array(PROBLEM.mode) + 0.1, 0
    proposed, memory = kernel.rule.proposed, target.memory
    begin_chain(rng, target, kernel, NoBrightness(), theta)
    assert memory.queries[0] == N
    for i in range(300):
        before, was = theta.copy(), memory.partition.bright[: memory.partition.n_bright[0]].copy()
        proposed[:] = N  # no datum
        draws = empty_draws(1, 1, i, 2)
        run_chain(rng, target, kernel, NoBrightness(), theta, i, 0, 1, draws)
        lit = proposed[proposed < N]
        assert draws.queries[0] == len(lit)
        moved = bool((theta != before).any())
        bright = memory.partition.bright[: memory.partition.n_bright[0]]
        np.testing.assert_array_equal(bright, lit if moved else was)
        moves += moved
        fresh = firefly_target(PROBLEM)
        query(fresh, bright, theta)
        for j, n in enumerate(bright):
            brighten(fresh, n, j)
        kept = log_base_at(target, theta) + kept_log_data(fresh, None)
        assert draws.log_joint[0] == pytest.approx(kept, rel=1e-12)
    assert moves > 10


def test_chunks_are_one_chain_and_set_up_is_counted(tmp_path):
    protocol = ["protocol.init=map", "protocol.iterations=200", "protocol.burn_in=100"]
    program, state = _cut([*WORDS, "acceptance.q=0.05", *protocol], tmp_path)
    facts = program.facts(state)
    assert facts.exact
    # bounds, the curvature that shapes steps and starts, and the first state
    assert facts.setup_queries == program.problem.fit.queries + 3 * 60


@pytest.mark.thorough
@pytest.mark.parametrize("sampler", ["pcn", "independence"])
def test_it_serves_whatever_proposes_without_a_look_at_the_data(sampler, tmp_path):
    words = [f"sampler={sampler}", "bound=none", "protocol.init=map"]
    program = prepare(arm_of(WORDS, tuple(words)), tmp_path)
    _, records = program.advance(program.init(1), 2_000)
    assert 0.02 < records["accepted"].mean() < 0.7
    assert records["queries"].mean() == pytest.approx(0.02 * 60, abs=LEVEL * np.sqrt(1.2 / 2_000))


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("acceptance.q=0",), r"acceptance\.q=0: must be a finite number in \[1e-12, 0\.999\]"),
        (("acceptance.q=1",), r"acceptance\.q=1: must"),
        (("sampler=random_walk", "bound=map"), "choose bound=none and brightness=none"),
        (("sampler=random_walk",), r"too seldom to tune a step by; choose sampler\.step=1"),
        (("sampler=mala",), "does not serve sampler=mala"),
    ],
)
def test_what_does_not_go_with_it_is_said_in_one_line(words, match):
    with pytest.raises(ConfigError, match=match):
        arm_of(WORDS, words)


def test_a_model_without_bounds_has_none_for_it():
    words = ["dataset=gaussian_toy", "model=normal", "prior=gaussian", "acceptance=pseudo_marginal"]
    with pytest.raises(ConfigError, match="model=normal has no bounds; choose acceptance=exact"):
        arm_of(words, ())
