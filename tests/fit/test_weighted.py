"""Weighted draws of a table's posterior: against quadrature, closed forms and calibration, with controls."""

import numpy as np
import pandas as pd
import pytest
import xarray
from scipy import stats
from scipy.special import logsumexp

from flyrun.cli.main import main
from flyrun.families.family import family, names
from flyrun.fitting import (
    alone,
    even_draws,
    gaussian_noise,
    hmc_check,
    hmc_on_rows,
    mode,
    question,
    weighted_draws,
)
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.request import Request
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.table_rows import Rows
from flyrun.tables import frames
from tools.certificate import fresh

LEVELS = 3  # of classes
#: seeds of tables that are neither nearly all zeros nor nearly Poisson's, of which few rows a draw say enough
NEAR_NORMAL = {
    "beta_binomial": 32,
    "negative_binomial": 32,
    "hurdle_poisson": 6,
    "hurdle_negative_binomial": 32,
    "tweedie": 15,
    "zero_inflated_poisson": 6,
    "zero_inflated_negative_binomial": 32,
}


def posterior(name, rows, width, sd=1.0, levels=0):
    size = width * family(name).linear(levels)
    return Posterior(family(name), rows, CoefficientPrior(np.zeros(size), np.full(size, sd)), levels)


def simulated(name, n, width, rng, scale=1.0):
    """A posterior of rows made from its own prior, and where they were made, x (P,)."""
    one = family(name)
    features = np.column_stack([rng.standard_normal((n, width - 1)), np.ones(n)])
    levels = LEVELS if one.target in ("ordered", "classes") else 0
    beta = scale * rng.standard_normal((one.linear(levels), width))
    aux = [auxiliary.prior.draw(rng) for auxiliary in one.auxiliary(levels, 1.0)]
    trials = rng.integers(1, 6, n) if one.target == "successes" else np.ones(n, int)
    predictors = np.minimum(beta @ features.T, 12.0)
    y = np.asarray(one.draw(rng, trials, [*predictors, *aux]), float)
    if len(set(y)) < levels:  # a table does not know of classes that it has not
        return simulated(name, n, width, rng, scale)
    rows = Rows(features, y, trials.astype(float) if one.target == "successes" else 1.0)
    return posterior(name, rows, width, scale, levels), np.append(beta, aux)


@pytest.mark.parametrize("name", names())
def test_derivatives_of_a_posterior_are_those_of_its_density(name):
    rng = np.random.default_rng(0)
    made, x = simulated(name, 50, 3, rng)
    rows = made.rows
    offset, weights = rng.normal(size=50), rng.integers(1, 4, 50).astype(float)
    rows = Rows(rows.features, rows.target, rows.trials, offset, weights)
    made = posterior(name, rows, 3, levels=made.levels)
    found, prior = made.likelihood_at(x), made.prior_at(x)
    value, slope = made.value_and_slope(x[None])
    assert value[0] == pytest.approx(made.log_density(x[None])[0], rel=1e-12)
    np.testing.assert_allclose(slope[0], found.slope + prior.slope, rtol=1e-9, atol=1e-9)
    step = 1e-5 * np.eye(len(x))
    rise = (made.log_density(x + step) - made.log_density(x - step)) / 2e-5
    np.testing.assert_allclose(slope[0], rise, rtol=1e-6, atol=1e-5)
    bend = (made.value_and_slope(x - step)[1] - made.value_and_slope(x + step)[1]) / 2e-5
    np.testing.assert_allclose(found.curvature + prior.curvature, bend, rtol=1e-6, atol=1e-5)
    queries = made.queries
    made.log_density(x[None])
    assert made.queries == queries + 50


@pytest.mark.parametrize("name", names())
def test_a_weight_of_two_is_a_row_that_is_there_twice(name):
    made, x = simulated(name, 40, 3, np.random.default_rng(1))
    rows, twice = made.rows, np.r_[np.arange(40), np.arange(10)]
    weights = np.r_[np.full(10, 2.0), np.ones(30)]
    trials = rows.trials[twice] if np.ndim(rows.trials) else rows.trials
    more = (3, 1.0, made.levels)
    by_weight = posterior(name, Rows(rows.features, rows.target, rows.trials, 0.0, weights), *more)
    doubled = posterior(name, Rows(rows.features[twice], rows.target[twice], trials), *more)
    at = x + np.random.default_rng(0).normal(size=(5, len(x)))
    np.testing.assert_allclose(by_weight.log_density(at), doubled.log_density(at), rtol=1e-11)
    # a weight says how often, not how precisely: the control
    assert np.abs(by_weight.log_density(at) - made.log_density(at)).min() > 0.01


