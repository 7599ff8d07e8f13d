"""Nonparametric variational inference and the mixture's stochastic one: slopes, fixed points, costs, cuts."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.problem import log_densities
from flyrun.experiments.samplers.method import prepare
from tests.samplers.particles.toys import same_bits

MIXTURE = ["dataset=mixture", "dataset.n_data=40", "model=mixture", "prior=gaussian"]
LOGISTIC = ["dataset=toy_2d", "dataset.n_data=40", "model=logistic", "prior=gaussian"]


def _log_q(centres, log_variance):
    """Σ_k log q_k."""
    variance = np.exp(log_variance)
    both = variance[:, None] + variance
    square = ((centres[:, None] - centres) ** 2).sum(axis=2)
    size = centres.shape[1]
    each = -0.5 * square / both - 0.5 * size * np.log(2 * np.pi * both)
    return (logsumexp(each, axis=1) - np.log(len(centres))).sum()


def _bound(method, centres, log_variance, traced):
    """K times the bound, the trace by differences of the log posterior."""
    arm, problem = method.arm, method.problem

    def at(theta):
        return sum(log_densities(arm, problem, theta))

    trace = np.zeros(len(centres))
    for d in range(centres.shape[1]):
        step = 1e-3 * (np.arange(centres.shape[1]) == d)
        trace += (at(centres + step) - 2 * at(centres) + at(centres - step)) / 1e-6
    total = at(centres).sum() - _log_q(centres, log_variance)
    return total + traced * 0.5 * (np.exp(log_variance) * trace).sum()


@pytest.mark.thorough
@pytest.mark.parametrize("words", [MIXTURE, LOGISTIC], ids=["mixture", "logistic"])
def test_the_slope_is_the_bounds(tmp_path, words):
    method = prepare(arm_of(words, ("sampler=npv", "sampler.components=4", "sampler.batch=40")), tmp_path)
    rng = np.random.default_rng(0)
    at = np.column_stack([rng.standard_normal((4, len(method.problem.coordinates))), rng.uniform(-3, -1, 4)])
    slope = method._gradient(at, np.arange(40))
    for k, d in np.ndindex(at.shape):
        last = d == at.shape[1] - 1
        step = 1e-4 * ((np.arange(4) == k)[:, None] & (np.arange(at.shape[1]) == d))
        ends = [
            _bound(method, (at + sign * step)[:, :-1], (at + sign * step)[:, -1], last) for sign in (1, -1)
        ]
        assert slope[k, d] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-3, abs=1e-3)


@pytest.mark.thorough
def test_the_authors_optimiser_climbs_to_where_the_slope_is_none(tmp_path):
    """Of the centres at their variances, and of these: L-BFGS on all rows; a step of Adam leaves slopes."""
    words = ("sampler=npv", "sampler.optimiser=lbfgs", "sampler.components=5", "sampler.batch=40")
    method = prepare(arm_of(MIXTURE, words), tmp_path)
    state, records = method.advance(method.init(0), 40)
    assert np.abs(method._gradient(state["at"], np.arange(40))).max() < 1e-3
    assert np.abs(method._gradient(method.init(0)["at"], np.arange(40))).max() > 1
    assert (records["queries"] == 5 * records["visits"]).all()
    assert (records["visits"] >= 2 * 40).all()
    same_bits(method, (1, 2))


def test_costs_and_cuts(tmp_path):
    npv = prepare(arm_of(MIXTURE, ("sampler=npv", "sampler.components=6", "sampler.batch=7")), tmp_path)
    _, records = npv.advance(npv.init(0), 7)
    assert records["visits"].tolist() == [6, 7, 7, 6, 7, 7, 6]
    assert records["queries"].tolist() == (6 * records["visits"]).tolist()
    same_bits(npv, (1, 4, 3))
    svi = prepare(arm_of(MIXTURE, ("sampler=mixture_svi", "sampler.batch=7")), tmp_path)
    _, records = svi.advance(svi.init(0), 7)
    assert records["queries"].tolist() == [6, 7, 7, 6, 7, 7, 6]
    same_bits(svi, (1, 4, 3))


def test_one_round_gaussian_finds_a_mode(tmp_path):
    words = ("sampler=npv", "sampler.components=1", "sampler.batch=40", "sampler.rate=0.05")
    method = prepare(arm_of(LOGISTIC, words), tmp_path)
    state, _ = method.advance(method.init(0), 800)
    slope = method._gradient(state["at"], np.arange(40))
    assert np.abs(slope).max() < 1e-2
    found, exact = method.estimates(state), method.result(state)
    np.testing.assert_allclose(found["mean"], exact["centres"][0])
    np.testing.assert_allclose(found["square"] - found["mean"] ** 2, exact["variances"][0])


@pytest.mark.thorough
def test_svi_on_all_rows_is_the_coordinate_ascent(tmp_path):
    """At ρ = 1 a step is the update of variational Bayes, whose fixed point has E log as it should be."""
    words = ("sampler=mixture_svi", "sampler.batch=40", "sampler.decay=0.51")
    method = prepare(arm_of(MIXTURE, words), tmp_path)
    state, _ = method.advance(method.init(0), 3000)
    found = method.result(state)
    mean, covariance, x = found["mean"], found["covariance"], method.problem.model.target
    gain = (x - mean[0]) ** 2 + covariance[0, 0] - (x - mean.sum()) ** 2 - covariance.sum()
    share = expit(gain / 12.5)
    precision = np.eye(2) + np.array([[40, share.sum()], [share.sum(), share.sum()]]) / 6.25
    np.testing.assert_allclose(np.linalg.inv(covariance), precision, rtol=1e-3)
    np.testing.assert_allclose(precision @ mean, [x.sum() / 6.25, share @ x / 6.25], rtol=1e-2, atol=1e-2)


def test_they_are_approximations(tmp_path):
    for sampler in ("npv", "mixture_svi"):
        method = prepare(arm_of(MIXTURE, (f"sampler={sampler}",)), tmp_path)
        assert method.facts().exact is False
        assert method.estimates(method.init(0))["density"].shape[0] == 3
