"""Tests that read batches: how often they stop and err, beside broken ones; the posterior where exact.

On numbers taken for normal: log likelihoods are quadratics, and everything about them is known.
"""

import copy
from types import SimpleNamespace
from typing import NamedTuple, get_args, get_type_hints

import numpy as np
import pytest

from flyrun.experiments.config.acceptance import Confidence
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models import gaussian_prior, normal
from flyrun.experiments.models.ranges import range_width
from flyrun.experiments.models.taylor import subtract_expansion
from flyrun.experiments.samplers.chain import random_walk
from flyrun.experiments.samplers.chain.acceptance.austerity import austerity
from flyrun.experiments.samplers.chain.acceptance.confidence import confidence
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.acceptance.sequential import margin
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.targets.proxies import proxies_of
from flyrun.experiments.samplers.chain.targets.subset import read, subset
from flyrun.experiments.samplers.chain.targets.target import keep
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.numerics.compiled import copy_into, implements
from tests.exactness.chains import begin, sample
from tests.models.calls import log_likelihood

PRIOR = gaussian_prior.prior(10.0)
LEVEL = 4.5


def _problem(numbers):
    """Model and features of numbers, and a setup of their surrogate at the mode under a flat prior."""
    model, features = normal.bind(np.ones((len(numbers), 1)), numbers)
    mode = np.array([numbers.mean(), np.log(numbers.std())])
    eta = np.tile(mode, (len(numbers), 1))
    look = SimpleNamespace(curvature=normal.curvature(model, eta).sum(axis=0))

    def made(order):
        from flyrun.experiments.samplers.chain.surrogate import taylor  # late: beside its one use

        lower = np.linalg.cholesky(look.curvature)
        return taylor.surrogate(order, mode, lower, np.zeros(2), look.curvature, eta)

    problem = SimpleNamespace(model=model, features=features)
    setup = SimpleNamespace(surrogate=made, problem=problem, module=normal, n_params=2)
    return model, features, mode, setup


def _target(numbers, order):
    model, features, mode, setup = _problem(numbers)
    return subset(PRIOR, model, features, 2, proxies_of(setup, order)), mode


def _values(model, theta):
    n = len(model.target)
    values = np.zeros(n)
    log_likelihood(model, np.arange(n), np.tile(theta, (n, 1)), values, None)
    return values


class Trial(NamedTuple):
    """What a test did with a move."""

    accepted: bool
    n_read: int


def _trial(rule, target, rng, theta, proposal, truth):
    """Where the sum of all differences is above `truth`, the move is to be accepted: ψ = truth/N."""
    u = copy.deepcopy(rng).random()  # what the rule is about to draw
    at = theta.copy()
    decide(rule, rng, target, at, proposal, np.log(u) - truth)
    moved = bool((at != theta).any())
    if moved:
        begin(target, np.random.default_rng(0), theta)
    return Trial(moved, int(target.memory.read[0]))


def _trials(rule, numbers, gap, n, move=(0.02, 0.0)):
    target, mode = _target(numbers, 0)
    truth = (_values(target.model, mode + move) - _values(target.model, mode)).sum() - gap * len(numbers)
    rng, theta = np.random.default_rng(1), mode.copy()
    begin(target, np.random.default_rng(0), theta)
    return [_trial(rule, target, rng, theta, theta + move, truth) for _ in range(n)]


TRIALS = 600
NUMBERS = np.random.default_rng(4).standard_normal(100)


def _stopped(rule, batch):
    """Share of tests that stop at the first batch where ψ = Λ: twice the level that each side has."""
    return np.mean([trial.n_read == batch for trial in _trials(rule, NUMBERS, 0.0, TRIALS)])


@pytest.mark.thorough
def test_a_t_test_stops_as_often_as_its_level_says_and_broken_ones_do_not():
    for batch, epsilon in ((80, 0.1), (5, 0.01)):
        rule = austerity(100, batch, epsilon)
        share, error = _stopped(rule, batch), np.sqrt(2 * epsilon / TRIALS)
        assert abs(share - 2 * epsilon) < 4 * error, (batch, share)
    # without the finite population's correction: hardly ever, so that it reads on
    rule = austerity(100, 80, 0.1)
    uncorrected = rule._replace(by_sd=rule.by_sd / np.sqrt(20 / 99))
    assert _stopped(uncorrected, 80) < 0.2 - 4 * np.sqrt(0.2 / TRIALS)
    # a normal quantile for Student's: too often
    rule = austerity(100, 5, 0.01)
    by_z = rule._replace(by_sd=rule.by_sd * 2.3263 / 3.7469)
    assert _stopped(by_z, 5) > 0.02 + 4 * np.sqrt(0.02 / TRIALS)


