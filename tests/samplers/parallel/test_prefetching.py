"""Prefetching: the serial chain bit for bit, whoever evaluates what; counts; theory; controls that fail."""

import functools
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.method import prepare
from flyrun.experiments.samplers.parallel import prefetching, tree
from flyrun.experiments.samplers.parallel.foresight import Memory, Quadratic
from flyrun.experiments.samplers.parallel.schemes import SCHEMES, depth, expected_steps
from flyrun.experiments.samplers.parallel.team import Real
from flyrun.experiments.samplers.parallel.walk import Luck, Walk
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import SCHEMAS
from flyrun.tables.dataset import Dataset

N, SHORT = 60, 120
TOY = [
    "dataset=toy_2d", f"dataset.n_data={N}", "dataset.separation=1.5", "model=logistic", "prior=gaussian",
    "protocol.init=zero", f"protocol.iterations={SHORT}", "protocol.burn_in=60",
]  # fmt: skip
# Student-t noise of so many degrees is Gaussian
GAUSSIAN = [
    "dataset=two_modes", "model=student_t", "model.nu=1e9", "model.scale=1", "prior=gaussian",
    "protocol.iterations=4000", "protocol.burn_in=500", "protocol.init=map",
]  # fmt: skip


@functools.cache
def arm_with(*words):
    return arm_of(list(words), ("sampler=prefetching",))


def method_of(tmp_path, scheme, workers, words=TOY, **more):
    arm = arm_with(*words)
    sampler = replace(arm.sampler, scheme=scheme, workers=workers, **more)
    return prepare(replace(arm, sampler=sampler), tmp_path)


