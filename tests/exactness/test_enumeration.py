"""Three data, a grid of θ, every z: the joint and the brightness kernels, exactly (no Monte Carlo error)."""

import itertools

import numpy as np
import pytest

from flyrun.experiments.models import gaussian_prior, logistic
from flyrun.experiments.models.base_density import dense
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.samplers.chain.brightness.base import resample
from flyrun.experiments.samplers.chain.brightness.explicit import ORDERS, _next_datum, explicit
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.brightness.partition import is_bright
from flyrun.experiments.samplers.chain.brightness.per_datum import per_datum
from flyrun.experiments.samplers.chain.targets.firefly import TIGHT, brighten, firefly, query
from flyrun.experiments.samplers.chain.targets.full_data import full_data
from flyrun.experiments.samplers.chain.targets.target import kept_log_data, log_data
from tests.densities import log_density
from tests.exactness import broken
from tests.exactness.broken import InvertedImplicit, inverted_implicit
from tests.exactness.enumeration import interpreted, outcomes, with_room_for_symbols

X = np.array([[1.0, 0.5], [-0.3, 1.2], [0.8, -1.1]])
T = np.array([1.0, -1.0, 1.0])
ROWS = logistic.bind(X, T)[1]
PRIOR = gaussian_prior.prior(2.0)
GRID = [np.array(pair) for pair in itertools.product((-2.0, 0.1, 1.3), repeat=2)]
ALL_Z = list(itertools.product((False, True), repeat=3))
BOUNDS = {
    "untuned": logistic.tight_at(np.full(3, 1.5)),
    "map": logistic.tight_at(ROWS.rows @ np.array([0.4, -0.2])),
    "zero": logistic.tight_at(np.zeros(3)),
}
BASES = {
    id(bound): gaussian_prior.pseudo_prior(PRIOR, collapse(bound, logistic.Logistic(), ROWS))
    for bound in BOUNDS.values()
}


def _target(bound, theta=None, z=()):
    """A Firefly target at θ with brightness z; the values of bright data are queried as a chain would."""
    target = firefly(BASES[id(bound)], logistic.Logistic(), bound, ROWS, gradients=False)
    for n in np.flatnonzero(z):
        query(target, np.array([n]), theta)
        brighten(target, n, 0)
    return target


def _log_joint(bound, theta, z):
    target = _target(bound, theta, z)
    return log_density_of(target, theta) + kept_log_data(target, None)


def log_density_of(target, theta):
    base = dense(target.base)
    return -0.5 * theta @ base.precision @ theta + base.linear @ theta + base.constant[0]


@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)
def test_the_joint_summed_over_brightness_is_the_posterior(bound):
    full = full_data(PRIOR, logistic.Logistic(), ROWS, 2)
    for theta in GRID:
        expected = log_density(full, theta)[0]
        summed = np.logaddexp.reduce([_log_joint(bound, theta, z) for z in ALL_Z])
        assert summed == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)
def test_the_data_part_at_a_proposal_is_what_is_kept_there(bound):
    for theta, z in itertools.product(GRID, ALL_Z):
        target = _target(bound, theta, z)
        assert log_data(target, theta, None) == pytest.approx(kept_log_data(target, None), abs=1e-14)


def _kernel_matrix(bound, theta, make, monkeypatch):
    """Transition matrix of a brightness sweep over the 8 states of z, and its stationary distribution π."""
    # a helper that draws must run as plain Python here; all else runs compiled
    monkeypatch.setattr(
        "flyrun.experiments.samplers.chain.brightness.explicit._next_datum", interpreted(_next_datum)
    )
    pi = np.exp([_log_joint(bound, theta, z) for z in ALL_Z])
    matrix = np.zeros((8, 8))
    for row, z in enumerate(ALL_Z):

        def sweep(rng, z=z):
            target, kernel = _target(bound, theta, z), with_room_for_symbols(make())
            resample.methods[type(kernel)](kernel, rng, target, theta)
            return tuple(bool(is_bright(target.memory.partition, n)) for n in range(3))

        for probability, after in outcomes(sweep, most=4):
            matrix[row, ALL_Z.index(after)] += probability
    return matrix, pi / pi.sum()


RATES = np.array([0.9, 0.3, 0.07])  # three bins, one rate each, none a power of two
KERNELS = {
    "per datum": lambda: per_datum(RATES),
    "per datum, one bin": lambda: per_datum(np.array([0.5, 0.3, 0.26])),
    **{f"implicit q={q}": (lambda q=q: implicit(q, 3)) for q in (0.05, 0.5, 1.0)},
    **{f"implicit darken={r}": (lambda r=r: implicit(0.2, 3, r)) for r in (0.2, 0.7)},
    **{
        f"explicit {order} {share}": (lambda order=order, share=share: explicit(share, order, 3))
        for order in ORDERS
        for share in (0.5, 1.0)
    },
}


@pytest.mark.thorough(but="turn 0")
@pytest.mark.parametrize("turn", range(3), ids="turn {}".format)
@pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
def test_brightness_kernels_leave_their_conditional_invariant(make, turn, monkeypatch):
    """In each turn every bound meets one of three positions, in the three all of them."""
    places = np.roll([0, 4, 7], turn)
    for bound, place in zip(BOUNDS.values(), places, strict=True):
        matrix, pi = _kernel_matrix(bound, GRID[place], make, monkeypatch)
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-14)
        np.testing.assert_allclose(pi @ matrix, pi, atol=1e-15)


def test_negative_control_the_printed_inequality_is_not_invariant(monkeypatch):
    monkeypatch.setattr("tests.exactness.broken.log_uniform_below", interpreted(broken.log_uniform_below))
    assert InvertedImplicit in resample.methods
    matrix, pi = _kernel_matrix(BOUNDS["map"], GRID[0], lambda: inverted_implicit(0.5, 3), monkeypatch)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-14)
    assert np.abs(pi @ matrix - pi).max() > 0.01


def test_negative_control_a_reluctance_of_one_side_alone_is_not_invariant(monkeypatch):
    monkeypatch.setattr(
        "flyrun.experiments.samplers.chain.brightness.base.reluctance", lambda brightness: 0.0
    )
    matrix, pi = _kernel_matrix(BOUNDS["map"], GRID[0], lambda: implicit(0.2, 3, 0.3), monkeypatch)
    assert np.abs(pi @ matrix - pi).max() > 1e-3


def test_a_datum_at_its_tight_point_is_never_lit():
    theta = np.array([0.4, -0.2])
    target = _target(BOUNDS["map"])
    query(target, np.arange(3), theta)
    assert np.all(target.memory.proposed_values[:3] < -30.0)
    assert np.all(target.memory.proposed_values[:3] >= np.log(TIGHT))