TWO_POINTS = np.repeat([-1.0, 1.0], 500)  # where the Hoeffding bounds are nearly tight


def _wrong(rule, numbers):
    """Share of decisions that are wrong where Λ and ψ are as good as the same."""
    trials = _trials(rule, numbers, 1e-9, 300)
    return np.mean([not trial.accepted for trial in trials]), np.mean([trial.n_read for trial in trials])


@pytest.mark.thorough
@pytest.mark.parametrize("bound", get_args(get_type_hints(Confidence)["bound"]))
def test_a_bound_errs_no_more_often_than_it_says(bound):
    wrong, n_read = _wrong(confidence(1_000, 50, 2.0, 0.1, bound), TWO_POINTS)
    assert wrong <= 0.1
    assert n_read > 500


@pytest.mark.thorough
def test_algorithm_7_reads_batches_of_one_size_at_levels_that_fall_with_the_data():
    rule, tighter = (
        confidence(1_000, 50, 1.0, 0.1, by, 3.0, True) for by in ("serfling", "hoeffding_serfling")
    )
    assert rule.sizes.tolist() == list(range(50, 1_001, 50))
    m = rule.sizes.astype(float)
    levels = 2.0 / (3.0 * m**3.0) * 0.1
    assert levels.sum() < 0.1
    printed = np.sqrt(2.0 / m * (1.0 - (m - 1.0) / 1_000) * np.log(2.0 / levels))  # of C, half the range
    np.testing.assert_allclose(2.0 * rule.by_range, printed, rtol=1e-12)
    np.testing.assert_array_equal(rule.by_range[m <= 500], tighter.by_range[m <= 500])
    assert (rule.by_range > tighter.by_range)[m > 500].all()  # what is tighter is not as printed
    wrong, n_read = _wrong(rule, TWO_POINTS)
    assert wrong <= 0.1
    assert n_read > 500


def test_negative_control_half_the_range_errs_more_often():
    rule = confidence(1_000, 50, 2.0, 0.1, "hoeffding_serfling")
    wrong, _ = _wrong(rule._replace(by_range=0.5 * rule.by_range), TWO_POINTS)
    assert wrong > 0.1 + 4 * np.sqrt(0.1 * 0.9 / 300)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_range_is_what_numbers_taken_for_normal_can_differ_by(order):
    numbers = np.linspace(-3.0, 4.0, 2_001)  # so fine that a vertex lies at one of them, nearly
    model, _, mode, setup = _problem(numbers)
    ranges, rng = proxies_of(setup, order).ranges, np.random.default_rng(2)
    for scale in (1e-3, 0.1, 0.5):
        theta, proposal = mode + scale * rng.standard_normal((2, 2))
        left = []
        for at in (theta, proposal):
            values, eta = _values(model, at), np.tile(at, (len(numbers), 1))
            subtract_expansion(
                model, np.arange(len(numbers)), np.tile(mode, (len(numbers), 1)), eta, order, values
            )
            left.append(values)
        span = np.ptp(left[1] - left[0])
        width = range_width(ranges, theta, proposal, np.zeros(2), np.zeros(2))
        assert span <= width * (1 + 1e-7) + 1e-14
        assert width <= span * (1 + 1e-5) + 1e-14


def test_the_range_by_leverages_holds_all_differences(tmp_path):
    words = ["dataset=toy_2d", "dataset.n_data=200", "model=logistic", "prior=gaussian"]
    chain = prepare(arm_of(words, ("sampler=random_walk", "bound=none", "acceptance=confidence")), tmp_path)
    proxies, fit = chain._target.proxies, chain.problem.fit
    rows, rng = chain.problem.features.rows, np.random.default_rng(3)
    for scale in (0.01, 1.0, 5.0):
        theta, proposal = fit.theta_map + scale * rng.standard_normal((2, 3))
        phi = [proxies.surrogate.whiten @ (at - fit.theta_map) for at in (theta, proposal)]
        width = range_width(proxies.ranges, theta, proposal, *phi)
        values = -np.logaddexp(0.0, -rows @ np.stack([theta, proposal], axis=1))
        assert np.ptp(values[:, 1] - values[:, 0]) <= width


def _posterior(numbers):
    """Mean and sd of μ and τ by quadrature, prior N(0, 10²) each."""
    centre, n = np.array([numbers.mean(), np.log(numbers.std())]), len(numbers)
    reach = 9.0 / np.sqrt(n) * np.array([numbers.std(), 1.0])
    mu, tau = np.meshgrid(*(c + r * np.linspace(-1, 1, 401) for c, r in zip(centre, reach, strict=True)))
    squares = ((numbers - numbers.mean()) ** 2).sum() + n * (numbers.mean() - mu) ** 2
    log_p = -n * tau - 0.5 * squares * np.exp(-2 * tau) - (mu**2 + tau**2) / 200
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = np.array([(p * mu).sum(), (p * tau).sum()])
    return mean, np.sqrt([(p * (mu - mean[0]) ** 2).sum(), (p * (tau - mean[1]) ** 2).sum()])