def quadrature(made):
    """Mean and sd of both coordinates of a posterior of two, by a grid about the mode."""
    at, likelihood = mode.find(made)
    root = np.linalg.cholesky(mode.covariance(likelihood.curvature + made.prior_at(at).curvature))
    line = np.linspace(-9, 9, 181)
    x = at + np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2) @ root.T
    log = made.log_density(x)
    w = np.exp(log - logsumexp(log))
    return w @ x, np.sqrt(w @ (x - w @ x) ** 2)


@pytest.mark.thorough(but="logistic")
@pytest.mark.parametrize("name", ["logistic", "binomial", "poisson"])
def test_draws_are_of_the_posterior_by_quadrature(name):
    made, _ = simulated(name, 15, 2, np.random.default_rng(3), 1.5)
    mean, sd = quadrature(made)
    found = weighted_draws.fit(made)
    assert not found.why
    got, covariance = found.moments()
    error = 4.5 / np.sqrt(found.effective)
    assert np.abs(got - mean).max() < error * sd.max()
    assert np.abs(np.sqrt(np.diag(covariance)) / sd - 1).max() < error
    unweighted = found.x[: len(found.x) // 2].mean(axis=0)
    assert np.abs(unweighted - mean).max() > error * sd.min()  # weights are what makes them so
    even = found.x[even_draws.resampled(found.weights, np.random.default_rng(0))]
    assert (np.abs(even.mean(axis=(0, 1)) - mean) / sd).max() < 4.5 / np.sqrt(even[..., 0].size)
    chains = hmc_on_rows.Sampler(made, *_about(found), np.random.default_rng(0)).draw(1500).reshape(-1, 2)
    assert np.abs(chains.mean(axis=0) - mean).max() < 0.1 * sd.max()
    assert np.abs(chains.std(axis=0) / sd - 1).max() < 0.07


def _about(found):
    return found.proposal.centre[None], found.proposal.root


@pytest.mark.thorough(but=("logistic", "softmax"))
@pytest.mark.parametrize("name", names())
def test_few_rows_a_draw_weigh_as_all_rows_do(name):
    made, _ = simulated(name, 1500, 4, np.random.default_rng(NEAR_NORMAL.get(name, 5)), 0.5)
    at, likelihood = mode.find(made)
    shape = mode.covariance(likelihood.curvature + made.prior_at(at).curvature)
    proposal = weighted_draws.Mixture.of(at, shape, 0.0)
    few = weighted_draws.by_few_rows(made, proposal, likelihood, np.random.default_rng(0), 2000)
    assert not few.why
    assert few.rate < 500
    exact = made.log_density(few.x) - proposal.log_density(few.x)
    near = exact > exact.max() - 3
    off = (few.log_weight - exact)[near]  # up to one constant, and the noise of few rows
    assert np.abs(np.median(off)) < 0.1
    whole = np.exp(exact - exact.max())
    assert few.effective > 0.7 * whole.sum() ** 2 / (whole**2).sum()
    # unbiased: the mean of the ratio of weights is 1
    ratio = np.exp(off) * few.sign[near]
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(near.sum())
    # the control: expanded where the posterior is not, without the rows it would be another's
    plain = likelihood.value + likelihood.change(few.x) + made.log_prior(few.x) - proposal.log_density(few.x)
    assert np.abs((plain - exact)[near]).mean() > 2 * abs(np.log(ratio.mean()))


class LgammaApart(Posterior):
    """What depends on phi alone, lgamma(y + φ), summed for every draw and left out of rows' remainders."""

    def of_rows(self, rows, p, whole=True):
        return super().of_rows(rows, p) - rows.weights * self.family.alone(rows.target, 1.0, p[1:])

    def row_derivatives(self, rows, p, whole=True):
        return self.family.derivatives(rows.target, rows.trials, p)

    def log_prior(self, x):
        mean = np.append(np.zeros(self.width), self.at)[None]
        y, trials, weights = self.alike
        slope, bend = self.family.alone_derivatives(y, trials, [self.at])
        away = x[:, -1] - self.at
        second = away * (weights @ slope[0]) - 0.5 * away**2 * (weights @ bend[0][0])
        return super().log_prior(x) + self.alone(x) - self.alone(mean) - second


def test_rows_remainders_must_hold_all_that_depends_on_an_auxiliary_number(monkeypatch):
    """The control of few rows a draw: without the gammas remainders do not cancel, and kappa trebles."""
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.standard_normal((3_000, 3)), np.ones(3_000)])
    y = family("negative_binomial").draw(rng, 1, [x @ [0.3, -0.3, 0.2, 1.0], np.log(40.0)])
    made = posterior("negative_binomial", Rows(x, y.astype(float)), 4)
    at, likelihood = mode.find(made)
    shape = mode.covariance(likelihood.curvature + made.prior_at(at).curvature)
    proposal = weighted_draws.Mixture.of(at, shape, 0.0, 0.0)
    apart = LgammaApart(made.family, made.rows, made.prior)
    apart.at = at[-1]
    monkeypatch.setattr(alone, "beyond", lambda *of: None)
    kept, parted = (
        weighted_draws.by_few_rows(one, proposal, likelihood, np.random.default_rng(0), 2_000)
        for one in (made, apart)
    )
    assert not kept.why
    assert parted.kappa > 2.5 * kept.kappa
    assert parted.effective < kept.effective
    np.testing.assert_allclose(apart.log_prior(at[None]), made.log_prior(at[None]))  # no other change


