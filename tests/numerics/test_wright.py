"""Wright's function and its derivatives beside sums of all terms, in each of the ways that work them out."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, psi, zeta

from flyrun.ground.numerics import wright

J = np.arange(1.0, 6_001.0)
ALPHAS = [0.0101, 0.3, 0.667, 1.5, 9.0, 99.0]
RANGES = [(-30.0, 2.0), (0.0, 3.5), (2.0, 7.0)]


def of_all_terms(z, alpha):
    """log W and its derivatives by z, a = log α, zz, za and aa, (6, n), of z and α (n,)."""
    alpha = np.broadcast_to(alpha, z.shape)[:, None]
    at = J * alpha
    logs = J * z[:, None] - gammaln(J + 1.0) - gammaln(at)
    log_w = logsumexp(logs, axis=1)
    weight, by_a = np.exp(logs - log_w[:, None]), -at * psi(at)
    first, second = weight @ J, (weight * by_a).sum(axis=1)
    j, q = J - first[:, None], by_a - second[:, None]
    zz, za, aa = ((weight * value).sum(axis=1) for value in (j * j, j * q, q * q - at * at * zeta(2.0, at)))
    return np.array([log_w, first, second, zz, za, aa + second])


def points(alpha, low, high, many):
    """z of sums whose largest terms are between e^low and e^high."""
    log_top = np.random.default_rng(0).uniform(low, high, many)
    return (1.0 + alpha) * log_top + alpha * np.log(alpha)


@pytest.fixture
def fresh():
    """No polynomials of other settings, before or after."""
    wright._piece.cache_clear()
    yield
    wright._piece.cache_clear()


def off_by_sums(alpha, low, high):
    """The largest relative error of sums, of one α and of several."""
    z = points(alpha, low, high, 30)
    off = []
    for which in (np.full(30, alpha), alpha * (1.0 + 1e-3 * np.arange(30.0))):
        truth = of_all_terms(z, which)
        for got in (wright.log_wright(z, which)[None], np.array(wright.wright_derivatives(z, which))):
            off.append(np.abs(got - truth[: len(got)]) / (1.0 + np.abs(truth[: len(got)])))
    return max(float(each.max()) for each in off)


def off_by_cells(alpha, low, high):
    """The largest error of log W that is read off, and of its derivatives by what they are; of one α."""
    z = np.tile(points(alpha, low, high, 200), max(3, int(2.0 * (high - low) * (1.0 + alpha))))
    assert np.ptp(z) < len(z) * wright.CELL  # so that they are read off
    truth = of_all_terms(z[:200], alpha)
    got = np.array(wright.wright_derivatives(z, alpha))[:, :200]
    np.testing.assert_array_equal(got[0], wright.log_wright(z, alpha)[:200])
    return np.abs(got[0] - truth[0]).max(), (np.abs(got - truth) / (1.0 + np.abs(truth))).max()


@pytest.mark.thorough(but=6)
@pytest.mark.parametrize(("low", "high"), RANGES)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_sums_are_those_of_all_terms(alpha, low, high):
    assert off_by_sums(alpha, low, high) < 2e-11 * max(1.0, alpha / 9.0)  # slopes are of the size of α


@pytest.mark.parametrize("alpha", ALPHAS[:4])
def test_a_sum_that_ends_too_early_is_caught(monkeypatch, alpha):
    """The broken twin: 3 sds to each side, of which a sum of large j has nothing to spare."""
    monkeypatch.setattr(wright, "FAR", 3.0)
    assert off_by_sums(alpha, 2.0, 7.0) > 1e-9


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize(("low", "high"), [(-20.0, 2.0), (0.0, 3.5), (2.0, 7.0)])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_what_is_read_off_cells_is_log_w(alpha, low, high, fresh):
    """To 2e-10 nats: sums of 10⁶ rows keep ten digits and more. A second derivative has seven."""
    of_log, of_all = off_by_cells(alpha, low, high)
    assert of_log < 2e-10
    assert of_all < 3e-7


@pytest.mark.parametrize("alpha", [0.667, 1.5, 9.0])
def test_cells_that_are_too_wide_are_caught(monkeypatch, alpha, fresh):
    """The broken twin: nodes twice as far apart, 64 times the error."""
    monkeypatch.setattr(wright, "CELL", 2.0 * wright.CELL)
    of_log, of_all = off_by_cells(alpha, 0.0, 3.5)
    assert of_log > 2e-10
    assert of_all > 3e-7


def off_between(low, high, many=8_000):
    """The most error of log W between nodes in log α, of α from low to high, by α where that is above 1."""
    alpha = np.exp(np.random.default_rng(1).uniform(np.log(low), np.log(high), many))
    z = points(alpha, -3.0, 3.0, many)
    assert (np.ptp(np.log(alpha)) / wright.APART + 6) * max(np.ptp(z) / wright.CELL, 64) < many  # read off
    which = slice(0, 200)
    off = wright.log_wright(z, alpha)[which] - of_all_terms(z[which], alpha[which])[0]
    return float((np.abs(off) / np.maximum(1.0, alpha[which])).max())


@pytest.mark.parametrize(("low", "high"), [(0.0101, 0.0105), (0.6, 0.7), (1.5, 1.8), (9.0, 9.1)])
def test_what_is_read_off_between_many_alphas_is_log_w(low, high, fresh):
    assert off_between(low, high) < 3e-10


@pytest.mark.parametrize(("low", "high"), [(0.6, 0.7), (1.5, 1.8)])
def test_nodes_in_alpha_that_are_too_far_apart_are_caught(monkeypatch, low, high, fresh):
    monkeypatch.setattr(wright, "APART", 3.0 * wright.APART)
    assert off_between(low, high) > 3e-10


def test_what_is_no_number_stays_so_and_shapes_broadcast():
    z = np.where(np.arange(700) % 3 == 0, np.nan, 0.5)
    assert np.isnan(wright.log_wright(z, 0.7)[::3]).all()
    assert np.isnan(np.stack(wright.wright_derivatives(z, 0.7))).all(axis=0).sum() == 234
    alpha, column = np.array([0.4, 0.9]), np.linspace(-3.0, 3.0, 400)[:, None]
    both = wright.log_wright(column, alpha)
    assert both.shape == (400, 2)
    np.testing.assert_allclose(both[:5], wright.log_wright(column[:5], alpha), rtol=1e-10)
    assert np.ndim(wright.log_wright(0.3, 0.7)) == 0
    assert wright.log_wright(np.zeros((0, 3)), 0.7).shape == (0, 3)
