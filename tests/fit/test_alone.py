"""The part of auxiliary numbers alone, of all rows: on a grid of targets, and of draws that read few."""

import numpy as np
import pytest

from flyrun.families.family import family
from flyrun.fitting import alike_rows, alone, mode, weighted_draws
from flyrun.fitting.table_rows import Rows
from tests.fit.test_weighted import posterior

#: families with their auxiliary numbers
MADE = {"tweedie": (0.4, -0.3), "negative_binomial": (0.7,), "zero_inflated_poisson": (-0.8,)}


def made(name, n):
    """A posterior of n rows of three columns."""
    rng = np.random.default_rng(3)
    x = np.column_stack([0.3 * rng.standard_normal((n, 2)), np.ones(n)])
    y = family(name).draw(rng, 1, [x @ [0.5, -0.5, 0.4], *MADE[name]])
    return posterior(name, Rows(x, np.asarray(y, float)), 3)


def off_on_grid(a, n=30_000):
    """The error of the sum over the grid, a row, and of its slopes."""
    rng, one = np.random.default_rng(0), family("tweedie")
    y, weights = one.draw(rng, 1, [rng.normal(0.0, 1.0, n), *a]), rng.integers(1, 3, n).astype(float)
    y[::7] = 0.0
    grid, trials, sums = alike_rows.alike(Rows(y, y, 1.0, 0.0, weights), True)
    assert len(grid) < 0.8 * n
    of_all = weights @ one.alone(y, 1.0, a), *(weights @ each for each in one.alone_derivatives(y, 1.0, a)[0])
    of_grid = (
        sums @ one.alone(grid, trials, a),
        *(sums @ e for e in one.alone_derivatives(grid, trials, a)[0]),
    )
    off = np.abs(np.array(of_all) - of_grid) / n
    return off[0], off[1:].max()


@pytest.mark.parametrize("a", [(0.4, -0.3), (0.4, -4.0), (-1.0, 3.0), (-3.0, -6.5)])
def test_sums_over_a_grid_of_targets_are_those_over_rows(a):
    """To 1e-9 nats a row: of 10⁶ rows to a thousandth, of a power of 1.011, whose α is 64, too."""
    value, slope = off_on_grid(a)
    assert value < 1e-9
    assert slope < 1e-6


def test_a_grid_that_is_too_coarse_is_caught(monkeypatch):
    monkeypatch.setattr(alike_rows, "_STEPS", 8)
    assert off_on_grid((0.4, -0.3))[0] > 1e-9


@pytest.mark.thorough(but="negative_binomial")
@pytest.mark.parametrize("name", MADE)
def test_draws_that_read_few_rows_have_the_part_of_all(name, monkeypatch):
    """Their weights are of the whole posterior, and without what is beyond its second order they are not."""
    whole = made(name, 25_000 if name == "tweedie" else 3_000)
    at, likelihood = mode.find(whole)
    shape = mode.covariance(likelihood.curvature + whole.prior_at(at).curvature)
    proposal = weighted_draws.Mixture.of(at, 4.0 * shape, 0.0, 0.0)

    def off():
        rng = np.random.default_rng(0)
        few = weighted_draws.by_few_rows(whole, proposal, likelihood, rng, 500)
        exact = whole.log_density(few.x) - proposal.log_density(few.x)
        return np.abs(few.log_weight - exact)

    kept, beyond = [], alone.beyond
    monkeypatch.setattr(weighted_draws, "_APART", 9.0)
    monkeypatch.setattr(alone, "MANY", 1)
    monkeypatch.setattr(alone, "_EVALUATIONS", 0 if whole.family.alone_of_logs else alone._EVALUATIONS)
    monkeypatch.setattr(alone, "beyond", lambda *of: kept.append(beyond(*of)) or kept[-1])
    right = off()
    monkeypatch.setattr(alone, "beyond", lambda *of: 0.0 * kept[0])  # the control
    wrong, much = off(), np.abs(kept[0]) > np.quantile(np.abs(kept[0]), 0.95)
    assert np.median(right) < 0.1
    assert np.median(wrong[much]) > 2.0 * np.median(right[much])


@pytest.mark.thorough
def test_a_polynomial_that_does_not_tell_it_is_not_used(monkeypatch):
    whole = made("tweedie", 25_000)
    at, likelihood = mode.find(whole)
    root = np.linalg.cholesky(mode.covariance(likelihood.curvature))
    x = at + 2.0 * np.random.default_rng(0).standard_normal((500, len(at))) @ root.T
    found = alone._fitted(whole, x)
    np.testing.assert_allclose(found, whole.alone(x), atol=1e-3)
    monkeypatch.setattr(alone, "_DEGREE", 2)
    assert alone._fitted(whole, x) is None