def test_rounds_do_not_grow_worse_and_end_with_the_best_that_is_trusted(monkeypatch):
    """1,300 draws of 40 numbers know little of 820 moments."""
    made, _ = simulated("logistic", 600, 40, np.random.default_rng(8), 0.3)
    at, likelihood = mode.find(made)
    shape = mode.covariance(likelihood.curvature + made.prior_at(at).curvature)
    about = weighted_draws.Mixture.of(at, shape, 0.0)

    def after(rounds):
        return weighted_draws.by_all_rows(made, about, np.random.default_rng(0), 1_300, rounds, wanted=1_000)

    one, two = after(1), after(2)
    assert not one.why
    assert not two.why
    assert two.rounds == 2
    assert two.effective > 0.9 * one.effective
    # the control: all that these draws say of moments makes a worse proposal, and the first round answers
    monkeypatch.setattr(weighted_draws, "_moved", lambda found: weighted_draws.Mixture.of(*found.moments()))
    np.testing.assert_array_equal(after(2).x, one.x)
    worse = weighted_draws.by_all_rows(made, weighted_draws._moved(one), np.random.default_rng(1), 1_300, 1)
    assert "are effective" in worse.why


def test_draws_of_many_coefficients_are_not_wasted():
    made, _ = simulated("poisson", 1_000, 20, np.random.default_rng(6), 0.2)
    found, near = weighted_draws.fit(made), weighted_draws.DRAWS
    assert found.k_hat < 0.5
    assert 0.85 * near < found.effective
    # the control: a t of 8 degrees of freedom
    heavy = weighted_draws.Mixture(found.proposal.centre, found.proposal.root)
    rng = np.random.default_rng(0)
    assert weighted_draws.by_all_rows(made, heavy, rng, len(found.x)).effective < 0.75 * near


@pytest.mark.thorough
def test_few_rows_move_the_proposal_before_the_draws_that_count():
    """200 rows of 20 columns: the posterior's moments are not those of its mode."""
    made, _ = simulated("gamma", 200, 20, np.random.default_rng(6), 0.3)
    assert weighted_draws.in_doubt(made, np.zeros(1))
    found = weighted_draws.fit(made)
    assert not found.why
    assert found.effective > 0.6 * len(found.x)
    at, likelihood = mode.find(made)  # the control: about the mode
    still = weighted_draws.Mixture.of(at, mode.covariance(likelihood.curvature + made.prior_at(at).curvature))
    about = weighted_draws.by_all_rows(made, still, np.random.default_rng(0), 5_000, 1)
    assert about.effective < 0.4 * len(about.x)


