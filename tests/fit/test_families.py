"""Families beside a second implementation: densities, survival functions, means and what is drawn."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from flyrun.families import tweedie
from flyrun.families.family import family, names

SURVIVAL = [name for name in names() if family(name).log_survival is not None]
#: SciPy's distribution at e^η, or η, and auxiliary numbers as people read them
SCIPY = {
    "exponential": lambda level: stats.expon(scale=level),
    "weibull": lambda level, shape: stats.weibull_min(shape, scale=level),
    "log_logistic": lambda level, shape: stats.fisk(shape, scale=level),
    "lognormal": lambda level, sigma: stats.lognorm(sigma, scale=level),
    "gaussian": lambda middle, sigma: stats.norm(middle, sigma),
    "student_t": lambda middle, sigma, nu: stats.t(nu, middle, sigma),
    "gamma": lambda level, shape: stats.gamma(shape, scale=level / shape),
}
#: whose derivatives by the last number are by differences
BY_DIFFERENCES = ("gamma", "student_t")


def inflated(of, zi):
    """A distribution of counts, each 0 with chance zi."""

    class Inflated:
        logpmf = staticmethod(lambda y: np.log(zi * (y == 0) + (1.0 - zi) * of.pmf(y)))
        cdf = staticmethod(lambda y: zi + (1.0 - zi) * of.cdf(y))

    return Inflated


def hurdle(of, hu, zero=None):
    """One whose zeros have the chance hu; zero: its own chance of them, 0 of numbers."""
    rest = 1.0 if zero is None else 1.0 - zero
    density = of.logpdf if zero is None else of.logpmf

    def log(y):
        some = np.log1p(-hu) + density(np.where(y == 0, 1.0, y)) - np.log(rest)
        return np.where(y == 0, np.log(hu), some)

    class Hurdle:
        logpmf = logpdf = staticmethod(log)
        cdf = staticmethod(lambda y: hu + (1.0 - hu) * (of.cdf(y) - (1.0 - rest)) / rest)

    return Hurdle


def negative_binomial(level, phi):
    return stats.nbinom(phi, phi / (phi + level))


SCIPY |= {
    "poisson": stats.poisson,
    "negative_binomial": negative_binomial,
    "zero_inflated_poisson": lambda level, zi: inflated(stats.poisson(level), zi),
    "zero_inflated_negative_binomial": lambda level, phi, zi: inflated(negative_binomial(level, phi), zi),
    "hurdle_poisson": lambda level, hu: hurdle(stats.poisson(level), hu, np.exp(-level)),
    "hurdle_negative_binomial": lambda level, phi, hu: hurdle(
        negative_binomial(level, phi), hu, (phi / (phi + level)) ** phi
    ),
}


class Tweedie:
    """Gamma variables, a Poisson's number of them; the number's distribution written out."""

    def __init__(self, mean, phi, power):
        at = np.atleast_1d(mean).astype(float), phi, power
        self.mean, self.phi, self.power = (one[:, None] for one in np.broadcast_arrays(*at))

    def _by_number(self):
        j, power = np.arange(1.0, 20_000.0), self.power
        rate = self.mean ** (2.0 - power) / (self.phi * (2.0 - power))
        scale = self.phi * (power - 1.0) * self.mean ** (power - 1.0)
        gamma = stats.gamma(j * (2.0 - power) / (power - 1.0), scale=scale)
        return stats.poisson(rate).logpmf(0)[:, 0], stats.poisson(rate).logpmf(j), gamma

    def logpdf(self, y):
        none, number, gamma = self._by_number()
        return np.where(
            y == 0.0, none, logsumexp(number + gamma.logpdf(np.where(y == 0.0, 1.0, y)[:, None]), 1)
        )

    def cdf(self, y):
        none, number, gamma = self._by_number()
        few = number[0] > -40.0
        shares = np.exp(number[:, few])
        distribution = stats.gamma(gamma.args[0][:, few], scale=gamma.kwds["scale"])
        return np.exp(none) + (shares * distribution.cdf(y[:, None])).sum(axis=1)


SCIPY["tweedie"] = Tweedie
SCIPY |= {
    "hurdle_gamma": lambda level, shape, hu: hurdle(stats.gamma(shape, scale=level / shape), hu),
    "hurdle_lognormal": lambda level, sigma, hu: hurdle(stats.lognorm(sigma, scale=level), hu),
    "inverse_gaussian": lambda level, shape: stats.invgauss(level / shape, scale=shape),
    "beta_binomial": lambda mean, phi: stats.betabinom(TRIALS, mean * phi, (1.0 - mean) * phi),
}
TRIALS = 9.0  # of a beta-binomial's success
#: targets and auxiliary numbers, as they are sampled, from the easy to the extreme
CASES = {
    "exponential": ([0.3, 2.0, 1e-9, 40.0], []),
    "weibull": ([0.3, 2.0, 1e-9, 9.0], [[0.0, 0.7, -2.0, 0.3]]),
    "log_logistic": ([0.3, 2.0, 1e-5, 40.0], [[0.0, 0.9, -2.0, 1.5]]),
    "lognormal": ([0.3, 2.0, 1e-9, 1e6], [[0.0, -0.7, 2.0, 1.5]]),
    "gaussian": ([0.3, -2.0, 1e-9, 6.0], [[0.0, -0.7, 2.0, 0.5]]),
}
CASES["student_t"] = ([0.3, -2.0, 1e-9, 30.0], [[0.0, -0.7, 2.0, 0.5], [1.0, 0.3, 4.0, 2.0]])
CASES["gamma"] = ([0.3, 2.0, 1e-3, 9.0], [[0.0, 0.7, -2.0, 3.0]])
CASES["poisson"] = ([0.0, 3.0, 9.0, 0.0], [])
CASES["negative_binomial"] = ([0.0, 3.0, 400.0, 0.0], [[0.5, 2.0, -2.0, 4.0]])
CASES |= {
    f"{kind}_{name}": (CASES[name][0], [*CASES[name][1], [-1.0, 2.0, 0.3, -6.0]])
    for kind in ("zero_inflated", "hurdle")
    for name in ("poisson", "negative_binomial")
}
CASES["beta_binomial"] = ([0.0, 3.0, 9.0, 1.0], [[0.5, 2.0, -2.0, 4.0]])
CASES["inverse_gaussian"] = ([0.3, 2.0, 1e-3, 40.0], [[0.0, 0.7, -2.0, 3.0]])
CASES["hurdle_gamma"] = ([0.0, 2.0, 1e-3, 40.0], [[0.0, 0.7, -2.0, 3.0], [-1.0, 2.0, 0.3, -6.0]])
CASES["hurdle_lognormal"] = CASES["hurdle_gamma"]
CASES["tweedie"] = ([0.0, 2.0, 900.0, 1e-3], [[-1.0, 0.5, -4.0, 1.0], [0.3, -3.0, 2.0, 3.0]])
ETA = np.array([0.4, -1.2, 2.0, -0.3])


def of_people(own, p):
    """Auxiliary numbers as people read them, (A, n)."""
    return own.read(np.stack(p[1:], axis=-1)).T if len(p) > 1 else ()


def inverse(own, eta):
    return eta if own.link == "identity" else expit(eta) if own.link == "logit" else np.exp(eta)


def at(name):
    """Targets, predictors, what SciPy has there, whose numbers are arrays."""
    y, others = CASES[name]
    own, p = family(name), [ETA, *map(np.array, others)]
    read = of_people(own, p)
    return np.array(y), p, SCIPY[name](inverse(own, ETA), *read)


@pytest.mark.parametrize("name", SCIPY)
def test_a_density_is_scipys(name):
    own, (y, p, theirs) = family(name), at(name)
    log = theirs.logpmf if own.domain.whole or own.domain.of_trials else theirs.logpdf
    trials = TRIALS if own.domain.of_trials else 1.0
    ours = own.log_density(y, trials, p) + own.alone(y, trials, p[1:]) + own.constant(y, trials)
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
    near = {"rtol": 1e-5, "atol": 1e-5} if name in BY_DIFFERENCES else {"rtol": 1e-7, "atol": 1e-8}
    for k in range(len(p)):
        up, down = ([one + way * 1e-5 * (j == k) for j, one in enumerate(p)] for way in (1.0, -1.0))
        rise = (own.log_survival(y, up) - own.log_survival(y, down)) / 2e-5
        np.testing.assert_allclose(slopes[k], rise, **near)
        above, below = (own.log_survival_derivatives(y, q)[0] for q in (up, down))
        for j in range(len(p)):
            bend = (below[j] - above[j]) / 2e-5
            np.testing.assert_allclose(curvatures[j][k], bend, **near)


@pytest.mark.parametrize("name", SCIPY)
def test_draws_follow_the_density(name):
    own, (_, p, _) = family(name), at(name)
    p = [one[:1] for one in p]
    drawn = own.draw(np.random.default_rng(0), TRIALS, [np.full(4_000, one) for one in p])
    frozen = SCIPY[name](inverse(own, p[0]), *of_people(own, p))

    def apart(values):
        """Kolmogorov's distance; at ties, as of zeros, from above."""
        values = np.sort(values)
        reached = np.searchsorted(values, values, side="right") / len(values)
        return np.abs(reached - frozen.cdf(values)).max()

    assert apart(drawn) < 0.03
    assert apart(2.0 * drawn + 1.0) > 0.05  # the control


