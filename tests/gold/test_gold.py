"""References: what is committed, what certifies them, and what must not pass."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from flyrun.experiments.accuracy import score
from flyrun.experiments.gold import (
    bdmc,
    build,
    certify,
    grid_moments,
    recipe,
    store,
)
from flyrun.experiments.gold.reference import arm_of, free
from flyrun.experiments.models.problem import bind
from flyrun.ground import archive
from flyrun.ground.errors import DataError, FlyrunError

SMALL = ["dataset=toy_2d", "dataset.n_data=200", "dataset.separation=1.5", "model=logistic", "prior=gaussian"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    arm = arm_of(SMALL)
    return arm, bind(arm, tmp_path_factory.mktemp("setup"), needs_map=True)


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize("name", store.registry())
def test_what_is_committed_is_what_is_registered(name):
    gold = store.load(name)
    path = store.folder() / f"{name}.npz"
    assert path.stat().st_size <= 1_000_000
    assert max(gold.floors) <= 1e-5
    assert archive.sha256(store.to_bytes(gold)) == store.entry(name)["sha256"]
    assert set(gold.facts["certificate"]) == {"pareto_k", "two_proposals", "exact_chain", "planted_error"}
    assert (np.diff(gold.quantiles, axis=0) > 0).all()


def test_mnist_is_what_was_asked_for():
    gold = store.load("mnist_7v9_sd1")
    assert gold.facts["log_z"] == pytest.approx(-1840.887, abs=0.005)
    assert gold.facts["log_likelihood"] == pytest.approx(-1723.3, abs=0.3)
    assert gold.floors[0] <= 3e-6


def test_german_credit_agrees_with_the_published_truth():
    """inference_gym's means (Stan, Apache-2.0), within both standard errors; of another sign they are not."""
    truth = json.loads((Path(__file__).parent / "german_credit_truth.json").read_text())
    gold = store.load("german_credit")
    error = np.hypot(gold.mean_se, truth["mean_se"])
    z = (gold.mean - truth["mean"]) / error
    assert np.sqrt(np.mean(z**2)) < 1.5
    assert np.abs(z).max() < 4
    np.testing.assert_allclose(gold.sd, truth["sd"], rtol=5e-3)
    assert np.abs((-gold.mean - truth["mean"]) / error).max() > 1000


@pytest.mark.thorough
def test_importance_sampling_agrees_with_a_grid(tmp_path):
    """Of two coordinates by both recipes; its standard errors are as large as its errors."""
    data = ["dataset=few_events", "dataset.n_data=400", "dataset.events=60"]
    arm = arm_of([*data, "model=logistic", "prior=gaussian"])
    problem = bind(arm, tmp_path, needs_map=True)
    theta, log_weight, _, cell = grid_moments.weigh(arm, problem, 201)
    truth = grid_moments.moments(theta, log_weight, cell)
    _, proposal, _, _ = recipe.proposals(arm, problem)[0]
    found = [recipe.moments(recipe.weigh(arm, problem, proposal, 8_000, seed), 1) for seed in range(12)]
    z = np.array([(one.mean - truth.mean) / one.mean_se for one in found])
    z_variance = np.array([(one.variance - truth.variance) / one.variance_se for one in found])
    for values in (z, z_variance):
        assert 0.6 < np.sqrt(np.mean(values**2)) < 1.6
    assert np.mean([one.log_z for one in found]) == pytest.approx(truth.log_z, abs=1e-3)
    plain = 1 / np.sqrt(8_000) * np.sqrt(truth.variance)
    assert (np.mean([one.mean_se for one in found], axis=0) < 0.5 * plain).all()


@pytest.mark.thorough
def test_annealing_both_ways_brackets_log_z_and_the_reference_lies_between(tmp_path):
    """Of data simulated with θ from the prior, which is then an exact draw (bidirectional Monte Carlo)."""
    rng = np.random.default_rng(4)
    theta, rows = rng.standard_normal(3), np.column_stack([rng.standard_normal((150, 2)), np.ones(150)])
    label = rng.random(150) < 1 / (1 + np.exp(-rows @ theta))
    np.savez(tmp_path / "data.npz", features=rows[:, :2], target=label.astype(np.int64))
    words = [
        f"dataset.path={tmp_path / 'data.npz'}",
        "dataset=table",
        "dataset.target=target",
        "dataset.standardize=false",
    ]
    arm = arm_of([*words, "model=logistic", "prior=gaussian"])
    problem = bind(arm, tmp_path, needs_map=True)
    _, proposal, _, _ = recipe.proposals(arm, problem)[0]
    log_z = recipe.moments(recipe.weigh(arm, problem, proposal, 4_000, 0), 1).log_z
    low, high, *_ = bdmc.bracket(arm, problem, theta, chains=64, steps=1000)
    assert low - 0.05 < log_z < high + 0.05
    assert high - low < 0.6
    # a start that is no draw of the posterior, on a way too short to forget it, breaks the upper promise
    assert bdmc.bracket(arm, problem, theta + 3, steps=30).high < log_z - 3
    assert bdmc.bracket(arm, problem, theta, steps=30).high > log_z - 3


