"""Zig-Zag against quadrature and closed forms; what it looks at; that cuts do not matter; faults."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models import gaussian_prior
from flyrun.experiments.samplers.method import prepare
from flyrun.experiments.samplers.subsampling import zigzag
from flyrun.ground.errors import ConfigError, DensityError
from tests.exactness.chains import toy, z_scores
from tests.exactness.expansions import expansion
from tests.exactness.test_moments import LEVEL

PROBLEM, SLICES, LENGTH = toy(), 100_000, 0.5
TOY = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic", "prior=gaussian"]


def _process(order, local=True):
    made, roots = expansion(PROBLEM, order)
    setup = SimpleNamespace(
        surrogate=lambda order: made, module=PROBLEM.likelihood, roots_of_leverages=roots, queries=0
    )
    problem = SimpleNamespace(
        model=PROBLEM.model,
        features=PROBLEM.features,
        prior=PROBLEM.prior,
        fit=SimpleNamespace(theta_map=made.mean),
    )
    return zigzag.process_of(
        SimpleNamespace(
            model=SimpleNamespace(auxiliary=False),
            prior=SimpleNamespace(code=gaussian_prior),
            dataset=SimpleNamespace(shard=None),
        ),
        problem,
        setup,
        order,
        local,
    )


def _run(process, n=SLICES, seed=3):
    rng, phi, v = np.random.default_rng(seed), np.array([0.3, -0.2]), np.array([1.0, -1.0])
    theta, queries = np.empty((n, 2)), np.empty(n, np.int64)
    zigzag._run(process, rng, phi, v, LENGTH, 0, 1, theta, queries)
    assert np.all(np.abs(v) == 1.0)
    return theta, queries


@pytest.mark.thorough
@pytest.mark.parametrize(("order", "local"), [(1, False), (1, True), (2, True), (2, False)])
def test_moments_are_the_posteriors_and_looks_as_the_bounds_say(order, local):
    process = _process(order, local)
    theta, queries = _run(process)
    assert np.abs(z_scores(theta, PROBLEM)).max() < LEVEL
    length = np.sqrt((((theta - process.mean) @ np.linalg.inv(process.colour).T) ** 2).sum(axis=1))
    expected = process.total * LENGTH * np.mean(length**order)
    # looks by the bound along the path; for order 1 it grows from one event to the next
    assert queries.mean() == pytest.approx(expected, rel=0.02 if order == 2 else 0.25)


@pytest.mark.parametrize("order", [1, 2])
def test_negative_control_without_the_datas_clock_it_is_another_posterior(order):
    process = _process(order)
    theta, queries = _run(process._replace(total=1e-9))
    assert np.abs(z_scores(theta, PROBLEM)).max() > 2 * LEVEL
    assert queries.sum() == 0


def test_a_slope_beyond_its_bound_is_an_error():
    process = _process(2)
    with pytest.raises(DensityError, match="exceeds its bound"):
        _run(process._replace(bounds=0.1 * process.bounds), 5000)


@pytest.mark.thorough(but=15)
@pytest.mark.parametrize("a", [-2.0, -0.3, 0.0, 0.7, 3.0])
@pytest.mark.parametrize("b", [-0.5, 0.0, 1.0, 2.5])
@pytest.mark.parametrize("ring", [1e-9, 0.2, 4.0])
def test_clocks_ring_when_the_integral_of_their_rate_says(a, b, ring):
    wait = zigzag._time_to_ring(a, b, ring)
    far = 50.0 if np.isinf(wait) else wait
    times = np.linspace(0.0, far, 200_001)
    rate = np.maximum(a + b * times, 0.0)
    integral = np.sum(0.5 * (rate[1:] + rate[:-1])) * (times[1] - times[0])
    if np.isinf(wait):
        assert integral <= ring
    else:
        # the grid sees little of a rate that is 0 until just before
        assert integral == pytest.approx(ring, rel=1e-4 if ring > 0.1 else 0.03)


@pytest.mark.parametrize("towards", [-3.9, 0.0, 2.0])
@pytest.mark.parametrize("ring", [1e-8, 0.3, 50.0])
def test_the_datas_clock_rings_when_the_cubic_says(towards, ring):
    square, size = 4.0, 4.0
    t = zigzag._time_to_look(2, square, towards, size, ring)
    assert square * t + towards * t * t + size * t**3 / 3.0 == pytest.approx(ring, rel=1e-9)


def test_cuts_do_not_matter_and_set_up_is_counted(tmp_path):
    words = ("sampler=zigzag", "protocol.init=map", "protocol.thin=2")
    method = prepare(arm_of(TOY, words), tmp_path)
    whole, records = method.advance(method.init(3), 60)
    state, draws = method.init(3), []
    for n in (1, 29, 30):
        state, part = method.advance(state, n)
        draws.append(part["theta"])
    for name in whole:
        np.testing.assert_array_equal(state[name], whole[name])
    np.testing.assert_array_equal(np.concatenate(draws), records["theta"])
    assert len(records["theta"]) == 30
    facts = method.facts(state)
    assert facts.exact
    assert facts.more["candidates"] == records["queries"].sum()
    assert facts.setup_queries == method.problem.fit.queries + 2 * 60  # curvature; predictors and slopes


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("protocol.init=prior",), "choose protocol.init=map"),
        (("prior=laplace", "protocol.init=map"), "choose prior=gaussian"),
        (("model=softmax", "protocol.init=map"), "choose model=logistic, model=probit or model=student_t"),
    ],
)
def test_what_it_does_not_serve_is_said_in_one_line(words, match):
    with pytest.raises(ConfigError, match=match):
        arm_of(TOY, ("sampler=zigzag", *words))
