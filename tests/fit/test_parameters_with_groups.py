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
from flyrun.fitting import bars
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.groups.following import TermsPosterior
from flyrun.fitting.groups.term import Term
from flyrun.fitting.table_rows import Design, Rows
from flyrun.ground.errors import ConfigError

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


def of_noisy_groups(groups=5, rows=12):
    rng = np.random.default_rng(2)
    g, x = np.repeat(np.arange(groups), rows), rng.normal(size=groups * rows)
    sigma = np.exp(-0.3 + 0.8 * rng.normal(size=groups))
    y = 1.0 + 0.5 * x + 0.8 * rng.normal(size=groups)[g] + sigma[g] * rng.normal(size=len(g))
    return pd.DataFrame({"x": x, "y": y, "g": [f"g{k}" for k in g]})


def of_groups_of_zeros(groups=6, rows=12):
    rng = np.random.default_rng(3)
    g, x = np.repeat(np.arange(groups), rows), rng.normal(size=groups * rows)
    y = rng.poisson(np.exp(1.0 + 0.3 * x))
    zero = rng.random(len(g)) < expit(-0.5 + 1.5 * rng.normal(size=groups)[g])
    return pd.DataFrame({"x": x, "y": np.where(zero, 0, y), "g": [f"g{k}" for k in g]})


def noisy_groups(frame):
    """log p of intercept, slope, that of log sigma, log sd(g) and log sigma[sd(g)], standardised; effects on
    log sigma by nodes, others in closed form."""
    x, y = ((v - v.mean()) / v.std() for v in (frame.x.to_numpy(), frame.y.to_numpy()))
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    log_weight, groups = np.log(weights / weights.sum()), frame.g.nunique()

    @np.errstate(all="ignore")
    def log_p(p):
        left = (y - p[:, [0]] - p[:, [1]] * x).reshape(len(p), groups, -1)
        log_prior = stats.t(3, 0.0, 2.5).logpdf(np.exp(p[:, 3])) + p[:, 3]
        log_prior += stats.t(3, 0.0, 1.0).logpdf(np.exp(p[:, 4])) + p[:, 4]
        log_prior += stats.norm(0.0, 10.0).logpdf(p[:, 0]) + stats.norm(0.0, 2.5).logpdf(p[:, 1])
        log_prior += stats.expon.logpdf(np.exp(p[:, 2])) + p[:, 2]
        log_sigma = p[:, [2]] + np.exp(p[:, [4]]) * nodes
        noise, n = np.exp(2.0 * log_sigma)[:, None], left.shape[2]
        square, total = (left**2).sum(axis=2)[..., None], left.sum(axis=2)[..., None]
        share = np.exp(2.0 * p[:, 3])[:, None, None] / noise
        each = -n * log_sigma[:, None] - 0.5 * np.log1p(n * share)
        each = each - 0.5 * (square - share * total**2 / (1.0 + n * share)) / noise
        return log_prior + logsumexp(each + log_weight, axis=2).sum(axis=1)

    return log_p


def groups_of_zeros(frame):
    """log p of intercept, slope, logit zi and log zi[sd(g)], by nodes of each group."""
    x, y = (frame.x.to_numpy() - frame.x.mean()) / frame.x.std(ddof=0), frame.y.to_numpy()
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    log_weight, groups = np.log(weights / weights.sum()), frame.g.nunique()

    @np.errstate(all="ignore")
    def log_p(p):
        log_rate = (p[:, [0]] + p[:, [1]] * x).reshape(len(p), groups, -1, 1)
        counts = y.reshape(groups, -1, 1)
        zi = expit(p[:, [2]] + np.exp(p[:, [3]]) * nodes)[:, None, None]
        each = np.log(1.0 - zi) + counts * log_rate - np.exp(log_rate)
        each = np.where(counts == 0, np.logaddexp(np.log(zi), each), each).sum(axis=2)
        log_prior = stats.t(3, 0.0, 2.5).logpdf(np.exp(p[:, 3])) + p[:, 3]
        log_prior += stats.norm(0.0, 10.0).logpdf(p[:, 0]) + stats.norm(0.0, 2.5).logpdf(p[:, 1])
        log_prior += stats.norm(-1.0, 3.0).logpdf(p[:, 2])
        return log_prior + logsumexp(each + log_weight, axis=2).sum(axis=1)

    return log_p


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("frame", "model", "formulas", "truth", "steps"),
    [
        (of_noisy_groups(), "gaussian", ["y ~ x + (1 | g)", "sigma ~ (1 | g)"], noisy_groups, 1_500),
        (of_groups_of_zeros(), "zero_inflated_poisson", ["y ~ x", "zi ~ (1 | g)"], groups_of_zeros, 600),
    ],
    ids=["sigma", "zi"],
)
def test_groups_of_a_parameter_agree_with_other_chains(frame, model, formulas, truth, steps):
    fit = flyrun.fit(frame, formulas, model=model, budget=60)
    name, unit = formulas[1].split()[0], frame.y.std(ddof=0) if model == "gaussian" else 1.0
    drawn = walkers(truth(frame), np.array([0.0, 0.0, -0.5, -0.5, -0.5])[: 5 - (model != "gaussian")], steps)
    posterior, step = fit.posterior["posterior"], frame.x.std(ddof=0)
    shift = np.log(unit) if model == "gaussian" else 0.0
    of = {
        "x": (posterior["beta"].to_numpy()[..., 0] * step / unit, drawn[:, 1]),
        name: (posterior[name].to_numpy()[..., -1] - shift, drawn[:, 2]),
        "sd": (np.log(posterior[f"{name}[sd(g)]"].to_numpy()), drawn[:, -1]),
    }
    if model == "gaussian":
        of["sd(g)"] = (np.log(posterior["sd(g)"].to_numpy() / unit), drawn[:, 3])
    for values, right in of.values():
        assert (values.mean() - right.mean()) / right.std() == pytest.approx(0.0, abs=0.13)
        assert values.std() / right.std() == pytest.approx(1.0, abs=0.13)
    # the control: without these groups the parameter is another
    plain = flyrun.fit(frame, [formulas[0], f"{name} ~ 1"], model=model).posterior["posterior"]
    other = plain[name].to_numpy()[..., -1] - shift
    assert not 0.87 < other.std() / drawn[:, 2].std() < 1.13


