"""Laplace's approximation and importance sampling: what they answer, what it costs, and that cuts do not
matter.
"""

import numpy as np
import pytest
from scipy import stats

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.approximations.importance import Proposal
from flyrun.experiments.samplers.method import prepare

WORDS = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic", "prior=gaussian"]


def _method(tmp_path, *more):
    return prepare(arm_of(WORDS, more), tmp_path)


@pytest.mark.parametrize("more", [("sampler=importance",), ("sampler=importance", "sampler.freedom=null")])
def test_cuts_do_not_matter(tmp_path, more):
    method = _method(tmp_path, *more)
    whole, _ = method.advance(method.init(3), 50)
    state = method.init(3)
    for n in (1, 19, 30):
        state, records = method.advance(state, n)
        assert records["queries"].tolist() == [60.0] * n
    for name in whole:
        np.testing.assert_array_equal(state[name], whole[name])


def test_seeds_differ_and_methods_have_luck_of_their_own(tmp_path):
    method = _method(tmp_path, "sampler=importance")
    other = _method(tmp_path, "sampler=importance", "sampler.approximation=ep")
    pairs = ((method, 0), (method, 1), (other, 0))
    first = [one.advance(one.init(seed), 1)[0]["theta"] for one, seed in pairs]
    assert len({theta.tobytes() for theta in first}) == 3


@pytest.mark.parametrize("freedom", [None, 5.0])
def test_a_proposal_draws_from_its_density(tmp_path, freedom):
    q = _method(tmp_path, "sampler=importance").q
    proposal = Proposal(q, freedom)
    theta = proposal.draw(np.random.default_rng(0), 4_000)
    law = stats.multivariate_normal(*q)
    if freedom is not None:
        law = stats.multivariate_t(*q, freedom)
    np.testing.assert_allclose(proposal.log_density(theta), law.logpdf(theta), rtol=1e-9)
    z = (theta - q.mean) / np.sqrt(np.diag(q.covariance))
    one = stats.norm() if freedom is None else stats.t(freedom)
    assert min(stats.kstest(column, one.cdf).pvalue for column in z.T) > 1e-3
    assert min(stats.kstest(1.1 * column, one.cdf).pvalue for column in z.T) < 1e-3


@pytest.mark.thorough
def test_importance_sampling_has_the_posteriors_moments_and_laplace_has_not(tmp_path):
    weighted = _method(tmp_path, "sampler=importance", "sampler.approximation=kl_gaussian")
    found = weighted.estimates(weighted.advance(weighted.init(0), 6_000)[0])
    again = weighted.estimates(weighted.advance(weighted.init(1), 6_000)[0])
    sd = np.sqrt(found["square"] - found["mean"] ** 2)
    assert np.abs((found["mean"] - again["mean"]) / sd).max() < 4 * np.sqrt(2 / 6_000 / 0.5)
    laplace = _method(tmp_path, "sampler=laplace").estimates({})
    assert np.abs((laplace["mean"] - found["mean"]) / sd).max() > 0.1
    facts = _method(tmp_path, "sampler=laplace").facts()
    assert facts.exact is False
    assert facts.setup_queries == facts.more["map_queries"] + 60
