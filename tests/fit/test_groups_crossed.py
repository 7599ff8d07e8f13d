"""A factor that crosses the one integrated out, beyond normal noise: densities, draws, refusals."""

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import kstest

import flyrun
from flyrun.families.family import family
from flyrun.families.prior_densities import HalfT
from flyrun.fitting import mode, weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.groups import draw, scales
from flyrun.fitting.groups.crossed import CrossedPosterior, OverGrid
from flyrun.fitting.groups.integrated_out import GroupedPosterior
from flyrun.fitting.rows_posterior import Expansion
from flyrun.fitting.table_rows import Rows
from tests.fit.test_groups import dense

LEVELS = 3


def crossed(name: str, rows: int = 40, groups: int = 6) -> CrossedPosterior:
    """Rows of these groups and of LEVELS levels, which cross."""
    rng = np.random.default_rng(7)
    code, level = np.sort(np.arange(rows) % groups), rng.integers(0, LEVELS, rows)
    features = np.column_stack([rng.standard_normal(rows), np.ones(rows)])
    one, trials = family(name), rng.integers(1, 6, rows).astype(float) if name == "binomial" else 1.0
    eta = features @ [0.5, 0.8] + rng.normal(0.0, 0.6, groups)[code] + rng.normal(0.0, 0.7, LEVELS)[level]
    aux = [np.log(2.0)] if one.auxiliary(0, 1.0) else []
    y = one.draw(rng, np.asarray(trials, np.int64), [eta, *aux])
    return CrossedPosterior(
        one,
        Rows(features, np.asarray(y, float), trials, 0.1),
        CoefficientPrior(np.zeros(2), np.full(2, 2.5)),
        starts=np.searchsorted(code, np.arange(groups)),
        crossed=level,
    )


def right(posterior: CrossedPosterior, x: np.ndarray) -> float:
    """The log density at x (P,): the other factor on a fine grid, this one's effects as an offset."""
    h, log_sd, b = posterior.after, x[posterior.after], x[posterior.after + 1 :]
    rows = replace(posterior.rows, offset=0.1 + b[posterior.crossed])
    alone = GroupedPosterior(posterior.family, rows, posterior.prior, starts=posterior.starts)
    own = -0.5 * (b / np.exp(log_sd)) ** 2 - log_sd - 0.5 * np.log(2 * np.pi)
    prior = alone.log_prior(x[None, :h])[0] + own.sum() + scales.log_prior(np.array([[log_sd]]))[0]
    return dense(alone, x[:h]) + prior


@pytest.mark.thorough(but="negative_binomial")
@pytest.mark.parametrize("name", ["logistic", "negative_binomial"])
def test_weights_are_those_of_the_integral(name: str) -> None:
    posterior = crossed(name)
    found = draw.draw(posterior)
    one = found.weighted
    assert one.why == ""
    assert found.error <= draw.EXACT
    assert one.effective > weighted_draws.ENOUGH
    some = np.flatnonzero(one.log_weight > np.median(one.log_weight) - 3.0)[:12]
    there = np.array([right(posterior, x) for x in one.x[some]])
    assert np.ptp(there - one.proposal.log_density(one.x[some]) - one.log_weight[some]) < 0.03
    lessened = there - scales.log_prior(one.x[some, posterior.after, None])  # a density without a prior shows
    assert np.ptp(lessened - one.proposal.log_density(one.x[some]) - one.log_weight[some]) > 0.3


def test_a_proposal_over_a_grid_has_the_density_that_it_draws_by() -> None:
    """Importance weights of one by another, a wider one, have mean 1, of one without log sds' part not."""
    posterior = crossed("poisson")
    posterior.nodes = 9
    proposal = posterior.proposal()
    assert isinstance(proposal, OverGrid)
    rng = np.random.default_rng(0)
    x, _ = proposal.draw(rng, 5_000)
    at = x[:, posterior.after]
    assert proposal.edges[0] <= at.min() < at.max() <= proposal.edges[-1]
    spread = np.cov(x.T)
    other = weighted_draws.Mixture.of(x.mean(axis=0), spread)
    y, _ = other.draw(rng, 60_000)
    ratio = np.exp(proposal.log_density(y) - other.log_density(y))
    assert ratio.mean() == pytest.approx(1.0, abs=5.0 * ratio.std() / np.sqrt(len(y)))
    assert ratio.std() / np.sqrt(len(y)) < 0.03


