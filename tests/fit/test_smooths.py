"""Smooth curves: their basis, their place in a formula, and their posterior against quadrature."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import BSpline
from scipy.stats import kstest, norm
from scipy.stats import t as student

import flyrun
from flyrun.families.family import family
from flyrun.families.prior_densities import HalfT, Normal
from flyrun.fitting import bars, finished, fitted_draws, predict, smooths, stored
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.groups.following import TermsPosterior
from flyrun.fitting.groups.stored_curves import Drawn
from flyrun.fitting.groups.term import Term
from flyrun.fitting.predictive_checks import Seen
from flyrun.fitting.smooths import Basis, Smooth
from flyrun.fitting.table_rows import Rows
from flyrun.ground.errors import ConfigError, DataError, FlyrunError
from flyrun.tables.layout import Column
from tests.fit import reference, smooth_reference
from tests.fit.test_parameters_with_groups import walkers
from tests.fit.test_terms import break_the_map, chains, differences

SMOOTHS = {
    "s(x)": Smooth(("x",), 10),
    "s(x, k=20)": Smooth(("x",), 20),
    "s(`dose-rate`, by=g)": Smooth(("dose-rate",), 10, "g"),
    "s(x, k=7, by=C(g), extrapolation='linear')": Smooth(("x",), 7, "g", True, True),
    "te(x, z)": Smooth(("x", "z"), 5),
}


@pytest.mark.parametrize("text", SMOOTHS)
def test_a_smooth_is_read_as_it_is_written(text: str) -> None:
    assert smooths.read(text) == SMOOTHS[text]
    assert str(SMOOTHS[text]) == text


def test_a_formula_keeps_the_lines_of_its_smooths() -> None:
    rest, terms = bars.split("y ~ a + s(x, k=20) + te(x, z) + s(x, by=g) + (1 | h)")
    assert rest == "y ~ a + x + x * z + g + x:g"
    assert list(map(str, terms)) == ["s(x, k=20)", "te(x, z)", "s(x, by=g)", "(1 | h)"]
    assert bars.read(map(str, terms)) == terms


WRONG = {
    "s()": "one column",
    "s(x, z)": "te(x, z)",
    "te(x)": "two columns",
    "s(log(x))": "make a column of log(x)",
    "s(x, k=3)": "from 5",
    "s(x, k=300)": "to 200",
    "s(x, bs='cr')": "no option",
    "s(x, by=log(z))": "by is a column",
    "s(x, extrapolation='flat')": "'linear'",
    "s(x) + s(x, k=20)": "there twice",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_smooth_is_refused(text: str) -> None:
    with pytest.raises(FlyrunError) as error:
        bars.split(f"y ~ {text}")
    assert WRONG[text] in str(error.value)
    assert "\n" not in str(error.value)


def test_splines_are_those_of_scipy_and_straight_beyond_the_ends() -> None:
    k, low, high = 9, -1.0, 3.0
    step = (high - low) / (k - 3)
    x = np.linspace(low, high, 50)
    right = BSpline.design_matrix(x, low + step * np.arange(-3, k + 1), 3, extrapolate=True).toarray()
    basis = Basis(((low, high),), k)
    assert_allclose(basis.splines(x[:, None]), right, atol=1e-12)
    beyond = basis.splines(high + np.array([[0.0], [1.0], [2.0]]))
    assert_allclose(beyond[1] - beyond[0], beyond[2] - beyond[1])
    slope = (basis.splines(np.array([[high]])) - basis.splines(np.array([[high - 1e-6]]))) / 1e-6
    assert_allclose((beyond[1] - beyond[0]), slope[0], atol=1e-4)


@pytest.mark.parametrize("m", [1, 2])
def test_effects_have_the_penalty_of_their_curve(m: int) -> None:
    """Of any curve the penalty of splines' coefficients is that of effects; rows have none of its line."""
    rng, k = np.random.default_rng(m), 6
    values, copies = rng.uniform(0.0, 1.0, (40, m)), rng.integers(0, 3, 40).astype(float)
    columns, (matrix, shares) = smooths.design(Basis(((0.0, 1.0),) * m, k), values, copies)
    u, square = rng.standard_normal(columns.shape[1]), np.diff(np.eye(k), 2, axis=0)
    square = square.T @ square
    along = [square] if m == 1 else [np.kron(square, np.eye(k)), np.kron(np.eye(k), square)]
    penalties = np.array([(matrix @ u) @ each @ (matrix @ u) for each in along])
    weighed = np.array([(shares[j] * u * u).sum() for j in range(m)])
    assert_allclose(penalties / penalties[0], weighed / weighed[0])
    line = [np.ones(40), *values.T, *([values.prod(axis=1)] if m == 2 else [])]
    assert_allclose((copies * np.array(line)) @ columns, 0.0, atol=1e-10)
    assert np.average((columns**2).sum(axis=1), weights=copies) == pytest.approx(1.0)


