"""One step with planted randomness, the tuning of the step, and a density that is not a number."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.samplers.chain import random_walk
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.update import update
from flyrun.ground.errors import DensityError
from tests.exactness.chains import firefly_target, full_target, sample, toy
from tests.samplers.known_draws import KnownDraws

PROBLEM = toy()


def _log_posterior(theta):
    return -np.logaddexp(0.0, -PROBLEM.features.rows @ theta).sum() - 0.5 * theta @ theta


@pytest.mark.thorough
@pytest.mark.parametrize("uniform", [0.0, 0.999999])
def test_one_step_follows_the_formula(uniform):
    start, normals, step = np.array([0.3, -0.1]), [1.0, -2.0], 0.25
    target = full_target(PROBLEM)
    target.memory.kept[0] = _log_posterior(start) + 0.5 * start @ start
    kernel = random_walk.build(SimpleNamespace(target_accept=0.3, step=step), 2)
    theta = start.copy()
    acceptance = update.methods[random_walk.RandomWalk](kernel, KnownDraws(normals, uniform), target, theta)
    proposal = start + step * np.array(normals)
    expected = min(1.0, np.exp(_log_posterior(proposal) - _log_posterior(start)))
    assert acceptance == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(theta, proposal if uniform < expected else start, rtol=1e-15)


def test_the_step_is_tuned_in_burn_in_and_then_frozen():
    kernel = random_walk.build(SimpleNamespace(target_accept=0.234, step=None), 2)
    draws = sample(full_target(PROBLEM), kernel, NoBrightness(), [0, 0], 40_000, 5, burn_in=5000)
    frozen = kernel.step.current[0]
    assert frozen == pytest.approx(np.exp(kernel.step.average[0]))
    assert draws.accepted.mean() == pytest.approx(0.234, abs=0.02)


def test_a_given_step_is_kept():
    kernel = random_walk.build(SimpleNamespace(target_accept=0.234, step=0.123), 2)
    sample(full_target(PROBLEM), kernel, NoBrightness(), [0, 0], 100, 5, burn_in=500)
    assert kernel.step.current[0] == 0.123


def _broken(target):
    rows = PROBLEM.features.rows.copy()
    rows[1, 0] = np.nan
    return target._replace(features=type(PROBLEM.features)(rows))


def test_a_density_that_is_not_a_number_is_an_error():
    broken = _broken(full_target(PROBLEM))
    kernel = random_walk.build(SimpleNamespace(target_accept=0.234, step=0.5), 2)
    with pytest.raises(DensityError, match="not a number"):
        sample(broken, kernel, NoBrightness(), [0, 0], 10, 1, burn_in=5)


def test_so_is_one_of_a_datum_that_would_have_stayed_dark():
    kernel = random_walk.build(SimpleNamespace(target_accept=0.234, step=0.5), 2)
    with pytest.raises(DensityError, match="not a number"):
        sample(_broken(firefly_target(PROBLEM)), kernel, implicit(0.3, 40), [0, 0], 10, 1, burn_in=5)
