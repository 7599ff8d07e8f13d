"""Streaming Laplace and SVI with Jaakkola and Jordan's bounds: closed forms, agreement with fits to all data,
counting, and that cuts do not matter.
"""

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.approximations.stochastic import StochasticSites
from flyrun.experiments.samplers.approximations.streaming_laplace import StreamingLaplace
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError

SMALL = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic", "prior=gaussian"]
LARGE = [*SMALL[:1], "dataset.n_data=4000", *SMALL[2:]]


def _method(tmp_path, sampler, *more, words=SMALL):
    return prepare(arm_of(words, (f"sampler={sampler}", *more)), tmp_path)


def _end(method, n, seed=0):
    state, records = method.advance(method.init(seed), n)
    return method.result(state), records


SVI, REPLACED = "svi_jaakkola_jordan", "sampler.batches=replacement"


@pytest.mark.parametrize("words", [("streaming_laplace",), (SVI,), (SVI, REPLACED)])
def test_cuts_do_not_matter(tmp_path, words):
    method = _method(tmp_path, *words, "sampler.batch=7")
    whole, records = method.advance(method.init(3), 15)
    state, parts = method.init(3), []
    for n in (1, 5, 9):
        state, part = method.advance(state, n)
        parts.append(part)
    for name in whole:
        np.testing.assert_array_equal(state[name], whole[name])
    for name in records:
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), records[name])
    other = method.advance(method.init(4), 15)[0]
    assert not np.array_equal(other["linear"], whole["linear"])


def test_one_block_of_all_rows_is_laplaces_approximation(tmp_path):
    found, records = _end(_method(tmp_path, "streaming_laplace"), 3)
    laplace = _method(tmp_path, "laplace").result({})
    np.testing.assert_allclose(found["mean"], laplace["mean"], rtol=1e-5)
    np.testing.assert_allclose(found["covariance"], laplace["covariance"], rtol=1e-3)
    assert records["visits"].tolist() == [60, 0, 0]
    assert records["queries"][0] % 60 == 0
    assert records["queries"][0] >= 120
    assert records["queries"][1:].tolist() == [0, 0]


class Forgetful(StreamingLaplace):
    """Broken: each block is fitted under the prior, as if it were the first."""

    def absorbed(self, mean, precision, index):
        return super().absorbed(np.zeros_like(mean), self.prior_precision, index)


def test_many_blocks_come_close_to_laplaces_approximation(tmp_path):
    method = _method(tmp_path, "streaming_laplace", "sampler.batch=128", words=LARGE)
    laplace = _method(tmp_path, "laplace", words=LARGE).result({})
    sd = np.sqrt(np.diag(laplace["covariance"]))

    def off(one):
        found, records = _end(one, 40)
        ratio = np.sqrt(np.diag(found["covariance"])) / sd
        assert records["visits"].sum() == 4_000
        assert (records["queries"] >= 2 * records["visits"])[:32].all()
        return np.abs((found["mean"] - laplace["mean"]) / sd).max(), np.abs(ratio - 1).max()

    shift, width = off(method)
    assert shift < 0.25
    assert width < 0.03
    broken = off(Forgetful(method.arm, method.problem, method.batches))
    assert broken[1] > 1.0


def jaakkola_jordan(rows, sweeps):
    """The bounds' fixed point on all rows t·x, prior N(0, I)."""
    precision, linear = np.eye(rows.shape[1]), 0.5 * rows.sum(axis=0)
    mean = np.zeros(rows.shape[1])
    for _ in range(sweeps):
        second = np.linalg.inv(precision) + np.outer(mean, mean)
        xi = np.sqrt(np.einsum("nd,de,ne->n", rows, second, rows))
        precision = np.eye(rows.shape[1]) + rows.T @ (rows * (np.tanh(xi / 2) / (2 * xi))[:, None])
        mean = np.linalg.solve(precision, linear)
    return mean, np.linalg.inv(precision)


def test_whole_batches_at_rate_one_are_the_fixed_points_iteration(tmp_path):
    method = _method(tmp_path, "svi_jaakkola_jordan", "sampler.batch=60", "sampler.decay=0")
    mean, covariance = jaakkola_jordan(method.problem.features.rows, 200)
    found, records = _end(method, 202)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(found["covariance"], covariance, rtol=1e-9)
    assert records["queries"].tolist() == [60.0] * 202


class WithoutFactor(StochasticSites):
    """Broken: a batch stands for its own rows alone."""

    def __init__(self, *all_of_them):
        super().__init__(*all_of_them)

        class Unscaled(type(self.batches)):
            factor = 1.0

        self.batches = Unscaled(self.batches.n_data, self.batches.size, self.batches.kind)


@pytest.mark.thorough
def test_batches_come_close_to_the_fixed_point_and_it_is_too_narrow(tmp_path):
    method = _method(tmp_path, "svi_jaakkola_jordan", "sampler.batch=200", words=LARGE)
    mean, covariance = jaakkola_jordan(method.problem.features.rows, 200)
    sd = np.sqrt(np.diag(covariance))
    found, _ = _end(method, 2_000)
    assert np.abs((found["mean"] - mean) / sd).max() < 1.0
    np.testing.assert_allclose(np.sqrt(np.diag(found["covariance"])) / sd, 1.0, atol=0.05)
    laplace = _method(tmp_path, "laplace", words=LARGE).result({})["covariance"]
    assert (np.diag(found["covariance"]) < np.diag(laplace)).all()
    parts = method.arm, method.problem, method.label, method.rule, method.at_point
    broken, _ = _end(WithoutFactor(*parts), 2_000)
    assert (np.sqrt(np.diag(broken["covariance"])) / sd > 2).all()


@pytest.mark.parametrize("sampler", ["streaming_laplace", "svi_jaakkola_jordan"])
def test_nothing_is_charged_before_the_first_step(tmp_path, sampler):
    method = _method(tmp_path, sampler, "sampler.batch=10")
    facts = method.facts()
    assert (facts.exact, facts.setup_queries, facts.n_params, facts.n_data) == (False, 0, 3, 60)
    before = method.estimates(method.init(0))
    np.testing.assert_allclose(before["square"], 1.0)


NO_PRIOR = SMALL[:-1]
STUDENT = ["dataset=two_modes", "model=student_t", "prior=gaussian"]


@pytest.mark.parametrize(
    ("sampler", "words", "more", "text"),
    [
        (SVI, SMALL, ["sampler.batch=61"], r"sampler\.batch=61: the data have 60 rows"),
        ("streaming_laplace", [*NO_PRIOR, "prior=laplace"], ["sampler.batch=9"], "prior=laplace is none"),
        (SVI, [*NO_PRIOR, "prior=laplace"], ["sampler.batch=9"], "choose prior=gaussian"),
        ("streaming_laplace", STUDENT, ["sampler.batch=9"], "is not log-concave"),
        (SVI, STUDENT, [], "choose model=logistic"),
        (SVI, SMALL, ["sampler.decay=1.5"], r"sampler\.decay=1\.5: must be"),
    ],
)
def test_bad_input_is_one_line(tmp_path, sampler, words, more, text):
    with pytest.raises(ConfigError, match=text) as caught:
        _method(tmp_path, sampler, *more, words=words)
    assert "\n" not in str(caught.value)