def _scores(theta, numbers):
    """(mean − exact)/standard error of means and squares, by 100 batches."""
    mean, sd = _posterior(numbers)
    scores = []
    for values, exact in ((theta, mean), (theta**2, mean**2 + sd**2)):
        batches = values.reshape(100, -1, 2).mean(axis=1)
        scores.append((batches.mean(axis=0) - exact) / (batches.std(axis=0, ddof=1) / 10))
    return np.concatenate(scores)


FORTY = np.random.default_rng(7).standard_normal(40)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rule", "order", "holds"),
    [
        (austerity(40, 10, 0.0), 0, True),
        (austerity(40, 10, 0.0), 2, True),
        (confidence(40, 10, 2.0, 0.0, "bernstein_serfling"), 1, True),
        (austerity(40, 10, 0.2), 0, False),  # biased: the same test sees it
    ],
    ids=["austerity", "austerity with proxies", "confidence with proxies", "level 0.2"],
)
def test_a_chain_that_never_stops_early_has_the_posterior(rule, order, holds):
    target, mode = _target(FORTY, order)
    kernel = random_walk.build(SimpleNamespace(target_accept=0.35, step=0.3), 2)._replace(rule=rule)
    draws = sample(target, kernel, NoBrightness(), mode, 60_000, seed=11)
    score = np.abs(_scores(draws.theta, FORTY)).max()
    assert score < LEVEL if holds else score > 2 * LEVEL


class Printed(NamedTuple):
    """Algorithm 6 as printed: it stops where ρ > ε, that is where it is least sure."""

    rule: object


@implements(decide, Printed)
def _printed(rule, rng, target, theta, proposal, log_ratio):
    stages, n_data = rule.rule, len(target.proposed)
    level, count, differences = (np.log(rng.random()) - log_ratio) / n_data, 0, np.empty(n_data)
    for stage, size in enumerate(stages.sizes):
        read(target, rng, count, int(size), theta, proposal)
        differences[count:size] = target.differences[: int(size) - count]
        count = int(size)
        mean, sd = differences[:count].mean(), differences[:count].std(ddof=1)
        if abs(mean - level) < margin(stages, stage, sd, np.inf) or count == n_data:
            break
    if mean > level:
        copy_into(theta, proposal)
        keep(target)
    return float(mean > level)


def _spread(rule, numbers, n=2_500):
    """Sds of a random walk by the posterior's."""
    target, mode = _target(numbers, 0)
    rng, theta = np.random.default_rng(5), mode.copy()
    sd = np.sqrt([numbers.var(), 0.5]) / np.sqrt(len(numbers))
    begin(target, np.random.default_rng(0), theta)
    draws = np.empty((n, 2))
    for i in range(n):
        decide(rule, rng, target, theta, theta + 1.68 * sd * rng.standard_normal(2), 0.0)
        draws[i] = theta
    return draws[n // 10 :].std(axis=0) / sd


def test_negative_control_algorithm_6_as_printed_is_far_wider():
    numbers = np.random.default_rng(6).standard_normal(500)
    rule = austerity(500, 50, 0.05)
    mended, printed = _spread(rule, numbers), _spread(Printed(rule), numbers)
    assert mended.max() < 1.6
    assert printed.min() > 1.8


def _share_read(rule, numbers, away, n=40):
    """Of the data, by a walk's first steps so many posterior sds off in both coordinates."""
    target, mode = _target(numbers, 0)
    rng, sd = np.random.default_rng(6), np.sqrt([numbers.var(), 0.5]) / np.sqrt(len(numbers))
    share = []
    for _ in range(n):
        theta = mode + away * sd
        begin(target, np.random.default_rng(0), theta)
        decide(rule, rng, target, theta, theta + 1.68 * sd * rng.standard_normal(2), 0.0)
        share.append(target.memory.read[0] / len(numbers))
    return np.mean(share)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["austerity", "empirical_bernstein"])
def test_fewer_data_are_read_far_from_the_mode(name):
    """The survey's section 3.6."""
    numbers = np.random.default_rng(0).standard_normal(20_000)
    rule = austerity(20_000, 500, 0.05) if name == "austerity" else confidence(20_000, 20, 2.0, 0.01, name)
    assert _share_read(rule, numbers, 0) > 1.5 * _share_read(rule, numbers, 30)
