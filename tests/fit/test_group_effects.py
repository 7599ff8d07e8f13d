"""Groups' effects drawn afterwards: exact given the other numbers, whatever the nodes; stored and read."""

import h5py
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest

from flyrun.fitting import fitted_draws, mode, predict, stored
from flyrun.fitting.groups import effects, hull, left_out, scales, stored_effects
from flyrun.fitting.groups.integrated_out import GroupedPosterior
from flyrun.fitting.python import Fit, fit
from flyrun.ground.errors import ConfigError, DataError
from tests.fit.test_groups import NAMES, grouped

SIZES = [1, 3, 40, 9]


def settled(name: str, slope: bool = False) -> tuple[GroupedPosterior, np.ndarray]:
    """A posterior with its nodes placed, and a point of large sds of effects."""
    posterior = grouped(name, SIZES, slope, nodes=11)
    at, _ = mode.find(posterior, posterior.start())
    posterior.settle(at)
    x = at.copy()
    x[posterior.before :] = np.log([2.0]) if not slope else [np.log(1.5), -0.4, np.log(0.8)]
    return posterior, x


def log_density(posterior: GroupedPosterior, x: np.ndarray, group: int, b: list[np.ndarray]) -> np.ndarray:
    """Of a group's effects at b (R,) each, up to a constant, row by row."""
    ends = [*posterior.starts[1:], len(posterior.rows)]
    which = slice(int(posterior.starts[group]), int(ends[group]))
    rows = posterior.rows.take(which)
    eta = posterior.predictors(rows, x[None])[0] + b[0]
    if posterior.slope is not None:
        eta = eta + posterior.slope[which, None] * b[1]
    y, trials = (v[:, None] if np.ndim(v) else v for v in (rows.target, rows.trials))
    aux = list(x[posterior.n_coefficients : posterior.before])
    total = np.broadcast_to(rows.weights, len(rows.target)) @ posterior.family.log_density(
        y, trials, [eta, *aux]
    )
    t00, t10, t11 = (float(one[0]) for one in scales.triangle(posterior.h(x)[None]))
    v0 = b[0] / t00
    v1 = (b[1] - t10 * v0) / t11 if len(b) == 2 else 0.0
    return total - 0.5 * (v0**2 + v1**2)