def test_free_coordinates_ignore_a_shift_of_all_classes():
    theta = np.random.default_rng(0).normal(size=(5, 12))
    shifted = theta + np.tile(np.random.default_rng(1).normal(size=4), 3)
    np.testing.assert_allclose(free(theta, 3), free(shifted, 3), atol=1e-12)


def test_a_sketch_is_of_the_features(small):
    dataset = small[1].dataset
    features, target = dataset.features, dataset.target
    own = store.sketch(features, target)
    np.testing.assert_allclose(store.sketch(features * (1 + 1e-12), target), own, rtol=1e-9)
    assert np.abs(store.sketch(features * [1, -1, 1], target) - own).max() > 0.01
    assert np.abs(store.sketch(features[::-1], target[::-1]) - own).max() > 0.01


def test_other_features_are_refused(small):
    gold = store.load("mnist_7v9_sd1")
    with pytest.raises(DataError, match="is of other features than dataset=toy_2d has here"):
        store.check_data(gold, small[1].dataset, "mnist_7v9_sd1")


def _moments(rng, size=8, n=4000):
    draws = rng.standard_normal((n, size))
    none = np.full(size, np.sqrt(1 / n))
    return recipe.Moments(draws.mean(axis=0), np.ones(size), none, none, 0.0, 0.0)


def test_a_certificate_needs_agreement_an_exact_chain_and_light_tails():
    rng = np.random.default_rng(0)
    one, other, chain = _moments(rng), _moments(rng), rng.standard_normal((20_000, 8))
    assert all(check.holds for check in certify.checks(one, other, 0.2, chain))
    failing = {
        "pareto_k": certify.checks(one, other, 0.6, chain),
        "two_proposals": certify.checks(one, other._replace(mean=other.mean + 0.1), 0.2, chain),
        "exact_chain": certify.checks(one, other, 0.2, chain + 0.2 * (np.arange(8) == 3)),
        "planted_error": certify.checks(one, other, 0.2, chain[:300]),
    }
    for name, checks in failing.items():
        assert not {check.name: check.holds for check in checks}[name], name


def test_hotelling_is_level():
    rng = np.random.default_rng(3)
    p = [certify.hotelling(rng.standard_normal((2000, 5)), np.zeros(5), np.zeros(5)) for _ in range(400)]
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_nothing_is_written_that_is_not_certified(tmp_path, monkeypatch):
    checks = [certify.Check("pareto_k", False, "k̂ = 0.90 < 0.5")]
    monkeypatch.setattr(build, "make", lambda *_, **__: (store.load("few_events"), checks))
    said = []
    assert build.build("few_events", tmp_path, said.append) == (tmp_path / "few_events.npz", False)
    assert not list(tmp_path.iterdir())
    assert said[0].startswith("FAILS  pareto_k")


def test_a_grid_is_for_few_coordinates(small):
    with pytest.raises(FlyrunError, match="one or two coordinates, not 3"):
        grid_moments.weigh(*small, points=11)


def test_independent_draws_are_worth_their_number(tmp_path):
    gold, n = store.load("mnist_7v9_sd1"), 400
    sizes = []
    for k in range(4):
        path = tmp_path / f"{k}.npz"
        np.savez(path, theta=gold.draws[k * n : (k + 1) * n])
        found = score.score(path, "mnist_7v9_sd1")[1]
        sizes.append(1 / found["means"])
    # 4 × 51 correlated squares: an sd of some 15 %
    assert np.mean(sizes) == pytest.approx(n, rel=0.3)
    shifted = tmp_path / "shifted.npz"
    np.savez(shifted, theta=gold.draws + 0.5 * gold.sd)
    assert score.score(shifted, "mnist_7v9_sd1")[1]["draws_worth"] < 5
