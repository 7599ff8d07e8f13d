"""Parallel EP: moments exact or drawn, what the shards come to, their schedule, counting, and what fails."""

from itertools import product

import numpy as np
import pytest

from flyrun.experiments.models.problem import log_densities
from flyrun.experiments.samplers.approximations import parallel_ep
from flyrun.experiments.samplers.approximations.parallel_ep import ParallelEp
from flyrun.experiments.samplers.approximations.rows_under_gaussian import Natural, Shard
from flyrun.experiments.samplers.approximations.tilted_draws import corrected, drawn, of_moments, raw, shrunk
from flyrun.ground.errors import ConfigError, FlyrunError
from tests.samplers.approximations.problems import (
    LARGE,
    SMALL,
    assert_cuts_do_not_matter,
    count_looks,
    divergence,
    linear_gaussian,
    method_of,
)


def _pep(folder, *more, words=SMALL):
    return method_of(folder, "sampler=parallel_ep", *(f"sampler.{one}" for one in more), words=words)


def _end(method, n, seed=0):
    return method.result(method.advance(method.init(seed), n)[0])


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "more", [(), ("stale=2", "damping=0.7"), ("moments=control",), ("moments=mcmc", "draws=4000", "shards=2")]
)
def test_cuts_do_not_matter(tmp_path, more):
    assert_cuts_do_not_matter(_pep(tmp_path, "shards=5", "draws=200", *more), (1, 2, 3))


class ByGrid(ParallelEp):
    """Moments of one shard's tilted density, which with one shard is the posterior, by brute force."""

    def moments(self, shard, cavity, local, rng):
        mean, covariance = local.moments()
        axis = np.linspace(-7.0, 7.0, 41)
        theta = mean + np.array(list(product(axis, repeat=3))) @ np.linalg.cholesky(covariance).T
        log_p = theta @ cavity.linear - 0.5 * ((theta @ cavity.precision) * theta).sum(axis=1)
        log_p += log_densities(self.arm, self.problem, theta)[1]
        share = np.exp(log_p - log_p.max())
        share /= share.sum()
        centre = share @ theta
        return of_moments(centre, (theta - centre).T @ (share[:, None] * (theta - centre)))


class KeepsItsOwn(ByGrid):
    """Broken: the cavity still has the shard's own site."""

    def _tilted(self, step, k, shard, cavity, rows, rng):
        if step:
            cavity = Natural(cavity.precision + self.site.precision, cavity.linear + self.site.linear)
        found, local = super()._tilted(step, k, shard, cavity, rows, rng)
        self.site = found.plus(cavity, -1.0)
        return found, local


@pytest.mark.thorough
def test_one_shard_with_exact_moments_has_the_posteriors(tmp_path):
    method = _pep(tmp_path, "shards=1")
    exact = ByGrid(method.arm, method.problem)
    first, second = _end(exact, 1), _end(exact, 2)
    theta = np.random.default_rng(0).multivariate_normal(first["mean"], first["covariance"], 40_000)
    prior, likelihood = log_densities(method.arm, method.problem, theta)
    away = theta - first["mean"]
    log_q = -0.5 * ((away @ np.linalg.inv(first["covariance"])) * away).sum(axis=1)
    weight = np.exp(prior + likelihood - log_q - (prior + likelihood - log_q).max())
    mean = weight @ theta / weight.sum()
    sd = np.sqrt(np.diag(first["covariance"]))
    assert np.abs((mean - first["mean"]) / sd).max() < 4 / np.sqrt(len(theta) * 0.5)
    np.testing.assert_allclose(second["mean"], first["mean"], rtol=1e-6)
    np.testing.assert_allclose(second["covariance"], first["covariance"], rtol=1e-6)
    broken = _end(KeepsItsOwn(method.arm, method.problem), 2)
    assert np.abs(broken["covariance"] / first["covariance"] - 1).max() > 0.1


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("stale", [0, 2])
def test_shards_are_exact_where_the_likelihood_is_gaussian(tmp_path, stale):
    words = ("shards=6", f"stale={stale}", "points=48")
    method, precision, linear = linear_gaussian(_pep(tmp_path, *words))
    state, _ = method.advance(method.init(0), stale)
    assert (np.abs(state["precision"] / precision - 1).max() > 0.01) == (stale > 0 or not state["step"][0])
    state, _ = method.advance(state, 1)
    np.testing.assert_allclose(state["precision"], precision, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(state["linear"], linear, rtol=1e-8)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("more", "rounds"), [((), 4), (("stale=3",), 14), (("damping=0.5",), 25)])