def run(method, n=SHORT, seed=3):
    return method.advance(method.init(seed), n)[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("setup")


@pytest.fixture(scope="module")
def alone(folder):
    """The chain of one worker."""
    return run(method_of(folder, "naive", 1))


@pytest.fixture(scope="module")
def alone_by(folder, alone):
    """The chain of one worker by a scheme: delayed has another chain."""
    delayed = run(method_of(folder, "delayed", 1))
    assert not np.array_equal(delayed["theta"], alone["theta"])
    return lambda scheme: delayed if scheme == "delayed" else alone


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("workers", [1, 2, 4, 16, 64])
def test_every_scheme_gives_the_serial_chain_bit_for_bit(folder, alone_by, scheme, workers):
    alone = alone_by(scheme)
    told = run(method_of(folder, scheme, workers))
    np.testing.assert_array_equal(told["theta"], alone["theta"])
    np.testing.assert_array_equal(told["accepted"], alone["accepted"])
    assert 0.05 < alone["accepted"].mean() < 0.8
    if workers == 1:
        tested = told.get("tested", np.ones(SHORT))
        np.testing.assert_array_equal(told["queries"], N * (tested + np.eye(SHORT)[0]))
        np.testing.assert_array_equal(told["span"], told["queries"])


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_threads_and_any_latency_give_it_too(folder, alone_by, scheme):
    for more in ({"team": "threads"}, {"latency": 0.3}):
        told = run(method_of(folder, scheme, 2, **more))
        np.testing.assert_array_equal(told["theta"], alone_by(scheme)["theta"])


@pytest.mark.slow
@pytest.mark.parametrize("team", ["processes", "dask"])
def test_other_processes_give_it_too(folder, alone, team):
    pytest.importorskip("distributed")
    for scheme in ("predictive", "foretold"):
        told = run(method_of(folder, scheme, 2, team=team))
        np.testing.assert_array_equal(told["theta"], alone["theta"])
        assert told["seconds"].min() >= 0


@pytest.mark.slow
def test_a_killed_worker_costs_time_and_no_bit(folder, alone):
    method = method_of(folder, "foretold", 2, team="processes")
    state, first = method.advance(method.init(3), 40)
    os.kill(next(iter(method.real._pool._processes)), signal.SIGKILL)
    _, rest = method.advance(state, SHORT - 40)
    np.testing.assert_array_equal(np.concatenate([first["theta"], rest["theta"]]), alone["theta"])


@pytest.mark.parametrize("blocks", [1, 7, N])
def test_blocks_are_a_choice_of_rounding_alone(folder, alone, blocks):
    told = run(method_of(folder, "static", 4, batches=blocks))
    np.testing.assert_allclose(told["theta"], alone["theta"], rtol=1e-9)


class AnyOrder(Real):
    """Tells of one after the other in any order: children may be known before their parents."""

    luck = np.random.default_rng(0)

    def submit(self, number, theta, first, last):
        self._numbers[number] = self.sums(theta, first, last)

    def finished(self):
        number = self.luck.choice(list(self._numbers))
        return [(number, self._numbers.pop(number))]


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_results_may_come_in_any_order(folder, alone_by, scheme):
    method = method_of(folder, scheme, 16)
    method.real = AnyOrder(16, ThreadPoolExecutor(1), method.blocks.sums)
    np.testing.assert_array_equal(run(method)["theta"], alone_by(scheme)["theta"])


def test_a_quadratic_that_is_always_wrong_costs_time_and_no_bit(folder, alone, monkeypatch):
    right = run(method_of(folder, "foretold", 16))
    ratio = Quadratic.log_ratio
    monkeypatch.setattr(Quadratic, "log_ratio", lambda *given: -2.0 * ratio(*given))
    wrong = run(method_of(folder, "foretold", 16))
    np.testing.assert_array_equal(wrong["theta"], alone["theta"])
    assert wrong["span"].sum() > 1.5 * right["span"].sum()
    assert wrong["wrong"].mean() > right["wrong"].mean() + 0.2


class ByNode(Walk):
    """Broken: luck is a node's own, not its iteration's: a right chain, but another one."""

    asked = 0

    def luck(self, t):
        self.asked += 1
        rng = np.random.Generator(np.random.Philox(counter=[0, 0, self.asked, t], key=self.key))
        return Luck(rng.standard_normal(len(self.root)), -rng.standard_exponential(), 0.0)


def test_luck_by_node_is_found_out(folder, alone, monkeypatch):
    monkeypatch.setattr(prefetching, "Walk", ByNode)
    chains = [run(method_of(folder, scheme, 4))["theta"] for scheme in ("naive", "rejections", "static")]
    for one in chains:
        assert not np.array_equal(one, alone["theta"])
    assert not np.array_equal(chains[0], chains[1])


@pytest.fixture
def gaussian(tmp_path, monkeypatch):
    """y_n = θ + noise: the posterior is known. Rows by value, so that blocks differ."""
    target = 3.0 * np.random.default_rng(5).standard_normal(200)
    rows = Dataset(
        "it", np.ones((200, 1)), target, np.empty((0, 1)), np.empty(0), ("x",), "it", task="regression"
    )
    monkeypatch.setattr("flyrun.experiments.data.load", lambda config: rows)
    mean, sd = target.sum() / 201, 1 / np.sqrt(201)

    def off(scheme, workers):
        draws = run(method_of(tmp_path, scheme, workers, GAUSSIAN), 4_000)["theta"][500:, 0]
        means = draws.reshape(20, -1).mean(axis=1)
        return abs(draws.mean() - mean) / (means.std(ddof=1) / np.sqrt(20)), draws.std() / sd

    return off


class ByEstimate(tree.Tree):
    """Broken: accepts by what the first blocks foretell."""

    def outcome(self, node):
        known = min(len(node.proposal.sums), len(node.current.sums))
        if known < 3:
            return None
        parts = np.subtract(node.proposal.sums[:known], node.current.sums[:known])
        ratio = parts.mean() * self.n_blocks + node.proposal.log_prior - node.current.log_prior
        return bool(node.log_u < ratio)


@pytest.mark.thorough
def test_the_posterior_is_agreed_with_and_not_by_accepting_by_the_estimate(gaussian, monkeypatch):
    away, ratio = gaussian("foretold", 8)
    assert away < 4  # its own standard errors
    assert ratio == pytest.approx(1, abs=0.1)
    monkeypatch.setattr(prefetching, "Tree", ByEstimate)
    monkeypatch.setattr(Memory, "learn", lambda *_: None)  # there are no whole sums to learn from
    away, ratio = gaussian("predictive", 2)
    assert away > 8 or abs(ratio - 1) > 0.3


class BothTests(tree.Tree):
    """Broken: what passed the quadratic's test is tested by the whole ratio."""

    def outcome(self, node):
        whole = super().outcome(node)
        return whole and bool(node.log_u < tree.log_ratio(node))


@pytest.mark.thorough
def test_what_a_poor_quadratic_rejects_first_leaves_the_posterior(gaussian, monkeypatch):
    """Its curvature is half as large again as the right one: so the second test has work to do."""
    likelihood = Quadratic.log_likelihood
    monkeypatch.setattr(Quadratic, "log_likelihood", lambda *given: 1.5 * likelihood(*given))
    away, ratio = gaussian("delayed", 8)
    assert away < 4
    assert ratio == pytest.approx(1, abs=0.1)
    monkeypatch.setattr(prefetching, "Tree", BothTests)
    away, ratio = gaussian("delayed", 8)
    assert ratio < 0.8


@pytest.mark.parametrize("scheme", SCHEMES)
def test_cuts_and_checkpoints_do_not_matter(folder, scheme, tmp_path):
    method = method_of(folder, scheme, 16, latency=0.1)
    whole, records = method.advance(method.init(1), 60)
    state, parts = method.init(1), []
    for n in (1, 2, 3, 17, 37):
        np.savez(tmp_path / "state.npz", **state)
        with np.load(tmp_path / "state.npz", allow_pickle=False) as stored:
            state, part = method.advance(dict(stored), n)
        parts.append(part)
    for name in whole:
        np.testing.assert_array_equal(state[name], whole[name])
    for name, values in records.items():
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), values, name)


