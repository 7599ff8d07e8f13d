"""Certificates: what they say of approximations is what all data say, at a cost that does not grow."""

import numpy as np
import pytest

from flyrun.experiments.models.factors import Gaussian
from flyrun.experiments.models.problem import log_densities
from flyrun.experiments.samplers.approximations import certificate
from flyrun.experiments.samplers.approximations.certificate import certify, stand_at
from flyrun.ground.numerics.state import seeded
from tests.samplers.approximations.exact import WORDS, method_of
from tests.samplers.approximations.test_stochastic import three_classes

TALLER = [*WORDS, "dataset.n_data=300"]
LASSO = [*TALLER[:-2], "prior=laplace", "prior.scale=0.5", TALLER[-1]]
WIDE = [*WORDS[:1], "dataset.n_data=60", "dataset.separation=4", *WORDS[3:], "prior.scale=10"]
NAMES = {"laplace": 1, "ep": 4, "mean_field": 8, "jaakkola_jordan": 40, "streaming_laplace": 1}
SEEDS = 30


def _variance(method, found):
    """Of log weights, by all data, and its standard error by batches."""
    rng, batches = np.random.default_rng(5), []
    for _ in range(10):
        theta = rng.multivariate_normal(found["mean"], found["covariance"], 10_000)
        away = theta - found["mean"]
        log_q = -0.5 * np.einsum("np,np->n", away, np.linalg.solve(found["covariance"], away.T).T)
        batches.append(np.var(sum(log_densities(method.arm, method.problem, theta)) - log_q))
    return np.mean(batches), np.std(batches, ddof=1) / np.sqrt(10)


def _made(tmp_path, name, steps, words=TALLER):
    method = method_of(tmp_path, f"sampler={name}", words=words)
    return method, method.advance(method.init(0), steps)[0]


def _certificates(method, state, monkeypatch):
    """Variances and the errors that they are told with, of other draws and other data."""
    found, stand = method.result(state), method.stand(state)
    q, values = Gaussian(found["mean"], found["covariance"]), []
    for seed in range(SEEDS):
        monkeypatch.setattr(certificate, "seeded", lambda _, seed=seed: seeded(seed))
        made = certify(method.arm, method.problem, q, stand)
        values.append((made.variance, made.error))
    return np.array(values).T


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "words"),
    [
        *(
            pytest.param(
                name, TALLER, marks=[pytest.mark.slow] if name in ("mean_field", "streaming_laplace") else []
            )
            for name in NAMES
        ),
        ("ep", LASSO),
        pytest.param("laplace", LASSO, marks=pytest.mark.slow),
        pytest.param("mean_field", LASSO, marks=pytest.mark.slow),
    ],
    ids=[*NAMES, *(f"{name}, laplace prior" for name in ("ep", "laplace", "mean_field"))],
)
def test_the_variance_is_that_of_all_data(tmp_path, monkeypatch, name, words):
    """On average: log weights have heavy tails, of which 1,000 draws may see so little that a single
    variance is too small by many of its errors, which are then too small as well.
    """
    method, state = _made(tmp_path, name, NAMES[name], words)
    truth, unsure = _variance(method, method.result(state))
    variance, error = _certificates(method, state, monkeypatch)
    spread = variance.std(ddof=1)
    assert abs(variance.mean() - truth) < 4 * np.hypot(spread / np.sqrt(SEEDS), unsure)
    assert 0.6 < error.mean() / spread < 1.4


@pytest.mark.slow
def test_it_holds_where_a_datum_sees_two_numbers(tmp_path, monkeypatch):
    method, state = _made(tmp_path, "ep", 4, three_classes(tmp_path))
    truth, unsure = _variance(method, method.result(state))
    monkeypatch.setattr(certificate, "FIRST", 15)
    monkeypatch.setattr(certificate, "LAST", 15)
    variance = _certificates(method, state, monkeypatch)[0]
    assert abs(variance.mean() - truth) < 4 * np.hypot(variance.std(ddof=1) / np.sqrt(SEEDS), unsure)


def test_kl_is_half_of_it_and_left_out_where_it_is_large(tmp_path):
    method, state = _made(tmp_path, "ep", 4)
    told = method.facts(state).more
    assert told["certificate_kl"] == told["certificate_variance"] / 2 > 0
    method, state = _made(tmp_path, "jaakkola_jordan", 40, WIDE)
    told = method.facts(state).more
    assert told["certificate_variance"] > 0.5
    assert "certificate_kl" not in told
    assert told["certificate_k_hat"] > 0.7


def test_before_its_end_and_where_sites_make_no_gaussian_there_is_no_certificate(tmp_path, monkeypatch):
    method, state = _made(tmp_path, "ep", 2)
    assert "certificate_variance" in method.facts(state).more
    assert not any(name.startswith("certificate") for name in method.facts().more)

    def none(_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(method, "stand", none)
    told = method.facts(state).more
    assert not [name for name in told if name.startswith("certificate")]
    assert told["map_queries"] > 0  # what else is known stays


def test_its_queries_do_not_grow_with_the_data(tmp_path):
    spent = []
    for n in (300, 3_000):
        method, state = _made(tmp_path, "ep", 3, [*WORDS, f"dataset.n_data={n}"])
        spent.append(method.facts(state).more["certificate_queries"])
    assert spent[0] == spent[1]


def test_a_bad_approximation_is_told_by_k_hat(tmp_path):
    method, state = _made(tmp_path, "laplace", 1)
    found = method.result(state)
    narrow = Gaussian(found["mean"], 0.3 * found["covariance"])
    bad = certify(method.arm, method.problem, narrow, stand_at(method.arm, method.problem, narrow))
    assert bad.k_hat > 0.7
    assert method.facts(state).more["certificate_k_hat"] < 0.7


def test_negative_control_one_sum_taken_twice_overstates(tmp_path, monkeypatch):
    """Its noise counts as variance."""
    method, state = _made(tmp_path, "ep", 4)
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


@pytest.mark.thorough
def test_of_even_weights_there_is_no_tail_to_tell_of(tmp_path):
    """EP's Gaussian of many rows; Jaakkola and Jordan's, of the same, has one."""
    words = ["dataset=tall", "dataset.n_data=10000", "model=logistic", "prior=gaussian"]
    told = {}
    for name in ("ep", "jaakkola_jordan"):
        method, state = _made(tmp_path, name, 3, words)
        told[name] = method.facts(state).more
    assert told["ep"]["certificate_variance"] < 0.01
    assert "certificate_k_hat" not in told["ep"]
    assert told["jaakkola_jordan"]["certificate_k_hat"] > 0.3
