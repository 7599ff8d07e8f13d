"""MALA: one step with planted randomness, tuning, and what it says of a density that is not a number."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.samplers.chain import mala
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.targets.target import start
from flyrun.experiments.samplers.chain.update import update
from flyrun.ground.errors import DensityError
from tests.exactness.chains import full_target, sample, softmax_toy
from tests.samplers.known_draws import KnownDraws

PROBLEM = softmax_toy()


def _log_posterior(theta):
    x, labels = PROBLEM.features.rows[:, 0].astype(float), PROBLEM.model.labels
    eta = np.outer(x, theta)
    top = eta.max(axis=1, keepdims=True)
    log_p = eta - top - np.log(np.exp(eta - top).sum(axis=1, keepdims=True))
    gradient = np.array([(x * ((labels == k) - np.exp(log_p[:, k]))).sum() for k in range(3)])
    return log_p[np.arange(len(x)), labels].sum() - theta @ theta / 4.5, gradient - theta / 2.25


@pytest.mark.thorough
@pytest.mark.parametrize("uniform", [0.0, 0.999999])
@pytest.mark.parametrize("step", [0.2, 0.9])
def test_one_step_follows_the_formula(uniform, step):
    theta, normals = np.array([0.3, -0.1, 0.4]), np.array([1.0, -2.0, 0.5])
    target, here = full_target(PROBLEM, True), theta.copy()
    start.methods[type(target)](target, None, theta)
    kernel = mala.build(SimpleNamespace(target_accept=0.57, step=step), 3)
    acceptance = update.methods[mala.Mala](kernel, KnownDraws(normals, uniform), target, theta)
    log_here, gradient = _log_posterior(here)
    proposal = here + step**2 / 2 * gradient + step * normals
    log_there, back = _log_posterior(proposal)
    log_forward = -0.5 * normals @ normals
    log_back = -0.5 * np.sum((here - proposal - step**2 / 2 * back) ** 2) / step**2
    expected = min(1.0, np.exp(log_there + log_back - log_here - log_forward))
    assert acceptance == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(theta, proposal if uniform < expected else here, rtol=1e-12)


@pytest.mark.thorough
def test_the_step_is_tuned_to_accept_057_and_then_frozen():
    kernel = mala.build(SimpleNamespace(target_accept=0.57, step=None), 3)
    target, sweep = full_target(PROBLEM, True), NoBrightness()
    draws = sample(target, kernel, sweep, np.zeros(3), 20_000, seed=5, burn_in=5000)
    assert kernel.step.current[0] == pytest.approx(np.exp(kernel.step.average[0]))
    assert draws.accepted.mean() == pytest.approx(0.57, abs=0.03)


@pytest.mark.thorough
def test_a_density_that_is_not_a_number_is_an_error():
    # in the prior: rows, here whole numbers, would be others that could hold it, and compiled for anew
    broken = full_target(PROBLEM._replace(prior=PROBLEM.prior._replace(scale=np.nan)), True)
    kernel = mala.build(SimpleNamespace(target_accept=0.57, step=0.5), 3)
    with pytest.raises(DensityError, match="not a number"):
        sample(broken, kernel, NoBrightness(), np.zeros(3), 10, 1, burn_in=5)
