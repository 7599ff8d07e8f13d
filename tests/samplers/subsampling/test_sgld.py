"""SGLD against its closed form on Gaussian posteriors; counting; that cuts do not matter."""

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.passes import look
from flyrun.experiments.samplers.method import prepare
from flyrun.experiments.samplers.subsampling.gradient_chain import stationary_ratio
from flyrun.experiments.samplers.subsampling.sgld import Sgld, langevin
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.tables.dataset import Dataset

TOY = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5"]
LOGISTIC = [*TOY, "model=logistic", "prior=gaussian"]
# Student-t noise of so many degrees is Gaussian
GAUSSIAN = ["dataset=two_modes", "model=student_t", "model.nu=1e9", "model.scale=1", "prior=gaussian"]
N, STEPS = 200, 40_000


def _method(tmp_path, *more, words=LOGISTIC):
    return prepare(arm_of([*words, "protocol.init=zero"], ("sampler=sgld", *more)), tmp_path)


@pytest.mark.parametrize("batches", ["epochs", "replacement"])
def test_cuts_do_not_matter_and_a_step_costs_its_rows(tmp_path, batches):
    method = _method(tmp_path, "sampler.batch=25", f"sampler.batches={batches}", "protocol.init=prior")
    whole, records = method.advance(method.init(3), 50)
    state, draws = method.init(3), []
    for n in (1, 19, 30):
        state, part = method.advance(state, n)
        draws.append(part["theta"])
    for name in whole:
        np.testing.assert_array_equal(state[name], whole[name])
    np.testing.assert_array_equal(np.concatenate(draws), records["theta"])
    size = 20 if batches == "epochs" else 25  # three batches of 25 at most have 60 rows
    np.testing.assert_array_equal(records["queries"], np.full(50, size))
    assert method.facts(state).exact is False


def test_gradients_of_an_epoch_add_up_to_the_posteriors(tmp_path):
    method = _method(tmp_path, "sampler.batch=20")
    theta, rng, state = np.array([0.3, -0.2, 0.1]), np.random.default_rng(0), method.init(0)
    rows = [method.batches.rows(step, rng, int(state["key"][0])) for step in range(3)]
    assert sorted(np.concatenate(rows)) == list(range(60))
    mean = np.mean([method.gradient(theta, index) for index in rows], axis=0)
    whole = look(method.arm.model.code, method.problem.model, method.problem.features, theta)
    np.testing.assert_allclose(mean, whole.gradient - theta, rtol=1e-10)


@pytest.fixture
def gaussian(tmp_path, monkeypatch):
    """y_n = θ + noise, N rows: ∇ log L_n = y_n − θ, so that batches' noise is the same at every θ."""
    target = np.random.default_rng(5).standard_normal(N)
    rows = Dataset(
        "it", np.ones((N, 1)), target, np.empty((0, 1)), np.empty(0), ("x",), "it", task="regression"
    )
    monkeypatch.setattr("flyrun.experiments.data.load", lambda config: rows)
    return lambda *more: _method(tmp_path, *more, words=GAUSSIAN)


def _measured(method, steps=STEPS):
    draws = method.advance(method.init(0), steps)[1]["theta"][1_000:, 0]
    return draws.mean(), draws.std()


class WithoutFactor(Sgld):
    """Broken: the batch's sum stands for itself, not for all rows."""

    def gradient(self, theta, index):
        return super().gradient(theta, index) / self.batches.factor


@pytest.mark.thorough
def test_mean_and_sd_are_the_closed_forms(gaussian):
    size = 0.4 / (N + 1)  # ελ = 0.4: some 10 steps to a draw, 4,000 draws; four of their errors below
    words = ["sampler.batch=20", "sampler.batches=replacement", f"sampler.step={size}", "sampler.decay=0"]
    method = gaussian(*words)
    target = method.problem.model.target
    mean, sd = target.sum() / (N + 1), 1 / np.sqrt(N + 1)
    found = _measured(method)
    noise = N / 20 * N * target.var() / (N + 1)  # ν/λ
    wanted = np.sqrt((1 + 0.1 * noise) / 0.9)
    assert found[0] == pytest.approx(mean, abs=4 * wanted * sd / np.sqrt(STEPS / 10))
    assert found[1] / sd == pytest.approx(wanted, rel=0.05)
    assert method.facts({"step": np.array([10]), "theta": np.array([mean])}).more[
        "expected_sd_ratio"
    ] == pytest.approx(wanted, rel=1e-6)
    broken = _measured(WithoutFactor(method.arm, method.problem), 5_000)  # 400 draws: an sd within 4 %
    assert abs(broken[1] / sd / wanted - 1) > 0.3


def sd_ratio(curvature, step, noise, covariance):
    return stationary_ratio(*langevin(curvature, step, noise, covariance), curvature)


