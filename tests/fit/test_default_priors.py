"""Default priors of shapes: data decide over six decades, and Poisson's counts keep their errors."""

import numpy as np
import pandas as pd
import pytest

import flyrun
from flyrun.families.family import family, names
from flyrun.families.prior_densities import LogGamma

N = 200
#: of the further numbers that are not varied
OTHERS = {"phi": 2.0, "shape": 2.0, "sigma": 0.7, "zi": 0.3, "hu": 0.3, "power": 1.5, "nu": 4.0}
TRIALS = 1_000_000.0  # so many that a beta-binomial's success shows any phi


def table(model, number, value, seed=0):
    """Targets, trials and a frame of a family at one auxiliary number; no column matters."""
    rng, own = np.random.default_rng(seed), family(model)
    read = [value if one.name == number else OTHERS[one.name] for one in own.auxiliary(0, 1.0)]
    level = LEVELS.get(model, 0.0) + (2.0 * np.log(value) if (model, number) == ("tweedie", "phi") else 0.0)
    p = [np.full(N, level), *(np.full(N, one) for one in own.unread(np.array(read)))]
    trials = np.full(N, TRIALS if own.domain.of_trials else 1.0)
    y = np.asarray(own.draw(rng, trials, p), float)
    frame = pd.DataFrame({"y": np.clip(y, 1e-290, 1.0 - 1e-12) if model == "beta" else y})
    return frame.y.to_numpy(), trials, frame.assign(n=trials) if own.domain.of_trials else frame


#: so large that counts are far from Poisson's at any phi, and that zeros in excess are seen
LEVELS = {f"{kind}negative_binomial": 13.0 for kind in ("", "zero_inflated_", "hurdle_")}
LEVELS["zero_inflated_poisson"] = 2.0


def by_likelihood(model, y, trials):
    """Estimate and standard errors, (K,) each, by Newton's method from where a search begins."""
    own = family(model).in_one_part(0)

    def summed(values):
        return np.array([np.broadcast_to(one, N).sum() for one in values])

    def value(p):
        with np.errstate(all="ignore"):
            return np.nan_to_num(np.sum(own.log_density(y, trials, list(p)) + np.zeros(N)), nan=-np.inf)

    p = np.asarray(own.start(y, trials, np.zeros(N), np.ones(N)), float)
    for _ in range(500):
        slopes, curvatures = own.derivatives(y, trials, list(p))
        slope, curvature = summed(slopes), np.array([summed(line) for line in curvatures])
        sizes, ways = np.linalg.eigh(curvature)
        step = ways @ (ways.T @ slope / np.maximum(np.abs(sizes), 1e-9 * np.abs(sizes).max()))
        size = min(1.0, 1.0 / np.abs(step).max())
        while size > 1e-12 and value(p + size * step) < value(p):
            size /= 2.0
        p = p + size * step
        if abs(step @ slope) < 1e-6:
            return p, np.sqrt(np.diag(np.linalg.inv(curvature)))
    raise AssertionError("no maximum")


DECADES = {
    ("gaussian", "sigma"): (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3),
    ("lognormal", "sigma"): (3e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 30.0),
    ("hurdle_lognormal", "sigma"): (3e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 30.0),
    ("gamma", "shape"): (0.1, 1.0, 10.0, 282.0, 1e3, 1e4, 1e5),
    ("hurdle_gamma", "shape"): (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5),
    ("inverse_gaussian", "lambda"): (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3),
    ("weibull", "shape"): (1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4),
    ("log_logistic", "shape"): (0.05, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4),
    ("beta", "phi"): (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5),
    ("beta_binomial", "phi"): (0.1, 1.0, 10.0, 100.0, 1e3, 1e4),
    ("negative_binomial", "phi"): (1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4),
    ("zero_inflated_negative_binomial", "phi"): (1.0, 10.0, 100.0, 1e3, 1e4),
    ("hurdle_negative_binomial", "phi"): (0.5, 1.0, 10.0, 100.0, 1e3, 1e4),
    ("tweedie", "phi"): (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3),
    ("tweedie", "power"): (1.2, 1.5, 1.9),
    # chances: at the ends 200 rows have too few of one kind for an interval
    **{(f"hurdle_{of}", "hu"): (0.05, 0.3, 0.9) for of in ("poisson", "negative_binomial")},
    **{(f"hurdle_{of}", "hu"): (0.05, 0.3, 0.9) for of in ("gamma", "lognormal")},
    **{(f"zero_inflated_{of}", "zi"): (0.05, 0.3, 0.9) for of in ("poisson", "negative_binomial")},
}
CASES = [(*key, value) for key, values in DECADES.items() for value in values]


def apart(model, number, value, priors=None):
    """How far the posterior of a number, as it is sampled, is from the likelihood's: means in sds, sds."""
    y, trials, frame = table(model, number, value)
    estimate, se = by_likelihood(model, y, trials)
    numbers = family(model).auxiliary(0, 1.0)
    k = [one.name for one in numbers].index(number)
    fit = flyrun.fit(frame, "y | n ~ 1" if "n" in frame else "y ~ 1", model=model, priors=priors)
    draws = fit.posterior["posterior"]
    read = np.stack([draws[one.name].to_numpy().ravel() for one in numbers], axis=-1)
    sampled = family(model).unread(read)[:, k]
    return (sampled.mean() - estimate[1 + k]) / se[1 + k], sampled.std() / se[1 + k]


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(("model", "number", "value"), CASES)
def test_data_decide_over_decades(model, number, value):
    """The posterior is within a third of its sd of the likelihood's, and as wide."""
    off, ratio = apart(model, number, value)
    assert off == pytest.approx(0.0, abs=1 / 3)
    assert ratio == pytest.approx(1.0, abs=0.15)


def test_every_number_that_data_tell_has_its_decades():
    numbers = {(name, one.name) for name in names() for one in family(name).auxiliary(0, 1.0)}
    assert numbers - DECADES.keys() == {("student_t", "sigma"), ("student_t", "nu"), ("ordinal", "cut_1")}


def test_the_priors_that_were_there_overruled_data():
    """exponential(0.5) on a shape of 282: what this file is for would be seen; and one on a sigma of 10."""
    assert str(LogGamma(1.0, 0.5)) == "exponential(0.5)"
    assert apart("gamma", "shape", 282.0, {"shape": "exponential(0.5)"})[0] < -3.0
    assert apart("hurdle_lognormal", "sigma", 10.0, {"sigma": "exponential(1)"})[0] < -1 / 3


def test_counts_that_are_poissons_get_poissons_errors_and_no_absurd_mean():
    rng = np.random.default_rng(3)
    x = rng.normal(size=N)
    frame = pd.DataFrame({"x": x, "k": rng.poisson(1_000.0 * np.exp(0.1 * x))})
    fit = flyrun.fit(frame, "k ~ x", model="negative_binomial")
    poisson = flyrun.fit(frame, "k ~ x", model="poisson")
    assert fit.summary()["sd"]["x"] / poisson.summary()["sd"]["x"] == pytest.approx(1.0, abs=0.12)
    told = fit.summary().loc["phi"]
    assert np.isnan(told["mean"]) or told["q03"] <= told["mean"] <= told["q97"]
    assert np.isnan(told["mean"]) == any("no mean to tell" in line for line in fit.checks()["caveats"])
    assert "nan" not in fit.report.read_text(encoding="utf-8").split("Coefficients")[1][:4_000]
