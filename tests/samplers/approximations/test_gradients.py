"""Noisy gradients of the bound: their means against exact ones, their spread against each other."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, log_expit, roots_hermitenorm
from threadpoolctl import threadpool_limits

from flyrun.experiments.samplers.approximations.gradients import by_scores, by_slopes, by_slopes_full, entropy

NODES, WEIGHTS = roots_hermitenorm(32)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Logistic:
    """Generated logistic regression under N(0, I), rows t·x; margins have the sd 1 whatever D is."""

    def __init__(self, n_data, size):
        rng = np.random.default_rng(0)
        rows = rng.standard_normal((n_data, size))
        label = np.where(rng.random(n_data) < expit(rows @ np.full(size, size**-0.5)), 1.0, -1.0)
        self.rows, self.size = rows * label[:, None], size

    def exact(self, mean, log_sd):
        """The bound's gradient under N(mean, diag sd²), by quadrature: slopes and curvatures expected."""
        slope, curvature = self.expected(mean, log_sd)
        return np.concatenate([slope, 1 - np.exp(2 * log_sd) * np.diag(curvature)])

    def expected(self, mean, log_sd):
        sd = np.sqrt((self.rows**2 * np.exp(2 * log_sd)).sum(axis=1))
        margin = (self.rows @ mean)[:, None] + sd[:, None] * NODES
        share = expit(-margin)
        slope = self.rows.T @ (share @ WEIGHTS) - mean
        bend = (share * (1 - share)) @ WEIGHTS
        return slope, np.eye(self.size) + self.rows.T @ (self.rows * bend[:, None])

    def optimum(self):
        mean, log_sd = np.zeros(self.size), np.full(self.size, -2.0)
        for _ in range(12):
            slope, curvature = self.expected(mean, log_sd)
            mean, log_sd = mean + np.linalg.solve(curvature, slope), -0.5 * np.log(np.diag(curvature))
        return mean, log_sd

    def terms(self, mean, log_sd, noise):
        """Σ log L_n, (S,), log prior − log q by coordinate and ∇ log p̃, (S, P) both."""
        theta = mean + noise * np.exp(log_sd)
        margin = theta @ self.rows.T
        own = 0.5 * (noise**2 - theta**2) + log_sd
        return log_expit(margin).sum(axis=1), own, expit(-margin) @ self.rows - theta