@pytest.mark.parametrize(("name", "doubtful"), [("negative_binomial", True), ("poisson", False)])
def test_draws_of_what_may_have_ridges_are_checked_up_to_more_rows(name, doubtful):
    """30 rows a number: a ridge of little mass may have no draw of 5,000, and weights that look even."""
    made, _ = simulated(name, 90, 2, np.random.default_rng(0), 0.3)
    assert made.size <= 3
    assert weighted_draws.in_doubt(made, np.zeros(1)) == doubtful


class Bent:
    """A ridge that bends, of sds 1 and √2.09, in three numbers."""

    rows, size = range(20), 3

    def log_density(self, x):
        return -0.5 * (x[:, 0] ** 2 + ((x[:, 1] - x[:, 0] ** 2) / 0.3) ** 2 + x[:, 2] ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_draws_about_parts_follow_a_ridge_that_bends(seed):
    rng = np.random.default_rng(seed)
    about = weighted_draws.Mixture.of(np.zeros(3), np.diag([1.0, 1.0, 1.0]))
    before = weighted_draws.by_all_rows(Bent(), about, rng, 100_000, 2)
    after = weighted_draws.by_parts(Bent(), before, rng)
    assert not after.why
    assert after.effective > 3.0 * before.effective
    assert after.error < 0.03 < before.error  # the control
    np.testing.assert_allclose(np.sqrt(np.diag(after.moments()[1])), [1.0, np.sqrt(2.09), 1.0], rtol=0.03)
    for drawn in (before, after):
        some = rng.choice(np.flatnonzero(drawn.weights > 1e-9), 100)
        np.testing.assert_allclose(drawn.log_density(some), Bent().log_density(drawn.x[some]), rtol=1e-9)


def test_a_draw_without_weight_is_no_infinite_number():
    x = np.zeros((40, 3))
    x[:, 0], x[0, 0] = np.linspace(-1.0, 1.0, 40), 800.0
    proposal = weighted_draws.Mixture.of(np.zeros(3), np.eye(3))
    found = weighted_draws._weighed(Bent(), x, np.zeros(40), 0, proposal)
    assert np.isfinite(found.weights @ np.exp(found.x)).all()
    with np.errstate(all="ignore"):
        assert not np.isfinite(found.weights @ np.exp(x)).all()  # the control


def test_weights_that_tell_a_variance_badly_are_refused(monkeypatch):
    rng = np.random.default_rng(0)
    about = weighted_draws.Mixture.of(np.zeros(3), np.diag([1.0, 1.0, 1.0]))
    before = weighted_draws.by_all_rows(Bent(), about, rng, 5_000, 1)
    monkeypatch.setattr(weighted_draws, "_PARTED", 0)
    monkeypatch.setattr(weighted_draws, "doubts", lambda weighted: "")
    assert "tell a variance to" in weighted_draws.by_parts(Bent(), before, rng).why
    monkeypatch.setattr(weighted_draws, "_UNKNOWN", 1.0)  # the control
    assert not weighted_draws.by_parts(Bent(), before, rng).why


@pytest.mark.thorough
def test_a_tail_that_few_draws_see_is_known_by_parts(monkeypatch):
    """Zero-inflated counts of 53 rows; the sd of log phi by tempered particles is 1.21."""
    of = """beta beta_binomial binomial exponential gamma gaussian hurdle_gamma hurdle_lognormal
        hurdle_negative_binomial hurdle_poisson inverse_gaussian log_logistic logistic lognormal
        negative_binomial ordinal poisson probit softmax student_t tweedie weibull
        zero_inflated_negative_binomial zero_inflated_poisson"""  # that the number of a table is of
    _, frame, _ = fresh.table(131, 1, of.split())
    columns = {"features": ("x0", "x1"), "numeric": ("x0", "x1")}
    with frames.held(frame) as path:
        request = Request(path, "y", model="zero_inflated_negative_binomial", table=columns)
        made = question.of(request).posterior

    def sd():
        return np.sqrt(weighted_draws.fit(made).moments()[1][3, 3])

    assert abs(sd() / 1.21 - 1.0) < 0.02
    monkeypatch.setattr(weighted_draws, "_PARTED", 0)  # the control: accepted with another sd
    monkeypatch.setattr(weighted_draws, "_UNKNOWN", 1.0)
    assert abs(sd() / 1.21 - 1.0) > 0.03


def test_weights_that_are_all_but_even_have_no_heavy_tail():
    """k-hat knows no size: of weights that differ by a thousandth a tail may look heavy, and is none."""
    rng = np.random.default_rng(0)
    even = weighted_draws.Weighted.of_independent(rng.standard_normal((5_000, 2)))
    slight = 1e-3 * rng.standard_t(1.0, 5_000).clip(-50.0, 50.0)
    one = weighted_draws.replace(even, log_weight=slight, k_hat=0.9)
    assert not weighted_draws.doubts(one)
    # the control
    assert "heavy" in weighted_draws.doubts(weighted_draws.replace(one, log_weight=50.0 * slight))


def test_weights_that_would_read_too_many_rows_are_refused_before_they_do():
    """20 of 20,000 rows, 40 columns: a draw far out would read 16,000 rows picked one by one."""
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.standard_normal((20_000, 40)), np.ones(20_000)])
    eta = x[:, :40] @ (2.0 * rng.standard_normal(40) / np.sqrt(40)) - 9.0
    rows = Rows(x, (rng.random(20_000) < 1.0 / (1.0 + np.exp(-eta))).astype(float))
    made = Posterior(family("logistic"), rows, CoefficientPrior(np.zeros(41), np.full(41, 2.5)))
    at, likelihood = mode.find(made)
    shape = mode.covariance(likelihood.curvature + made.prior_at(at).curvature)
    plain = weighted_draws.Mixture.of(at, shape, 0.0, 0.0)

    def drawn(most, spent):
        return weighted_draws.by_few_rows(made, plain, likelihood, np.random.default_rng(0), 200, most, spent)

    refused = drawn(100_000, weighted_draws.never)
    assert "would read" in refused.why
    assert refused.rate * 200 > 100_000
    assert "--budget" in drawn(np.inf, lambda: True).why
    # the control: without a limit as many rows are read
    assert drawn(np.inf, weighted_draws.never).rate == pytest.approx(refused.rate, rel=0.02)


