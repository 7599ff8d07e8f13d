"""SGHMC, SGNHT, SGFS and constant-step SGD against their stationary laws on Gaussian posteriors."""

import numpy as np
import pytest
from scipy.linalg import solve_continuous_lyapunov, solve_discrete_lyapunov

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.problem import posterior_curvature
from flyrun.experiments.samplers.method import prepare
from flyrun.experiments.samplers.subsampling.constant_sgd import ConstantSgd
from flyrun.experiments.samplers.subsampling.sgfs import Sgfs
from flyrun.experiments.samplers.subsampling.sghmc import Sghmc
from flyrun.experiments.samplers.subsampling.sgnht import Sgnht
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.tables.dataset import Dataset

TOY = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic", "prior=gaussian"]
GAUSSIAN = ["dataset=two_modes", "model=student_t", "model.nu=1e9", "model.scale=1", "prior=gaussian"]
N, B = 200, 20
SAMPLERS = ("sghmc", "sgnht", "sgfs", "constant_sgd")


def _method(tmp_path, *more, words=TOY, init="map"):
    return prepare(arm_of([*words, f"protocol.init={init}"], (*more, "sampler.batch=20")), tmp_path)


@pytest.mark.parametrize("name", SAMPLERS)
def test_cuts_do_not_matter_and_a_step_costs_its_rows(tmp_path, name):
    more = ("sampler.noise=estimated",) if name == "sghmc" else ()
    method = _method(tmp_path, f"sampler={name}", *more)
    start = method.init(3)
    kept = {key: array.copy() for key, array in start.items()}
    whole, records = method.advance(start, 40)
    state = start
    for n in (1, 12, 27):
        state, _ = method.advance(state, n)
    for key in whole:
        np.testing.assert_array_equal(state[key], whole[key])
        np.testing.assert_array_equal(start[key], kept[key])
    np.testing.assert_array_equal(records["queries"], np.full(40, 20))
    assert method.facts(state).exact is False
    assert method.facts(state).setup_queries == method.problem.fit.queries + 60 * (name == "constant_sgd")


@pytest.fixture
def gaussian(tmp_path, monkeypatch):
    """y_n = θ + noise of variance 1, N rows, the posterior N(·, 1/(N + 1)); a batch's gradient has the
    variance N²/B at every θ.
    """
    target = np.random.default_rng(5).standard_normal(N)
    target = (target - target.mean()) / target.std() + 0.3
    rows = Dataset(
        "it", np.ones((N, 1)), target, np.empty((0, 1)), np.empty(0), ("x",), "it", task="regression"
    )
    monkeypatch.setattr("flyrun.experiments.data.load", lambda config: rows)
    return lambda *more: _method(tmp_path, *more, words=GAUSSIAN, init="zero")


class Planted:
    """A generator whose normal numbers are all one."""

    def __init__(self, normal):
        self.normal = normal

    def standard_normal(self, size):
        return np.full(size, self.normal)


def _law(method, state):
    """Variance of the law that is stationary, by the posterior's: a step is affine in its state, its normal
    number and its batch's mean, so that a few steps show all of it. So late a step learns no noise any more.
    """
    low, high = np.argsort(method.problem.model.target)[[0, -1]]

    def moved(theta, momentum, normal, row):
        beside = {**state, "momentum": np.array([momentum]), "fisher": np.ones((1, 1))}
        theta, _ = method.move(Planted(normal), np.array([theta]), 10**9, np.full(B, row), beside)
        return np.array([theta[0], beside["momentum"][0]])

    origin = moved(0.0, 0.0, 0.0, low)
    by_theta, by_momentum = (moved(*at, 0.0, low) - origin for at in ((1.0, 0.0), (0.0, 1.0)))
    added = moved(0.0, 0.0, 1.0, low) - origin
    spread = np.ptp(method.problem.model.target)
    by_slope = (moved(0.0, 0.0, 0.0, high) - origin) / (N * spread)
    forward = np.column_stack([by_theta, by_momentum])
    if not by_momentum[0]:  # no momentum
        forward[1] = 0.0
    driven = np.outer(added, added) + NOISE * np.outer(by_slope, by_slope)
    return solve_discrete_lyapunov(forward, driven)[0, 0] * (N + 1)


class Frozen(Sgnht):
    """Broken: the friction never learns."""

    def move(self, rng, theta, step, index, beside):
        moved = super().move(rng, theta, step, index, beside)
        beside["friction"] = np.array([self.arm.sampler.diffusion])
        return moved


class TwiceAdded(Sghmc):
    """Broken: the noise of a batch is put on top of what is added, not taken off it."""

    def _added(self, noise):
        return super()._added(-noise)


class NoBatchNoise(Sgfs):
    """Broken: γ is 1, as if batches made no noise."""

    def metric(self, theta, fisher):
        return super().metric(theta, fisher / (1.0 + self.n_data / self.batches.size))


class Doubled(ConstantSgd):
    """Broken: twice the step of least KL."""

    def __init__(self, arm, problem):
        super().__init__(arm, problem)
        self.gain = 2.0 * self.gain


def _hmc_law(h, friction, noise):
    """The variances' ratio of sghmc.py along the curvature N + 1, at noise V − V̂."""
    return (1 + h * noise / (2 * friction)) / (1 - h**2 * (N + 1) / (4 - 2 * h * friction))


