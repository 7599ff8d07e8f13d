"""Weierstrass Gibbs: its law on Gaussian shards in closed form, counts, cuts; bias extrapolated away."""

import numpy as np
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.gold import store as gold
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models import passes
from flyrun.experiments.runner import store
from flyrun.experiments.runner.cell import cells
from flyrun.experiments.runner.launch import run
from flyrun.experiments.samplers.batches import rows_of
from flyrun.experiments.samplers.method import prepare
from flyrun.experiments.samplers.parallel import weierstrass_gibbs
from flyrun.tables.shards import split

# Student-t noise of so many degrees is Gaussian
GAUSSIAN = [
    "dataset=two_modes", "model=student_t", "model.nu=1e9", "model.scale=1", "prior=gaussian",
    "protocol.iterations=4000", "protocol.burn_in=0", "protocol.init=map",
]  # fmt: skip
ROUNDS = 6_000


def method_of(folder, *words):
    return prepare(arm_of(GAUSSIAN, ("sampler=weierstrass_gibbs", *words)), folder)


def of_shards(method, seed):
    """Precisions and means of f_j, Gaussian, in closed form."""
    arm, problem = method.arm, method.problem
    prior = 1.0 / problem.fit.scale**2 / method.shards * np.eye(2)
    zero = np.zeros(2)
    rows = split(method.n_data, arm.dataset, method.shards, seed)
    looks = [passes.look(arm.model.code, *rows_of(arm, problem, one), zero) for one in rows]
    precisions = np.array([look.curvature + prior for look in looks])
    pulls = np.array([look.gradient for look in looks])
    return precisions, np.linalg.solve(precisions, pulls[:, :, None])[:, :, 0]


def law(method, r, seed):
    """Mean and covariance of θ: the product of the f_j smoothed by N(0, h²M)."""
    precisions, means = of_shards(method, seed)
    kernel = r * method.shards * np.linalg.inv(precisions.sum(axis=0))
    smoothed = np.linalg.inv(np.linalg.inv(precisions) + kernel)
    covariance = np.linalg.inv(smoothed.sum(axis=0))
    return covariance @ np.einsum("jpq,jq->p", smoothed, means), covariance


def z_of(draws, right, batches=40):
    """Of the mean of draws (T, …), in its standard errors by batches."""
    means = np.array([part.mean(axis=0) for part in np.array_split(draws, batches)])
    return (draws.mean(axis=0) - right) / (means.std(axis=0, ddof=1) / np.sqrt(batches))


def squares(draws, mean):
    away = draws - mean
    return np.einsum("tp,tq->tpq", away, away)


@pytest.mark.thorough
@pytest.mark.parametrize("r", [0.3, 1.0])
def test_unlike_gaussian_shards_have_the_law_in_closed_form(tmp_path, r):
    method = method_of(tmp_path, "sampler.shards=3", f"sampler.bandwidth={r}")
    draws = method.advance(method.init(2), ROUNDS)[1]["theta"]
    mean, covariance = law(method, r, 2)
    assert np.abs(z_of(draws, mean)).max() < 4
    assert np.abs(z_of(squares(draws, mean), covariance)).max() < 4


def test_a_kernel_that_only_the_hub_has_is_seen(tmp_path, monkeypatch):
    method = method_of(tmp_path, "sampler.shards=3", "sampler.bandwidth=1")
    workers = method.workers(2)
    wrong = workers._replace(spread=workers.spread / np.sqrt(2))
    monkeypatch.setattr(method, "workers", lambda seed: wrong)
    draws = method.advance(method.init(2), ROUNDS)[1]["theta"]
    mean, covariance = law(method, 1.0, 2)
    assert np.abs(z_of(squares(draws, mean), covariance)).max() > 8


@pytest.mark.thorough
@pytest.mark.parametrize("r", [0.3, 1.0])
def test_of_equal_shards_variance_and_pace_are_known(tmp_path, monkeypatch, r):
    everyone = lambda n, config, shards, seed=0: [np.arange(n)] * shards  # noqa: E731
    monkeypatch.setattr(weierstrass_gibbs, "split", everyone)
    monkeypatch.setattr(weierstrass_gibbs, "_WALKS", 0.0)
    method = method_of(tmp_path, "sampler.shards=4", f"sampler.bandwidth={r}")
    draws, told = (method.advance(method.init(0), ROUNDS)[1][name] for name in ("theta", "accepted"))
    assert told.mean() == pytest.approx(1.0)
    precision = np.linalg.inv(method.workers(0).spring) / (r * 4)  # the inverse curvature of all
    away = draws - draws.mean(axis=0)
    ratio = away.var(axis=0) / np.diag(precision)
    pace = (away[1:] * away[:-1]).mean(axis=0) / away.var(axis=0)
    se = np.sqrt((2 + r) / r / ROUNDS)
    np.testing.assert_allclose(ratio, 1 + r, atol=4 * np.sqrt(2) * (1 + r) * se)
    np.testing.assert_allclose(pace, 1 / (1 + r), atol=4 * se)


def test_cuts_and_counts(tmp_path):
    method = method_of(tmp_path, "sampler.shards=3", "sampler.moves=2")
    state = method.init(1)
    whole, told = method.advance(state, 30)
    part, first = method.advance(state, 11)
    end, second = method.advance(part, 19)
    np.testing.assert_array_equal(told["theta"], np.concatenate([first["theta"], second["theta"]]))
    for name in whole:
        np.testing.assert_array_equal(whole[name], end[name])
    assert set(told["queries"]) == {2 * 40}
    assert set(told["span"]) == {2 * 14}
    facts = method.facts(whole)
    assert facts.more["rounds"] == 30
    assert facts.more["bytes"] == 30 * 2 * 8 * 3 * 2
    assert facts.setup_queries == method.problem.fit.queries + 2 * 40
    assert not facts.exact


@pytest.mark.slow
def test_extrapolation_takes_the_bias_of_a_rare_class_away(tmp_path):
    words = [
        "dataset=few_events", "model=logistic", "prior=gaussian", "prior.scale=5", "sampler.shards=8",
        "sampler.bandwidth=0.2", "protocol.iterations=30000", "protocol.burn_in=1000", "protocol.init=map",
        "protocol.seeds=3", "sampler=weierstrass_extrapolated", f"results_dir={tmp_path}", "name=rare",
    ]  # fmt: skip
    job = compose_job(words)
    assert run(job).exit_code == 0
    found: dict[str, list] = {}
    for cell in cells(job):
        tree = store.open_folder(cell.folder).tree()
        found.setdefault(cell.arm.name, []).append(tree["estimate"]["mean"].values[-1])
        tree.close()
    right = gold.load("few_events")
    off = {name: (np.mean(each, axis=0) - right.mean) / right.sd for name, each in found.items()}
    narrow, extrapolated = off["weierstrass_narrow_8"], off["weierstrass_extrapolated"]
    assert np.abs(narrow).max() > 0.1
    assert np.abs(extrapolated).max() < 0.2 * np.abs(narrow).max() + 0.05  # by chance
