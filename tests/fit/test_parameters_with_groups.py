"""A formula of a further parameter beside groups: `y ~ x + (1 | g)` with `sigma ~ x`, `zi ~ x`, `phi ~ x`."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit, logsumexp

import flyrun
from flyrun.families.family import family
from flyrun.families.prior_densities import HalfT, Normal
from flyrun.fitting.groups.followed import Term
from flyrun.fitting.groups.following import TermsPosterior
from flyrun.fitting.rows_posterior import CoefficientPrior, Design, Rows

GROUPS, ROWS = 6, 7


def walkers(log_p, start, steps, seed=0, many=80):
    """Draws of a density by stretch moves (Goodman & Weare 2010), after as many that are thrown away.

    log_p: (S,) of (S, P); start: (P,). As far from flyrun's ways as a few lines can be.
    """
    rng = np.random.default_rng(seed)
    x = start + 0.1 * rng.normal(size=(many, len(start)))
    value, kept = log_p(x), []
    half = many // 2
    for step in range(2 * steps):
        for first in (0, half):
            mine, others = np.arange(first, first + half), (first + half) % many + rng.integers(0, half, half)
            z = (1.0 + rng.random(half)) ** 2 / 2.0
            there = x[others] + z[:, None] * (x[mine] - x[others])
            at = log_p(there)
            taken = np.log(rng.random(half)) < (len(start) - 1) * np.log(z) + at - value[mine]
            x[mine[taken]], value[mine[taken]] = there[taken], at[taken]
        if step >= steps:
            kept.append(x.copy())
    return np.concatenate(kept)


def table(seed=0):
    rng = np.random.default_rng(seed)
    g, x = np.repeat(np.arange(GROUPS), ROWS), rng.normal(size=GROUPS * ROWS)
    return pd.DataFrame({"x": x, "g": [f"g{k}" for k in g]}), 0.8 * rng.normal(size=GROUPS)[g], rng


def common(p, rows):
    """Of log sd(g), with its Jacobian, and rows (S, G·R) as groups."""
    return stats.t(3, 0.0, 2.5).logpdf(np.exp(p)) + p, rows.reshape(len(rows), GROUPS, ROWS)


def noise(frame):
    """log p of intercept, slope, two of log sigma, log sd(g), standardised; effects in closed form."""
    x, y = ((v - v.mean()) / v.std() for v in (frame.x.to_numpy(), frame.y.to_numpy()))

    def log_p(p):
        log_prior, left = common(p[:, 4], y - p[:, [0]] - p[:, [1]] * x)
        log_sigma = p[:, [2]] + p[:, [3]] * x
        weight = np.exp(-2.0 * log_sigma).reshape(left.shape)
        total, sd = weight.sum(axis=2), np.exp(p[:, [4]])
        log_prior += stats.norm(0.0, 10.0).logpdf(p[:, 0]) + stats.norm(0.0, 2.5).logpdf(p[:, 1])
        log_prior += stats.expon.logpdf(np.exp(p[:, 2])) + p[:, 2] + stats.norm.logpdf(p[:, 3])
        square = (weight * left**2).sum(axis=2)
        square -= sd**2 * (weight * left).sum(axis=2) ** 2 / (1.0 + sd**2 * total)
        return log_prior - log_sigma.sum(axis=1) - 0.5 * (np.log1p(sd**2 * total) + square).sum(axis=1)

    return log_p


def zeros(frame):
    """The same of a zero-inflated Poisson, whose logit zi is linear in x, by 45 nodes of each effect."""
    x, y = (frame.x.to_numpy() - frame.x.mean()) / frame.x.std(ddof=0), frame.y.to_numpy()
    counts = y.reshape(GROUPS, ROWS, 1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(45)
    log_weight = np.log(weights / weights.sum())

    def log_p(p):
        log_prior, eta = common(p[:, 4], p[:, [0]] + p[:, [1]] * x)
        zi = expit(p[:, [2]] + p[:, [3]] * x).reshape(eta.shape)[..., None]
        log_rate = eta[..., None] + np.exp(p[:, 4])[:, None, None, None] * nodes
        each = np.log(1.0 - zi) + counts * log_rate - np.exp(log_rate)
        each = np.where(counts == 0, np.logaddexp(np.log(zi), each), each).sum(axis=2)
        log_prior += stats.norm(0.0, 10.0).logpdf(p[:, 0]) + stats.norm(0.0, 2.5).logpdf(p[:, 1])
        log_prior += stats.norm(-1.0, 3.0).logpdf(p[:, 2]) + stats.norm(0.0, 2.5).logpdf(p[:, 3])
        return log_prior + logsumexp(each + log_weight, axis=2).sum(axis=1)

    return log_p


def of_noise():
    frame, effects, rng = table()
    y = 1.0 + 0.5 * frame.x + effects + np.exp(-0.3 + 0.5 * frame.x) * rng.normal(size=len(frame))
    return frame.assign(y=y)


def of_zeros():
    frame, effects, rng = table(1)
    y = rng.poisson(np.exp(1.0 + 0.3 * frame.x + 0.5 * effects))
    return frame.assign(y=np.where(rng.random(len(y)) < expit(-1.0 + frame.x), 0, y))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("frame", "model", "name", "truth", "steps"),
    [
        (of_noise(), "gaussian", "sigma", noise, 1_500),
        pytest.param(of_zeros(), "zero_inflated_poisson", "zi", zeros, 500, marks=pytest.mark.slow),
    ],
    ids=["sigma", "zi"],
)
def test_a_parameters_columns_beside_groups_agree_with_other_chains(frame, model, name, truth, steps):
    fit = flyrun.fit(frame, ["y ~ x + (1 | g)", f"{name} ~ x"], model=model)
    unit = frame.y.std(ddof=0) if model == "gaussian" else 1.0
    drawn = walkers(truth(frame), np.array([0.0, 0.0, -0.5, 0.0, -0.5]), steps)
    posterior = fit.posterior["posterior"]
    step = frame.x.std(ddof=0)
    of = {
        "x": (posterior["beta"].to_numpy()[..., 0] * step / unit, drawn[:, 1]),
        f"{name}[x]": (posterior[name].to_numpy()[..., 0] * step, drawn[:, 3]),
        "sd(g)": (posterior["sd(g)"].to_numpy() / unit, np.exp(drawn[:, 4])),
    }
    for values, right in of.values():
        assert (values.mean() - right.mean()) / right.std() == pytest.approx(0.0, abs=0.13)
        assert values.std() / right.std() == pytest.approx(1.0, abs=0.13)
    if model == "gaussian":  # the control: without the column the slope is another
        plain = flyrun.fit(frame, "y ~ x + (1 | g)", model=model).posterior["posterior"]["beta"].to_numpy()
        assert abs(plain[..., 0].mean() * step / unit - drawn[:, 1].mean()) > 0.13 * drawn[:, 1].std()
    assert fit.priors["prior"][f"{name}[x]"].startswith("normal(0, ")


def test_predictions_follow_both_formulas():
    frame = of_noise()
    fit = flyrun.fit(frame, ["y ~ x + (1 | g)", "sigma ~ x"], model="gaussian")
    new = pd.DataFrame({"x": [-2.0, 2.0], "g": ["g1", "g1"]})
    means, sds = fit.predict(new), fit.predict(new, kind="response")["sd"]
    posterior = fit.posterior["posterior"]
    sigma = np.exp(
        posterior["sigma"].to_numpy()[..., [0]] * new.x.to_numpy() + posterior["sigma"].to_numpy()[..., [1]]
    )
    assert_allclose(sds**2, means["sd"] ** 2 + (sigma**2).mean(axis=(0, 1)), rtol=0.15)
    assert sds[1] > 2.0 * sds[0]


@pytest.mark.parametrize(
    "name", ["gaussian", "negative_binomial", "zero_inflated_poisson", "student_t", "beta"]
)
def test_slopes_with_columns_agree_with_differences(name):
    rng, whole, n = np.random.default_rng(0), family(name), 40
    features = np.column_stack([rng.normal(size=n), np.ones(n)])
    numbers = whole.auxiliary(0, 1.0)
    designs = (
        Design(np.column_stack([rng.normal(size=(n, 2)), np.ones(n)]), 0.2),
        *[None] * (len(numbers) - 1),
    )
    term = Term(rng.integers(0, 5, n), np.ones((n, 1)), 5, False, (HalfT(3.0, 1.0),))
    others = [np.full(n, 0.2 * number.prior.draw(rng)) for number in numbers]
    y = np.asarray(whole.draw(rng, 1, [0.3 * features[:, 0], *others]), float)
    prior = CoefficientPrior(np.zeros(2), np.full(2, 2.5))
    slopes = ((Normal(0.0, 1.0), Normal(0.0, 2.0)), *[()] * (len(numbers) - 1))
    posterior = TermsPosterior(
        whole.in_one_part(0), Rows(features, y, designs=designs), prior, slopes=slopes, terms=(term,)
    )
    posterior.search()
    x = 0.3 * rng.normal(size=(posterior.size + posterior.n_effects, 2))
    step = 1e-5
    ends = [
        [posterior.at(x + s * away).log_density for s in (step, -step)] for away in np.eye(len(x))[..., None]
    ]
    rises = np.array([(up - down) / (2.0 * step) for up, down in ends])
    assert_allclose(posterior.at(x).slopes, rises, rtol=1e-5, atol=2e-5)
    assert posterior.known == 2 + 3 + len(numbers) - 1


def test_rows_that_lack_a_value_of_a_parameters_column_are_left_out_with_their_groups():
    frame = of_noise().assign(z=lambda d: d.x**2)
    frame.loc[[3, 20], "z"] = np.nan
    formulas = ["y ~ x + (1 | g)", "sigma ~ z"]
    fit = flyrun.fit(frame, formulas, model="gaussian", missing="drop")
    whole = flyrun.fit(frame.dropna(), formulas, model="gaussian")
    assert fit.summary()["mean"].to_numpy() == pytest.approx(whole.summary()["mean"].to_numpy())
