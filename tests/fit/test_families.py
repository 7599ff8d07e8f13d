"""Families beside a second implementation: densities, survival functions, means and what is drawn."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from flyrun.families.family import family, names

SURVIVAL = [name for name in names() if family(name).log_survival is not None]
#: SciPy's distribution at e^η, or η, and auxiliary numbers as people read them
SCIPY = {
    "exponential": lambda level: stats.expon(scale=level),
    "weibull": lambda level, shape: stats.weibull_min(shape, scale=level),
    "log_logistic": lambda level, shape: stats.fisk(shape, scale=level),
    "lognormal": lambda level, sigma: stats.lognorm(sigma, scale=level),
    "gaussian": lambda middle, sigma: stats.norm(middle, sigma),
}
#: targets and auxiliary numbers, as they are sampled, from the easy to the extreme
CASES = {
    "exponential": ([0.3, 2.0, 1e-9, 40.0], []),
    "weibull": ([0.3, 2.0, 1e-9, 9.0], [[0.0, 0.7, -2.0, 0.3]]),
    "log_logistic": ([0.3, 2.0, 1e-5, 40.0], [[0.0, 0.9, -2.0, 1.5]]),
    "lognormal": ([0.3, 2.0, 1e-9, 1e6], [[0.0, -0.7, 2.0, 1.5]]),
    "gaussian": ([0.3, -2.0, 1e-9, 6.0], [[0.0, -0.7, 2.0, 0.5]]),
}
ETA = np.array([0.4, -1.2, 2.0, -0.3])


def of_people(own, p):
    """Auxiliary numbers as people read them, (A, n)."""
    return own.read(np.stack(p[1:], axis=-1)).T if len(p) > 1 else ()


def at(name):
    """Targets, predictors, what SciPy has there, whose numbers are arrays."""
    y, others = CASES[name]
    own, p = family(name), [ETA, *map(np.array, others)]
    level = ETA if own.link == "identity" else expit(ETA) if own.link == "logit" else np.exp(ETA)
    read = of_people(own, p)
    return np.array(y), p, SCIPY[name](level, *read)


@pytest.mark.parametrize("name", SCIPY)
def test_a_density_is_scipys(name):
    own, (y, p, theirs) = family(name), at(name)
    log = theirs.logpmf if own.domain.whole else theirs.logpdf
    ours = own.log_density(y, 1.0, p) + own.alone(y, 1.0, p[1:]) + own.constant(y, 1.0)
    np.testing.assert_allclose(ours, log(y), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SURVIVAL)
def test_a_survival_function_is_scipys_in_both_tails(name):
    own, (y, p, theirs) = family(name), at(name)
    np.testing.assert_allclose(own.log_survival(y, p), theirs.logsf(y), rtol=1e-9)
    np.testing.assert_allclose(-np.expm1(own.log_survival(y, p)), theirs.cdf(y), rtol=1e-9)


@pytest.mark.parametrize("name", SURVIVAL)
def test_derivatives_of_a_survival_function_are_those_by_differences(name):
    own, (y, p, _) = family(name), at(name)
    slopes, curvatures = own.log_survival_derivatives(y, p)
    for k in range(len(p)):
        up, down = ([one + way * 1e-5 * (j == k) for j, one in enumerate(p)] for way in (1.0, -1.0))
        rise = (own.log_survival(y, up) - own.log_survival(y, down)) / 2e-5
        np.testing.assert_allclose(slopes[k], rise, rtol=1e-7, atol=1e-8)
        above, below = (own.log_survival_derivatives(y, q)[0] for q in (up, down))
        for j in range(len(p)):
            bend = (below[j] - above[j]) / 2e-5
            np.testing.assert_allclose(curvatures[j][k], bend, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", SCIPY)
def test_draws_follow_the_density(name):
    """By Kolmogorov's distance, of counts by each count's share; of a wrong scale it is far."""
    own, (_, p, _) = family(name), at(name)
    p = [np.full(4_000, one[0]) for one in p]
    drawn = own.draw(np.random.default_rng(0), 1, p)
    frozen = SCIPY[name](p[0] if own.link == "identity" else np.exp(p[0]), *of_people(own, p))
    if own.domain.whole:
        values, counts = np.unique(drawn, return_counts=True)
        expected = frozen.cdf(values)
        assert np.abs(np.cumsum(counts) / 4_000 - expected).max() < 0.03
        return
    u = frozen.cdf(drawn)
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.kstest(frozen.cdf(1.3 * drawn), "uniform").pvalue < 1e-3  # the control
