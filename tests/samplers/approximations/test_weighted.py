"""Exact weighted draws: unbiased weights, posterior moments from any approximation, costs, cuts."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t

from flyrun.experiments.gold import store
from flyrun.experiments.gold.reference import free
from flyrun.experiments.models import logistic
from flyrun.experiments.models.factors import Factors, Sites, unsited
from flyrun.experiments.models.problem import log_densities
from flyrun.experiments.samplers.approximations.remainders import Proposal, Remainders, best_rate, draw, room
from flyrun.ground.numerics.alias import alias_table
from tests.samplers.approximations.exact import WORDS, after, by_grid, method_of
from tests.samplers.approximations.test_stochastic import three_classes

N = 200_000


def _weights(rate, growth=0.0, share=None, theta=(0.7, -0.4)):
    """Signed weights of so many draws at one position, data drawn by `share` of what the weights think."""
    rows = np.array([[1.0, 0.5], [-0.3, 1.2], [0.8, -1.0]])
    model, features = logistic.bind(rows, np.array([1.0, -1.0, 1.0]))
    sites = Sites(np.array([[[0.2]], [[0.3]], [[0.1]]]), np.array([[0.4], [0.1], [-0.2]]))
    probability = np.array([0.5, 0.2, 0.3])
    table = alias_table(probability if share is None else np.array(share))
    factors = Factors(logistic, model)
    left = Remainders(*sites, np.array([-0.5, -0.9, -0.4]), probability, table, factors.basis)
    mean = np.array(theta)
    total = (unsited(factors, sites, features.rows @ mean[:, None]) - left.constant).sum()
    proposal, room_of_one = Proposal(mean, np.zeros((2, 2)), 0.0), room(2, 1, left.basis)
    at, log_weight, negative, queries = np.empty((N, 2)), np.empty(N), np.zeros(N, bool), np.empty(N)
    rng = np.random.default_rng(0)
    draw(left, proposal, model, features, room_of_one, rng, rate, growth, at, log_weight, negative, queries)
    return np.where(negative, -1, 1) * np.exp(log_weight), np.exp(total), queries


@pytest.mark.thorough
@pytest.mark.parametrize(("rate", "growth"), [(0.3, 0.0), (2.0, 0.0), (0.3, 2.0)])
def test_weights_have_the_densities_ratio_for_their_mean(rate, growth):
    weight, ratio, queries = _weights(rate, growth)
    assert abs(weight.mean() - ratio) / (weight.std() / np.sqrt(N)) < 4
    if not growth:
        assert abs(queries.mean() - rate) < 4 * np.sqrt(rate / N)


@pytest.mark.thorough
def test_queries_grow_as_the_power_of_the_squared_distance():
    queries = _weights(0.3, 1.0)[2]
    # |z|²/2 is exponential in two dimensions, and rate·max(1, |z|²/2) has this mean
    expected = 0.3 * (1 + np.exp(-1))
    assert abs(queries.mean() - expected) < 4 * queries.std() / np.sqrt(N)
    assert abs(queries.mean() - 0.3) > 6 * queries.std() / np.sqrt(N)


def test_negative_control_data_drawn_otherwise_than_weighed_give_another_mean():
    weight, ratio, _ = _weights(2.0, share=(0.2, 0.5, 0.3))
    assert abs(weight.mean() - ratio) / (weight.std() / np.sqrt(N)) > 6


def test_where_all_data_are_read_weights_are_exact():
    weight, ratio, queries = _weights(3.0)
    np.testing.assert_allclose(weight, ratio, rtol=1e-12)
    assert (queries == 3).all()


LAPLACE_PRIOR = [*WORDS[:-1], "prior=laplace", "prior.scale=0.5"]


def _missed(method, n=500):
    """Log weights less log posterior − log q, and the queries, of n draws."""
    state, told = method.advance(method.init(0), n)
    freedom = method.proposal.freedom
    shape = {"df": freedom, "shape": method.covariance} if freedom else {"cov": method.covariance}
    q = (multivariate_t if freedom else multivariate_normal)(method.mean, **shape)
    log_p = sum(log_densities(method.arm, method.problem, state["theta"]))
    return state["log_weight"] - (log_p - q.logpdf(state["theta"])), told["queries"]


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (WORDS, ()),
        (WORDS, ("sampler.freedom=8",)),
        (LAPLACE_PRIOR, ()),
        (LAPLACE_PRIOR, ("sampler.freedom=8",)),
    ],
    ids=["normal", "t", "laplace prior", "laplace prior, t"],
)
def test_a_sampler_that_reads_all_data_weighs_by_the_posteriors_density(tmp_path, words, more):
    missed, queries = _missed(
        method_of(tmp_path, "sampler=weighted", "sampler.queries=1e9", *more, words=words)
    )
    np.testing.assert_allclose(missed, 0, atol=1e-9)
    assert (queries == 60).all()
    few, queries = _missed(method_of(tmp_path, "sampler=weighted", *more, words=words))
    assert np.abs(few).max() > 0.1
    assert queries.mean() < 30


@pytest.mark.slow
def test_it_does_so_where_a_datum_sees_two_numbers(tmp_path):
    words = three_classes(tmp_path)
    missed, queries = _missed(method_of(tmp_path, "sampler=weighted", "sampler.queries=1e9", words=words))
    np.testing.assert_allclose(missed, 0, atol=1e-9)
    assert (queries == 90).all()


MORE = [
    (),
    ("sampler.approximation=laplace",),
    # its Gaussian is so narrow that one weight in 20,000 can be a quarter of all, and z-scores mean little
    ("sampler.approximation=jaakkola_jordan", "sampler.steps=30", "sampler.queries=20", "sampler.freedom=8"),
    ("sampler.freedom=8",),
    ("sampler.approximation=mean_field", "sampler.queries=20"),
    ("sampler.approximation=streaming_laplace", "sampler.queries=20"),
    ("sampler.approximation=pathfinder", "sampler.steps=30", "sampler.queries=40"),
]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "more", MORE, ids=["ep", "laplace", "jaakkola_jordan", "t", "mean_field", "streamed", "path"]
)
def test_moments_and_evidence_are_the_posteriors_whatever_it_draws_from(tmp_path, more):
    mean, covariance, log_z = by_grid(tmp_path)
    method = method_of(tmp_path, "sampler=weighted", *more)
    found = [method.estimates(method.advance(method.init(seed), 20_000)[0]) for seed in range(20)]
    for name, truth in (("mean", mean), ("square", mean**2 + np.diag(covariance)), ("log_evidence", log_z)):
        values = np.array([one[name] for one in found])
        z = (values.mean(axis=0) - truth) / (values.std(axis=0, ddof=1) / np.sqrt(20))
        assert np.abs(z).max() < 4, (name, z)


def test_negative_control_draws_without_their_weights_are_off(tmp_path):
    mean, covariance, _ = by_grid(tmp_path)
    method = method_of(tmp_path, "sampler=weighted", "sampler.approximation=laplace")
    theta = after(method, 20_000)["theta"]
    assert np.abs((theta.mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / 20_000)).max() > 6


def test_cuts_do_not_matter_and_set_up_is_counted(tmp_path):
    method = method_of(tmp_path, "sampler=weighted")
    whole, records = method.advance(method.init(3), 50)
    state, queries = method.init(3), []
    for n in (1, 19, 30):
        state, told = method.advance(state, n)
        queries += told["queries"].tolist()
    for key in whole:
        np.testing.assert_array_equal(state[key], whole[key])
    assert queries == records["queries"].tolist()
    # sites at the MAP, three passes of five nodes, and one for the remainders
    assert method.facts().setup_queries == method.problem.fit.queries + 60 * (1 + 3 * 5 + 5)
    assert method.facts().exact


def test_a_laplace_prior_comes_in_by_its_ratio(tmp_path):
    """From Laplace's Gaussian, which is off: EP's draws have the mean without any weights."""
    mean, covariance, log_z = by_grid(tmp_path, LAPLACE_PRIOR)
    more = ("sampler.approximation=laplace", "sampler.freedom=8")
    method = method_of(tmp_path, "sampler=weighted", *more, words=LAPLACE_PRIOR)
    state = method.advance(method.init(0), 200_000)[0]
    found, plain = method.estimates(state), state["theta"].mean(axis=0)
    weighted, unweighted = ((one - mean) / np.sqrt(np.diag(covariance)) for one in (found["mean"], plain))
    # four standard errors of 150,000 effective draws, and 0.001 of the grid at the prior's corners
    assert np.abs(weighted).max() < 0.012
    assert np.abs(unweighted).max() > 0.1  # negative control
    assert found["log_evidence"] == pytest.approx(log_z, abs=0.012)


MNIST = ["dataset=mnist_7v9", "model=logistic", "prior=gaussian", "prior.scale=1"]
QM9 = ["dataset=qm9_gap", "model=student_t", "model.scale=0.3", "prior=laplace", "prior.scale=0.03"]
CIFAR = ["dataset=cifar3", "model=softmax", "prior=gaussian", "prior.scale=0.07"]


def _beside_gold(tmp_path, words, name, approximation, n):
    """Errors of means in posterior sds, (D,), with weights and without, and the effective number."""
    gold = store.load(name)
    method = method_of(tmp_path, "sampler=weighted", f"sampler.approximation={approximation}", words=words)
    found = after(method, n)
    weight = found.get("sign", 1) * np.exp(found["log_weight"] - found["log_weight"].max())
    theta = free(found["theta"], gold.facts["n_predictors"])
    off, plain = (
        (mean - gold.mean) / gold.sd for mean in (weight / weight.sum() @ theta, theta.mean(axis=0))
    )
    return off, plain, weight.sum() ** 2 / (weight @ weight)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("words", "name", "approximation", "n"),
    [
        (MNIST, "mnist_7v9_sd1", "ep", 40_000),
        (MNIST, "mnist_7v9_sd1", "laplace", 40_000),
        pytest.param(QM9, "qm9_gap", "ep", 100_000, marks=pytest.mark.slow),  # half a minute
        pytest.param(CIFAR, "cifar3", "ep", 2_000, marks=pytest.mark.slow),
    ],
    ids=["mnist", "mnist, laplace", "qm9", "cifar"],
)
def test_errors_are_as_large_as_the_effective_number_says(tmp_path, words, name, approximation, n):
    off, plain, effective = _beside_gold(tmp_path, words, name, approximation, n)
    rms = np.sqrt(np.mean(off**2))
    assert 0.7 < rms * np.sqrt(effective) < 1.4, (rms, effective)
    if approximation == "laplace":
        assert rms < 0.02
        assert 0.16 < np.sqrt(np.mean(plain**2)) < 0.19


def test_the_rate_is_the_cheapest():
    for kappa in (0.05, 0.5, 4.0):
        rate = best_rate(kappa)
        prices = [(0.4 + one) * np.exp(kappa**2 / one) for one in rate * np.array([0.9, 1.0, 1.1])]
        assert min(prices) == prices[1]
