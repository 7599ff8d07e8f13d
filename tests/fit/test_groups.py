"""Effects of groups integrated out: values, derivatives and draws against other ways to the same numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import kstest

from flyrun.families.family import family
from flyrun.fitting import mode, weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.groups import draw, integrated_out, normal_noise, scales, sums
from flyrun.fitting.groups.integrated_out import GroupedPosterior
from flyrun.fitting.table_rows import Rows

NAMES = ["logistic", "binomial", "poisson", "negative_binomial", "gamma", "hurdle_gamma"]


def grouped(
    name: str, sizes: list[int], slope: bool = False, seed: int = 0, nodes: int = 15
) -> GroupedPosterior:
    """A posterior of groups of these sizes, one column and an intercept."""
    rng, n = np.random.default_rng(seed), sum(sizes)
    code = np.repeat(np.arange(len(sizes)), sizes)
    features = np.column_stack([rng.standard_normal(n), np.ones(n)])
    b = rng.normal(0.0, [0.8, 0.5], (len(sizes), 2))
    eta = features @ [0.5, -0.3] + b[code, 0] + slope * b[code, 1] * features[:, 0]
    one, trials = family(name), rng.integers(1, 6, n).astype(float) if name == "binomial" else 1.0
    aux = [np.log(2.0), -0.5][: len(one.auxiliary(0, 1.0))]
    y = one.draw(rng, 1 if name == "logistic" else np.asarray(trials, np.int64), [eta, *aux])
    starts = np.append(0, np.cumsum(sizes))[:-1]
    weights = rng.integers(1, 3, n).astype(float) if name == "poisson" else 1.0
    rows = Rows(features, np.asarray(y, float), trials, 0.1, weights)
    prior = CoefficientPrior(np.zeros(2), np.full(2, 2.5))
    return GroupedPosterior(
        one, rows, prior, starts=starts, slope=features[:, 0].copy() if slope else None, nodes=nodes
    )


def dense(posterior: GroupedPosterior, x: np.ndarray) -> float:
    """The log likelihood at x (P,), each group's effect integrated on a fine even grid."""
    h, n = posterior.h(x), posterior.n_coefficients
    sd, total, aux = float(np.exp(h[0])), 0.0, list(x[n : posterior.before])
    ends = [*posterior.starts[1:], len(posterior.rows)]
    b = np.linspace(-9.0 * sd, 9.0 * sd, 4_001)
    for first, last in zip(posterior.starts, ends, strict=True):
        rows = posterior.rows.take(slice(first, last))
        eta = posterior.predictors(rows, x[None])[0] + b
        y, trials = rows.target[:, None], rows.trials[:, None] if np.ndim(rows.trials) else rows.trials
        weights = np.broadcast_to(rows.weights, (last - first,))
        each = posterior.family.log_density(y, trials, [eta, *aux])
        each = each + posterior.family.alone(y, trials, aux)
        inside = weights @ each - 0.5 * (b / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
        total += logsumexp(inside) + np.log(b[1] - b[0])
    return total


@np.errstate(all="ignore")  # far out on the ridge
def test_groups_of_a_row_each_are_drawn_from_a_bent_ridge() -> None:
    groups = 40
    posterior = grouped("gaussian", [1] * groups)
    drawn = normal_noise.draw(posterior, np.random.default_rng(0), 5_000, weighted_draws.never)
    assert drawn.why == ""
    assert drawn.effective > 1_000
    rows = posterior.rows
    log_sigma, h = (each.ravel() for each in np.meshgrid(*[np.linspace(-9.0, 2.0, 220)] * 2, indexing="ij"))
    # of a row the target's variance is both, and coefficients are integrated out
    y, x = rows.target - rows.offset, rows.features
    variance = np.exp(2.0 * log_sigma) + np.exp(2.0 * h)
    precision = x.T @ x / variance[:, None, None] + np.eye(2) / 2.5**2
    along = np.linalg.solve(precision, (x.T @ y / variance[:, None])[..., None])[..., 0]
    log_p = -0.5 * (groups * np.log(variance) + np.linalg.slogdet(precision)[1])
    log_p -= 0.5 * (y @ y - along @ x.T @ y) / variance
    log_p += posterior.auxiliary[0].prior.log_density(log_sigma) + scales.log_prior(h[:, None])
    weight = np.exp(log_p - logsumexp(log_p))
    for place, values in ((2, log_sigma), (3, h)):
        mean, found = weight @ values, drawn.weights @ drawn.x[:, place]
        sd = np.sqrt(weight @ (values - mean) ** 2)
        assert found == pytest.approx(mean, abs=0.06 * sd)
        assert np.sqrt(drawn.weights @ (drawn.x[:, place] - found) ** 2) == pytest.approx(sd, rel=0.06)


@pytest.mark.parametrize("name", NAMES)
def test_quadrature_is_the_integral_away_from_the_mode_too(name: str) -> None:
    posterior = grouped(name, [1, 3, 40, 9, 17, 25])
    at, likelihood = mode.find(posterior, posterior.start())
    posterior.settle(at)
    sd = np.sqrt(np.diag(mode.covariance(likelihood.curvature + posterior.prior_at(at).curvature)))
    x = at + np.random.default_rng(1).standard_normal((5, posterior.size)) * sd
    right = [dense(posterior, one) for one in x]
    assert_allclose(posterior.log_likelihood(x), right, atol=2e-4)
    assert likelihood.value == pytest.approx(dense(posterior, at), abs=1e-6)
    posterior.nodes = 1  # one node is Laplace's approximation: it must show
    assert np.abs(posterior.log_likelihood(x) - right).max() > 5e-3


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("slope", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_agree_with_differences(name: str, slope: bool) -> None:
    posterior = grouped(name, [5, 12, 30, 8], slope, nodes=25 if slope else 41)
    rng = np.random.default_rng(2)
    x = 0.3 * rng.standard_normal(posterior.size)
    found, prior = posterior.likelihood_at(x), posterior.prior_at(x)
    step = 1e-4
    for k in range(posterior.size):
        away = step * np.eye(posterior.size)[k]
        up, down = posterior.likelihood_at(x + away), posterior.likelihood_at(x - away)
        assert found.slope[k] == pytest.approx((up.value - down.value) / (2 * step), abs=1e-4)
        assert_allclose(found.curvature[k], -(up.slope - down.slope) / (2 * step), atol=2e-3)
        ends = posterior.log_prior(np.stack([x + away, x - away]))
        assert prior.slope[k] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


def test_a_search_that_tries_a_singular_distribution_of_effects_is_told_that_it_is_no_number() -> None:
    posterior = grouped("logistic", [5, 12, 30, 8], slope=True, nodes=3)
    x = np.append(np.zeros(posterior.before), [-1.0, 0.5, -25.0])
    with np.errstate(all="ignore"):
        assert np.isnan(posterior.likelihood_at(x).value)
    x[-1] = -5.0
    assert np.isfinite(posterior.likelihood_at(x).value)


@pytest.mark.parametrize("slope", [False, True])
def test_closed_form_under_normal_noise_is_the_integral_over_coefficients(slope: bool) -> None:
    posterior = grouped("gaussian", [1, 4, 4, 9, 20], slope)
    sums, rng = normal_noise.Sums(posterior), np.random.default_rng(3)
    differences = []
    for _ in range(6):
        v = 0.4 * rng.standard_normal(sums.size)
        x = np.concatenate([np.zeros(2), v])
        parts = posterior.likelihood_at(x), posterior.prior_at(x)  # quadrature: exact, all is normal
        value, up = sum(one.value for one in parts), sum(one.slope[:2] for one in parts)
        bend = sum(one.curvature[:2, :2] for one in parts)
        whole = value + 0.5 * up @ np.linalg.solve(bend, up) - 0.5 * np.linalg.slogdet(bend)[1]
        differences.append(whole - sums.log_density(v[None])[0])
    assert_allclose(differences, differences[0], atol=1e-8)


def test_a_crossed_factor_is_integrated_out_in_closed_form() -> None:
    """With all of them integrated out rows are normal, of a covariance that is the sum of its parts'."""
    rng, n = np.random.default_rng(0), 40
    code, crossed = np.sort(np.arange(n) % 7), rng.integers(0, 4, n)
    features = np.column_stack([rng.standard_normal(n), np.ones(n)])
    y = features @ [0.5, 0.2] + rng.standard_normal(7)[code] + rng.standard_normal(4)[crossed]
    y = y + 0.5 * rng.standard_normal(n)
    prior = CoefficientPrior(np.zeros(2), np.full(2, 2.5))
    starts = np.searchsorted(code, np.arange(7))
    posterior = GroupedPosterior(family("gaussian"), Rows(features, y), prior, starts=starts, crossed=crossed)
    sums, differences = normal_noise.Sums(posterior), []
    for v in 0.4 * rng.standard_normal((6, 3)):
        noise, one, other = np.exp(2.0 * v)
        whole = noise * np.eye(n) + one * (code[:, None] == code) + other * (crossed[:, None] == crossed)
        whole += 2.5**2 * features @ features.T
        right = -0.5 * (y @ np.linalg.solve(whole, y) + np.linalg.slogdet(whole)[1])
        right += posterior.auxiliary[0].prior.log_density(v[0])
        right += scales.log_prior(v[None, 1:2])[0] + scales.log_prior(v[None, 2:])[0]
        differences.append(right - sums.log_density(v[None])[0])
    assert_allclose(differences, differences[0], atol=1e-8)
    found = draw.draw(posterior).weighted
    assert found.why == ""
    assert found.x.shape[1] == posterior.size == 2 + 3 + 4


@pytest.mark.thorough(but="logistic")
@pytest.mark.parametrize("name", NAMES)
def test_weights_are_those_of_the_integral(name: str) -> None:
    """Of few small groups: log weights and those by fine even grids differ by a constant alone."""
    posterior = grouped(name, [6, 9, 4, 12, 7], seed=4)
    found = draw.draw(posterior)
    one = found.weighted
    assert one.why == ""
    assert found.error <= draw.EXACT
    assert one.effective > weighted_draws.ENOUGH
    likely = np.flatnonzero(one.log_weight > np.median(one.log_weight) - 3.0)[:100]
    x = one.x[likely]
    right = np.array([dense(posterior, row) for row in x]) + posterior.log_prior(x)
    assert np.ptp(right - one.proposal.log_density(x) - one.log_weight[likely]) < 0.03


def test_draws_under_normal_noise_have_the_moments_of_quadrature() -> None:
    posterior = grouped("gaussian", [6, 9, 4, 12, 7], seed=4)
    one = draw.draw(posterior).weighted
    assert one.why == ""
    mean, covariance = one.moments()
    at, _ = mode.find(posterior, posterior.start())
    posterior.settle(at)  # one node is exact where all is normal
    shape = weighted_draws.Mixture.of(mean, covariance)
    other = weighted_draws.by_all_rows(posterior, shape, np.random.default_rng(6), 20_000)
    there, spread = other.moments()
    error = np.sqrt(np.diag(covariance) * (1.0 / one.effective + 1.0 / other.effective))
    assert (np.abs(mean - there) < 4.0 * error).all()
    assert_allclose(np.sqrt(np.diag(spread) / np.diag(covariance)), 1.0, atol=0.08)


FEW = [(3, 20, 0.8), (5, 20, 0.8), (5, 20, 0.1), (8, 20, 0.5), (10, 100, 0.5), (20, 5, 0.3), (30, 30, 0.1)]


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize(("groups", "each", "sd"), FEW)
@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_few_groups_have_even_weights(name: str, groups: int, each: int, sd: float) -> None:
    rng, n = np.random.default_rng(5), groups * each
    features = np.column_stack([rng.standard_normal((n, 3)), np.ones(n)])
    eta = features @ [0.4, -0.2, 0.3, -0.3] + np.repeat(rng.normal(0.0, sd, groups), each)
    y = np.asarray(family(name).draw(rng, 1, [eta]), float)
    prior = CoefficientPrior(np.zeros(4), np.full(4, 2.5))
    found = draw.draw(
        GroupedPosterior(family(name), Rows(features, y), prior, starts=np.arange(groups) * each)
    )
    assert found.weighted.why == ""
    assert found.weighted.effective > 0.3 * len(found.weighted.x)
    assert found.error <= draw.EXACT


def ranks(sets: int) -> np.ndarray:
    """Ranks (sets, 3), in (0, 1), of coefficients and log sd that data were drawn by among draws."""
    found, starts = np.empty((sets, 3)), np.arange(8) * 6
    prior = CoefficientPrior(np.zeros(2), np.ones(2))
    for k in range(sets):
        rng = np.random.default_rng(5_000 + k)
        sd = 2.5 * abs(rng.standard_t(3.0))
        truth = np.append(rng.standard_normal(2), np.log(sd))
        features = np.column_stack([rng.standard_normal(48), np.ones(48)])
        eta = features @ truth[:2] + np.repeat(rng.normal(0.0, sd, 8), 6)
        y = np.asarray(family("logistic").draw(rng, 1, [eta]), float)
        posterior = GroupedPosterior(family("logistic"), Rows(features, y), prior, starts=starts)
        drawn = draw.draw(posterior, k).weighted
        found[k] = drawn.weights @ (drawn.x < truth)
    return found


@pytest.mark.slow
def test_truths_rank_evenly_among_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ranks(700)
    assert min(kstest(found[:, j], "uniform").pvalue for j in range(3)) > 0.01
    assert np.mean(np.abs(found - 0.5) < 0.45) == pytest.approx(0.9, abs=0.04)
    monkeypatch.setattr(draw, "NODES", ((1, 0),))  # Laplace's approximation
    assert kstest(ranks(200)[:, 2], "uniform").pvalue < 0.01


def test_nodes_that_do_not_follow_are_seen() -> None:
    """Of large groups: the error differs by nats from draw to draw, and draws are refused for it."""
    posterior = grouped("logistic", [4_000] * 4, nodes=9)
    at, likelihood = mode.find(posterior, posterior.start())
    posterior.settle(at)
    shape = mode.covariance(likelihood.curvature + posterior.prior_at(at).curvature)
    proposal = weighted_draws.Mixture.of(at, shape)
    x = proposal.draw(np.random.default_rng(0), 8)[0]
    assert draw._error(posterior, x) <= draw.EXACT
    posterior.follow.move[:] = 0.0  # type: ignore[union-attr]
    assert draw._error(posterior, x) > 1.0


def test_nodes_about_each_draws_own_modes_integrate_where_sds_are_vast() -> None:
    """Groups of six rows, several of one class only: followed nodes err."""
    posterior = grouped("logistic", [6] * 8, seed=2)
    at, _ = mode.find(posterior, posterior.start())
    posterior.settle(at)
    x = np.tile(at, (2, 1))
    x[:, -1] = np.log([4.0, 8.0])
    right = np.array([dense(posterior, one) for one in x])
    posterior.nodes, posterior.steps = 41, 0
    assert np.abs(posterior.log_likelihood(x) - right).max() > 0.01
    posterior.steps = 6
    assert_allclose(posterior.log_likelihood(x), right, atol=1e-3)


def test_few_draws_of_a_round_are_enough_or_another_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows a round has few draws; half of them being effective would not do."""
    monkeypatch.setattr(draw, "_EVALUATIONS", 1.0)
    for few in (draw._FEWEST, 500):
        monkeypatch.setattr(draw, "_FEWEST", few)
        one = draw.draw(grouped("logistic", [6, 9, 4, 12, 7], seed=4)).weighted
        assert one.why == ""
        assert one.effective >= weighted_draws.ENOUGH
    assert one.rounds > 1  # of 500 not 400 are


@pytest.mark.thorough
@pytest.mark.parametrize("slope", [False, True])
@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_sums_that_are_compiled_are_those_that_are_not(
    name: str, slope: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    posterior = grouped(name, [1, 3, 200, 9, 17], slope, nodes=5 if slope else 15)
    at, _ = mode.find(posterior, posterior.start())
    posterior.settle(at)
    x = at + 0.3 * np.random.default_rng(1).standard_normal((11, posterior.size))
    plain, value = posterior.log_likelihood(x), posterior.likelihood_at(at).value
    many = x + np.append([40.0, 40.0], np.zeros(x.shape[1] - 2))
    right = posterior.log_likelihood(many)
    monkeypatch.setattr(integrated_out, "MANY", 1)
    assert_allclose(posterior.log_likelihood(x), plain, rtol=1e-12)
    assert posterior.likelihood_at(at).value == pytest.approx(value, rel=1e-12)
    assert_allclose(posterior.log_likelihood(many), right, rtol=1e-12)
    monkeypatch.setattr(sums, "_LARGEST", 1e9)  # all 64 factors at once: these overflow
    if name == "logistic":
        assert np.abs(posterior.log_likelihood(many) - right).max() > 1.0
