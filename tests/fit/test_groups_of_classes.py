"""Groups of a target in classes: effects on each class's log odds against the first, correlated or not."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp

import flyrun
from flyrun.families import softmax
from flyrun.families.prior_densities import HalfT
from flyrun.fitting import finished, fitted_draws, predict, stored
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.groups import left_out_terms
from flyrun.fitting.groups.following import TermsPosterior
from flyrun.fitting.groups.term import Term
from flyrun.fitting.table_rows import Rows
from flyrun.ground.errors import ConfigError, FlyrunError
from tests.fit.test_parameters_with_groups import walkers
from tests.fit.test_terms import assert_slopes

GROUPS = 10


def wards(rows: int = 12, groups: int = GROUPS) -> pd.DataFrame:
    """Rows of three classes, of which c differs more by group than b, and both in the same direction."""
    rng, n = np.random.default_rng(1), rows * groups
    g, x = np.repeat(np.arange(groups), rows), rng.normal(2.0, 1.0, n)
    u = rng.multivariate_normal([0.0, 0.0], [[0.8, 1.1], [1.1, 1.8]], groups)
    slopes = rng.normal(0.0, 0.7, (groups, 2))
    eta = np.column_stack([np.zeros(n), 0.4 + u[g] + (0.5 + slopes[g]) * x[:, None]])
    y = np.array(["a", "b", "c"])[(eta + rng.gumbel(size=eta.shape)).argmax(axis=1)]
    return pd.DataFrame({"x": x, "g": [f"g{k}" for k in g], "y": y})


def made(classes: int, terms: list[tuple[int, int]], n: int = 60) -> TermsPosterior:
    """A posterior of rows with terms of so many levels and effects a class."""
    rng, into = np.random.default_rng(classes), np.linalg.inv(softmax.contrasts(classes))
    features, built = np.column_stack([rng.standard_normal((n, 2)), np.ones(n)]), []
    for levels, effects in terms:
        code = np.append(np.arange(levels), rng.integers(0, levels, n - levels))
        columns = np.tile(features[:, : -effects - 1 : -1], classes - 1)
        size = effects * (classes - 1)
        how = {"into": np.repeat(into, effects, axis=1)}
        built.append(Term(code, columns, levels, size > 1, (HalfT(3.0, 1.0),) * size, 1.5, **how))
    size, y = 3 * (classes - 1), rng.integers(0, classes, n).astype(float)
    prior = CoefficientPrior(np.zeros(size), np.full(size, 2.5))
    rows = Rows(features, y, weights=1.0 + rng.integers(0, 2, n))
    return TermsPosterior(softmax.FAMILY, rows, prior, classes, terms=tuple(built))


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    ("classes", "terms"),
    [(2, [(6, 1)]), (3, [(4, 2), (7, 1)]), (3, [(5, 1), (30, 1), (40, 1)]), (4, [(5, 2)])],
)
def test_slopes_agree_with_differences(classes: int, terms: list[tuple[int, int]]) -> None:
    assert_slopes(made(classes, terms))


def counted(frame: pd.DataFrame) -> Any:
    """log p of the log odds of b and c, log sd(g) of both, atanh of their correlation; 17 × 17 nodes."""
    counts = pd.crosstab(frame.g, frame.y).to_numpy()
    nodes, weights = np.polynomial.hermite_e.hermegauss(17)
    z = np.stack(np.meshgrid(nodes, nodes)).reshape(2, -1)
    log_weight = np.add.outer(np.log(weights), np.log(weights)).ravel() - np.log(2.0 * np.pi)
    of_intercepts = stats.multivariate_normal([0.0, 0.0], 100.0 * (np.eye(2) + 1.0))  # of differences

    def log_p(p: np.ndarray) -> np.ndarray:
        sd, r = np.exp(p[:, 2:4]), np.tanh(p[:, 4])
        value = of_intercepts.logpdf(p[:, :2]) + (stats.t(3, 0.0, 2.5).logpdf(sd) + p[:, 2:4]).sum(axis=1)
        value = value + np.log1p(-(r**2))  # LKJ(1), uniform
        b = sd[:, :1] * z[0]
        c = sd[:, 1:] * (r[:, None] * z[0] + np.sqrt(1.0 - r**2)[:, None] * z[1])
        eta = np.stack([np.zeros_like(b), p[:, [0]] + b, p[:, [1]] + c])
        each = np.einsum("gk,ksn->gsn", counts, eta - logsumexp(eta, axis=0), optimize=True)
        return value + logsumexp(each + log_weight, axis=2).sum(axis=0)

    return log_p


@pytest.mark.thorough
@pytest.mark.usefixtures("no_figures")
def test_effects_agree_with_other_chains_by_quadrature() -> None:
    frame = wards()
    right = walkers(counted(frame), np.array([0.3, 0.3, -0.3, 0.0, 0.3]), 600)

    def off(bar: str) -> float:
        """By how many sds means differ, or by what log the sds, at most."""
        of = flyrun.fit(frame, f"y ~ 1 + {bar}", budget=60).posterior["posterior"]
        drawn = [*np.moveaxis(of["beta"].to_numpy()[..., 0], -1, 0)]
        drawn += [np.log(of[f"sd(g)[{k}]"].to_numpy()) for k in "bc"]
        drawn += [np.arctanh(of["cor(b, c by g)"].to_numpy())] if bar == "(1 | g)" else []
        pairs = zip(drawn, right.T, strict=False)
        away = [[(values.mean() - its.mean()) / its.std(), np.log(values.std() / its.std())]
                for values, its in pairs]  # fmt: skip
        return float(np.abs(away).max())

    assert off("(1 | g)") < 0.13
    assert off("(1 || g)") > 0.2  # the control: without the correlation


@pytest.mark.thorough
@pytest.mark.usefixtures("no_figures")
def test_a_fit_read_again_has_its_predictors_and_groups_are_in_every_answer(tmp_path: Path) -> None:
    frame = wards(30)
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = flyrun.fit(
        str(tmp_path / "t.csv"), "y ~ x + (1 + x | g)", name="t", results_dir=str(tmp_path), budget=60
    )
    again, fitted = finished.read(fit.folder), stored.fitted(fit.folder)
    sampled = left_out_terms.predictors(again.posterior, np.arange(len(frame)), again.x)
    log_odds = np.tensordot(softmax.contrasts(3), np.stack(sampled), 1)
    told = fitted_draws.predictor(fitted, predict.checked_rows(fitted, frame))
    assert_allclose(told, np.moveaxis(log_odds, 0, -1).swapaxes(0, 1), atol=1e-4)
    effects = ["intercept[b]", "x[b]", "intercept[c]", "x[c]"]
    assert fit.groups.index.get_level_values("effect")[:4].tolist() == effects
    for line in (
        (fit.folder / "groups.csv", "intercept[c] where x is"),
        (fit.folder / "table.csv", "icc(g)[c]"),
    ):
        assert line[1] in line[0].read_text()
    names = [f"sd(g)[{k}]" for k in "bc"] + [f"sd(g where x is {frame.x.mean():.4g})[{k}]" for k in "bc"]
    assert {*names, "sd(x by g)[c]", "cor(b, x[b] by g)", "cor(x[b], x[c] by g)"} <= {
        *fit.summary().loc[""].index
    }
    of = fit.posterior["posterior"]
    at = frame.x.mean()
    parts = {name: of[name].to_numpy() for name in ("sd(g)[c]", "sd(x by g)[c]", "cor(c, x[c] by g)")}
    intercept, slope, correlation = parts.values()
    variance = intercept**2 + (at * slope) ** 2 + 2.0 * at * intercept * slope * correlation
    assert_allclose(of[names[3]].to_numpy(), np.sqrt(variance), rtol=1e-3)
    new = fit.predict(pd.DataFrame({"x": [2.0], "g": ["other"]}), new_groups="draw")
    assert_allclose(new[[f"mean[{k}]" for k in "abc"]].sum(axis=1), 1.0)
    assert new["sd[c]"][0] > 1.2 * fit.predict(frame.head(1))["sd[c]"][0]


@pytest.mark.thorough
@pytest.mark.usefixtures("no_figures")
def test_two_classes_are_a_logistic_regression_of_the_second() -> None:
    frame = wards(20)
    frame = frame[frame.y != "a"]
    both = {
        model: flyrun.fit(frame, "y ~ x + (1 | g)", model=model, budget=60, **how)
        for model, how in (("softmax", {}), ("logistic", {"prior_scale": 2.5 * 2.0**0.5}))
    }
    rows = {"softmax": [("c", "x"), ("", "sd(g)[c]")], "logistic": ["x", "sd(g)"]}
    found = [both[model].summary().loc[rows[model], ["mean", "sd"]].to_numpy() for model in both]
    assert_allclose(found[0], found[1], atol=0.1 * found[1][:, 1].max())
    chances = [
        both[model].predict(frame)[column] for model, column in (("softmax", "mean[c]"), ("logistic", "mean"))
    ]
    assert_allclose(*chances, atol=0.02)


@pytest.mark.thorough
@pytest.mark.usefixtures("no_figures")
def test_priors_are_of_all_classes_or_of_one() -> None:
    frame = wards()
    fit = flyrun.fit(frame, "y ~ x + (1 | g)", priors={"sd(g)": "half_normal(0.1)"}, budget=30)
    assert fit.summary().loc[""].loc[["sd(g)[b]", "sd(g)[c]"], "mean"].max() < 0.2
    typed = flyrun.fit(
        frame,
        "y ~ x + (1 | g)",
        priors={"sd(g)[b]": "half_normal(0.1)", "cor(b, c by g)": "lkj(4)"},
        budget=30,
    )
    assert typed.priors["prior"][["sd(g)[b]", "sd(g)[c]", "cor(b, c by g)"]].tolist() == [
        "half_normal(0.1)",
        "half_t(3, 0, 2.5)",
        "lkj(4)",
    ]
    means = typed.summary().loc[""]["mean"]
    assert means["sd(g)[b]"] < 0.2 < means["sd(g)[c]"]
    for priors, line in (
        ({"sd(g)": "half_normal(1)", "sd(g)[b]": "half_normal(2)"}, "keep one"),
        ({"sd(g)[a]": "half_normal(1)"}, r"sd\(g\)\[b\]"),
    ):
        with pytest.raises(ConfigError, match=line):
            flyrun.fit(frame, "y ~ x + (1 | g)", priors=priors)


@pytest.mark.thorough
@pytest.mark.parametrize("classes", [2, 3])
def test_rows_and_groups_left_out_are_integrals_over_effects(classes: int) -> None:
    """By a grid of a level's effects, of which draws given all else are made."""
    posterior, nodes = made(classes, [(6, 1)], 24), np.linspace(-6.0, 6.0, 121)
    posterior.search()
    code, i = posterior.terms[0].code, 3
    rows, q = np.flatnonzero(code == code[i]), classes - 1
    at = np.append(
        *(part[:, 0] for part in posterior.at(np.zeros((posterior.size + posterior.n_effects, 1)))[2:4])
    )
    z = np.stack(np.meshgrid(*[nodes] * q)).reshape(q, -1).T
    t = posterior.terms[0].triangle(at[posterior.scales[0]][:, None]).t[..., 0]
    many = np.tile(at, (len(z), 1))
    first = posterior.size + int(code[i]) * q
    many[:, first : first + q] = z @ t.T
    p = left_out_terms.predictors(posterior, rows, many)
    copies = posterior.rows.whole("weights")[rows]
    each = posterior.family.log_density(posterior.rows.target[rows][:, None], 1.0, p)
    whole = copies @ each - 0.5 * (z**2).sum(axis=1)
    drawn = np.random.default_rng(0).choice(len(z), 4_000, p=np.exp(whole - logsumexp(whole)))
    right = logsumexp(whole) - logsumexp(whole - each[rows == i][0])
    found = left_out_terms.log_density(posterior, np.array([i]), many[drawn])[0]
    assert np.log(4_000) - logsumexp(-found) == pytest.approx(right, abs=0.01)
    plain = each[rows == i][0][drawn]  # with effects as they were drawn: the control
    assert found.std() < 0.6 * plain.std()
    marginal = logsumexp(whole) + q * np.log((nodes[1] - nodes[0]) / np.sqrt(2.0 * np.pi))
    values = [*left_out_terms.of_groups(posterior, code, many[drawn])][int(code[i])]
    assert np.log(4_000) - logsumexp(-values) == pytest.approx(marginal, abs=0.02)
    given = (copies @ each)[drawn]
    assert values.std() < 0.4 * given.std()


@pytest.mark.parametrize(
    ("formula", "line"),
    [
        ("y ~ s(x)", "softmax is not fitted with smooths; write "),
        ("y ~ x + m", r"C\(m\): softmax is not fitted with .* make groups of them, \(1 \| m\)"),
    ],
)
def test_what_is_not_fitted_is_one_line(formula: str, line: str) -> None:
    with pytest.raises(FlyrunError, match=line):
        flyrun.fit(wards(30).assign(m=[f"m{k % 120}" for k in range(300)]), formula)
