"""Normal noise in closed form: against weights, against the target's covariance, where digits end."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from flyrun.fitting import gaussian_noise, weighted_draws
from flyrun.fitting.table_rows import Rows
from flyrun.ground.errors import FlyrunError
from tests.fit.test_weighted import posterior, simulated


def test_normal_noise_in_closed_form_is_what_weights_give():
    made, _ = simulated("gaussian", 30, 4, np.random.default_rng(2))
    x = gaussian_noise.draw(made, np.random.default_rng(0), 20_000)
    exact = made.log_density(x)
    proposal = weighted_draws.Mixture.of(x.mean(axis=0), np.cov(x.T))
    found = weighted_draws.by_all_rows(made, proposal, np.random.default_rng(1), 20_000)
    mean, covariance = found.moments()
    error = 4.5 * np.sqrt(1 / found.effective + 1 / len(x))
    sd = np.sqrt(np.diag(covariance))
    assert np.abs((x.mean(axis=0) - mean) / sd).max() < error
    assert np.abs(x.std(axis=0) / sd - 1).max() < error
    assert np.isfinite(exact).all()


def by_covariance(made, a):
    """Density of log sigma at a (G,), of sum 1, by the covariance that the target has under the prior."""
    rows, sd = made.rows, made.prior.sd
    whole = (rows.features * sd**2) @ rows.features.T
    target = stats.multivariate_normal
    log = [target.logpdf(rows.target, cov=whole + np.exp(2 * one) * np.eye(len(rows))) for one in a]
    log = np.array(log) + made.auxiliary[0].prior.log_density(a)
    return np.exp(log - logsumexp(log))


@pytest.mark.parametrize("seed", range(4))
def test_more_columns_than_rows_are_answered(seed):
    wide, _ = simulated("gaussian", 12, 20, np.random.default_rng(seed))
    x = gaussian_noise.draw(wide, np.random.default_rng(0), 4_000)
    a = np.linspace(-12.0, 4.0, 300)
    density = by_covariance(wide, a)
    mean = density @ a
    sd = np.sqrt(density @ (a - mean) ** 2)
    assert abs(x[:, -1].mean() - mean) < 0.07 * sd
    assert abs(x[:, -1].std() / sd - 1) < 0.07


def test_sums_of_squares_that_cancel_would_find_mass_of_rounding(monkeypatch):
    """Far below the target's sd: the control is the same density by differences of large sums."""
    monkeypatch.setattr(gaussian_noise, "_LOWEST", 24.0)
    spurious = 0
    for seed in range(8):
        wide, _ = simulated("gaussian", 12, 20, np.random.default_rng(seed))
        x = gaussian_noise.draw(wide, np.random.default_rng(0), 1000)
        assert x[:, -1].min() > -12.0
        y, v = wide.rows.target, np.exp(2 * np.linspace(-24, 0, 200))[:, None]
        size, basis = np.linalg.eigh(wide.rows.features.T @ wide.rows.features)
        along, size = basis.T @ (wide.rows.features.T @ y), np.maximum(size, 0.0)
        log = -0.5 * (len(y) * np.log(v[:, 0]) + y @ y / v[:, 0] + np.log1p(size / v).sum(axis=1))
        log += 0.5 * (along**2 / (v * (size + v))).sum(axis=1)
        spurious += np.abs(np.diff(log[:30])).max() > 1.0  # it is flat there: rows are fitted exactly
    assert spurious


def test_columns_that_explain_the_target_to_its_last_digits_are_refused():
    made, _ = simulated("gaussian", 30, 4, np.random.default_rng(2))
    exact = posterior("gaussian", Rows(made.rows.features, made.rows.features @ np.arange(4.0)), 4)
    with pytest.raises(FlyrunError, match="last digits"):
        gaussian_noise.draw(exact, np.random.default_rng(0), 100)


def test_rounding_turns_no_draws():
    """The signs of two standardised columns' vectors hang on last digits; draws must not."""
    made, _ = simulated("gaussian", 50, 3, np.random.default_rng(0))
    found = []
    for off in (-1e-13, 0.0, 1e-13, 2e-13):
        gram = np.array([[50.0, 9.0 + off, off], [9.0 + off, 50.0, -off], [off, -off, 50.0]])
        sums = gaussian_noise.Sums(gram, np.array([30.0, -20.0, 1.0]), 80.0, 50.0)
        found.append(gaussian_noise.draw_from(sums, made, np.random.default_rng(1), 20))
    assert max(np.abs(one - found[0]).max() for one in found) < 1e-9