@pytest.mark.thorough
def test_few_rows_a_draw_serve_where_events_are_rare():
    """22 of 20,000: far out the second order says nothing of rows, and a wide t goes there."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(20_000), np.zeros(20_000)
    y[rng.choice(len(x), 22, replace=False, p=np.exp(x) / np.exp(x).sum())] = 1.0
    rows = Rows(np.column_stack([x, np.ones(len(x))]), y)
    made = Posterior(family("logistic"), rows, CoefficientPrior(np.zeros(2), np.array([2.5, 10.0])))
    found = weighted_draws.fit(made)
    assert not found.why
    assert found.rate < 100
    assert found.effective > 4_000
    at, likelihood = mode.find(made)
    shape = mode.covariance(likelihood.curvature + made.prior_at(at).curvature)
    by_all = weighted_draws.by_all_rows(made, weighted_draws.Mixture.of(at, shape), rng, 1_500)
    (mean, covariance), (truth, whole) = found.moments(), by_all.moments()
    sd = np.sqrt(np.diag(whole))
    assert np.abs(mean - truth).max() < 0.15 * sd.min()
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), sd, rtol=0.1)
    heavy = weighted_draws.Mixture.of(at, shape, 0.0)  # with a wide t, which fails
    with np.errstate(all="ignore"):
        assert weighted_draws.by_few_rows(made, heavy, likelihood, rng, 5_000).effective < 100


def test_folded_rows_begin_where_the_same_rows_do_and_many_near_the_mode(monkeypatch):
    made, _ = simulated("logistic", 900, 3, np.random.default_rng(5))
    offset, sign = np.random.default_rng(6).normal(size=900), 2.0 * made.rows.target - 1.0
    rows = Rows(made.rows.features, made.rows.target, 1.0, offset)
    folded = Rows(sign[:, None] * made.rows.features, np.ones(900), 1.0, sign * offset)
    plain, other = posterior("logistic", rows, 3), posterior("logistic", folded, 3)
    np.testing.assert_allclose(other.start(), plain.start(), rtol=1e-12)
    assert plain.start()[-1] != 0.0
    at, likelihood = mode.find(plain)
    plain.queries = 0
    monkeypatch.setattr(mode, "_ENOUGH", 150)
    close, same = mode.find(plain)
    assert plain.queries % 900  # some rows were asked alone, and are counted
    np.testing.assert_allclose(close, at, atol=1e-5)
    np.testing.assert_allclose(same.curvature, likelihood.curvature, rtol=1e-3)


def test_even_draws_follow_the_weights():
    """A draw is there as often as its share says, up to one: one of .56 % of the weight was 2.8 % of them."""
    rng = np.random.default_rng(0)
    weights = np.exp(2.5 * rng.standard_normal(5_000))  # some 10 draws hold most
    weights /= weights.sum()
    even = even_draws.resampled(weights, rng)
    count = np.bincount(even.ravel(), minlength=len(weights))
    assert np.abs(count - weights * even.size).max() < 1.0 + 1e-9
    assert even_draws.effective(even) == pytest.approx(1.0 / (weights**2).sum(), rel=0.1)
    negative = even_draws.resampled(np.where(np.arange(5_000) % 2, weights, -weights), rng)
    assert (negative % 2).all()


@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_moments_of_even_draws_are_the_weighted_ones(spread):
    """Within noise, of hard weights too."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5_000, 3))
    log_weight = spread * np.abs(x[:, 0]) + rng.standard_normal(len(x))
    w = np.exp(log_weight - log_weight.max())
    w /= w.sum()
    mean, sd = w @ x, np.sqrt(w @ (x - w @ x) ** 2)
    even = x[even_draws.resampled(w, rng)].reshape(-1, 3)
    assert np.abs((even.mean(axis=0) - mean) / sd).max() < 4.0 / np.sqrt(len(even))
    assert np.abs(even.std(axis=0) / sd - 1).max() < 4.0 / np.sqrt(len(even))


