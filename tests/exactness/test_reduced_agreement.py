"""All arms of cifar_softmax and opv_robust, on fewer rows and columns of their data, agree with a reference.

No chain made it: it is importance sampling from a t₈ at the mode, in plain NumPy.
"""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

import flyrun.experiments.data
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.diagnostics.coda import effective_size

N_ROWS, N_COLUMNS = 1500, 9
N_DRAWS, FREEDOM = 40_000, 8
BURN_IN, N_ITERATIONS = 4_000, 60_000


def _softmax(data, arm):
    labels, scale = data.target, arm.prior.scale

    def log_posterior(thetas):
        eta = data.features @ thetas.reshape(-1, 3, N_COLUMNS).swapaxes(1, 2)
        log_l = log_softmax(eta, axis=2)[:, np.arange(N_ROWS), labels].sum(axis=1)
        return log_l - 0.5 * (thetas**2).sum(axis=1) / scale**2

    return log_posterior, 3 * N_COLUMNS


def _robust(data, arm):
    sigma, scale = arm.model.scale, arm.prior.scale

    def log_posterior(thetas):
        r = (data.target - thetas @ data.features.T) / sigma
        return -2.5 * np.log1p(r**2 / 4.0).sum(axis=1) - np.abs(thetas).sum(axis=1) / scale

    return log_posterior, N_COLUMNS


def _reference(log_posterior, size):
    """Posterior means, sds and the means' Monte Carlo standard errors."""
    rng, eps = np.random.default_rng(20140722), 1e-4
    mode = minimize(lambda t: -log_posterior(t[None])[0], np.zeros(size), options={"gtol": 1e-3}).x
    units = np.eye(size) * eps
    pairs = mode + units[:, None] + units[None], mode + units[:, None] - units[None]
    plus, minus = (log_posterior(pair.reshape(-1, size)).reshape(size, size) for pair in pairs)
    single = log_posterior(mode + units) + log_posterior(mode - units)
    centre = log_posterior(mode[None])[0]
    # second differences: f(i+j) − f(i−j) is odd in j, so pair it with its mirror image
    mirror = log_posterior((mode - units[:, None] + units[None]).reshape(-1, size)).reshape(size, size)
    both = log_posterior((mode - units[:, None] - units[None]).reshape(-1, size)).reshape(size, size)
    hessian = (plus - minus - mirror + both) / (4 * eps**2)
    hessian[np.diag_indices(size)] = (single - 2 * centre) / eps**2
    root = np.linalg.cholesky(-(hessian + hessian.T) / 2)
    thetas, log_weights = [], []
    for _ in range(N_DRAWS // 500):
        z = rng.standard_normal((500, size)) / np.sqrt(rng.chisquare(FREEDOM, (500, 1)) / FREEDOM)
        theta = mode + np.linalg.solve(root.T, z.T).T
        thetas.append(theta)
        log_proposal = -0.5 * (FREEDOM + size) * np.log1p((z**2).sum(axis=1) / FREEDOM)
        log_weights.append(log_posterior(theta) - log_proposal)
    theta, log_weight = np.concatenate(thetas), np.concatenate(log_weights)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1.0 / (weight**2).sum() > 2_000
    mean = weight @ theta
    return mean, np.sqrt(weight @ (theta - mean) ** 2), np.sqrt(weight**2 @ (theta - mean) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize(("experiment", "make"), [("cifar_softmax", _softmax), ("opv_robust", _robust)])
def test_all_arms_agree_with_a_reference_that_no_chain_made(experiment, make, tmp_path, monkeypatch):
    lengths = [f"protocol.iterations={BURN_IN + N_ITERATIONS}", f"protocol.burn_in={BURN_IN}"]
    arms = compose_job([f"experiment={experiment}", *lengths, "protocol.thin=5"]).arms
    data = flyrun.experiments.data.load(dataclasses.replace(arms[0].dataset, limit=N_ROWS))
    data = dataclasses.replace(
        data,
        features=np.ascontiguousarray(data.features[:, -N_COLUMNS:]),
        feature_names=data.feature_names[-N_COLUMNS:],
    )
    monkeypatch.setattr("flyrun.experiments.data.load", lambda config: data)
    mean, sd, mcse = _reference(*make(data, arms[0]))
    means = {}
    for arm in arms:
        program = prepare(arm, tmp_path)
        state, _ = program.advance(program.init(seed=2), BURN_IN)
        theta = program.advance(state, N_ITERATIONS)[1]["theta"]
        variance = sd**2 / effective_size(theta) + mcse**2
        means[arm.name] = (theta.mean(axis=0) - mean) / np.sqrt(variance)
        spread = theta.std(axis=0) / sd
        # 27 or 9 scores an arm from sds and ESS that are themselves estimates: |z| < 4.5 at this seed
        assert np.abs(means[arm.name]).max() < 4.5, arm.name
        assert np.abs(np.log(spread)).max() < 0.25, arm.name
    assert {"regular", "untuned", "map_tuned"} <= set(means)
