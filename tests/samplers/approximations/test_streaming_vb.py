"""Streaming variational Bayes: exact where it must be, its schedule, sorted data, counting."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from flyrun.experiments.samplers.approximations.streaming_vb import StreamingVb, by_chance
from flyrun.ground.errors import ConfigError
from tests.samplers.approximations.problems import (
    LARGE,
    SMALL,
    STUDENT,
    assert_cuts_do_not_matter,
    count_looks,
    divergence,
    linear_gaussian,
    method_of,
)

SAMPLER = "sampler=streaming_vb"
RULES = ("kl_gaussian", "ep", "laplace", "jaakkola_jordan")


def _vb(folder, *more, words=SMALL):
    return method_of(folder, SAMPLER, *(f"sampler.{one}" for one in more), words=words)


@pytest.mark.parametrize(
    "more",
    [*((f"rule={rule}", "stale=0") for rule in RULES), ("stale=3",), ("rule=ep", "stale=6")],
)
def test_cuts_do_not_matter(tmp_path, more):
    assert_cuts_do_not_matter(_vb(tmp_path, "batches=7", *more), (1, 3, 5))


class AsPrinted(StreamingVb):
    """Broken: equation (5.49) as printed, without −η_τ."""

    def combined(self, now, view, found):
        return now.plus(found)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    "more",
    [
        {"batches": 1}, {"batches": 90}, {"batches": 7}, {"batches": 7, "stale": 2},
        {"batches": 7, "stale": 6, "order": "as_given"}, {"batches": 9, "stale": 4, "rule": "laplace"},
        {"batches": 4, "stale": 1, "rule": "ep", "points": 48},
    ],
)  # fmt: skip
def test_any_partition_order_and_staleness_is_exact_where_the_likelihood_is_gaussian(tmp_path, more):
    some = _vb(tmp_path)
    options = replace(some.arm.sampler, **more)
    method, precision, linear = linear_gaussian(some, options)

    def off(one):
        state = one.advance(one.init(1), options.batches)[0]
        away = np.abs(np.linalg.solve(precision, state["precision"]) - np.eye(3)).max()
        return max(away, np.abs(state["linear"] / linear - 1).max())

    assert off(method) < 1e-10
    assert off(AsPrinted(method.arm, method.problem)) > 1e-3


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("rule", ["kl_gaussian", "ep", "jaakkola_jordan"])
def test_one_batch_is_the_sites_loop(tmp_path, rule):
    method = _vb(tmp_path, "batches=1", "inner=60", f"rule={rule}")
    found = method.result(method.advance(method.init(0), 1)[0])
    loop = method_of(tmp_path, f"sampler={rule}", "sampler.start=map")
    known = loop.result(loop.advance(loop.init(0), 80)[0])
    assert divergence(found, known) < 1e-10
    hasty = _vb(tmp_path, "batches=1", "inner=1", f"rule={rule}")
    assert divergence(hasty.result(hasty.advance(hasty.init(0), 1)[0]), known) > 1e-6


def test_laplaces_rule_is_streaming_laplace(tmp_path):
    method = _vb(tmp_path, "batches=6", "rule=laplace")
    filtered = method_of(tmp_path, "sampler=streaming_laplace", "sampler.batch=10")
    state, known = method.init(0), filtered.init(0)
    found, records = method.advance(state, 8)
    known, told = filtered.advance(known | {"key": state["key"]}, 8)
    np.testing.assert_allclose(found["precision"], known["precision"], rtol=1e-9)
    np.testing.assert_allclose(found["linear"], known["linear"], rtol=1e-9)
    for name in ("queries", "visits"):
        np.testing.assert_array_equal(records[name], told[name])
    other = filtered.advance(known | {"key": state["key"] + 1, "step": np.zeros(1, np.int64)}, 8)[0]
    assert np.abs(other["precision"] / found["precision"] - 1).max() > 1e-3


class Recording(StreamingVb):
    """One that remembers under what every batch was fitted, and what came of it."""

    def combined(self, now, view, found):
        new = super().combined(now, view, found)
        self.views = [*getattr(self, "views", []), view.precision.copy()]
        self.versions = [*getattr(self, "versions", [self.prior_precision]), new.precision]
        return new


@pytest.mark.parametrize("stale", [0, 1, 3, 7])
def test_a_batch_is_fitted_under_what_those_before_it_but_the_stale_have_made(tmp_path, stale):
    method = _vb(tmp_path, "batches=8", f"stale={stale}")
    recording = Recording(method.arm, method.problem)
    _, records = recording.advance(recording.init(0), 8)
    seen = [max(0, k - stale) for k in range(8)]
    for k, version in enumerate(seen):
        np.testing.assert_array_equal(recording.views[k], recording.versions[version])
        assert not np.array_equal(recording.views[k], recording.versions[version + 1])
    paths = [0.0]  # to every version
    for k, version in enumerate(seen):
        paths.append(max(paths[-1], paths[version] + records["queries"][k]))
    np.testing.assert_array_equal(records["span"], [b - a for a, b in pairwise(paths)])
    assert records["span"].sum() <= records["queries"].sum()
    assert (records["span"].sum() < 0.7 * records["queries"].sum()) == (stale > 0)


@pytest.mark.thorough
def test_more_batches_and_older_views_are_further_off(tmp_path):
    loop = method_of(tmp_path, "sampler=kl_gaussian", words=LARGE)
    known = loop.result(loop.advance(loop.init(0), 6)[0])

    def off(*more):
        method = _vb(tmp_path, *more, words=LARGE)
        states = (method.advance(method.init(seed), 32)[0] for seed in range(5))
        return np.mean([divergence(method.result(state), known) for state in states])

    few, many, old = off("batches=2", "inner=6"), off("batches=32"), off("batches=32", "stale=31")
    assert few < many
    assert many < 0.2 * old


@pytest.mark.parametrize("rule", ["kl_gaussian", "ep", "laplace"])
def test_every_likelihood_looked_at_is_counted(tmp_path, monkeypatch, rule):
    method = _vb(tmp_path, "batches=7", f"rule={rule}", "stale=2")
    seen = count_looks(monkeypatch)
    _, records = method.advance(method.init(0), 9)
    assert records["queries"].sum() == sum(seen)
    assert records["visits"].tolist() == [8.0, 9.0, 8.0, 9.0, 8.0, 9.0, 9.0, 0.0, 0.0]
    assert records["queries"][7:].tolist() == records["span"][7:].tolist() == [0.0, 0.0]
    if rule == "kl_gaussian":  # looks of Newton's, then 3 passes of 5 nodes
        looks = records["queries"][:7] / records["visits"][:7] - 15
        assert (looks == np.round(looks)).all()
        assert (looks >= 2).all()


def _sorted(method):
    data = method.problem.dataset
    order = np.argsort(data.target, kind="stable")
    dataset = replace(data, target=data.target[order])
    features = method.problem.features._replace(rows=method.problem.features.rows[order])
    return StreamingVb(method.arm, method.problem._replace(dataset=dataset, features=features))


def test_sorted_data_are_told_of_and_shuffled_ones_are_not(tmp_path):
    given = _vb(tmp_path, "order=as_given", "batches=8", words=LARGE)
    sorted_rows = _sorted(given)
    (note,) = sorted_rows.notes()
    assert "sampler.order=shuffled" in note
    assert sorted_rows.facts().more["sorted"]
    shuffled = _sorted(_vb(tmp_path, "batches=8", words=LARGE))
    assert shuffled.notes() == []
    assert not shuffled.facts().more["sorted"]
    rng = np.random.default_rng(0)
    mixed = replace(given.problem.dataset, target=rng.permutation(given.problem.dataset.target))
    assert StreamingVb(given.arm, given.problem._replace(dataset=mixed)).notes() == []


@pytest.mark.thorough
def test_the_test_of_order_has_its_level():
    rng = np.random.default_rng(1)
    for law in (lambda n: rng.choice([-1.0, 1.0], n), lambda n: rng.standard_t(5, n)):
        p = np.array([by_chance(law(2_000)) for _ in range(400)])
        assert abs((p < 0.1).mean() - 0.1) < 0.06  # four standard errors
        assert by_chance(np.sort(law(2_000))) < 1e-100
    assert by_chance(np.ones(10)) == 1.0


def test_nothing_is_charged_before_the_first_step(tmp_path):
    method = _vb(tmp_path, "batches=3")
    facts = method.facts()
    assert (facts.exact, facts.setup_queries, facts.n_params, facts.n_data) == (False, 0, 3, 60)
    assert (facts.more["batches"], facts.more["stale"]) == (3, 0)
    np.testing.assert_allclose(method.estimates(method.init(0))["square"], 1.0)


@pytest.mark.parametrize(
    ("words", "more", "text"),
    [
        (SMALL, ["batches=61"], r"sampler\.batches=61: the data have 60 rows"),
        (SMALL, ["stale=16"], r"sampler\.stale=16: of 16 batches at most 15"),
        ([*SMALL[:-1], "prior=laplace"], [], "choose prior=gaussian"),
        (STUDENT, ["rule=laplace"], r"sampler\.rule=laplace: .* not log-concave"),
        (STUDENT, ["rule=jaakkola_jordan"], r"take sampler\.rule=ep"),
        (["dataset=gaussian_toy", "model=normal", "prior=gaussian"], [], "goes with one predictor a row"),
    ],
)
def test_bad_input_is_one_line(tmp_path, words, more, text):
    with pytest.raises(ConfigError, match=text) as caught:
        _vb(tmp_path, *more, words=words)
    assert "\n" not in str(caught.value)