def test_so_many_draws_are_stored_that_enough_of_them_are_effective(tmp_path, monkeypatch):
    """Of 200,000 the first 20,000 were, whatever these were worth."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flyrun.fitting.engine._MOST_STORED", 100)
    rng = np.random.default_rng(0)
    pd.DataFrame({"x": rng.normal(size=60), "n": rng.poisson(2.0, 60)}).to_csv("t.csv", index=False)
    assert main(["fit", "t.csv", "n ~ x", "--model", "poisson"]) == 0
    with xarray.open_datatree("results/runs/t/posterior.nc", engine="h5netcdf") as tree:
        w = np.exp(tree["weighted"]["log_weight"].values)
    assert 1_000 <= len(w) < 2_500
    assert w.sum() ** 2 / (w**2).sum() > 0.9 * weighted_draws.ENOUGH


SETS, ROWS, LEVEL = 300, 40, 1e-3
OF_SET, EFFECTIVE = 500, 200  # draws: a tenth of a fit's, and more of these effective than it asks for


def ranks(name, draw, seed=11, rows=ROWS):
    """Where the numbers that made a set of rows are among draws of its posterior: (sets, P)."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(SETS):
        made, x = simulated(name, rows, 3, rng)
        values, w = draw(made, np.random.default_rng(number))
        found.append(w @ (values < x))
    return np.array(found)


def uniform(u):
    """Least p of Kolmogorov-Smirnov tests of each column."""
    return min(stats.kstest(column, "uniform").pvalue for column in u.T) * u.shape[1]


def by_weights(made, rng):
    at, likelihood = mode.find(made)
    shape = mode.covariance(likelihood.curvature + made.prior_at(at).curvature)
    about = weighted_draws.Mixture.of(at, shape)
    found = weighted_draws.by_all_rows(made, about, rng, OF_SET, wanted=EFFECTIVE)
    return found.x, found.weights


def in_closed_form(made, rng):
    return gaussian_noise.draw(made, rng, OF_SET), np.full(OF_SET, 1.0 / OF_SET)


def covers(u):
    """Whether intervals of 90 % hold about so many truths."""
    return 0.86 < ((u > 0.05) & (u < 0.95)).mean() < 0.94


def unweighted(made, rng, width=1.0):
    at, likelihood = mode.find(made)
    shape = width**2 * mode.covariance(likelihood.curvature + made.prior_at(at).curvature)
    return rng.multivariate_normal(at, shape, OF_SET), np.full(OF_SET, 1.0 / OF_SET)


#: half a minute of calibration together with each other
LONG = {name for name in names() if name.startswith("hurdle")} | {
    "tweedie",
    "zero_inflated_negative_binomial",
}