def test_the_expected_ratio_is_one_for_short_steps_and_infinite_for_long_ones():
    curvature, even = np.array([[3.0, 1.0], [1.0, 2.0]]), np.eye(2)
    assert sd_ratio(curvature, 1e-6, curvature, even) == pytest.approx(1.0, abs=1e-5)
    assert sd_ratio(curvature, 4.0, 10.0 * curvature, even) == np.inf
    one = sd_ratio(np.diag([2.0, 2.0]), 0.2, 101.0 * 2.0 * even, even)
    assert one == pytest.approx(np.sqrt((1 + 0.1 * 101) / 0.9))
    # in the posterior's own shape every direction is alike
    own = sd_ratio(curvature, 0.4, 101.0 * curvature, np.linalg.inv(curvature))
    assert own == pytest.approx(np.sqrt((1 + 0.1 * 101) / 0.9))


def test_queries_of_a_draw_by_the_bias_of_its_variance_do_not_depend_on_the_batch():
    costs = []
    for size, step in ((10, 1e-4), (100, 1e-3), (1_000, 1e-2)):
        excess = sd_ratio(np.eye(1), step, np.full((1, 1), 1e5 / size), np.eye(1)) ** 2 - 1
        costs.append(size * 4 / step * excess / 1e5)  # 4/h steps an effective draw; by N/excess
    np.testing.assert_allclose(costs, 1.0, rtol=0.02)


def test_bad_input_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"sampler\.batch=61: the data have 60 rows; take at most as many"):
        _method(tmp_path, "sampler.batch=61")
    method = _method(tmp_path, "sampler.batch=10", "sampler.step=1e6", "sampler.decay=0", "prior.scale=0.001")
    with pytest.raises(FlyrunError, match=r"step \d+: sampler\.step=1e\+06 is too long; take a shorter one"):
        method.advance(method.init(0), 1_000)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["sgld", "sgld_cv"])
def test_steps_in_the_posteriors_shape_have_the_expected_sds(tmp_path, name):
    words = [f"sampler={name}", "sampler.metric=hessian", "sampler.decay=0", "sampler.batches=replacement"]
    words += ["sampler.batch=60", "sampler.step=0.4" if name == "sgld_cv" else "sampler.step=0.1"]
    method = prepare(arm_of([*LOGISTIC, "protocol.init=map"], tuple(words)), tmp_path)
    start = method.init(1)
    state, records = method.advance(start, 20_000)
    np.testing.assert_array_equal(records["queries"], 60)
    fit, theta = method.problem.fit, records["theta"]
    passes_made = 2 if name == "sgld_cv" else 1  # the curvature, and what is known at the MAP
    assert method.facts(state).setup_queries == fit.queries + 60 * passes_made
    exact = np.sqrt(np.diag(method.covariance))  # Laplace's, near enough
    found = np.exp(np.mean(np.log(theta.std(axis=0) / exact)))
    at_map = {"step": state["step"], "theta": fit.theta_map}
    assert found == pytest.approx(method.more(at_map)["expected_sd_ratio"], rel=0.1)


def test_control_variates_are_unbiased_and_vanish_at_the_map(tmp_path):
    words = ("sampler=sgld_cv", "sampler.batch=20", "sampler.batches=epochs")
    method = prepare(arm_of([*LOGISTIC, "protocol.init=zero"], words), tmp_path)
    problem, rng, state = method.problem, np.random.default_rng(0), method.init(0)
    rows = [method.batches.rows(step, rng, int(state["key"][0])) for step in range(3)]
    for theta in (np.array([0.3, -0.2, 0.1]), problem.fit.theta_map):
        each = np.array([method.gradient(theta, index) for index in rows])
        whole = look(method.arm.model.code, problem.model, problem.features, theta).gradient - theta
        np.testing.assert_allclose(each.mean(axis=0), whole, atol=1e-9)
    assert np.ptp(each, axis=0).max() < 1e-12  # at the MAP every batch says the same
    assert np.abs(each).max() < 1e-5  # and that the mode is there


def test_weighted_averages_weigh_by_the_step_and_cuts_do_not_matter(tmp_path):
    more = ("sampler.batch=20", "sampler.average=steps", "sampler.decay=0.33", "sampler.step=0.01")
    more += ("protocol.burn_in=10", "protocol.iterations=60")
    method, plain = (_method(tmp_path, *(words)) for words in (more, more[:1] + more[2:]))
    assert method.answers == "weighted"
    state = method.init(3)
    rng_of = state["rng"].copy()
    whole, records = method.advance(state, 60)
    assert "theta" not in records
    parts = method.init(3)
    for n in (7, 20, 33):
        parts, _ = method.advance(parts, n)
    for name in whole:
        np.testing.assert_array_equal(parts[name], whole[name])
    same = {**plain.init(3), "rng": rng_of, "key": state["key"]}
    theta = plain.advance(same, 60)[1]["theta"][10:]
    weight = method.step_size(np.arange(10, 60))
    np.testing.assert_allclose(method.estimates(whole)["mean"], weight @ theta / weight.sum(), rtol=1e-12)
    result = method.result(whole)
    np.testing.assert_array_equal(result["theta"], theta)
    np.testing.assert_allclose(result["log_weight"], np.log(weight))