def shares(at: np.ndarray, log_p: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The distribution function, of log densities on an even grid, at what was drawn."""
    p = np.exp(log_p - log_p.max())
    below = np.concatenate([[0.0], np.cumsum(0.5 * (p[1:] + p[:-1]))])
    return np.interp(drawn, at, below / below[-1])


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", NAMES)
def test_intercepts_follow_their_density(name: str) -> None:
    posterior, x = settled(name)
    drawn = effects.draw(posterior, np.tile(x, (3_000, 1)))
    grid = np.linspace(-18.0, 18.0, 6_001)
    for g in range(len(SIZES)):
        right = log_density(posterior, x, g, [grid])
        assert kstest(shares(grid, right, drawn[:, g, 0]), "uniform").pvalue > 1e-3
    # a normal distribution in place of the density of the group of one row would show
    p = np.exp(log_density(posterior, x, 0, [grid]))
    mean = p @ grid / p.sum()
    normal = np.random.default_rng(0).normal(mean, np.sqrt(p @ (grid - mean) ** 2 / p.sum()), 3_000)
    if name in ("poisson", "negative_binomial"):
        assert kstest(shares(grid, np.log(p + 1e-300), normal), "uniform").pvalue < 1e-3


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_intercepts_and_slopes_follow_their_density(name: str) -> None:
    posterior, x = settled(name, slope=True)
    drawn = effects.draw(posterior, np.tile(x, (1_500, 1)))
    wide, fine = np.linspace(-8.0, 8.0, 161), np.linspace(-8.0, 8.0, 801)
    for g in range(len(SIZES)):
        first = [
            np.logaddexp.reduce(log_density(posterior, x, g, [np.full_like(wide, b), wide])) for b in fine
        ]
        assert kstest(shares(fine, np.array(first), drawn[:, g, 0]), "uniform").pvalue > 1e-3
        given = [
            shares(fine, log_density(posterior, x, g, [np.full_like(fine, b0), fine]), b1)
            for b0, b1 in drawn[:400, g]
        ]
        assert kstest(given, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("slope", [False, True])
def test_under_normal_noise_effects_have_their_mean_and_covariance(slope: bool) -> None:
    posterior = grouped("gaussian", SIZES, slope)
    x = np.concatenate([[0.4, -0.2, -0.3], [-0.5] if not slope else [-0.5, 0.2, -0.6]])
    drawn = effects.draw(posterior, np.tile(x, (4_000, 1)))
    t00, t10, t11 = (float(one[0]) for one in scales.triangle(posterior.h(x)[None]))
    root = np.array([[t00, 0.0], [t10, t11]])[: 1 + slope, : 1 + slope]
    ends = [*posterior.starts[1:], len(posterior.rows)]
    for g, (first, last) in enumerate(zip(posterior.starts, ends, strict=True)):
        rows = posterior.rows.take(slice(int(first), int(last)))
        z = np.column_stack([np.ones(last - first), rows.features[:, 0]])[:, : 1 + slope]
        left = rows.target - posterior.predictors(rows, x[None])[0][:, 0]
        inner = z.T @ z / np.exp(2.0 * x[2]) + np.linalg.inv(root @ root.T)
        right = np.linalg.solve(inner, z.T @ left / np.exp(2.0 * x[2]))
        error = np.sqrt(np.diag(np.linalg.inv(inner)) / 4_000)
        assert (np.abs(drawn[:, g].mean(axis=0) - right) < 4.0 * error).all()
        assert_allclose(np.cov(drawn[:, g].T), np.linalg.inv(inner).squeeze(), rtol=0.15, atol=0.01)


def test_draws_do_not_depend_on_where_points_were() -> None:
    """Far to one side, too near, too wide: the hull is built anew, and draws are as exact."""
    for points in ([5.0, 5.5, 6.0, 7.0], [-0.01, 0.0, 0.01, 0.02], [-900.0, -1.0, 3.0, 2_000.0]):
        at = np.tile(np.reshape(points, (-1, 1)), 2_000)
        drawn = hull.draws(at, -0.5 * at**2, lambda _, b: -0.5 * b**2, np.random.default_rng(1))
        assert kstest(drawn, "norm").pvalue > 1e-3


def test_a_seed_gives_the_same_effects_whatever_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, x = settled("logistic")
    several = np.tile(x, (100, 1))
    one = effects.draw(posterior, several, seed=3)
    monkeypatch.setattr(effects, "cores", lambda: 1)
    np.testing.assert_array_equal(effects.draw(posterior, several, seed=3), one)


def table(n: int = 240, clinics: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    clinic, x = rng.integers(0, clinics, n), rng.normal(50.0, 10.0, n)
    effect = rng.normal(0.0, [3.0, 0.3], (clinics, 2))
    y = 20.0 + 0.1 * x + effect[clinic, 0] + effect[clinic, 1] * (x - 50.0) + rng.normal(0.0, 2.0, n)
    ill = np.where(rng.random(n) < 1 / (1 + np.exp(-0.3 * (y - 25.0))), "yes", "no")
    return pd.DataFrame({"x": x, "clinic": clinic, "pain": y, "ill": ill})


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Fit]:
    formulas = {"slopes": "pain ~ x + (1 + x | clinic)", "ill": "ill ~ x + (1 | clinic)"}
    folder = str(tmp_path_factory.mktemp("fits"))
    return {name: fit(table(), formula, name=name, results_dir=folder) for name, formula in formulas.items()}


def by_hand(fit: Fit, new: pd.DataFrame) -> np.ndarray:
    """η of known groups, (S, N), of the file's own numbers."""
    with h5py.File(fit.folder / "posterior.nc") as file:
        group = file["groups"]
        of, effects = group["draw"][...], group["effects"][...].astype(float)
        levels = [level.decode() for level in group["level"][...]]
        beta = file["posterior/beta"][...].reshape(-1, 2)[of]  # x, the intercept
    place = [levels.index(str(one)) for one in new["clinic"]]
    x = new["x"].to_numpy()
    eta = beta[:, 1:] + beta[:, :1] * x + effects[place, :, 0].T
    return eta + effects[place, :, 1].T * x if effects.shape[2] == 2 else eta


@pytest.mark.thorough
def test_predictions_are_the_sum_over_draws(fits: dict[str, Fit]) -> None:
    new = table(30)
    eta = by_hand(fits["slopes"], new)
    found = fits["slopes"].predict(new)
    assert_allclose(found["mean"], eta.mean(axis=0), rtol=1e-12)
    assert_allclose(found["high"], np.quantile(eta, 0.95, axis=0), rtol=1e-12)
    chance = 1.0 / (1.0 + np.exp(-by_hand(fits["ill"], new)))
    assert_allclose(fits["ill"].predict(new)["mean"], chance.mean(axis=0), rtol=1e-12)


def of_rows(fit: Fit, rows: pd.DataFrame, new_groups: str) -> np.ndarray:
    """Expected targets, (draws, rows)."""
    one = stored.fitted(fit.folder).with_new(new_groups, 0)
    (found,) = predict.means(one, predict.checked_rows(one, rows))
    return found[..., 0]


def test_new_groups_are_refused_drawn_or_zero(fits: dict[str, Fit]) -> None:
    fit, new = fits["slopes"], table(4)
    new["clinic"] = ["99", "3", "98", "99"]
    with pytest.raises(DataError, match=r"row 0, column clinic holds '99'.*new_groups='draw'"):
        fit.predict(new)
    drawn = fit.predict(new, new_groups="draw", seed=4)
    pd.testing.assert_frame_equal(fit.predict(new, new_groups="draw", seed=4), drawn)
    turned = fit.predict(new.iloc[::-1], new_groups="draw", seed=4)  # whatever stands beside it
    assert_allclose(turned.loc[drawn.index].to_numpy(), drawn.to_numpy(), rtol=1e-12)
    assert not np.allclose(fit.predict(new, new_groups="draw", seed=5)["mean"], drawn["mean"])
    same = new.assign(x=50.0)  # rows of one new group have one effect
    two, none = (of_rows(fit, same, groups) for groups in ("draw", "zero"))
    assert_allclose(two[:, 0], two[:, 3], rtol=1e-12)
    away = two[:, 0] - none[:, 0]
    assert 1.5 < away.std() < 7.0  # as groups differ where x is 50
    assert drawn["sd"].iloc[0] > 2.0 * drawn["sd"].iloc[1]


def test_means_of_new_groups_are_near_the_integral_over_their_effects(
    fits: dict[str, Fit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By quadrature over the effect of each draw; with effects drawn one by one they are far."""
    fit, new = fits["ill"], table(1).assign(clinic="99")
    one = stored.fitted(fit.folder)
    sds = one.effects[0].triangle[:, 0, 0]
    t, weights = np.polynomial.hermite_e.hermegauss(80)
    (eta,) = of_predictor(one.with_new("zero", 0), new)
    right = (weights / weights.sum() @ (1.0 / (1.0 + np.exp(-(eta[:, None] + sds[:, None] * t)))).T).mean()

    def away() -> tuple[float, float]:
        found = [fit.predict(new, new_groups="draw", seed=seed) for seed in range(20)]
        off = np.array([each["mean"].iloc[0] for each in found]) - right
        return float(np.sqrt((off**2).mean())), float(np.mean([each.attrs["error"] for each in found]))

    off, told = away()
    assert 0.5 * off < told < 0.006
    assert off < 0.003
    monkeypatch.setattr(stored_effects, "stratified", lambda order, rng: rng.standard_normal(len(order)))
    assert away()[0] > 0.004


def of_predictor(one: fitted_draws.Fitted, rows: pd.DataFrame) -> list[np.ndarray]:
    """η of each row, (S,)."""
    return list(fitted_draws.predictor(one, predict.checked_rows(one, rows)).T)


def test_stratified_variables_are_normal_and_independent_of_each_other() -> None:
    rng = np.random.default_rng(0)
    order = np.argsort(rng.random(1_000))
    several = np.stack([stored_effects.stratified(order, rng) for _ in range(60)])
    assert kstest(several.ravel(), "norm").pvalue > 0.01
    assert np.abs(several.mean(axis=1)).max() < 0.02  # of independent ones up to 0.1
    correlations = np.corrcoef(several)[np.tril_indices(60, -1)] * np.sqrt(1_000)
    assert kstest(correlations, "norm").pvalue > 0.01
    fourth = (several[::2] ** 2 * several[1::2] ** 2).mean()
    assert fourth == pytest.approx(1.0, abs=0.05)


def test_comparisons_take_the_rows_groups_as_new_ones(fits: dict[str, Fit]) -> None:
    fit = fits["ill"]
    found = {groups: fit.comparisons("x", groups=groups).iloc[0] for groups in ("known", "draw", "zero")}
    one, data = stored.fitted(fit.folder), table()
    (beta,) = {column.name: k for k, column in enumerate(one.layout.features) if column.name == "x"}.values()
    eta = one.beta[:, -1:] + one.beta[:, beta, None] * data["x"].to_numpy()
    more = 1.0 / (1.0 + np.exp(-eta - one.beta[:, beta, None])) - 1.0 / (1.0 + np.exp(-eta))
    assert found["zero"]["mean"] == pytest.approx(more.mean(), rel=1e-9)
    t, weights = np.polynomial.hermite_e.hermegauss(30)
    away = one.effects[0].triangle[:, 0, :1, None] * t
    both = [1.0 / (1.0 + np.exp(-(eta + by)[..., None] - away)) for by in (0.0, one.beta[:, beta, None])]
    right = ((both[1] - both[0]) @ (weights / weights.sum())).mean()
    assert found["draw"]["mean"] == pytest.approx(right, abs=0.02 * right)
    assert abs(found["zero"]["mean"] - right) > 0.03 * right
    with pytest.raises(ConfigError, match="groups='none': must be known, draw or zero"):
        fit.slopes("x", groups="none")


def test_groups_are_told_with_their_shrinkage(fits: dict[str, Fit]) -> None:
    data, found = table(), fits["ill"].groups
    assert found.index.name == "clinic"
    assert_allclose(found["rows"], data["clinic"].astype(str).value_counts()[found.index])
    assert (found["q03"] < found["mean"]).all()
    assert ((found["shrinkage"] > 0.05) & (found["shrinkage"] < 1.0)).all()
    ill = data.assign(ill=data["ill"] == "yes").groupby("clinic")["ill"].mean()
    ill.index = ill.index.astype(str)
    assert np.corrcoef(ill[found.index], found["mean"])[0, 1] > 0.9
    both = fits["slopes"].groups
    assert both.index.names == ["clinic", "effect"]
    assert both.loc["3"].index.tolist() == ["intercept", "x"]
    report = (fits["ill"].folder / "report.md").read_text(encoding="utf-8")
    assert "with (1 | clinic): 12 groups of" in report.replace("\\", "")
    assert "Effects of clinic" in report
    assert "near 1 what all groups say" in report


def test_comparisons_are_of_the_groups_that_rows_are_of(fits: dict[str, Fit]) -> None:
    fit, data = fits["slopes"], table()
    slope = by_hand(fit, data.assign(x=data["x"] + 1.0)) - by_hand(fit, data)
    assert fit.slopes("x")["mean"].iloc[0] == pytest.approx(slope.mean(), rel=1e-9)
    assert fit.comparisons("x")["mean"].iloc[0] == pytest.approx(slope.mean(), rel=1e-9)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("slope", [False, True])
@pytest.mark.parametrize("name", [*NAMES, "gaussian"])
def test_a_row_left_out_of_its_group_is_told_by_the_others(name: str, slope: bool) -> None:
    posterior, x = settled(name, slope)
    posterior.settle(x)
    which = np.array([50, 0, 2, 20])  # of each group one; the second is its group's only row
    found = left_out.log_density(posterior, which, np.stack([x, 0.9 * x]))
    for k, i in enumerate(which):
        rest = np.delete(np.arange(len(posterior.rows)), i)
        starts = posterior.starts - (posterior.starts > i)
        starts, n = np.unique(starts), 41 if slope else 81
        column = None if posterior.slope is None else posterior.slope[rest]
        rows = posterior.rows.take(rest)
        without = type(posterior)(posterior.family, rows, posterior.prior, starts=starts, slope=column)
        one = posterior.rows.take(np.array([i]))
        alone = posterior.family.constant(one.target, one.trials)
        for j, at in enumerate((x, 0.9 * x)):
            without.settle(at)
            copies = float(np.broadcast_to(posterior.rows.weights, len(rest) + 1)[i])
            if copies == 1.0:
                right = posterior.by_nodes(at[None], n) - without.by_nodes(at[None], n)
                assert found[k, j] == pytest.approx(float(right[0] + np.ravel(alone)[0]), abs=5e-3)


@pytest.mark.thorough
@pytest.mark.usefixtures("no_figures")
def test_leaving_out_a_row_is_as_a_fit_without_it() -> None:
    data = table(80, 8)
    made = fit(data, "ill ~ x + (1 | clinic)")
    told = made.loo()
    assert made.loo().digest == fit(data, "ill ~ x").loo().digest
    for i in (3, 11, 40):
        chance = fit(data.drop(index=i), "ill ~ x + (1 | clinic)").predict(data.loc[[i]])["mean"].iloc[0]
        right = np.log(chance if data["ill"][i] == "yes" else 1.0 - chance)
        assert told.each[i] == pytest.approx(right, abs=0.04)