@pytest.mark.thorough(but="logistic")
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow) if one in LONG else one for one in names()]
)
def test_what_fit_gives_is_calibrated(name):
    """Simulation-based calibration (Talts et al. 2018), 300 sets of 40 rows, of a hurdle's of 160."""
    rows = 4 * ROWS if name.startswith("hurdle") else ROWS  # zeros say nothing of the coefficients
    u = ranks(name, in_closed_form if family(name).by_sums else by_weights, rows=rows)
    assert uniform(u) > LEVEL
    assert covers(u)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("name", "rows"), [("gamma", 15), ("student_t", 20), ("gaussian", 40)])
def test_without_weights_it_would_not_be(name, rows):
    assert uniform(ranks(name, unweighted, rows=rows)) < LEVEL


def test_without_the_jacobian_of_log_sigma_it_would_not_be():
    def without(made, rng):
        x, w = in_closed_form(made, rng)
        w = w * np.exp(-x[:, -1])
        return x, w / w.sum()

    assert uniform(ranks("gaussian", in_closed_form, rows=8)) > LEVEL
    assert uniform(ranks("gaussian", without, rows=8)) < LEVEL


@pytest.mark.parametrize(("sd", "low", "high"), [(10.0, 0.97, 1.03), (2.5, 1.08, 1.3)])
def test_rare_events_stay_rare_under_a_wide_prior_of_the_intercept_alone(sd, low, high):
    """6 of 1,000: predicted over observed; the second, as if of a slope, is the control."""
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.standard_normal((1_000, 2)), np.ones(1_000)])
    rows = Rows(features, (np.arange(1_000) < 6).astype(float))
    made = Posterior(family("logistic"), rows, CoefficientPrior(np.zeros(3), np.array([2.5, 2.5, sd])))
    found = weighted_draws.fit(made)
    assert not found.why
    predicted = found.weights @ (1.0 / (1.0 + np.exp(-found.x @ features.T))).mean(axis=1)
    assert low < predicted / 0.006 < high


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["ordinal", "softmax"])
def test_draws_a_fifth_too_narrow_would_not_be(name):
    assert not covers(ranks(name, lambda made, rng: unweighted(made, rng, 0.8)))


