"""Subposteriors: their product is the posterior; cells that rules share; one shard is the plain chain."""

from dataclasses import replace

import numpy as np
import pytest

import flyrun.experiments.data
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.problem import bind, log_densities, posterior_curvature
from flyrun.experiments.runner import store
from flyrun.experiments.runner.cell import cells
from flyrun.experiments.runner.launch import run
from flyrun.experiments.samplers.chain.method import Chain
from flyrun.ground.errors import ConfigError
from flyrun.tables.shards import split

TOY = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic", "prior=gaussian"]
STUDENT = ["dataset=two_modes", "model=student_t", "prior=laplace"]
SHORT = ["protocol.iterations=300", "protocol.burn_in=100", "protocol.seeds=2", "protocol.init=map"]
SHORT += ["executor.workers=1"]


def shard_of(arm, k, j, **more):
    return replace(arm, dataset=replace(arm.dataset, shard=(k, j), **more))


@pytest.mark.parametrize("words", [TOY, STUDENT], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("by", ["random", "order"])
def test_the_product_of_subposteriors_is_the_posterior(tmp_path, words, by):
    arm, rng = arm_of(words, ["sampler=hmc"]), np.random.default_rng(0)
    whole = bind(arm, tmp_path, needs_map=False)
    thetas = rng.standard_normal((4, len(whole.coordinates)))
    total = np.zeros(4)
    for k in range(3):
        part = shard_of(arm, k, 3, shards_by=by, shards_seed=5)
        total += np.sum(log_densities(part, bind(part, tmp_path, needs_map=False), thetas), axis=0)
    right = np.sum(log_densities(arm, whole, thetas), axis=0)
    np.testing.assert_allclose(total - total[0], right - right[0], rtol=1e-10, atol=1e-10)


def test_a_raised_likelihood_makes_the_subposterior_to_the_power_j(tmp_path):
    arm, thetas = arm_of(TOY, ["sampler=hmc"]), np.random.default_rng(0).standard_normal((4, 3))
    by_prior = shard_of(arm, 1, 4)
    raised = shard_of(arm, 1, 4, shards_power="likelihood")
    both = [bind(one, tmp_path, needs_map=True) for one in (by_prior, raised)]
    one, other = (
        np.sum(log_densities(a, b, thetas), axis=0) for a, b in zip((by_prior, raised), both, strict=True)
    )
    np.testing.assert_allclose(4 * (one - one[0]), other - other[0], rtol=1e-10)
    np.testing.assert_allclose(both[0].fit.theta_map, both[1].fit.theta_map, atol=1e-6)
    curvatures = [posterior_curvature(a, b) for a, b in zip((by_prior, raised), both, strict=True)]
    np.testing.assert_allclose(4 * curvatures[0], curvatures[1], rtol=1e-6)


@pytest.mark.parametrize("by", ["random", "order"])
def test_every_row_is_in_one_shard(by):
    data = arm_of(TOY, ["sampler=hmc"]).dataset
    for n, shards in ((60, 7), (5, 5), (9, 1)):
        parts = split(n, replace(data, shards_by=by), shards)
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_shards_of_twice_as_many_are_halves():
    data = arm_of(TOY, ["sampler=hmc"]).dataset
    coarse, fine = split(64, data, 4, seed=3), split(64, data, 8, seed=3)
    assert set(fine[2]) | set(fine[3]) == set(coarse[1])
    assert not np.array_equal(split(64, data, 4, seed=4)[0], coarse[0])


def test_a_shard_has_its_rows_and_the_test_rows():
    config = arm_of([*TOY, "dataset.shard=[1,4]"], ["sampler=hmc"]).dataset
    whole = flyrun.experiments.data.load(replace(config, shard=None))
    part, rows = flyrun.experiments.data.load(config), split(60, config, 4)[1]
    np.testing.assert_array_equal(part.features, whole.features[rows])
    np.testing.assert_array_equal(part.target, whole.target[rows])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


def job_of(results, name, *words):
    return compose_job([*TOY, *SHORT, f"results_dir={results}", f"name={name}", *words])


def ran(results, name, *words):
    job = job_of(results, name, *words)
    assert run(job).exit_code == 0
    return [store.open_folder(cell.folder) for cell in cells(job)]


def theta(cell):
    tree = cell.tree()
    values = tree["posterior"]["theta"].values[0]
    tree.close()
    return values


@pytest.mark.thorough
def test_one_shard_is_the_plain_chain(results):
    plain = ran(results, "plain", "sampler=hmc", "sampler.metric=hessian")
    made = ran(results, "one", "sampler=consensus", "sampler.shards=1")
    whole, rule = made[:2], made[2:]
    for a, b, c in zip(plain, whole, rule, strict=True):
        assert a.key == b.key
        np.testing.assert_array_equal(theta(a), theta(b))
        np.testing.assert_array_equal(theta(a), theta(c))
        assert c.info["facts"]["exact"]


def test_what_it_costs_is_what_its_shards_cost(results):
    *parts, _, made = ran(results, "three", "sampler=consensus", "sampler.shards=3", "protocol.seeds=2")
    shards = [one for one in parts if one.seed == made.seed]
    assert len(shards) == 3
    told = made.tree()
    queries, span = (told["sample_stats"][name].values[0] for name in ("queries", "span"))
    total = float(told["estimate"]["queries"].values[-1])
    told.close()
    each = []
    for one in shards:
        tree = one.tree()
        each.append(np.append(tree["warmup_sample_stats"]["queries"], tree["sample_stats"]["queries"]))
        tree.close()
    np.testing.assert_array_equal(queries, np.sum(each, axis=0)[100:])
    np.testing.assert_array_equal(span, np.max(each, axis=0)[100:])
    setup = [one.info["facts"]["setup_queries"] for one in shards]
    assert made.info["facts"]["setup_queries"] == sum(setup)
    assert made.info["facts"]["setup_span"] == max(setup)
    assert total == np.sum(each) + sum(setup)
    assert made.info["facts"]["bytes"] == 8 * 3 * 200 * 3
    assert not made.info["facts"]["exact"]
    words = ("sampler=variational_consensus", "sampler.steps=2", "sampler.draws=3")  # of the same shards
    learnt = ran(results, "three", *words, "sampler.shards=3", "protocol.seeds=2")[-1].info["facts"]
    assert learnt["setup_queries"] == sum(setup) + 2 * 3 * 60
    assert learnt["setup_span"] == max(setup) + 2 * 3 * 20
    assert (learnt["rounds"], learnt["bytes"]) == (3, 8 * 3 * (200 * 3 + 2 * 3 * 3))


def test_rules_share_the_shards_and_seeds_have_splits_of_their_own(results):
    one, other = (
        cells(job_of(results, "shared", "sampler.shards=3", f"sampler={rule}"))
        for rule in ("consensus", "gaussian_product")
    )
    assert [cell.folder for cell in one[:6]] == [cell.folder for cell in other[:6]]
    seeds = {cell.seed: cell.arm.dataset.shards_seed for cell in one[:6]}
    assert seeds == {0: 0, 1: 1}
    raised = cells(job_of(results, "shared", "sampler.shards=3", "sampler=pie"))
    assert not {cell.folder for cell in raised} & {cell.folder for cell in one}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sampler=consensus", "sampler.shards=61"], "60 rows, which make no 61 shards; take at most 60"),
        (["sampler=hmc", "dataset.shard=[61,62]"], "60 rows, which make no 62 shards; take at most 60"),
        (["sampler=hmc", "dataset.shard=[4,4]"], "dataset.shard=[4,4]: must be [k,J], part k of J"),
        (["sampler=hmc", "dataset.shard=[0,0]"], "dataset.shard=[0,0]: must be [k,J], part k of J"),
        (["sampler=consensus", "dataset.shard=[0,2]"], "choose dataset.shard=null"),
        (["sampler=consensus", "prior.scale=held_out"], "every shard would choose its own; give a number"),
        (["sampler=pie", "bound=map"], "does not raise likelihoods; choose sampler=hmc bound=none"),
    ],
)
def test_what_makes_no_shards_is_refused(results, words, message):
    with pytest.raises(ConfigError) as caught:
        run(job_of(results, "refused", *words))
    assert message in str(caught.value)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("words", "family"), [(TOY, "gaussian"), (STUDENT, "laplace")])