PAGE = (Path(__file__).parents[2] / "docs" / "families.md").read_text("utf-8")
ROWS, EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
EACH = EXAMPLES.split("\n\n")


def test_the_page_of_families_has_each_with_its_default_priors():
    lines = dict(re.findall(r"^\| [^|]* \| `(\w+)` \|(.*)$", PAGE, re.MULTILINE))
    assert sorted(lines) == names()
    for name, line in lines.items():
        if name != "ordinal":  # whose cutpoints are as many as there are classes
            for number in family(name).auxiliary(0, 1.0):
                assert f"`{number.name}`: {f'{number.prior} {number.of}'.rstrip()}" in line
    assert [re.search(r'model="(\w+)"', each)[1] for each in EACH] == list(lines)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("example", EACH, ids=[each.split('"')[-2] for each in EACH])
def test_an_example_of_the_page_fits(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    *before, last = f"{ROWS}\n{example}".strip().splitlines()
    exec("\n".join(before), scope)
    found = eval(last, scope).summary()
    assert {"intercept", "x"} <= {*found.index.get_level_values(-1)} or "ordinal" in last
    assert np.isfinite(found["mean"]).all()


def test_no_engine_knows_a_family_by_its_name():
    """But for models that a target calls for by itself, sums of normal noise, and words for other things."""
    known = {"binomial", "gaussian", "logistic", "ordinal", "softmax", "beta"}
    known |= {family(name).link for name in names()}
    for file in (Path(__file__).parents[2] / "flyrun" / "fitting").rglob("*.py"):
        words = set(re.findall(r"\"(\w+)\"", file.read_text("utf-8")))
        priors = {"exponential", "gamma", "lognormal", "student_t"} if file.name == "priors.py" else set()
        assert not words & (set(names()) - known - priors), file


@pytest.mark.parametrize(("unit", "n_rows"), [(1.0, 40), (2.06, 200)])
def test_tweedie_begins_at_the_spike_of_multiples(unit, n_rows):
    """From the usual start a search ends at another mode, which is far lower."""
    y = unit * np.random.default_rng(80 + n_rows).poisson(8.0, n_rows)
    ones = np.ones(n_rows)
    begin = tweedie.start(y, ones, 0.0 * ones, ones)
    usual = np.array([begin[0], np.log(y.var()) - 1.5 * begin[0], 0.0])

    def likelihood(at):
        return (tweedie.log_density(y, 1.0, (at[0] * ones, *at[1:])) + tweedie.alone(y, 1.0, at[1:])).sum()

    tops = [minimize(lambda at: -likelihood(at), at, method="Nelder-Mead").fun for at in (begin, usual)]
    assert tops[0] < tops[1] - 5.0
    assert abs(begin[1] - np.log(unit)) < 0.25  # of q = 1.04 in place of 1


def test_tweedie_of_rounded_amounts_begins_as_of_any():
    rng = np.random.default_rng(3)
    y = np.round(np.exp(rng.normal(6.0, 1.2, 300))) * (rng.random(300) < 0.4)
    assert tweedie.start(y, np.ones(300), np.zeros(300), np.ones(300))[2] == 0.0
