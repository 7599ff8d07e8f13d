"""Chains against moments known by quadrature, with a broken kernel that must fail the same test."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.models import logistic
from flyrun.samplers import brightness, random_walk
from tests.exactness.broken import inverted_implicit
from tests.exactness.chains import firefly_target, full_target, sample, toy, z_scores

PROBLEM = toy()
N_ITERATIONS = 200_000
# Four z-scores a test, |z| < 4.5: fails by chance once in 36,000 runs, and seeds are fixed.
LEVEL = 4.5


def _kernel():
    return random_walk.build(SimpleNamespace(target_accept=0.35, step=None), 2)


def _n():
    return PROBLEM.features.rows.shape[0]


ARMS = {
    "regular": lambda: (full_target(PROBLEM), brightness.NoBrightness()),
    "map implicit": lambda: (firefly_target(PROBLEM), brightness.implicit(0.2, _n())),
    "untuned implicit": lambda: (
        firefly_target(PROBLEM, bound=logistic.tight_at(np.full(_n(), 1.5))),
        brightness.implicit(0.3, _n()),
    ),
    **{
        f"map explicit {order}": lambda order=order: (
            firefly_target(PROBLEM),
            brightness.explicit(0.2, order, _n()),
        )
        for order in brightness.ORDERS
    },
}


@pytest.mark.parametrize("make", ARMS.values(), ids=ARMS)
def test_chain_has_the_exact_moments(make):
    target, sweep = make()
    draws = sample(target, _kernel(), sweep, [0.0, 0.0], N_ITERATIONS, seed=11)
    assert np.abs(z_scores(draws.theta, PROBLEM)).max() < LEVEL


def test_negative_control_inverted_brightness_fails():
    draws = sample(
        firefly_target(PROBLEM), _kernel(), inverted_implicit(0.2, _n()), [0.0, 0.0], N_ITERATIONS, seed=11
    )
    assert np.abs(z_scores(draws.theta, PROBLEM)).max() > 2 * LEVEL
