"""Pólya-Gamma variables by their Laplace transform; their Gibbs sampler keeps exact draws exact."""

import numpy as np
import pytest
from scipy import stats

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.gibbs.polya_gamma import PolyaGamma, draw_all
from flyrun.experiments.samplers.hogwild import theory
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError
from flyrun.tables.dataset import Dataset

WORDS = ["dataset=toy_2d", "model=logistic", "prior=gaussian", "protocol.init=zero", "sampler=polya_gamma"]


@pytest.mark.thorough
@pytest.mark.parametrize("z", [0.0, 0.5, -2.0, 6.0, 60.0, 400.0])
def test_variables_have_the_laplace_transform(z):
    """E e^(−sω) = cosh(z/2)/cosh(√(z²/4 + s/2)), for several s within four standard errors."""
    omega = np.empty(20_000)
    draw_all(np.random.default_rng(7), np.full(len(omega), z), omega)
    assert omega.min() > 0
    for s in (0.5, 4.0, 40.0):
        seen = np.exp(-s * omega)
        half, other = abs(z) / 2, np.sqrt(z**2 / 4 + s / 2)
        wanted = np.exp(half - other) * (1 + np.exp(-2 * half)) / (1 + np.exp(-2 * other))
        assert seen.mean() == pytest.approx(wanted, abs=4 * seen.std() / np.sqrt(len(omega)))


class Means(PolyaGamma):
    """Broken: every variable is set to its mean, as Jaakkola and Jordan's bound does."""

    def auxiliary(self, rng, eta):
        return np.tanh(eta / 2) / (2 * eta)


@pytest.mark.thorough
def test_exact_draws_stay_exact_and_with_means_they_do_not(tmp_path, monkeypatch):
    x = np.array([0.5, 1.0, 2.0, 3.0])
    rows = Dataset(
        "it", x[:, None], np.array([1.0, 1.0, -1.0, 1.0]), np.empty((0, 1)), np.empty(0), ("x",), "it"
    )
    monkeypatch.setattr("flyrun.experiments.data.load", lambda config: rows)
    method = prepare(arm_of(WORDS, ("prior.scale=2",)), tmp_path)
    signed = x * rows.target
    grid = np.linspace(-8, 8, 4_001)
    log = -(grid**2) / 8 - np.log1p(np.exp(-np.outer(grid, signed))).sum(axis=1)
    below = np.cumsum(np.exp(log - log.max()))
    below /= below[-1]
    rng = np.random.default_rng(1)
    exact = np.interp(rng.random(3_000), below, grid)

    def p_value(method):
        moved = [method.sweep(rng, np.array([theta]))[0] for theta in exact]
        return stats.kstest(moved, lambda at: np.interp(at, grid, below)).pvalue

    assert p_value(method) > 1e-3
    assert p_value(Means(method.arm, method.problem)) < 1e-6


def test_cuts_do_not_matter_and_a_sweep_costs_all_rows(tmp_path):
    method = prepare(arm_of(WORDS, ("dataset.n_data=30",)), tmp_path)
    whole, records = method.advance(method.init(2), 12)
    state, draws = method.init(2), []
    for n in (1, 4, 7):
        state, part = method.advance(state, n)
        draws.append(part["theta"])
    np.testing.assert_array_equal(np.concatenate(draws), records["theta"])
    np.testing.assert_array_equal(state["rng"], whole["rng"])
    np.testing.assert_array_equal(records["queries"], np.full(12, 30.0))
    assert method.facts(state).exact is True
    assert method.facts(state).setup_queries == 0


@pytest.mark.thorough
def test_hogwild_blocks_are_drawn_given_the_last_sweep(tmp_path):
    """With ω fixed a sweep is one of Gaussian Hogwild Gibbs, whose covariance theory knows."""
    n = ["dataset.n_data=30"]
    exact, many = (Means(one.arm, one.problem) for one in hogwild(tmp_path, n))
    fixed = np.linspace(0.1, 0.3, 30)
    found = []
    for method in (exact, many):
        method.auxiliary = lambda rng, eta: fixed
        rng, theta, draws = np.random.default_rng(3), np.zeros(3), []
        for _ in range(5_000):
            theta = method.sweep(rng, theta)
            draws.append(theta)
        found.append(np.cov(np.array(draws[50:]).T))
    rows = many.problem.features.rows.astype(np.float64)
    precision = rows.T @ (fixed[:, None] * rows) + many.prior
    expected = theory.covariance(theory.round_of(precision, np.array([0, 1, 2]), 1))
    right = np.linalg.inv(precision)
    assert theory.off(found[1], expected) < 0.06 < 0.1 < theory.off(expected, right)
    assert theory.off(found[0], right) < 0.06
    assert [method.facts().exact for method in (exact, many)] == [True, False]
    state, records = many.advance(many.init(0), 4)
    assert (records["queries"].tolist(), records["span"].tolist()) == ([30.0] * 4, [10.0] * 4)
    more = many.facts(state).more
    assert (more["workers"], more["rounds"], more["bytes"]) == (3, 8, 4 * 3 * 8 * (3 + 9 + 3))


def hogwild(tmp_path, words):
    """Methods of one processor and of three."""
    return [prepare(arm_of(WORDS, (*words, f"sampler.processors={k}")), tmp_path) for k in (1, 3)]


def test_what_does_not_fit_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"processors=4: there are 3 .* choose sampler\.processors=3 or"):
        prepare(arm_of(WORDS, ("sampler.processors=4",)), tmp_path)
    with pytest.raises(ConfigError, match=r"model=softmax do not fit.*choose model=logistic"):
        arm_of(["dataset=cifar3", "model=softmax", "prior=gaussian"], ("sampler=polya_gamma",))
    with pytest.raises(ConfigError, match="choose prior=gaussian"):
        arm_of([*WORDS[:2], "prior=laplace"], ("sampler=polya_gamma",))