def estimates(problem, at, estimator, repeats, n_draws=10, seed=1):
    """(repeats, ...): what an estimator(noise, log_sd, shared, own, slopes) says of the gradient at `at`."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(repeats):
        noise = rng.standard_normal((n_draws, problem.size))
        found.append(estimator(noise, at[1], *problem.terms(*at, noise)))
    return np.array(found)


def scores(baseline):
    return lambda noise, log_sd, shared, own, slopes: by_scores(baseline, noise, log_sd, shared, own)


def slopes_only(noise, log_sd, shared, own, slopes):
    return by_slopes(noise, slopes, log_sd)


def along_the_path(noise, log_sd, shared, own, slopes):
    """The total derivative of log p̃ − log q but for the score, whose mean is 0: the entropy by draws."""
    whole = by_slopes(noise, slopes + noise * np.exp(-log_sd), log_sd)
    whole[len(log_sd) :] -= 1
    return whole


def without_log_q(noise, log_sd, shared, own, slopes):
    own = own - 0.5 * noise**2 - log_sd
    return by_scores("leave_one_out", noise, log_sd, shared, own)


def of_log_q_over_p(noise, log_sd, shared, own, slopes):
    return -by_scores("leave_one_out", noise, log_sd, shared, own)


def without_entropy(noise, log_sd, shared, own, slopes):
    whole = by_slopes(noise, slopes, log_sd)
    whole[len(log_sd) :] -= 1
    return whole


SMALL = Logistic(30, 3)
AT = np.array([0.3, -0.2, 0.5]), np.log([0.5, 0.8, 0.3])  # not the optimum


def z_scores(estimator, repeats=4_000, n_draws=10):
    found = estimates(SMALL, AT, estimator, repeats, n_draws)
    away = found.mean(axis=0) - SMALL.exact(*AT)
    return away / (found.std(axis=0) / np.sqrt(repeats))


UNBIASED = [scores("none"), scores("rao_blackwell"), scores("leave_one_out"), slopes_only, along_the_path]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("estimator", UNBIASED, ids=["none", "rao_blackwell", "loo", "slopes", "path"])
def test_they_are_unbiased(estimator):
    assert np.abs(z_scores(estimator)).max() < 4


@pytest.mark.parametrize("broken", [without_log_q, of_log_q_over_p, without_entropy])
def test_broken_ones_are_not(broken):
    assert np.abs(z_scores(broken)).max() > 10


@pytest.mark.thorough
def test_the_control_variates_bias_is_of_the_order_of_one_over_the_draws():
    exact, bias = SMALL.exact(*AT), {}
    for n_draws in (5, 20):
        found = estimates(SMALL, AT, scores("control"), 8_000, n_draws)
        bias[n_draws] = found.mean(axis=0) - exact
        assert np.abs(bias[n_draws] / (found.std(axis=0) / np.sqrt(8_000))).max() > 10
    assert 3 < np.linalg.norm(bias[5]) / np.linalg.norm(bias[20]) < 6


def test_baselines_are_what_they_are_called():
    """Each one against its definition, draw by draw."""
    rng = np.random.default_rng(2)
    noise, shared, own = rng.standard_normal((6, 2)), rng.standard_normal(6), rng.standard_normal((6, 2))
    log_sd = np.array([0.3, -1.0])
    score = np.hstack([noise / np.exp(log_sd), noise**2 - 1])
    signal = np.tile(shared[:, None] + own, 2)
    loo = [(signal[s] - np.delete(signal, s, 0).mean(axis=0)) * score[s] for s in range(6)]
    np.testing.assert_allclose(
        by_scores("leave_one_out", noise, log_sd, shared, own), np.mean(loo, axis=0), rtol=1e-12
    )
    best = [np.cov((signal * score)[:, d], score[:, d])[0] / [1, score[:, d].var(ddof=1)] for d in range(4)]
    control = (signal * score - np.array(best)[:, 1] * score).mean(axis=0)
    np.testing.assert_allclose(by_scores("control", noise, log_sd, shared, own), control, rtol=1e-12)


@pytest.mark.thorough
@threadpool_limits.wrap(1)
def test_spread_of_scores_grows_with_the_dimension_and_of_slopes_does_not():
    """In units of 1/sd, at the optimum of mean field, N = 5,000, S = 10."""
    spread = {}
    names = ("none", "control", "leave_one_out")

    def each(*drawn):
        return [scores(name)(*drawn) for name in names] + [slopes_only(*drawn)]

    for size in (5, 50):
        problem = Logistic(5_000, size)
        at = problem.optimum()
        np.testing.assert_allclose(problem.exact(*at), 0, atol=1e-6)
        found = estimates(problem, at, each, 60)[:, :, :size] * np.exp(at[1])
        for name, one in zip((*names, "slopes"), found.transpose(1, 0, 2), strict=True):
            spread[name, size] = np.sqrt((one**2).mean())
    for size, low, high in ((5, 1.2, 2.0), (50, 4.0, 6.5)):
        assert low < spread["leave_one_out", size] / spread["slopes", size] < high
        assert spread["none", size] > 1_000 * spread["slopes", size]
        assert spread["none", size] > 100 * spread["leave_one_out", size]
        assert spread["control", size] < spread["leave_one_out", size]
    assert 0.85 < spread["slopes", 50] / spread["slopes", 5] < 1.15
    assert 2.5 < spread["leave_one_out", 50] / spread["leave_one_out", 5] < 4.0  # √10


def test_full_rank_is_exact_where_draws_have_the_normals_moments():
    """The slopes of a Gaussian are linear: draws ±√P·e_d, of mean 0 and covariance I, say it all."""
    rng = np.random.default_rng(3)
    size = 4
    noise = np.sqrt(size) * np.vstack([np.eye(size), -np.eye(size)])
    precision, linear = np.cov(rng.standard_normal((size, 9))), rng.standard_normal(size)
    mean = rng.standard_normal(size)
    root = np.tril(rng.standard_normal((size, size)), -1) + np.diag(np.exp(rng.standard_normal(size)))
    slopes = linear - (mean + noise @ root.T) @ precision
    found = by_slopes_full(noise, slopes, np.log(np.diag(root)))
    by_root = -precision @ root
    exact = [
        linear - precision @ mean,
        np.diag(by_root) * np.diag(root) + 1,
        by_root[np.tril_indices(size, -1)],
    ]
    np.testing.assert_allclose(found, np.concatenate(exact), rtol=1e-12, atol=1e-12)
    turned = np.concatenate([*exact[:2], by_root.T[np.tril_indices(size, -1)]])
    assert np.abs(found - turned).max() > 0.1


def test_entropy_is_minus_the_expected_log_density():
    """The survey's (2.52) says log q where it must say −log q."""
    log_sd = np.array([0.3, -1.0, 0.2])
    law = stats.multivariate_normal(np.zeros(3), np.diag(np.exp(2 * log_sd)))
    assert entropy(log_sd) == pytest.approx(law.entropy(), rel=1e-12)
    drawn = law.logpdf(np.random.default_rng(4).standard_normal((20_000, 3)) * np.exp(log_sd))
    assert abs(entropy(log_sd) + drawn.mean()) < 4 * drawn.std() / np.sqrt(20_000)
    assert abs(entropy(log_sd) - drawn.mean()) > 100 * drawn.std() / np.sqrt(20_000)