# name: options, the law of the variances' ratio, its broken twin. In raw θ an sd is 0.07, h a seventh of it.
H, FRICTION, NOISE = 0.01, 40.0, N**2 / B
MOMENTUM = (f"sampler.step={H}", f"sampler.friction={FRICTION}")
CASES = {
    "sghmc": (MOMENTUM, _hmc_law(H, FRICTION, NOISE), None),
    "sghmc estimated": ((*MOMENTUM, "sampler.noise=estimated"), _hmc_law(H, FRICTION, 0.0), TwiceAdded),
    "sgfs": (("sampler.step=4",), 1.0, NoBatchNoise),
    "sgfs alone": (("sampler.step=1e12",), 1.0, NoBatchNoise),
    "constant_sgd": ((), 1 / (1 - (N + 1) / NOISE), Doubled),
}


@pytest.mark.parametrize("case", CASES)
def test_the_stationary_variance_is_the_laws_and_a_broken_twins_is_not(case, gaussian):
    words, wanted, broken = CASES[case]
    method = gaussian(f"sampler={case.split()[0]}", *words)
    state = method.init(0) | {"noise": np.array([[NOISE]]), "fisher": np.ones((1, 1))}
    assert _law(method, state) == pytest.approx(wanted, rel=1e-6)
    state |= {"step": np.ones(1, np.int64), "theta": np.array([0.2])}
    assert method.facts(state).more["expected_sd_ratio"] == pytest.approx(np.sqrt(wanted), rel=1e-6)
    if broken is not None:
        assert abs(_law(broken(method.arm, method.problem), state) / wanted - 1) > 0.1


@pytest.mark.thorough
def test_scores_of_a_batch_say_its_noise(gaussian):
    """On average over steps the scatter that SGFS and SGHMC learn is the data's: 1, by N²/b the noise."""
    for name, key, wanted in (("sgfs", "fisher", 1.0), ("sghmc", "noise", NOISE)):
        words = (*MOMENTUM, "sampler.noise=estimated") if name == "sghmc" else ()
        method = gaussian(f"sampler={name}", *words)
        state, records = method.advance(method.init(0), 1_500)
        # 30,000 rows were seen: their variance is known within 1 %, the mean of θ within 0.1 sd
        assert state[key][0, 0] == pytest.approx(wanted, rel=0.04)
        assert records["theta"][100:].mean() == pytest.approx(0.3 * N / (N + 1), abs=0.02)


@pytest.mark.thorough
def test_a_thermostat_learns_the_noise_of_batches_and_a_frozen_one_is_too_hot(tmp_path):
    words = ("sampler=sgnht", "sampler.metric=hessian", "sampler.step=0.05", "sampler.batch=1")
    method = prepare(arm_of([*TOY, "protocol.init=map"], words), tmp_path)
    exact = np.sqrt(np.diag(method.covariance))

    def measured(method):
        state, frictions, draws = method.init(1), [], []
        for _ in range(100):
            state, records = method.advance(state, 80)
            frictions.append(state["friction"][0])
            draws.append(records["theta"])
        sd = np.concatenate(draws)[400:].std(axis=0)
        return float(np.exp(np.mean(np.log(sd / exact)))), np.mean(frictions[5:])

    ratio, friction = measured(method)
    noise = method.root.T @ (60 * method.noise(method.problem.fit.theta_map)) @ method.root
    assert ratio == pytest.approx(1.0, abs=0.15)
    assert friction == pytest.approx(2.0 + 0.025 * np.trace(noise) / 3, rel=0.25)
    assert measured(Frozen(method.arm, method.problem))[0] > 1.2


@pytest.mark.parametrize("kind", ["scalar", "diagonal", "full"])
def test_optimal_steps_are_where_kl_is_least(tmp_path, kind):
    """Mandt et al.'s Theorems 1 and 2, where steps are so short that their continuous law holds."""
    method = _method(tmp_path, "sampler=constant_sgd", f"sampler.preconditioner={kind}")
    theta = method.problem.fit.theta_map
    noise, curvature = 3.0 * method.noise(theta), posterior_curvature(method.arm, method.problem, theta)
    best = method.gain

    def divergence(gain):
        """KL(law of SGD ‖ posterior) up to a constant: KHΣ + ΣHK = KVK."""
        law = solve_continuous_lyapunov(gain @ curvature, gain @ noise @ gain.T)
        return 0.5 * (np.trace(curvature @ law) - np.linalg.slogdet(law)[1])

    at_best = divergence(best)
    for factor in (0.9, 1.1):
        assert divergence(factor * best) > at_best
    if kind != "scalar":
        for i in range(3):
            other = best.copy()
            other[i] *= 1.1
            other[:, i] *= 1.1
            assert divergence(other) > at_best


def test_bad_input_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="its metric needs a smooth prior; choose prior=gaussian"):
        _method(tmp_path, "sampler=sgfs", words=[*TOY[:-1], "prior=laplace"])
    method = _method(tmp_path, "sampler=sghmc", "sampler.step=1e3")
    with pytest.raises(FlyrunError, match=r"sampler\.step=1000 is too long; take a shorter one"):
        method.advance(method.init(0), 1_000)
    method = _method(tmp_path, "sampler=constant_sgd", "sampler.step=1e3")
    with pytest.raises(FlyrunError, match=r"sampler\.step=1000 is too long; take a shorter one"):
        method.advance(method.init(0), 1_000)