def test_shards_come_to_what_ep_comes_to(tmp_path, more, rounds):
    loop = method_of(tmp_path, "sampler=ep", words=LARGE)
    known = _end(loop, 8)
    method = _pep(tmp_path, "shards=8", *more, words=LARGE)
    assert divergence(_end(method, rounds), known) < 1e-5
    assert divergence(_end(method, 1), known) > 1e-3


def test_draws_that_correct_moments_are_less_noisy_than_draws_alone(tmp_path):
    method = _pep(tmp_path, words=LARGE)
    shard = Shard(method.arm, method.problem, np.arange(500))
    cavity = Natural(np.eye(3), np.zeros(3))
    near = shard.fitted(cavity, method.rule, 20).gaussian
    rng = np.random.default_rng(2)
    whole = [corrected(drawn(shard, cavity, near, rng, 4_000, True)).precision for _ in range(5)]
    known = np.mean(whole, axis=0)

    def noise(paired, made):
        found = [made(drawn(shard, cavity, near, rng, 500, paired)).precision for _ in range(20)]
        return np.sqrt(np.mean([(np.linalg.solve(known, one) - np.eye(3)) ** 2 for one in found]))

    alone = noise(False, lambda draws: raw(draws, rng)[0])
    unpaired, paired = noise(False, corrected), noise(True, corrected)
    assert paired < unpaired < alone, (paired, unpaired, alone)


@pytest.mark.thorough
def test_the_inverse_of_few_draws_is_made_smaller_by_what_it_is_too_large(tmp_path):
    method, precision, linear = linear_gaussian(_pep(tmp_path))
    shard = Shard(method.arm, method.problem, np.arange(90))
    cavity, near = Natural(np.eye(3), np.zeros(3)), Natural(precision, linear)
    rng, n = np.random.default_rng(3), 12
    sets = [drawn(shard, cavity, near, rng, n, False) for _ in range(1_500)]
    for draws in sets[:5]:  # of even weights: nothing to correct
        np.testing.assert_allclose(corrected(draws).precision, precision, rtol=1e-6)
    ratio = np.array([np.trace(np.linalg.solve(precision, raw(one, rng)[0].precision)) / 3 for one in sets])
    error = 4 * ratio.std() / np.sqrt(len(ratio))
    assert abs(ratio.mean() - 1) < error
    assert ratio.mean() * (n - 1) / (n - 5) - 1 > error


FEW = ("shards=8", "draws=20")


@pytest.mark.thorough
def test_moments_by_few_draws_are_shrunk_and_their_noise_averages_out(tmp_path):
    method = _pep(tmp_path, *FEW, "moments=mcmc", words=LARGE)
    (note,) = method.notes()
    assert "sampler.moments=control" in note
    known = _end(method_of(tmp_path, "sampler=ep", words=LARGE), 6)
    early, late = (divergence(_end(method, n), known) for n in (2, 40))
    assert late < 0.2 < early
    assert divergence(_end(_pep(tmp_path, *FEW, "moments=control", words=LARGE), 6), known) < 0.05
    enough = _pep(tmp_path, "shards=2", "moments=mcmc", "draws=2400", words=LARGE)
    assert enough.notes() == []
    assert divergence(_end(enough, 6), known) < 0.05