def made(name: str, m: int = 1, grouped: bool = True, n: int = 80) -> TermsPosterior:
    """A posterior of a smooth, and of groups."""
    rng, one = np.random.default_rng(0), family(name)
    x, code = rng.uniform(0.0, 1.0, (n, m)), rng.integers(0, 5, n)
    columns, (_, shares) = smooths.design(Basis(((0.0, 1.0),) * m, 6 if m == 1 else 5), x)
    features = np.column_stack([x - 0.5, np.ones(n)])
    eta = np.sin(6.0 * x[:, 0]) + 0.5 * rng.standard_normal(5)[code]
    y = np.asarray(one.draw(rng, 1, [eta, *(np.full(n, 0.3) for _ in one.auxiliary(0, 1.0))]), float)
    prior = CoefficientPrior(np.zeros(m + 1), np.full(m + 1, 2.5))
    groups = Term(code, np.ones((n, 1)), 5, False, (HalfT(3.0, 1.0),))
    curve = Term(np.zeros(n, int), columns, 1, False, (HalfT(3.0, 1.0),) * m, shares=shares)
    return TermsPosterior(one, Rows(features, y), prior, terms=(groups, curve) if grouped else (curve,))


@pytest.mark.parametrize(("name", "m"), [("gamma", 1), ("gaussian", 2)])
def test_slopes_agree_with_differences(name: str, m: int) -> None:
    posterior = made(name, m)
    posterior.search()
    x = 0.3 * np.random.default_rng(1).standard_normal((posterior.size + posterior.n_effects, 2))
    at = posterior.at(x)
    right = differences(lambda x: posterior.at(x).log_density, x)
    assert_allclose(at.slopes, right, atol=1e-5 * (1.0 + np.abs(right).max()))
    assert_allclose(posterior.following(at), x, atol=1e-8)