def test_a_prior_without_powers_has_its_density_raised(tmp_path, monkeypatch, words, family):
    part = shard_of(
        arm_of(
            words,
            ["sampler=hmc", "bound=none", "brightness=none", "sampler.metric=hessian", "protocol.init=map"],
        ),
        1,
        4,
    )
    thetas, found = np.random.default_rng(0).standard_normal((4, 3 if words is TOY else 1)), []
    for folder in ("by the family", "by the density"):
        problem = bind(part, tmp_path / folder, needs_map=True)
        value = np.sum(log_densities(part, problem, thetas), axis=0)
        # that of a Laplace prior is a convention
        curvature = posterior_curvature(part, problem) if family == "gaussian" else 0.0
        found.append((value - value[0], problem.fit.theta_map, curvature))
        monkeypatch.delattr(f"flyrun.experiments.models.{family}_prior.power", raising=False)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.thorough
def test_chains_go_where_a_density_is_raised_and_bounds_say_what_to_choose(tmp_path, monkeypatch):
    part = shard_of(
        arm_of(
            TOY,
            ["sampler=hmc", "bound=none", "brightness=none", "sampler.metric=hessian", "protocol.init=map"],
        ),
        1,
        4,
    )
    draws = []
    for folder in ("by the family", "by the density"):
        chain = Chain(part, bind(part, tmp_path / folder, needs_map=True))
        draws.append(chain.advance(chain.init(0), 40)[1]["theta"])
        monkeypatch.delattr("flyrun.experiments.models.gaussian_prior.power", raising=False)
    np.testing.assert_allclose(*draws, rtol=1e-7, atol=1e-9)
    firefly = shard_of(arm_of(TOY, ["sampler=random_walk", "bound=map", "brightness=implicit"]), 1, 4)
    with pytest.raises(ConfigError, match=r"has no power.*choose bound=none"):
        Chain(firefly, bind(firefly, tmp_path / "bounds", needs_map=True))
