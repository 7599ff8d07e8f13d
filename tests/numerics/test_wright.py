"""Wright's function and its moments beside sums of all terms, in each of the ways that sum them."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, psi, zeta

from flyrun.ground.numerics import wright

J = np.arange(1.0, 6_001.0)
ALPHAS = [0.0101, 0.3, 0.667, 1.5, 9.0, 99.0]
RANGES = [(-30.0, 2.0), (0.0, 3.5), (2.0, 7.0)]


def sums(alpha, low, high, many=600):
    """z and slopes of sums whose largest terms are between e^low and e^high."""
    rng = np.random.default_rng(0)
    log_top = rng.uniform(low, high, many)
    return (1.0 + alpha) * log_top + alpha * np.log(alpha), rng.normal(size=many)


def logs(z, alpha):
    """Of all terms, (n, J)."""
    return J * z[:, None] - gammaln(J + 1.0) - gammaln(J * alpha)


def moments(z, alpha, slope):
    each = logs(z, alpha)
    weight = np.exp(each - logsumexp(each, axis=1)[:, None])
    at, q = alpha * J, J * (slope[:, None] + alpha * psi(alpha * J))
    by_j, by_q = weight @ J, (weight * q).sum(axis=1)
    left, of_q = J - by_j[:, None], q - by_q[:, None]
    spread = [(weight * value).sum(axis=1) for value in (left**2, left * of_q, of_q**2)]
    return by_j, by_q, *spread, weight @ (J * J * zeta(2.0, at))


def beside_all_terms(alpha, low, high):
    """The largest errors of log W and of moments, where sums share terms and where they do not."""
    z, slope = sums(alpha, low, high)
    truth, log_truth = moments(z, alpha, slope), logsumexp(logs(z, alpha), axis=1)
    few, own = slice(0, 30), np.full(30, alpha)
    own[0] *= 1.0 + 1e-12  # another α, so that tables have two rows
    off = []
    for part, which in ((slice(None), alpha), (few, alpha), (few, own)):
        away = wright.log_wright(z[part], which) - log_truth[part]
        off.append(np.abs(away) / (1.0 + np.abs(log_truth[part])))
        log_w, *got = wright.wright_moments(z[part], which, slope[part])
        off.append(np.abs(log_w - log_truth[part]) / (1.0 + np.abs(log_truth[part])))
        for k in range(6):
            size = 1.0 + np.abs(truth[k][part])
            off.append(1e-2 * np.abs(got[k] - truth[k][part]) / size)
    return max(float(each.max()) for each in off)


@pytest.mark.thorough(but=6)
@pytest.mark.parametrize(("low", "high"), RANGES)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_sums_are_those_of_all_terms(alpha, low, high):
    assert beside_all_terms(alpha, low, high) < 2e-11 * max(1.0, alpha / 9.0)  # q is of the size of α


@pytest.mark.parametrize("alpha", ALPHAS[:4])
def test_a_sum_that_ends_too_early_is_caught(monkeypatch, alpha):
    """The broken twin: 3 sds to each side, of which a sum of large j has nothing to spare."""
    monkeypatch.setattr(wright, "FAR", 3.0)
    assert beside_all_terms(alpha, 2.0, 7.0) > 1e-9


def test_what_is_no_number_is_0_and_shapes_broadcast():
    z = np.where(np.arange(700) % 3 == 0, np.nan, 0.5)
    assert (wright.log_wright(z, 0.7)[::3] == 0.0).all()
    assert not np.stack(wright.wright_moments(z, 0.7, 1.0))[:, ::3].any()
    alpha, column = np.array([0.4, 0.9]), np.linspace(-3.0, 3.0, 400)[:, None]
    both = wright.log_wright(column, alpha)
    assert both.shape == (400, 2)
    np.testing.assert_allclose(both[:5], wright.log_wright(column[:5], alpha), rtol=1e-13)
    assert np.ndim(wright.log_wright(0.3, 0.7)) == 0