@pytest.mark.parametrize("m", [1, 2])
def test_a_curve_given_all_sds_is_that_in_closed_form(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under normal noise ζ and z are N(0, I) given all else, and what is left the density of this."""
    posterior = made("gaussian", m, grouped=False)
    posterior.search()
    n, size = posterior.n_coefficients, posterior.size
    x = 0.4 * np.random.default_rng(0).standard_normal((size + posterior.n_effects, 6))
    (curve,), y = posterior.terms, posterior.rows.target
    design = np.column_stack([posterior.rows.features, posterior.designs[0].toarray()])

    def covariance(read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of coefficients and effects, (P + E,), and of rows, (N, N), by log sigma and log sds."""
        variances = np.append(posterior.prior.sd**2, 1.0 / (np.exp(-2.0 * read[n + 1 :]) @ curve.shares))
        return variances, (design * variances) @ design.T + np.exp(2.0 * read[n]) * np.eye(len(y))

    def left() -> np.ndarray:
        """Of each point: the density without coefficients and effects by the map less that in closed form."""
        value, s, marginal = posterior.at(x), x[n:size], np.empty(x.shape[1])
        pace = (1.0 + 0.5 * s * s) / np.sqrt(1.0 + 0.25 * s * s)
        normal = 0.5 * (x[:n] ** 2).sum(axis=0) + 0.5 * (x[size:] ** 2).sum(axis=0)
        for c, read in enumerate(value.read.T):
            whole = covariance(read)[1]
            prior = posterior.log_prior(read[None, : n + 1])[0] + curve.log_prior(read[n + 1 :, None])[0][0]
            prior -= posterior.prior.log_density(read[None, :n])[0]
            marginal[c] = prior - 0.5 * (y @ np.linalg.solve(whole, y) + np.linalg.slogdet(whole)[1])
        return value.log_density + normal - np.log(pace).sum(axis=0) - marginal

    assert_allclose(np.ptp(left()), 0.0, atol=1e-6)
    middle = x[:, :1].copy()
    middle[:n], middle[size:] = 0.0, 0.0
    value = posterior.at(middle)
    variances, whole = covariance(value.read[:, 0])
    right = variances * (design.T @ np.linalg.solve(whole, y))
    assert_allclose(np.append(value.read[:n, 0], value.effects[:, 0]), right, atol=1e-6)
    break_the_map(monkeypatch)  # the negative control
    assert np.ptp(left()) > 0.1


SD, PER_SIGMA, PER_LINE = 2.0, 0.5, 3.0  # of the priors below


def wiggly(n: int = 120) -> pd.DataFrame:
    """Rows about a curve."""
    rng = np.random.default_rng(5)
    x, z = rng.uniform(0.0, 10.0, n), rng.normal(size=n)
    return pd.DataFrame({"x": x, "z": z, "y": np.sin(x) + 0.2 * x + 0.5 * z + rng.normal(0.0, 0.8, n)})


def quadrature(frame: pd.DataFrame, at: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of the curve at x, (m,), of z = 0, written a second time as a Gaussian process.

    All but both sds is integrated in closed form: of a smooth what is left of B·S⁺·B' without its line, its
    variance over rows 1.
    """
    x, y, low, high = frame["x"].to_numpy(), frame["y"].to_numpy(), frame["x"].min(), frame["x"].max()
    step = (high - low) / (k - 3)

    def splines(x: np.ndarray) -> np.ndarray:
        knots = low + step * np.arange(-3, k + 1)
        return BSpline.design_matrix(x, knots, 3, extrapolate=True).toarray()

    def line(x: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(x)), x])

    penalty = np.diff(np.eye(k), 2, axis=0)
    middle = np.linalg.pinv(penalty.T @ penalty)
    off = splines(at) - line(at) @ np.linalg.lstsq(line(x), splines(x), rcond=None)[0]
    own = splines(x) - line(x) @ np.linalg.lstsq(line(x), splines(x), rcond=None)[0]
    scale = np.trace(own @ middle @ own.T) / len(x)
    alike, across, there = (a @ middle @ b.T / scale for a, b in ((own, own), (off, own), (off, off)))
    design = np.column_stack([line(x), frame["z"]])
    new = np.column_stack([line(at), np.zeros(len(at))])
    prior = np.array([100.0, PER_LINE, PER_LINE]) ** 2  # of an intercept where x is 0: as flat
    fixed, new_fixed, both_new = ((a * prior) @ b.T for a, b in ((design, design), (new, design), (new, new)))
    points = []
    for log_sigma in np.linspace(np.log(0.4), np.log(1.6), 61):
        for log_sd in np.linspace(np.log(0.05), np.log(60.0), 81):
            sigma, sd = np.exp(log_sigma), np.exp(log_sd)
            whole = fixed + sd**2 * alike + sigma**2 * np.eye(len(x))
            root = np.linalg.cholesky(whole)
            half = np.linalg.solve(root, np.column_stack([y, (new_fixed + sd**2 * across).T]))
            log_p = -0.5 * half[:, 0] @ half[:, 0] - np.log(np.diag(root)).sum()
            log_p += log_sigma - sigma / PER_SIGMA + log_sd + student.logpdf(sd / SD, 3)
            mean = half[:, 1:].T @ half[:, 0]
            variance = np.diag(both_new + sd**2 * there) - (half[:, 1:] ** 2).sum(axis=0)
            points.append((log_p, mean, variance))
    log_p, mean, variance = map(np.array, zip(*points, strict=True))
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    whole = weight @ mean
    return whole, np.sqrt(weight @ (variance + (mean - whole) ** 2))


@pytest.mark.thorough
@pytest.mark.usefixtures("no_figures")
def test_a_curve_and_its_band_are_those_of_quadrature() -> None:
    frame = wiggly()
    priors = {
        "x": f"normal(0, {PER_LINE})",
        "z": f"normal(0, {PER_LINE})",
        "intercept": "normal(0, 100)",
        "sigma": f"exponential({1.0 / PER_SIGMA})",
        "sd(s(x))": f"half_t(3, 0, {SD})",
    }
    fit = flyrun.fit(frame, "y ~ s(x, k=12) + z", priors=priors)
    at = np.linspace(frame["x"].min() + 1e-9, frame["x"].max() - 1e-9, 25)
    mean, sd = quadrature(frame, at, 12)
    told = fit.predict(pd.DataFrame({"x": at, "z": 0.0}))
    assert np.abs((told["mean"] - mean) / sd).max() < 0.1
    assert np.abs(told["sd"] / sd - 1.0).max() < 0.05
    assert (told["sd"] / sd).mean() == pytest.approx(1.0, abs=0.02)


@pytest.mark.thorough
@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("model", smooth_reference.MODELS)
def test_curves_are_those_of_nuts(model: str) -> None:
    right = reference.read()[f"smooth_{model}"]
    assert right["rhat"] < 1.01
    priors = smooth_reference.PRIORS | ({"shape": smooth_reference.SHAPE} if model == "gamma" else {})
    fit = flyrun.fit(smooth_reference.frame(model), "y ~ s(x) + z", model=model, priors=priors)
    fitted = stored.fitted(fit.folder)
    rows = pd.DataFrame({"x": smooth_reference.AT, "z": 0.0})
    eta = fitted_draws.predictor(fitted, predict.checked_rows(fitted, rows))
    assert (np.abs(eta.mean(axis=0) - right["mean"]) < 0.1 * np.array(right["sd"])).all()
    assert (np.abs(eta.std(axis=0) / right["sd"] - 1.0) < 0.05).all()


def noisy(n: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    x = rng.uniform(0.0, 10.0, n)
    return pd.DataFrame({"x": x, "y": 3.0 + np.exp(-0.5 + np.sin(x)) * rng.normal(size=n)})


@pytest.mark.thorough
@pytest.mark.usefixtures("no_figures")
def test_a_curve_of_another_parameter_is_that_of_other_chains() -> None:
    frame, at = noisy(), np.linspace(0.5, 9.5, 10)
    x, y = frame["x"].to_numpy(), frame["y"].to_numpy()
    own, other = smooth_reference.curves(x, at, 6)
    (line, there), standard = ((v - x.mean()) / x.std() for v in (x, at)), (y - y.mean()) / y.std()

    def log_sigma(p: np.ndarray, line: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return p[:, [1]] + p[:, [2]] * line + np.exp(p[:, [3]]) * (p[:, 4:] @ columns.T)

    @np.errstate(over="ignore")
    def log_p(p: np.ndarray) -> np.ndarray:  # intercept, two of log sigma, log sd and four effects
        level = -0.5 * (p[:, 0] / 10.0) ** 2 + p[:, 1] - np.exp(p[:, 1]) - 0.5 * (p[:, 2:3] ** 2).sum(axis=1)
        level += p[:, 3] - 2.0 * np.log1p(np.exp(2.0 * p[:, 3]) / 3.0) - 0.5 * (p[:, 4:] ** 2).sum(axis=1)
        logs = log_sigma(p, line, own)
        return level - (logs + 0.5 * ((standard - p[:, [0]]) * np.exp(-logs)) ** 2).sum(axis=1)

    drawn = walkers(log_p, np.array([0.0, -0.3, *np.zeros(6)]), 2_500)
    right = log_sigma(drawn, there, other) + np.log(y.std())

    def away(**priors: dict[str, str]) -> float:
        fit = flyrun.fit(frame, ["y ~ 1", "sigma ~ s(x, k=6)"], **priors)  # type: ignore[arg-type]
        assert set(pd.read_csv(fit.folder / "smooths.csv")["smooth"]) == {"sigma[s(x)]"}
        fitted = stored.fitted(fit.folder)
        (values,) = fitted_draws.others(fitted, predict.checked_rows(fitted, pd.DataFrame({"x": at})))
        moved = np.abs(values.mean(axis=0) - right.mean(axis=0)) / right.std(axis=0)
        return float(max(moved.max(), np.abs(values.std(axis=0) / right.std(axis=0) - 1.0).max()))

    assert away() < 0.13
    assert away(priors={"sigma[sd(s(x))]": "half_t(3, 0, 0.05)"}) > 0.3  # the control: of another prior


@pytest.mark.thorough
@pytest.mark.usefixtures("no_figures")
def test_a_row_left_out_is_as_a_fit_without_it() -> None:
    formulas = ["y ~ s(x, k=6) + (1 | g)", "sigma ~ s(x, k=5)"]
    frame = noisy().assign(g=lambda frame: frame.index % 4)
    frame["y"] += np.sin(frame["x"]) + 0.5 * (frame["g"] - 1.5)
    fit = flyrun.fit(frame, formulas)
    each = fit.loo().each
    unlike = np.argsort(np.abs(frame["x"] - 5.0).to_numpy())[:2]  # no ends, where curves would be others
    for row in map(int, unlike):
        without = flyrun.fit(frame.drop(index=row), formulas)
        less = stored.fitted(without.folder)
        rows = predict.checked_rows(less, frame.iloc[[row]])
        mean, log_sigma = fitted_draws.predictor(less, rows)[:, 0], fitted_draws.others(less, rows)[0][:, 0]
        right = norm(mean, np.exp(log_sigma)).logpdf(frame["y"][row])
        assert each[row] == pytest.approx(np.log(np.exp(right).mean()), abs=0.06)
    # the control: what the whole fit says of these rows is more, as it has seen them
    whole = stored.fitted(fit.folder)
    rows = predict.checked_rows(whole, frame)
    seen = norm(fitted_draws.predictor(whole, rows), np.exp(fitted_draws.others(whole, rows)[0])).logpdf(
        frame["y"]
    )
    assert (np.log(np.exp(seen).mean(axis=0)) - each).sum() > 2.0


@pytest.mark.thorough
@pytest.mark.usefixtures("no_figures")
def test_a_fit_says_of_its_rows_what_its_predictions_do(tmp_path: Path) -> None:
    frame = noisy().assign(g=lambda frame: frame.index % 4)
    frame["y"] += np.sin(frame["x"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = flyrun.fit(tmp_path / "t.csv", ["y ~ s(x, k=6) + (1 | g)", "sigma ~ s(x, k=5)"])
    of = finished.read(fit.folder)
    draws = {name: fit.posterior["posterior"][name].to_numpy() for name in ("beta", "sigma", "sd(g)")}
    seen = Seen.of(of.dataset, of.posterior, of.layout, draws, stored.fitted(fit.folder).effects, 10_000)
    whole = stored.fitted(fit.folder)
    rows = predict.checked_rows(whole, frame)
    assert_allclose(seen.p[0], fitted_draws.predictor(whole, rows), atol=1e-5)
    assert_allclose(seen.p[1], fitted_draws.others(whole, rows)[0], atol=1e-5)


@pytest.mark.thorough
@pytest.mark.usefixtures("no_figures")
def test_new_rows_beyond_the_data_are_refused_or_straight() -> None:
    frame, beyond = wiggly(), pd.DataFrame({"x": [11.0, 12.0, 13.0], "z": 0.0})
    fit = flyrun.fit(frame, "y ~ s(x) + z", budget=20.0)
    with pytest.raises(DataError, match=r"fit with s\(x, extrapolation='linear'\)"):
        fit.predict(beyond)
    told = flyrun.fit(frame, "y ~ s(x, extrapolation='linear') + z", budget=20.0).predict(beyond)["mean"]
    assert told[2] - told[1] == pytest.approx(told[1] - told[0])


REFUSED = {
    "s(three)": "C(three)",
    "te(x, three)": "s(x, by=C(three))",
    "s(three, by=b)": "C(three) * b",
    "s(seven)": "s(seven, k=7)",
    "s(a)": "a is a category",
    "s(nope)": "nope",
    "s(x, by=three)": "by=C(three)",
    "s(x):z": "smooths of `flyrun fit`",
}


@pytest.mark.parametrize("term", REFUSED)
def test_columns_that_no_smooth_is_of_are_refused(term: str) -> None:
    frame = wiggly().assign(three=lambda frame: frame.index % 3, seven=lambda frame: frame.index % 7)
    frame["a"] = np.where(frame["three"] > 0, "p", "q")
    frame["b"] = np.where(frame.index % 2 > 0, "p", "q")
    with pytest.raises(ConfigError) as error:
        flyrun.fit(frame, f"y ~ {term} + z")
    assert REFUSED[term] in str(error.value)
    assert "\n" not in str(error.value)


def ranks(sets: int, n: int = 60) -> np.ndarray:
    """Ranks (sets, 6) in (0, 1) of a gamma regression's line, intercept, log shape, log sd and two places of
    its curve among draws.
    """
    found = np.empty((sets, 6))
    for k in range(sets):
        rng, prior, of_aux = np.random.default_rng(9_000 + k), HalfT(3.0, 0.5), Normal(1.0, 0.5)
        x = rng.uniform(0.0, 1.0, (n, 1))
        columns, (_, shares) = smooths.design(Basis(((0.0, 1.0),), 8), x)
        features = np.column_stack([2.0 * x - 1.0, np.ones(n)])
        beta, log_shape, h = 0.7 * rng.standard_normal(2), of_aux.draw(rng), prior.draw(rng)
        curve = columns @ (np.exp(h) * rng.standard_normal(columns.shape[1]))
        y = rng.gamma(np.exp(log_shape), np.exp(features @ beta + curve - log_shape))
        number = family("gamma").auxiliary(0, 1.0)[0]
        gamma = replace(
            family("gamma"), auxiliary=partial(lambda its, *_: (its,), number._replace(prior=of_aux))
        )
        term = Term(np.zeros(n, int), columns, 1, False, (prior,), shares=shares)
        of_beta = CoefficientPrior(np.zeros(2), np.full(2, 0.7))
        draws, _ = chains(TermsPosterior(gamma, Rows(features, y), of_beta, terms=(term,)), k)
        values = np.concatenate([draws.psi, draws.effects @ columns[:2].T], axis=2)
        truth = np.concatenate([beta, [log_shape, h], curve[:2]])
        found[k] = (values < truth).mean(axis=(0, 1))
    return found


@pytest.mark.slow
def test_truths_rank_evenly_among_draws_of_a_smooth() -> None:
    found = ranks(60)
    assert min(kstest(each, "uniform").pvalue for each in found.T) > 0.0017  # of six at 0.01
    assert np.mean(np.abs(found - 0.5) < 0.45) == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize(
    ("low", "high", "cuts"),
    [
        (-1.0, 1.0, ["z = -0.8", "z = 0", "z = 0.8"]),
        (1990.0, 2023.2, ["z = 1993.3", "z = 2006.6", "z = 2019.9"]),
        (3e5, 1.8e6, ["z = 450000", "z = 1050000", "z = 1650000"]),
        (2e-7, 9e-7, ["z = 2.7e-07", "z = 5.5e-07", "z = 8.3e-07"]),
    ],
)
def test_a_surfaces_cuts_are_where_their_labels_say(low: float, high: float, cuts: list[str]) -> None:
    smooth = Smooth(("x", "z"), 5)
    columns = Column("x", low=0.0, high=1.0), Column("z", low=low, high=high)
    matrix = smooths.directions(5, 2).matrix
    drawn = Drawn(
        smooth, columns, None, np.arange(2), np.zeros((1, 2, len(matrix))), np.zeros((1, 3)), np.ones(1)
    )
    shown = drawn.shown(np.array([[0.0], [1.0]]), ["z"])
    assert [curve["at"] for curve in shown] == cuts
    # the line by z is all there is, and its mean over draws is half of z
    assert [2.0 * curve["mean"][0] for curve in shown] == pytest.approx([float(cut[4:]) for cut in cuts])
