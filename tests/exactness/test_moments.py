"""Chains against moments known by quadrature, with broken kernels that must fail the same test."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.samplers.chain import mala, random_walk, slice
from flyrun.experiments.samplers.chain.brightness.explicit import ORDERS, explicit
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from tests.exactness.broken import flat_slice, inverted_implicit, one_way_mala
from tests.exactness.chains import TOYS, firefly_target, full_target, sample, z_scores

PROBLEMS = {name: make() for name, make in TOYS.items()}
PROBLEM = PROBLEMS["logistic"]
N_ITERATIONS = 200_000
# Four or six z-scores a test, |z| < 4.5: fails by chance once in 24,000 runs, and seeds are fixed.
LEVEL = 4.5
UPDATES = {
    "random_walk": (random_walk, SimpleNamespace(target_accept=0.35, step=None)),
    "mala": (mala, SimpleNamespace(target_accept=0.57, step=None)),
    "slice": (slice, SimpleNamespace(width=None, most_widenings=20)),
}


def _kernel(update, n_params):
    module, config = UPDATES[update]
    return module.build(config, n_params)


def _arms(problem, gradients):
    """Target and brightness update of every arm, made when called."""
    n_data = problem.features.rows.shape[0]
    arms = {
        "regular": lambda: (full_target(problem, gradients), NoBrightness()),
        "map implicit": lambda: (firefly_target(problem, gradients), implicit(0.2, n_data)),
        "untuned implicit": lambda: (
            firefly_target(
                problem,
                gradients,
                problem.likelihood.untuned_bound(problem.model, problem.features, 1.5),
            ),
            implicit(0.3, n_data),
        ),
    }
    for order in ORDERS:
        arms[f"map explicit {order}"] = lambda order=order: (
            firefly_target(problem, gradients),
            explicit(0.2, order, n_data),
        )
    return arms


# Compiling a combination takes longer than running it, so the default tests have each model with the update
# that the paper gives it, on and off FlyMC, one with every brightness update; the others are marked slow.
USUAL = {"logistic": "random_walk", "softmax": "mala", "student_t": "slice"}
CASES = [
    pytest.param(
        model,
        update,
        arm,
        marks=[]
        if update == USUAL[model] and (model == "logistic" or "explicit" not in arm)
        else [pytest.mark.slow],
    )
    for model in PROBLEMS
    for update in UPDATES
    for arm in _arms(PROBLEM, False)
]


@pytest.mark.thorough(but="logistic")
@pytest.mark.parametrize(("model", "update", "arm"), CASES)
def test_chain_has_the_exact_moments(model, update, arm):
    problem = PROBLEMS[model]
    target, sweep = _arms(problem, UPDATES[update][0].GRADIENTS)[arm]()
    size = problem.mode.size
    draws = sample(target, _kernel(update, size), sweep, np.zeros(size), N_ITERATIONS, seed=11)
    assert np.abs(z_scores(draws.theta, problem)).max() < LEVEL


def test_negative_control_inverted_brightness_fails():
    n_data = PROBLEM.features.rows.shape[0]
    kernel, sweep = _kernel("random_walk", 2), inverted_implicit(0.2, n_data)
    draws = sample(firefly_target(PROBLEM), kernel, sweep, [0.0, 0.0], N_ITERATIONS, seed=11)
    assert np.abs(z_scores(draws.theta, PROBLEM)).max() > 2 * LEVEL


@pytest.mark.slow
def test_negative_control_langevin_proposals_taken_for_symmetric_fail():
    problem = PROBLEMS["softmax"]
    kernel, sweep = one_way_mala(1.0, 3), implicit(0.2, problem.features.rows.shape[0])
    draws = sample(firefly_target(problem, True), kernel, sweep, np.zeros(3), N_ITERATIONS, seed=11)
    assert np.abs(z_scores(draws.theta, problem)).max() > 2 * LEVEL


def test_negative_control_a_slice_at_a_fixed_level_fails():
    problem = PROBLEMS["student_t"]
    target, kernel = full_target(problem), flat_slice(2.0, 2)
    draws = sample(target, kernel, NoBrightness(), np.zeros(2), N_ITERATIONS, seed=11)
    assert np.abs(z_scores(draws.theta, problem)).max() > 2 * LEVEL