def test_a_search_for_a_mode_ends_where_steps_gain_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quadrature's slope is not its value's to the last digit: near the top no step leads up."""
    looks = []

    def likelihood_at(x: np.ndarray) -> Expansion:
        looks.append(x)
        return Expansion(x, -0.5 * float(x @ x), 0.005 - x, np.eye(1))

    nothing = Expansion(np.zeros(1), 0.0, np.zeros(1), np.zeros((1, 1)))
    toy: Any = SimpleNamespace(likelihood_at=likelihood_at, prior_at=lambda x: nothing, rows=[])
    mode.find(toy, np.zeros(1))
    assert len(looks) < 6
    monkeypatch.setattr(mode, "_NEAR", 1e-14)
    mode.find(toy, np.zeros(1))
    assert len(looks) > 20


def test_the_joint_mode_of_effects_and_their_sd_collapses() -> None:
    """It is no centre for draws: the density has no top, and draws about a point far up are refused."""
    posterior = crossed("poisson")
    found = draw.draw(posterior).weighted
    x = found.moments()[0]
    x[posterior.after + 1 :] = 0.0
    rising = []
    for log_sd in (-1.0, -4.0, -8.0, -12.0):
        x[posterior.after] = log_sd
        rising.append(posterior.log_density(x[None])[0])
    assert (np.diff(rising) > 0.0).all()
    best = posterior.log_density(found.x).max()
    low = brentq(lambda a: _at(posterior, x, a) - best, -40.0, -1.0)
    spread = found.moments()[1]
    spread[posterior.after :] = spread[:, posterior.after :] = 0.0
    spread[np.arange(posterior.after, len(x)), np.arange(posterior.after, len(x))] = np.exp(2.0 * low)
    x[posterior.after] = low
    about = weighted_draws.Mixture.of(x, spread)
    refused = weighted_draws.by_all_rows(posterior, about, np.random.default_rng(0), 2_000, rounds=1)
    assert refused.why


def _at(posterior: CrossedPosterior, x: np.ndarray, log_sd: float) -> float:
    x = x.copy()
    x[posterior.after] = log_sd
    return float(posterior.log_density(x[None])[0])


def test_effects_of_both_factors_are_those_of_the_rows() -> None:
    """Of many rows a level: what they say together is what rows were drawn by."""
    posterior = crossed("poisson", 600, 8)
    one = draw.draw(posterior).weighted
    x = one.x[np.random.default_rng(0).choice(len(one.x), 300, p=one.weights)]
    first = posterior.effects_at(x, 0)
    assert first.shape == (300, 8, 1)
    np.testing.assert_array_equal(posterior.effects_at(x, 0), first)
    code = np.repeat(np.arange(8), np.diff(np.append(posterior.starts, 600)))
    eta = posterior.rows.features @ x[:, :2].T + 0.1 + x[:, posterior.after + 1 :].T[posterior.crossed]
    expected = np.exp(eta + first[:, code, 0].T).mean(axis=1)
    for by in (code, posterior.crossed):
        told, seen = (np.bincount(by, value) for value in (expected, posterior.rows.target))
        assert (np.abs(told - seen) < 0.5 * np.sqrt(seen)).all()
    alone = np.exp(eta).mean(axis=1)  # without the factor integrated out it does not
    assert (
        np.abs(np.bincount(code, alone - posterior.rows.target)) > np.sqrt(np.bincount(code, expected))
    ).any()


GROUPS, ROWS, EVEN = 6, 24, 100
NARROW = scales.Priors(sd=HalfT(3.0, 0.5))


def ranks(sets: int) -> np.ndarray:
    """Ranks among EVEN draws, in (0, 1), of all numbers that data were drawn by, both factors' effects too,
    and ranks among draws 0.4 times as far from their mean: (2, sets, numbers).
    """
    found, starts, levels = [], np.arange(GROUPS) * (ROWS // GROUPS), np.arange(ROWS) % (LEVELS + 1)
    for k in range(sets):
        rng = np.random.default_rng(9_000 + k)
        sds = NARROW.sd.scale * np.abs(rng.standard_t(NARROW.sd.dof, 2))
        intercept = rng.standard_normal(1)
        own, other = rng.normal(0.0, sds[0], GROUPS), rng.normal(0.0, sds[1], LEVELS + 1)
        eta = intercept + own[np.arange(ROWS) // (ROWS // GROUPS)] + other[levels]
        rows = Rows(np.ones((ROWS, 1)), np.asarray(family("logistic").draw(rng, 1, [eta]), float))
        prior = CoefficientPrior(np.zeros(1), np.ones(1))
        both = {"of_scales": NARROW, "of_crossed": NARROW}
        posterior = CrossedPosterior(family("logistic"), rows, prior, starts=starts, crossed=levels, **both)
        one = draw.draw(posterior, k).weighted
        x = one.x[rng.choice(len(one.x), EVEN, p=one.weights)]
        values = np.hstack([x, posterior.effects_at(x, k)[..., 0]])
        truth, mean = np.concatenate([intercept, np.log(sds), other, own]), values.mean(axis=0)
        found.append([(values < truth).mean(axis=0), (mean + 0.4 * (values - mean) < truth).mean(axis=0)])
    return np.moveaxis(found, 1, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("sets", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_truths_rank_evenly_among_draws(sets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulation-based calibration, of sds that few nodes integrate, by few draws."""
    for name, value in {"DRAWS": 240, "ENOUGH": EVEN, "WANTED": EVEN}.items():
        monkeypatch.setattr(weighted_draws, name, value)
    whole, narrow = ranks(sets)
    held = [(np.abs(one - 0.5) < 0.45).mean(axis=1) for one in (whole, narrow)]
    off = [abs(one.mean() - 0.9) / (one.std() / np.sqrt(sets)) for one in held]
    assert off[0] < 3.0 < off[1]
    assert min(kstest(one, "uniform").pvalue for one in whole.T) > 0.01 / whole.shape[1]
    if sets > 100:
        assert min(kstest(one, "uniform").pvalue for one in narrow.T) < 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize(("groups", "by"), [(3, "chains"), (8, "weighted draws")])
def test_few_levels_that_another_factor_crosses_are_for_chains(groups: int, by: str) -> None:
    rng = np.random.default_rng(2)
    codes = {"g": np.arange(48) % groups, "h": rng.permutation(48) % 2}
    frame = pd.DataFrame({name: [f"{name}{code}" for code in its] for name, its in codes.items()})
    frame["y"] = rng.poisson(3.0, 48)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = flyrun.fit(frame, "y ~ 1 + (1 | g) + (1 | h)", model="poisson", budget=20)
    how = fit.checks()["how"]
    assert by in how
    assert ("because a factor of 3 levels" in how) == (groups == 3)