@pytest.mark.thorough
def test_predictions_and_rows_left_out_follow_groups_of_a_parameter():
    frame = of_noisy_groups(12, 12)
    fit = flyrun.fit(frame, ["y ~ x + (1 | g)", "sigma ~ x + (1 + x | g)"], model="gaussian", budget=60)
    means = fit.groups.loc["sigma[g]"]["mean"].unstack(1)["sigma[intercept]"]
    sigma = fit.posterior["posterior"]["sigma"].to_numpy()[..., 1].mean() + means
    seen = fit.predict(pd.DataFrame({"x": 0.0, "g": means.index}), kind="response")["sd"]
    assert_allclose(np.log(seen), sigma, atol=0.3)
    new = fit.predict(pd.DataFrame({"x": [0.0], "g": ["other"]}), kind="response", new_groups="draw")["sd"]
    assert np.isfinite(new).all()
    plain = flyrun.fit(frame, ["y ~ x + (1 | g)", "sigma ~ x"], model="gaussian", budget=60)
    assert fit.loo().elpd > plain.loo().elpd + 30.0
    with pytest.raises(ConfigError, match="leave by out"):
        fit.loo(by="g")
    assert [str(bar) for bar in bars.read(["sigma ~ (1 + x | g)"])] == ["sigma ~ (1 + x | g)"]


@pytest.mark.thorough
def test_a_prior_of_a_parameters_groups_is_taken_by_its_name():
    frame, formulas = of_noisy_groups(), ["y ~ x", "sigma ~ (1 | g)"]
    fit = flyrun.fit(
        frame, formulas, model="gaussian", priors={"sigma[sd(g)]": "half_normal(0.4)"}, budget=20
    )
    assert fit.priors["prior"]["sigma[sd(g)]"] == "half_normal(0.4)"
    usual = flyrun.fit(frame, formulas, model="gaussian", budget=20)
    assert usual.priors["prior"]["sigma[sd(g)]"] == "half_t(3, 0, 1)"
    means = [each.summary().loc["sigma[sd(g)]", "mean"] for each in (fit, usual)]
    assert 0.2 < means[0] < 0.8 * means[1]


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


@pytest.mark.thorough
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


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("gaussian", [(0, 5), (1, 5)]),
        ("student_t", [(2, 6)]),
        ("zero_inflated_poisson", [(1, 30), (0, 40)]),
        ("beta", [(0, 4), (1, 40), (1, 70)]),
    ],
)
@pytest.mark.parametrize("effects", [1, 2])
def test_slopes_with_effects_on_several_predictors_agree_with_differences(name, levels, effects):
    rng, whole, n = np.random.default_rng(0), family(name), 80
    features = np.column_stack([rng.normal(size=n), np.ones(n)])
    numbers, place = whole.auxiliary(0, 1.0), max(predictor for predictor, _ in levels) - 1
    design = Design(np.column_stack([rng.normal(size=n), np.ones(n)]), 0.2)
    designs = tuple(design if k == place else None for k in range(len(numbers)))
    columns = np.column_stack([np.ones(n), rng.normal(size=n)])[:, :effects]
    terms = tuple(
        Term(rng.integers(0, many, n), columns, many, effects > 1, (HalfT(3.0, 1.0),) * effects, predictor=k)
        for k, many in levels
    )
    others = [np.full(n, 0.2 * number.prior.draw(rng)) for number in numbers]
    y = np.asarray(whole.draw(rng, 1, [0.3 * features[:, 0], *others]), float)
    prior = CoefficientPrior(np.zeros(2), np.full(2, 2.5))
    slopes = tuple((Normal(0.0, 1.0),) if its else () for its in designs)
    posterior = TermsPosterior(
        whole.in_one_part(0), Rows(features, y, designs=designs), prior, slopes=slopes, terms=terms
    )
    posterior.search()
    x, step = 0.3 * rng.normal(size=(posterior.size + posterior.n_effects, 2)), 1e-5
    some = np.concatenate([np.arange(posterior.size), rng.permutation(len(x))[:20]])
    rises = [
        posterior.at(x + step * away).log_density - posterior.at(x - step * away).log_density
        for away in np.eye(len(x))[some][..., None]
    ]
    at = posterior.at(x)
    assert_allclose(at.slopes[some], np.array(rises) / (2.0 * step), rtol=1e-5, atol=4e-5)
    assert_allclose(posterior.following(at), x, atol=1e-12)


@pytest.mark.thorough
def test_rows_that_lack_a_value_of_a_parameters_column_are_left_out_with_their_groups():
    frame = of_noise().assign(z=lambda d: d.x**2)
    frame.loc[[3, 20], "z"] = np.nan
    formulas = ["y ~ x + (1 | g)", "sigma ~ z"]
    fit = flyrun.fit(frame, formulas, model="gaussian", missing="drop")
    whole = flyrun.fit(frame.dropna(), formulas, model="gaussian")
    assert fit.summary()["mean"].to_numpy() == pytest.approx(whole.summary()["mean"].to_numpy())