def test_a_table_is_answered_without_chains(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = rng.random(300) < 1 / (1 + np.exp(-(x @ [1.0, -0.5] + 0.3)))
    lines = [f"{a:.6f},{b:.6f},{'yes' if c else 'no'}" for (a, b), c in zip(x, y, strict=True)]
    (tmp_path / "mine.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    monkeypatch.setattr("flyrun.ground.page.figures.saved", lambda figure: (b"", "<svg></svg>"))
    assert main(["fit", "mine.csv", "--target", "y"]) == 0
    said = capsys.readouterr().out
    assert "weighted draws" in said
    assert "R-hat" not in said
    assert "all 300 likelihoods a draw" in said
    folder = tmp_path / "results/runs/mine"
    with xarray.open_datatree(folder / "posterior.nc", engine="h5netcdf") as tree:
        even, every = tree["posterior"]["beta"], tree["weighted"]
        assert dict(even.sizes) == {"chain": 4, "draw": 1000, "coefficient": 3}
        w = np.exp(every["log_weight"].values - every["log_weight"].values.max())
        mean = w @ every["beta"].values / w.sum()
        np.testing.assert_allclose(even.values.mean(axis=(0, 1)), mean, atol=0.02)
        assert list(even["coefficient"].values) == ["a", "b", "intercept"]
    assert main(["report", "mine"]) == 0
    page = (folder / "report.md").read_text()
    assert "systematic resampling" in page
    # other settings leave it where it is
    assert main(["fit", "mine.csv", "--target", "y", "--drop", "b"]) == 2
    assert "--name mine_2 keeps both" in capsys.readouterr().err


# Brownlee's (1965) stack losses of a plant: air flow, water temperature, acid concentration, loss.
STACK_LOSS = np.array([
    [80, 27, 89, 42], [80, 27, 88, 37], [75, 25, 90, 37], [62, 24, 87, 28], [62, 22, 87, 18],
    [62, 23, 87, 18], [62, 24, 93, 19], [62, 24, 93, 20], [58, 23, 87, 15], [58, 18, 80, 14],
    [58, 18, 89, 14], [58, 17, 88, 13], [58, 18, 82, 11], [58, 19, 93, 12], [50, 18, 89, 8],
    [50, 18, 86, 7], [50, 19, 72, 8], [50, 19, 79, 8], [50, 20, 80, 9], [56, 20, 82, 15],
    [70, 20, 91, 15],
], float)  # fmt: skip
SD_LOG_SIGMA = 0.238  # by four chains of 4,000 draws of HMC, twice: 0.240 and 0.235


def stack_loss():
    standard = (STACK_LOSS - STACK_LOSS.mean(axis=0)) / STACK_LOSS.std(axis=0)
    features = np.column_stack([standard[:, :3], np.ones(21)])
    prior = CoefficientPrior(np.zeros(4), np.array([2.5, 2.5, 2.5, 10.0]))
    return Posterior(family("student_t"), Rows(features, standard[:, 3]), prior)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_a_region_of_little_mass_is_seen_or_the_draws_are_refused(seed):
    """Rows fitted exactly by a small scale: k-hat of 5,000 draws is 0.2 while an sd is 10 % too small."""
    found = weighted_draws.fit(stack_loss(), seed)
    sd = np.sqrt(found.moments()[1][4, 4])
    assert found.why or abs(sd / SD_LOG_SIGMA - 1) < 0.08


def test_few_draws_would_miss_it_with_even_weights():
    """The control: what a certificate by k-hat and effective draws alone lets pass."""
    made = stack_loss()
    at, likelihood = mode.find(made)
    shape = mode.covariance(likelihood.curvature + made.prior_at(at).curvature)
    proposal = weighted_draws.Mixture.of(at, shape)
    found = [weighted_draws.by_all_rows(made, proposal, np.random.default_rng(k), 5_000) for k in range(8)]
    passed = [one for one in found if not one.why]
    assert any(abs(np.sqrt(one.moments()[1][4, 4]) / SD_LOG_SIGMA - 1) > 0.08 for one in passed)


def test_the_check_by_chains_knows_its_noise():
    """Sticky chains, of 20 numbers: what differs by chance is within the noise told, a tenth is not."""
    rng, size, within, beyond = np.random.default_rng(0), 20, 0, 0
    for _ in range(60):
        z = rng.standard_normal((16, 500, size))
        for t in range(1, 500):
            z[:, t] = 0.6 * z[:, t - 1] + 0.8 * z[:, t]
        off, shrunk, noise = hmc_check.apart(z, np.zeros(size), np.ones(size))
        within += (np.abs(np.concatenate([off, shrunk])) < noise).all()
        shrunk, noise = hmc_check.apart(z, np.zeros(size), np.full(size, 0.85))[1:]
        beyond += (np.abs(shrunk) - noise[size:] > 0.0).any()
    assert within >= 51  # nine of ten are asked for
    assert beyond == 60


def test_chains_answer_where_weights_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(weighted_draws, "HEAVY", -10.0)
    monkeypatch.setattr(weighted_draws, "EVEN", 0.0)
    monkeypatch.setattr(weighted_draws, "_ROUNDS", 1)
    monkeypatch.setattr("flyrun.ground.page.figures.saved", lambda figure: (b"", "<svg></svg>"))
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    lines = [f"{a:.6f},{b}" for a, b in zip(x, rng.poisson(np.exp(0.5 * x)), strict=True)]
    (tmp_path / "mine.csv").write_text("\n".join(["x,y", *lines]) + "\n")
    assert main(["fit", "mine.csv", "--target", "y", "--model", "poisson"]) == 0
    said = capsys.readouterr().out
    assert "weighted draws are not used, because the weights' tail is heavy" in said
    assert "chains of 500 draws by Hamiltonian Monte Carlo on all rows" in said
    with xarray.open_datatree("results/runs/mine/posterior.nc", engine="h5netcdf") as tree:
        assert "weighted" not in tree
        assert tree["posterior"]["beta"].sizes["chain"] == 4
    assert "R-hat" in (tmp_path / "results/runs/mine/report.md").read_text()


def test_chains_that_reach_where_no_draw_is_tell_what_their_sds_lack():
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(8, 1_000, 3))
    draws[0, :16, 1] += 12.0
    missed = np.arange(8_000) < 16
    assert abs(hmc_check._unseen(draws, missed) - 0.5 * np.log1p(16 * 145 / 8_000)) < 0.02
    assert (
        hmc_check._unseen(draws, ~missed & (np.arange(8_000) < 40)) < 0.01
    )  # the control: some of the others
