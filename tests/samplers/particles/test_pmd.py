"""Mirror descent's settings: what they cost, that cuts do not matter, where particles begin, bad input."""

import contextlib

import numpy as np
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.config.sampler.particles import Pmd
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError, FlyrunError
from tests.samplers.particles.toys import Normal, descent, same_bits

MIXTURE = ["dataset=mixture", "dataset.n_data=60", "model=mixture", "prior=gaussian"]
X = np.random.default_rng(0).normal(0.5, 1.0, (50, 2))
SETTINGS = {
    "strategy 1": {"rejuvenate": "never"},
    "strategy 2": {"rejuvenate": "always", "bandwidth": "theorem", "t0": 5},
    "hybrid": {"rejuvenate": "until", "t0": 5},
    "second stage": {"rejuvenate": "until", "t0": 5, "later": 200},
    "growing": {"rejuvenate": "always", "growth": "linear", "t0": 5},
    "ours": {"ess": 0.75, "adaptive": 0.5},
    "with replacement": {"batches": "replacement", "t0": 5},
    "theorem": {"rejuvenate": "always", "growth": "theorem", "schedule": "theorem"},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_cuts_do_not_matter(setting):
    same_bits(descent(Normal(X), iterations=60, particles=80, batch=7, **SETTINGS[setting]), (1, 19, 2, 8))


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_query_is_counted(setting):
    target = Normal(X)
    method = descent(target, iterations=60, particles=80, batch=7, **SETTINGS[setting])
    state, records = method.advance(method.init(0), 30)
    assert records["queries"].sum() == target.looked
    epoch = [6, 6, 6, 7] * 2
    wanted = [7] * 30 if "replacement" in setting else (epoch * 4)[:30]
    assert records["visits"].tolist() == wanted
    redrawn = records["kernel_evaluations"] > 0
    assert not redrawn[0]
    if setting == "strategy 1":
        assert not redrawn.any()
        np.testing.assert_array_equal(state["theta"], method.init(0)["theta"])
    elif setting in ("strategy 2", "theorem", "growing"):
        assert redrawn[1:].all()
    elif setting == "hybrid":  # the first fifth of 60
        assert redrawn[1:12].all()
        assert not redrawn[12:].any()
    elif setting == "second stage":  # 200 are drawn before step 13, and stay
        assert np.flatnonzero(redrawn).tolist() == list(range(1, 13))
        assert records["kernel_evaluations"][12] == 80 * 200
        assert len(state["theta"]) == 200
        np.testing.assert_array_equal(method.advance(state, 1)[0]["theta"], state["theta"])
    else:
        assert 0 < redrawn.sum() < 30
        np.testing.assert_array_equal(records["kernel_evaluations"][redrawn], 80**2)
    if setting == "ours":
        assert records["ess"].min() >= 40 * (1 - 1e-6)


def test_seeds_differ_and_settings_have_luck_of_their_own(tmp_path):
    words = ("sampler=pmd", "sampler.particles=9")
    method = prepare(arm_of(MIXTURE, words), tmp_path)
    other = prepare(arm_of(MIXTURE, (*words, "sampler.t0=1")), tmp_path)
    first = [one.init(seed)["theta"].tobytes() for one, seed in ((method, 0), (method, 1), (other, 0))]
    assert len(set(first)) == 3


@pytest.mark.thorough
@pytest.mark.parametrize("setting", ["strategy 1", "ours", "hybrid"])
def test_it_comes_near_a_posterior_of_one_mode(setting):
    """Mean and sd after four epochs, in posterior sds; the prior's are 7 sds wide."""
    target = Normal(X)
    options = SETTINGS[setting] | {"ess": 0.75}
    method = descent(target, iterations=40, particles=1500, batch=5, **options)
    found = method.estimates(method.advance(method.init(1), 40)[0])
    sd = target.precision**-0.5
    assert np.abs(found["mean"] - target.mean).max() < 0.35 * sd
    spread = np.sqrt(found["square"] - found["mean"] ** 2) / sd
    assert 0.75 < spread.min() <= spread.max() < 1.35


class _Cell:
    """A finished cell of a Gaussian pilot."""

    def __init__(self, mean, covariance, queries, visits):
        self.groups = {
            "approximation": {"mean": mean, "covariance": covariance},
            "estimate": {"queries": np.array([queries]), "visits": np.array([visits])},
        }

    def file(self):
        return contextlib.nullcontext(self.groups)


def test_from_a_pilot_one_epoch_is_importance_sampling_and_its_cost_is_charged():
    target = Normal(X)
    covariance = 1.5 * np.eye(2) / target.precision
    method = descent(target, rejuvenate="never", particles=400, batch=10)
    cell = _Cell(target.mean + 0.05, covariance, 77.0, 11.0)
    state, records = method.advance(method.init(0, (cell,)), 5)
    assert records["queries"].tolist() == [4077, 4000, 4000, 4000, 4000]
    assert records["visits"].tolist() == [21, 10, 10, 10, 10]
    away = state["theta"] - target.mean - 0.05
    log_q = -0.5 * (away @ np.linalg.inv(covariance) * away).sum(axis=1)
    joint = target.log_prior(state["theta"]) + target.log_likelihood(state["theta"], np.arange(50))
    wanted = joint - log_q
    np.testing.assert_allclose(state["log_weight"], wanted - wanted.max(), atol=1e-9)
    assert method.estimates(state)["effective"] > 200


def test_a_pilot_is_an_arm_of_its_own():
    words = ["dataset=toy_2d", "model=logistic", "sampler=pmd", "sampler.pilot=laplace", "protocol=smoke"]
    (arm,) = compose_job(words).arms
    (pilot,) = arm.sampler.needed_arms(arm)
    assert (pilot.sampler.name, pilot.protocol.iterations, pilot.dataset) == ("laplace", 1, arm.dataset)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"particles": 0}, "sampler.particles=0: must be a whole number at least 2, such as 1500"),
        ({"particles": 1}, "sampler.particles=1: must"),
        ({"width": 0}, "sampler.width=0: must"),
        ({"eta": 0}, "sampler.eta=0: must"),
        ({"eta": 3}, "sampler.eta=3: makes the first step γ = 3, outside (0, 1]; take sampler.eta at most 1"),
        ({"eta": 3, "t0": 1}, "γ = 1.5, outside (0, 1]; take sampler.eta at most 2"),
        ({"schedule": "constant", "eta": 1.5}, "outside (0, 1]"),
        ({"adaptive": 0.5}, "sampler.adaptive=0.5:"),
        ({"adaptive": 0.5, "rejuvenate": "never"}, "sampler.adaptive=0.5:"),
        ({"rejuvenate": "sometimes"}, "sampler.rejuvenate=sometimes: must be never, always, until or ess"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options, said):
    with pytest.raises(ConfigError) as caught:
        Pmd(**options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_batch_larger_than_the_data_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"sampler\.batch=61: the data have 60 rows; take at most as many"):
        prepare(arm_of(MIXTURE, ("sampler=pmd", "sampler.batch=61")), tmp_path)


@pytest.mark.parametrize(
    ("value", "what"),
    [(-np.inf, "all 30 weights are zero"), (np.nan, "the weights are not numbers"), (np.inf, "infinite")],
)
def test_weights_that_are_none_name_step_and_remedy(value, what):
    class Broken(Normal):
        def log_likelihood(self, theta, rows):
            found = super().log_likelihood(theta, rows)
            return np.full(len(theta), value) if self.looked > 30 * 7 * 3 else found

    method = descent(Broken(X), rejuvenate="never", particles=30, batch=7)
    with pytest.raises(FlyrunError) as caught:
        method.advance(method.init(0), 10)
    text = str(caught.value)
    assert text.startswith("step 4: ")
    assert what in text
    assert "take a smaller sampler.eta" in text


def test_particles_in_one_point_name_step_and_remedy():
    method = descent(Normal(1e4 + X), particles=30, batch=7)
    with pytest.raises(
        FlyrunError, match=r"step \d+: the particles have collapsed onto one point.*sampler\."
    ):
        method.advance(method.init(0), 10)
