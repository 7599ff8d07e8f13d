"""HMC where the density is not a number: the data's fault is an error, a runaway trajectory a rejection."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from flyrun.experiments.models.likelihood import Quadratic, quadratic
from flyrun.experiments.samplers.chain import hmc
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.metric import reference_at
from flyrun.experiments.samplers.chain.targets.target import data_gradient, kept_log_data, log_data
from flyrun.experiments.samplers.chain.update import update
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.compiled import implements
from tests.exactness.chains import full_target, sample, toy

PROBLEM = toy()
WIDE = reference_at(np.zeros(2), 1e-4 * np.eye(2))


def _kernel(step, n_steps):
    return hmc.build(SimpleNamespace(target_accept=0.8, step=step, n_steps=n_steps, jitter=0.2), 2, WIDE)


class Broken(NamedTuple):
    """A standard normal log density that is not a number but where the chain is."""

    base: Quadratic


@implements(log_data, Broken)
def _log_data(target, theta, gradient):
    return np.nan


@implements(data_gradient, Broken)
def _data_gradient(target, theta, gradient):
    gradient[:] = np.nan


@implements(kept_log_data, Broken)
def _kept_log_data(target, gradient):
    return 0.0


@pytest.mark.thorough
def test_a_density_that_is_not_a_number_is_an_error():
    rows = PROBLEM.features.rows.copy()
    rows[1, 0] = np.nan
    target = full_target(PROBLEM._replace(features=type(PROBLEM.features)(rows)), True)
    with pytest.raises(DensityError, match="not a number on a trajectory"):
        sample(target, _kernel(0.3, 3), NoBrightness(), [0.0, 0.0], 10, 1, burn_in=5)


@pytest.mark.thorough
def test_so_is_one_that_is_not_a_number_on_the_way():
    target = Broken(quadratic(np.eye(2), np.zeros(2), 0.0))
    with pytest.raises(DensityError, match="not a number on a trajectory"):
        update.methods[hmc.Hmc](_kernel(0.3, 3), np.random.default_rng(1), target, np.zeros(2))


@pytest.mark.thorough
def test_a_trajectory_that_overflows_is_refused():
    # every kick multiplies by some 10⁴: two hundred of them leave the numbers there are
    target, first = full_target(PROBLEM, True), [0.1, 0.2]
    draws = sample(target, _kernel(1.5, 200), NoBrightness(), first, 100, 1, burn_in=0)
    assert np.all(draws.theta == first)
