"""Gibbs sampling of the mixture, plain and with a swap of the modes, against a sum over a grid."""

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.problem import log_densities
from flyrun.experiments.samplers.gibbs import mixture_gibbs
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError
from tests.samplers.particles.toys import same_bits

WORDS = ["dataset=mixture", "dataset.n_data=12", "model=mixture", "model.scale=1.5", "prior=gaussian"]
SWEEPS, BATCHES = 20_000, 40


def _method(folder, *more):
    return prepare(arm_of(WORDS, ("sampler=mixture_gibbs", "protocol.thin=1", *more)), folder)


def _exact(method):
    side = np.linspace(-4.5, 4.5, 181)
    theta = np.stack([one.ravel() for one in np.meshgrid(side, side, indexing="ij")], axis=1)
    log_density = sum(log_densities(method.arm, method.problem, theta))
    weight = np.exp(log_density - log_density.max())
    return weight @ _features(theta) / weight.sum()


def _features(theta):
    return np.column_stack([theta, theta**2, theta[:, 0] * theta[:, 1], theta[:, 1] < 0])


def _score(method):
    """Largest difference from the grid's expectations in standard errors, from means of batches."""
    _, records = method.advance(method.init(0), SWEEPS)
    batches = _features(records["theta"]).reshape(BATCHES, -1, 6).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(BATCHES)
    return np.abs((batches.mean(axis=0) - _exact(method)) / error).max()


@pytest.mark.thorough
@pytest.mark.parametrize("swap", ["true", "false"])
def test_moments(tmp_path, swap):
    """Six scores of a t with 39 degrees: above 4.5 once in 3,000 runs."""
    assert _score(_method(tmp_path, f"sampler.swap={swap}")) < 4.5


@pytest.mark.thorough
def test_a_swap_that_is_always_accepted_is_caught(tmp_path, monkeypatch):
    method = _method(tmp_path, "sampler.swap=true")
    ridge, sweep = method.ridge, mixture_gibbs.MixtureGibbs._sweep

    def blind(self, rng, theta):
        self.ridge = ridge
        found = sweep(self, rng, theta)
        self.ridge = 0.0  # of the ratio alone
        return found

    monkeypatch.setattr(mixture_gibbs.MixtureGibbs, "_sweep", blind)
    assert _score(method) > 6


def test_costs_thinning_and_cuts(tmp_path):
    method = _method(tmp_path, "sampler.swap=true")
    state, records = method.advance(method.init(0), 8)
    assert records["queries"].tolist() == [12] * 8
    same_bits(method, (1, 3, 5))
    thinned = prepare(
        arm_of(WORDS, ("sampler=mixture_gibbs", "sampler.swap=true", "protocol.thin=4")),
        tmp_path,
    )
    first, told = thinned.advance(thinned.init(0), 3)
    _, more = thinned.advance(first, 5)
    np.testing.assert_array_equal(np.concatenate([told["theta"], more["theta"]]), records["theta"][3::4])
    np.testing.assert_array_equal(state["theta"], records["theta"][-1])


def test_it_is_for_the_mixture_alone():
    with pytest.raises(ConfigError, match=r"sampler=mixture_gibbs .*choose model=mixture"):
        arm_of(["dataset=toy_2d", "model=logistic", "prior=gaussian"], ("sampler=mixture_gibbs",))