def test_what_is_counted_follows_from_the_rounds(folder):
    told = run(method_of(folder, "naive", 4, latency=0.5))
    rounds = SHORT // 2  # two steps each, of three nodes; and the start
    assert told["queries"].sum() == N * (1 + 3 * rounds)
    assert told["span"].sum() == N * (1 + rounds)
    assert told["rounds"].sum() == 1 + rounds
    assert told["evaluations"].sum() == pytest.approx(1.5 * (1 + rounds))
    assert told["bytes"].sum() == 8 * (3 + 10) * (1 + 3 * rounds)  # three parameters down, ten sums up


def test_a_blocks_work_is_kept_and_what_is_wasted_is_counted(folder):
    told = run(method_of(folder, "predictive", 16))
    assert told["queries"].sum() >= N * (SHORT + 1)  # every iteration took one evaluation at least
    assert (told["queries"].sum() * 10) % N == 0  # by blocks
    assert told["span"].sum() < 0.5 * N * SHORT


@pytest.mark.parametrize(("workers", "largest"), [(2, 30), (4, 18), (5, 12), (16, 6)])
def test_a_divided_evaluation_costs_its_largest_share(folder, alone, workers, largest):
    method = method_of(folder, "divided", workers, latency=0.5)
    state, told = method.advance(method.init(3), SHORT)
    np.testing.assert_array_equal(told["theta"], alone["theta"])
    np.testing.assert_array_equal(told["queries"], alone["queries"])  # nothing is in vain
    np.testing.assert_array_equal(told["span"][1:], np.full(SHORT - 1, largest))  # of ten blocks of six
    assert told["evaluations"][1:] == pytest.approx(0.5 + largest / N)
    parts = min(10, -(-10 * 6 // largest))
    np.testing.assert_array_equal(told["bytes"][1:], np.full(SHORT - 1, 8 * (3 * parts + 10)))
    assert method.facts(state).more["expected_steps"] == N / largest
    assert len(method.notes()) == (10 % workers != 0)


class OutOfTurn(tree.Point):
    """Broken: sums are put where they arrive."""

    def take(self, first, sums):
        self.sums, self.taken = self.sums + sums, False


def test_shares_are_put_in_their_place(folder, monkeypatch):
    def sums(point_class):
        monkeypatch.setattr(prefetching, "Point", point_class)
        monkeypatch.setattr(tree, "Point", point_class)
        method = method_of(folder, "divided", 5)
        method.real = AnyOrder(5, ThreadPoolExecutor(1), method.blocks.sums)
        return method.advance(method.init(3), 40)[0]["sums"]

    serial = method_of(folder, "naive", 1)
    expected = serial.advance(serial.init(3), 40)[0]["sums"]
    np.testing.assert_array_equal(sums(tree.Point), expected)
    assert not np.array_equal(sums(OutOfTurn), expected)


def test_set_up_is_counted(folder):
    method = method_of(folder, "foretold", 4)
    # one pass for the curvature and the quadratic, two evaluations that are timed
    assert method.facts().setup_queries == method.problem.fit.queries + 3 * N
    words = [*TOY, "protocol.init=prior"]
    round_steps = method_of(folder, "static", 4, words, metric="identity")
    assert round_steps.facts().setup_queries == 2 * N


def test_expected_steps_are_the_closed_forms():
    assert [expected_steps("naive", 2**d - 1, 0.3, 0.0) for d in (1, 2, 4, 6)] == [1, 2, 4, 6]
    assert (depth(16), depth(64)) == (4, 6)
    assert expected_steps("rejections", 16, 0.23, 0.0) == pytest.approx(4.28, abs=0.01)  # the survey: about 4
    assert expected_steps("rejections", 10, 0.23, 0.0) == pytest.approx(4.03, abs=0.01)
    assert expected_steps("rejections", 10**6, 0.23, 0.0) == pytest.approx(1 / 0.23)
    for workers, rate, steps in ((4, 0.165, 3.11), (16, 0.165, 5.92), (64, 0.165, 8.95), (16, 0.41, 4.13)):
        assert expected_steps("static", workers, rate, 0.0) == pytest.approx(steps, abs=0.01)
    assert expected_steps("static", 15, 0.5, 0.0) == pytest.approx(4)  # all paths are alike
    assert expected_steps("foretold", 16, 0.3, 0.0) == 16
    assert expected_steps("delayed", 16, 0.25, 0.0) == 64  # a quarter passes
    assert expected_steps("delayed", 1, 0.25, 0.25) == 2
    assert np.isnan(expected_steps("delayed", 16, 0.0, 0.0))
    assert np.isnan(expected_steps("predictive", 16, 0.3, 0.0))


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("scheme", ["naive", "rejections", "static", "foretold", "delayed"])
def test_steps_a_round_are_as_expected(folder, scheme):
    words = [*TOY, "protocol.iterations=3000", "protocol.burn_in=500"]
    method = method_of(folder, scheme, 2 if scheme == "delayed" else 8, words, batches=1)
    state, told = method.advance(method.init(0), 3000)
    seen = 2500 * N / told["span"][500:].sum()
    # some 600 rounds or more, whose lengths have sds of half their mean: 5 % are two and a half errors
    assert seen == pytest.approx(method.facts(state).more["expected_steps"], rel=0.05)


def test_chances_become_outcomes_as_sums_come_in():
    rng = np.random.default_rng(2)
    memory, old = Memory(np.array([0.3, -1.0, 2.0, 0.02, 50.0])), tree.Point(np.zeros(1), 0.0)
    new = tree.Point(np.ones(1), 0.0)
    old.sums, differences = [0.0] * 10, rng.normal(0.3, 0.1, 10)
    node = tree.Node(0, old, None, new, Luck(np.zeros(1), -0.5, 0.0))
    chances = []
    for known in range(10):
        new.sums = differences[:known].tolist()
        chances.append(memory.chance(node, 10))
    assert chances[0] == pytest.approx(0.31, abs=0.01)  # Φ(−½), by earlier tests alone
    assert chances[5] > 0.99
    assert chances[9] > 0.999999
    assert memory.values().tolist() == [0.3, -1.0, 2.0, 0.02, 50.0]


def test_who_gains_nothing_is_told(folder):
    slow = method_of(folder, "static", 2, team="threads")
    slow.evaluation_s, slow.message_s = 1e-3, 1e-2
    (note,) = slow.notes()
    assert note == (
        "an evaluation takes 1 ms, messages 10 ms a round: 2 workers pay from 13 ms an evaluation on; "
        "sampler.workers=1 will be quicker"
    )
    slow.evaluation_s = 0.2
    assert slow.notes() == []
    (note,) = method_of(folder, "naive", 16).notes()
    assert note == "sampler.workers=16: scheme=naive uses 15, one less than a power of 2"


BAD = {
    "sampler.scheme=guess": "must be naive, .*, delayed or divided, such as foretold",
    "sampler.team=mpi": "must be simulated, threads, processes or dask, such as simulated",
    "sampler.workers=0": "must be a whole number in \\[1, 1024\\], such as 16",
    "sampler.team=threads sampler.latency=0.1": "real workers have their own; choose sampler.latency=0",
    "sampler.scheme=predictive sampler.batches=1": "goes by partial sums; choose sampler.batches=10",
    f"sampler.batches={N + 1}": f"the data have {N} rows; take at most as many",
}


@pytest.mark.parametrize("words", BAD)
def test_what_cannot_be_is_refused_with_a_remedy(tmp_path, words):
    with pytest.raises(ConfigError, match=BAD[words]):
        prepare(arm_of([*TOY, *words.split()], ("sampler=prefetching",)), tmp_path)


def test_one_chain_is_keyed_alike_however_it_is_shared():
    cls = SCHEMAS["sampler"]["prefetching"]
    ours = cls(scheme="static", workers=4, team="dask", batches=3, step=0.1)
    assert ours.alone() == cls(step=0.1).alone() != cls(step=0.2).alone()
