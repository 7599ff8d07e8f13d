"""Certificates: what they say of approximations is what all data say, at a cost that does not grow."""

import numpy as np
import pytest

from flyrun.models.factors import Gaussian
from flyrun.models.problem import log_densities
from flyrun.samplers.approximations import certificate
from flyrun.samplers.approximations.certificate import certify, stand_at
from tests.samplers.approximations.exact import WORDS, method_of

TALLER = [*WORDS, "dataset.n_data=600"]
NAMES = {"laplace": 1, "ep": 4, "mean_field": 8, "jaakkola_jordan": 40, "streaming_laplace": 1}


def _variance(method, found):
    """Of log weights, by all data."""
    rng = np.random.default_rng(5)
    theta = rng.multivariate_normal(found["mean"], found["covariance"], 20_000)
    away = theta - found["mean"]
    log_q = -0.5 * np.einsum("np,np->n", away, np.linalg.solve(found["covariance"], away.T).T)
    return np.var(sum(log_densities(method.arm, method.problem, theta)) - log_q)


@pytest.mark.parametrize("name", NAMES)
def test_the_variance_is_that_of_all_data(tmp_path, name):
    method = method_of(tmp_path, f"sampler={name}", words=TALLER)
    state = method.advance(method.init(0), NAMES[name])[0]
    told, truth = method.facts(state).more, _variance(method, method.result(state))
    error = np.hypot(told["certificate_error"], 0.1 * truth)  # heavy tails: 1,000 draws see part of them
    assert abs(told["certificate_variance"] - truth) < 4 * error
    if told["certificate_variance"] < 0.5:
        assert told["certificate_kl"] == max(told["certificate_variance"], 0) / 2
    else:
        assert "certificate_kl" not in told


def test_its_queries_do_not_grow_with_the_data(tmp_path):
    spent = []
    for n in (600, 3_000):
        method = method_of(tmp_path, "sampler=ep", words=[*WORDS, f"dataset.n_data={n}"])
        state = method.advance(method.init(0), 3)[0]
        spent.append(method.facts(state).more["certificate_queries"])
    assert spent[0] == spent[1]


def test_a_bad_approximation_is_told_by_k_hat(tmp_path):
    method = method_of(tmp_path, "sampler=laplace", words=TALLER)
    state = method.advance(method.init(0), 1)[0]
    found = method.result(state)
    narrow = Gaussian(found["mean"], 0.3 * found["covariance"])
    bad = certify(method.arm, method.problem, narrow, stand_at(method.arm, method.problem, narrow))
    assert bad.k_hat > 0.7
    assert method.facts(state).more["certificate_k_hat"] < 0.7


def test_negative_control_one_sum_taken_twice_overstates(tmp_path, monkeypatch):
    """Its noise counts as variance."""
    method = method_of(tmp_path, "sampler=ep", words=TALLER)
    state = method.advance(method.init(0), 4)[0]
    monkeypatch.setattr(certificate, "FIRST", 1)
    monkeypatch.setattr(certificate, "LAST", 1)
    fair = method.facts(state).more["certificate_variance"]
    sums, kept = certificate._sums, []

    def same(*args):
        kept.append(sums(*args))
        return kept[0]

    monkeypatch.setattr(certificate, "_sums", same)
    assert method.facts(state).more["certificate_variance"] > 4 * fair
    assert fair < 0.05
