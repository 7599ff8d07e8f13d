"""Families of regression models: derivatives against differences, densities against SciPy's."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, gammaln, ndtr

from flyrun.families import rising
from flyrun.families.family import family, names
from flyrun.families.prior_densities import (
    HalfNormal,
    HalfT,
    InverseGamma,
    Laplace,
    LogGamma,
    LogitBeta,
    LogNormal,
    Normal,
    StudentT,
)

LEVELS, N = 4, 60


def rows(one, seed=0):
    """y, trials and predictors of some rows, the predictors drawn apart for each."""
    rng = np.random.default_rng(seed)
    size = one.linear(LEVELS) + len(one.auxiliary(LEVELS, 1.0))
    p = [rng.normal(size=N) for _ in range(size)]
    trials = rng.integers(1, 6, N).astype(float) if one.target == "successes" else np.ones(N)
    return np.asarray(one.draw(rng, trials.astype(int), p), float), trials, p


def whole(one, y, trials, p):
    return one.log_density(y, trials, p) + one.alone(y, trials, p[one.linear(LEVELS) :])


def derivatives(one, y, trials, p):
    """Slopes (K, N) and curvature (K, K, N) of all of a log likelihood."""
    size, first = len(p), one.linear(LEVELS)
    slopes, curvature = np.zeros((size, N)), np.zeros((size, size, N))
    for parts, at in ((one.derivatives(y, trials, p), 0), (one.alone_derivatives, first)):
        if callable(parts):
            parts = parts(y, trials, p[first:])
        if parts is not None:
            for j, slope in enumerate(parts[0]):
                slopes[at + j] += slope
                for k, value in enumerate(parts[1][j]):
                    curvature[at + j, at + k] += value
    return slopes, curvature


@pytest.mark.parametrize("name", names())
def test_derivatives_are_those_of_the_density(name):
    one = family(name)
    assert one.name == name
    y, trials, p = rows(one)
    slopes, curvature = derivatives(one, y, trials, p)
    step = 1e-5
    for k in range(len(p)):
        above, below = ([v + sign * step * (j == k) for j, v in enumerate(p)] for sign in (1, -1))
        rise = (whole(one, y, trials, above) - whole(one, y, trials, below)) / (2 * step)
        # differences are off by the rounding of large terms that cancel, over the step
        np.testing.assert_allclose(slopes[k], rise, rtol=1e-7, atol=1e-7)
        pair = [derivatives(one, y, trials, side)[0] for side in (above, below)]
        np.testing.assert_allclose(curvature[k], (pair[1] - pair[0]) / (2 * step), rtol=1e-7, atol=1e-7)
        assert np.abs(rise).max() > 1e-3  # a slope that is nowhere would pass the above


CUMULANTS = {"exp": np.exp, "softplus": lambda eta: np.log1p(np.exp(eta))}


@pytest.mark.parametrize("name", names())
def test_a_family_has_the_cumulant_function_that_it_names_and_else_none(name):
    one = family(name)
    y, trials, p = rows(one)
    has = [
        kind
        for kind, a in CUMULANTS.items()
        if one.linear(LEVELS) == len(p) == 1
        and np.allclose(one.log_density(y, trials, p), y * p[0] - trials * a(p[0]), atol=1e-12)
    ]
    assert has == [one.cumulant] * bool(one.cumulant)


SCIPY = {
    "logistic": lambda y, k, p: stats.bernoulli.logpmf(y, 1 / (1 + np.exp(-p[0]))),
    "binomial": lambda y, k, p: stats.binom.logpmf(y, k, 1 / (1 + np.exp(-p[0]))),
    "poisson": lambda y, k, p: stats.poisson.logpmf(y, np.exp(p[0])),
    "negative_binomial": lambda y, k, p: stats.nbinom.logpmf(
        y, np.exp(p[1]), np.exp(p[1]) / (np.exp(p[1]) + np.exp(p[0]))
    ),
}


@pytest.mark.parametrize("name", sorted(set(SCIPY) & set(names())))
def test_densities_are_scipys_up_to_terms_of_the_target_alone(name):
    one = family(name)
    y, trials, p = rows(one)
    other = [value + 0.7 for value in p]
    ours = whole(one, y, trials, p) - whole(one, y, trials, other)
    np.testing.assert_allclose(ours, SCIPY[name](y, trials, p) - SCIPY[name](y, trials, other), atol=1e-10)


#: each prior with SciPy's distribution of the number itself, and what a is of it
SCIPY_PRIORS = {
    Normal(-1.0, 2.0): (stats.norm(-1.0, 2.0), ""),
    StudentT(3.0, 0.5, 2.0): (stats.t(3.0, 0.5, 2.0), ""),
    StudentT(1.0, 0.5, 2.0): (stats.cauchy(0.5, 2.0), ""),
    Laplace(0.4, 1.5): (stats.laplace(0.4, 1.5), ""),
    LogGamma(1.0, 0.5): (stats.expon(scale=2.0), "log"),
    LogGamma(2.0, 0.1): (stats.gamma(2.0, scale=10.0), "log"),
    HalfNormal(1.5): (stats.halfnorm(scale=1.5), "log"),
    HalfT(1.0, 2.0): (stats.halfcauchy(scale=2.0), "log"),
    HalfT(3.0, 2.5): (stats.foldnorm(0.0), "half_t"),
    InverseGamma(3.0, 2.0): (stats.invgamma(3.0, scale=2.0), "log"),
    LogNormal(0.5, 1.2): (stats.lognorm(1.2, scale=np.exp(0.5)), "log"),
    LogitBeta(2.0, 5.0): (stats.beta(2.0, 5.0), "logit"),
}  # fmt: skip


@pytest.mark.parametrize("prior", SCIPY_PRIORS, ids=str)
def test_priors_are_scipys_densities_with_their_slopes_and_draws(prior):
    known, scale = SCIPY_PRIORS[prior]
    a = np.linspace(-3.0, 2.5, 12)
    if scale == "log":
        expected = known.logpdf(np.exp(a)) + a
    elif scale == "logit":
        expected = known.logpdf(expit(a)) + np.log(expit(a) * expit(-a))
    elif scale == "half_t":
        expected = np.log(2.0) + stats.t(3.0, 0.0, 2.5).logpdf(np.exp(a)) + a
    else:
        expected = known.logpdf(a)
    np.testing.assert_allclose(prior.log_density(a), expected, rtol=1e-10)
    slope, bend = prior.derivatives(a)
    if not isinstance(prior, Laplace):  # whose corner is rounded
        ends = [prior.log_density(a + h) for h in (-1e-5, 1e-5)]
        np.testing.assert_allclose(slope, (ends[1] - ends[0]) / 2e-5, atol=1e-7)
    ends = [prior.derivatives(a + h)[0] for h in (-1e-5, 1e-5)]
    np.testing.assert_allclose(bend, -(ends[1] - ends[0]) / 2e-5, atol=1e-6)
    rng = np.random.default_rng(0)
    drawn = np.sort([prior.draw(rng) for _ in range(4_000)])
    grid = np.linspace(-60.0, 60.0, 400_001)
    below = np.cumsum(np.exp(prior.log_density(grid))) * (grid[1] - grid[0])
    if prior.of:
        assert below[-1] == pytest.approx(1.0, abs=1e-4)
        assert stats.kstest(drawn, lambda x: np.interp(x, grid, below)).pvalue > 1e-3


@pytest.mark.parametrize("prior", SCIPY_PRIORS, ids=str)
def test_a_prior_in_another_unit_is_that_of_the_scaled_number(prior):
    a = np.linspace(-1.0, 1.0, 5)
    if prior.of == "log":
        np.testing.assert_allclose(prior.scaled(3.0).log_density(a + np.log(3.0)), prior.log_density(a))
    elif not prior.of:
        moved = prior.scaled(3.0, 0.7).log_density(0.7 + 3.0 * a) + np.log(3.0)
        np.testing.assert_allclose(moved, prior.log_density(a))


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "gamma", "binomial", "probit"])
def test_draws_have_the_moments_that_they_should_however_large(name):
    one, rng = family(name), np.random.default_rng(3)
    for eta in (3.0, 60.0):
        many = 20_000
        p, trials = [np.full(many, eta)], np.full(many, 1e20 if one.link != "log" else 1.0)
        if name != "poisson" and one.link == "log":
            p.append(np.full(many, np.log(4.0)))
        if one.link != "log":
            p[0] = np.full(many, 0.3 if eta == 3.0 else -8.0)
        drawn = np.asarray(one.draw(rng, trials, p), float)
        mean = np.exp(eta)
        variance = {"poisson": mean, "negative_binomial": mean + mean**2 / 4.0, "gamma": mean**2 / 4.0}
        if one.link != "log":
            chance = (expit if one.link == "logit" else ndtr)(p[0][0])
            mean, variance = 1e20 * chance, {name: 1e20 * chance * (1.0 - chance)}
        sd = np.sqrt(variance[name])
        assert abs(drawn.mean() - mean) < 5 * sd / np.sqrt(many)
        assert drawn.std() == pytest.approx(sd, rel=0.05)


@pytest.mark.parametrize("name", [name for name in names() if name != "softmax"])
def test_no_predictor_is_too_far_out_for_a_draw(name, recwarn):
    one, rng = family(name), np.random.default_rng(4)
    far = np.array([-np.inf, -1e300, -800.0, 50.0, 800.0, 1e300, np.inf])
    others = [np.zeros(7)] * (len(one.auxiliary(3, 1.0)) + one.linear(3) - 1)
    drawn = np.asarray(one.draw(rng, np.ones(7), [far, *others]), float)
    assert not np.isnan(drawn).any()
    # zeros in excess stay; an inverse Gaussian number of a mean without end is finite
    if one.link == "log" and one.mean is None and name != "inverse_gaussian":
        assert list(np.isinf(drawn)) == [False] * 4 + [True] * 3
        assert (drawn[:3] <= 1e-300).all()
    assert not recwarn.list


@pytest.mark.parametrize("name", ["gamma", "negative_binomial"])
def test_no_shape_is_too_far_out_for_a_draw(name, recwarn):
    shapes = np.array([-1e300, -800.0, 30.0, 800.0, 1e300])
    drawn = family(name).draw(np.random.default_rng(4), 1.0, [np.full(5, 5.0), shapes])
    assert np.isfinite(drawn).all()
    assert drawn[2:] == pytest.approx(np.exp(5.0), rel=0.5)
    assert not recwarn.list


@pytest.mark.parametrize("log_m", [-30.0, 0.0, 4.6, 4.7, 12.0, 37.0, 80.0])
def test_a_ratio_of_gammas_keeps_its_digits(log_m):
    """Beside the product that it is; two logs of gammas, the control, lose theirs from m = 1e12 on."""
    y, at, small = np.array([0.0, 1.0, 4.0, 30.0]), np.full(4, log_m), math.exp(-log_m)
    terms = [np.arange(n) * small for n in y]  # k/m of each factor m + k
    whole = np.array([n * log_m + np.log1p(k).sum() for n, k in zip(y, terms, strict=True)])
    assert rising.log_ratio(y, at) == pytest.approx(whole, rel=1e-13, abs=1e-12)
    slopes = [(1.0 / (1.0 + k)).sum() for k in terms]
    assert rising.slope(y, at) == pytest.approx(slopes, rel=1e-9, abs=1e-9)
    seconds = [(k / (1.0 + k) ** 2).sum() for k in terms]
    assert rising.second(y, at) == pytest.approx(seconds, rel=1e-6, abs=1e-9)
    naive = gammaln(y + math.exp(log_m)) - gammaln(math.exp(log_m))
    assert (log_m < 28.0) == bool(np.abs(naive - whole).max() < 1e-3)