def test_moments_by_few_draws_as_they_are_lead_to_no_gaussian(tmp_path, monkeypatch):
    """The negative control: no shrinkage, whole steps, no second try."""
    monkeypatch.setattr(parallel_ep, "shrunk", lambda found, worth, towards: found)
    monkeypatch.setattr(parallel_ep, "_HALVINGS", 0)
    monkeypatch.setattr(parallel_ep, "_DECAY", 0.0)
    method = _pep(tmp_path, *FEW, "moments=mcmc", words=LARGE)
    assert method.warm_up() > 0  # which is no cell, so that other arms go on
    with pytest.raises(
        FlyrunError, match=r"is not positive definite; try sampler\.moments=control"
    ) as caught:
        method.advance(method.init(0), 12)
    assert "\n" not in str(caught.value)


def test_a_shrunk_precision_is_nearer_the_truth_and_nothing_without_noise():
    rng, size, n = np.random.default_rng(7), 10, 40
    root = np.linalg.cholesky(np.diag(np.linspace(0.5, 2.0, size)))
    truth = np.linalg.inv(root @ root.T)
    off = []
    for _ in range(200):
        made = rng.standard_normal((n, size)) @ root.T
        inverse = np.linalg.inv(made.T @ made / n) * (n - size - 2) / n
        drawn_one = Natural(inverse, np.zeros(size))
        both = (drawn_one, shrunk(drawn_one, n, np.eye(size)))
        off.append([((one.precision - truth) ** 2).sum() for one in both])
    alone, mended = np.mean(off, axis=0)
    assert mended < 0.6 * alone
    known = Natural(truth, truth @ np.arange(size))
    same = shrunk(known, 1e12, np.eye(size))
    np.testing.assert_allclose(same.precision, truth, atol=1e-8)
    np.testing.assert_allclose(same.linear, known.linear, atol=1e-7)


@pytest.mark.parametrize("more", [(), ("moments=control",), ("moments=mcmc", "draws=3000", "shards=2")])
def test_every_likelihood_looked_at_is_counted(tmp_path, monkeypatch, more):
    method = _pep(tmp_path, "shards=4", "draws=150", *more)
    config, rounds, seen = method.arm.sampler, [], count_looks(monkeypatch)
    state = method.init(0)
    for _ in range(3):
        before = sum(seen)
        state, records = method.advance(state, 1)
        assert records["queries"][0] == sum(seen) - before
        rounds.append(records)
    drawn_of_row = 0 if config.moments == "sites" else config.draws
    assert rounds[1]["visits"][0] == rounds[2]["visits"][0] == 60 * (3 + (drawn_of_row > 0))
    assert rounds[2]["queries"][0] >= 60 * (3 * 5 + drawn_of_row)
    assert all(one["queries"] / config.shards <= one["span"] for one in rounds)
    assert all(one["span"] < 0.8 * one["queries"] for one in rounds)


def test_stale_shards_hand_in_by_their_schedule(tmp_path):
    method = _pep(tmp_path, "shards=5", "stale=2")
    assert method.facts().more["rounds_by_shard"] == [1, 2, 3, 1, 2]
    state, changed = method.init(0), []
    for _ in range(6):
        before = state["site_precision"]
        state, _ = method.advance(state, 1)
        changed.append([k for k in range(5) if not np.array_equal(before[k], state["site_precision"][k])])
    assert changed == [[0, 3], [0, 1, 3, 4], [0, 2, 3], [0, 1, 3, 4], [0, 3], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("words", "more", "text"),
    [
        (SMALL, ["shards=61"], r"sampler\.shards=61: the data have 60 rows"),
        (SMALL, ["damping=0"], r"sampler\.damping=0"),
        ([*SMALL[:-1], "prior=laplace"], [], "choose prior=gaussian"),
        (["dataset=gaussian_toy", "model=normal", "prior=gaussian"], [], "goes with one predictor a row"),
    ],
)
def test_bad_input_is_one_line(tmp_path, words, more, text):
    with pytest.raises(ConfigError, match=text) as caught:
        _pep(tmp_path, *more, words=words)
    assert "\n" not in str(caught.value)
