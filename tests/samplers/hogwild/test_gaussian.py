"""Hogwild Gibbs of Gaussians against its theory, and the theory against itself."""

import itertools

import numpy as np
import pytest

from flyrun.experiments.data.precision import random_matrix
from flyrun.experiments.samplers.hogwild import theory
from flyrun.experiments.samplers.hogwild.hogwild_shares import errors
from flyrun.experiments.samplers.hogwild.loop import blocks
from flyrun.ground.errors import ConfigError, DensityError
from tests.samplers.hogwild.arms import method, same, steps

GAUSSIAN = ("dataset=precision", "model=gaussian_field", "sampler=hogwild")
EQUAL = ("dataset.law=equicorrelated", "sampler.processors=12")
LATE = "sampler.schedule=asynchronous"


def matrix(seed, coupling=0.5, n=12):
    return random_matrix(np.random.RandomState(seed), n, coupling)


@pytest.mark.parametrize("sweeps", [0, 1, 3])
def test_the_mean_is_exact(sweeps):  # Proposition 7.6.1
    precision, owner, h = matrix(1), blocks(12, 4), np.arange(12.0)
    parts = theory.round_of(precision, owner, sweeps)
    mean = np.linalg.solve(precision, h)
    # the round's own potential: N with (I − M) 𝒥⁻¹ = N, worked out from one round of the updates themselves
    x = mean.copy()
    for k in range(4):
        mine = owner == k
        local = mean.copy()
        for _ in range(sweeps or 200):
            for i in np.flatnonzero(mine):
                local[i] += (h[i] - precision[i] @ local) / precision[i, i]
        x[mine] = local[mine]
    np.testing.assert_allclose(x, mean, atol=1e-12)
    assert theory.radius(parts.step) < 1


@pytest.mark.parametrize("sweeps", [1, 2, 5])
def test_a_round_is_what_the_updates_do(sweeps):
    precision, owner = matrix(2), blocks(12, 3)
    parts, moved = theory.round_of(precision, owner, sweeps), np.empty((12, 12))
    for column, start in enumerate(np.eye(12)):
        for k in range(3):
            local = start.copy()
            for _ in range(sweeps):
                for i in np.flatnonzero(owner == k):
                    local[i] -= precision[i] @ local / precision[i, i]
            moved[owner == k, column] = local[owner == k]
    np.testing.assert_allclose(parts.step, moved, atol=1e-13)


def test_one_processor_has_the_right_covariance_and_many_have_not():
    precision = matrix(3)
    exact = np.linalg.inv(precision)
    for sweeps in (1, 4):
        alone = theory.covariance(theory.round_of(precision, blocks(12, 1), sweeps))
        np.testing.assert_allclose(alone, exact, atol=1e-12)
    many = theory.covariance(theory.round_of(precision, blocks(12, 4), 1))
    assert theory.off(many, exact) > 0.1


def test_the_correction_is_exact_for_infinitely_many_sweeps():  # Proposition 7.7.4
    for seed in range(20):
        precision = matrix(seed, 0.4)
        parts = theory.round_of(precision, blocks(12, 3), 0)
        hogwild = theory.covariance(parts)
        exact = np.linalg.inv(precision)
        assert theory.off(theory.corrected(parts, hogwild), exact) < 1e-12
        assert theory.off(hogwild, exact) > 0.01
    once = theory.round_of(precision, blocks(12, 3), 1)  # the control: one sweep
    assert theory.off(theory.corrected(once, theory.covariance(once)), exact) > 1e-3


def test_dominance_is_enough_for_stability_and_definiteness_is_not():  # Theorem 7.6.6
    unstable, dominant = {True: 0, False: 0}, 0
    for seed in range(250):
        stream = np.random.RandomState(seed)
        precision = random_matrix(stream, 12, stream.random_sample())
        enough = theory.dominance(precision) < 1
        dominant += enough
        step = theory.round_of(precision, blocks(12, (2, 3, 4, 12)[seed % 4]), (1, 2, 5)[seed % 3]).step
        unstable[enough] += theory.radius(step) >= 1
    assert dominant > 50
    assert unstable[True] == 0
    assert unstable[False] > 5


def test_equal_correlations_diverge_beyond_what_is_known():
    precision = 0.9 * np.eye(12) + 0.1
    step = theory.round_of(precision, blocks(12, 12), 1).step
    assert theory.radius(step) == pytest.approx(1.1, abs=1e-12)


def test_like_coloured_covariances_are_exact_and_unlike_ones_lost():
    # strips of a grid: the graph of blocks is a path, so only even powers of B⁻¹A join like colours
    made = method(*GAUSSIAN, "dataset.law=grid", "dataset.n_variables=36", "sampler.processors=6")
    found = theory.covariance(theory.round_of(made.field.precision, made.owner, 0))
    like = (made.owner[:, None] + made.owner) % 2 == 0
    np.testing.assert_allclose(found[like], made.exact[like], atol=1e-12)
    np.testing.assert_allclose(found[~like], 0, atol=1e-12)
    assert made.exact[~like].max() > 0.05


@pytest.mark.thorough
@pytest.mark.parametrize("sweeps", [1, 4])
def test_draws_have_the_covariance_that_theory_says(sweeps):
    made = method(*GAUSSIAN, f"sampler.sweeps={sweeps}", "dataset.coupling=0.5", "protocol.burn_in=100")
    state, records = steps(made, 40_000)
    facts, found = made.facts(state).more, records["theta"][100:]
    expected = theory.covariance(made.round)
    assert theory.off(np.cov(found.T), expected) < 0.05 < 0.1 < theory.off(expected, made.exact)
    assert facts["mean_z"] < 4  # of 12 coordinates: a level of 1e-3
    assert facts["covariance_off"] == pytest.approx(theory.off(expected, made.exact), rel=0.15)


@pytest.mark.thorough
def test_late_messages_leave_the_mean_exact_and_one_processor_the_covariance():
    late = method(*GAUSSIAN, LATE, "sampler.late=0.9", "dataset.coupling=0.5")
    state, records = steps(late, 40_000)
    assert records["staleness"].mean() > 1
    assert late.facts(state).more["mean_off"] < 0.05
    alone = method(*GAUSSIAN, LATE, "sampler.processors=1", "dataset.coupling=0.5")
    facts = alone.facts(steps(alone, 40_000)[0])
    assert facts.exact
    assert facts.more["covariance_off"] < 0.06


def stationary(precision, owner, sweeps, receivers):
    """Covariance of what the owners hold, by Algorithm 16: of all K copies together, by enumeration.

    sweeps: numbers that are as likely, for every processor.
    """
    k, n = owner.max() + 1, len(owner)
    local = {}
    for q, p in itertools.product(sweeps, range(k)):
        move, noise = np.eye(n), np.zeros((n, n))
        for i in [*np.flatnonzero(owner == p)] * q:
            one = np.eye(n)
            one[i] -= precision[i] / precision[i, i]
            move, noise = one @ move, one @ noise @ one.T
            noise[i, i] += 1 / precision[i, i]
        local[q, p] = move, noise
    moves, noises = [], []
    who = [itertools.combinations([j for j in range(k) if j != s], receivers) for s in range(k)]
    for told in itertools.product(*who):
        tell = np.eye(k * n)
        for s, i in itertools.product(range(k), range(n)):
            for j in told[s] if owner[i] == s else ():
                tell[j * n + i] = np.eye(k * n)[s * n + i]
        for each in itertools.product(sweeps, repeat=k):
            move, noise = np.zeros((2, k * n, k * n))
            for p, q in enumerate(each):
                at = slice(p * n, p * n + n)
                move[at, at], noise[at, at] = local[q, p]
            moves.append(tell @ move)
            noises.append(tell @ noise @ tell.T)
    moves, noise = np.array(moves), np.mean(noises, axis=0)
    found = noise
    for _ in range(300):
        found = (moves @ found @ moves.transpose(0, 2, 1)).mean(axis=0) + noise
    kept = owner * n + np.arange(n)
    return found[np.ix_(kept, kept)]


def test_random_receivers_and_sweeps_have_the_covariance_of_enumeration():  # Algorithm 16
    some = (*GAUSSIAN, "dataset.n_variables=6", "dataset.coupling=0.9", "sampler.owners=[0,0,0,0,1,2]", LATE)
    random = ("sampler.processors=3", "sampler.late=0", "sampler.receivers=1", "sampler.most_sweeps=4")
    made = method(*some, *random)
    state, records = steps(made, 20_000)
    precision, owner = made.field.precision, made.owner
    expected, found = stationary(precision, owner, (1, 2, 3, 4), 1), np.cov(records["theta"][100:].T)
    assert theory.off(found, expected) < 0.03
    for other in ((1,), 1), ((1, 2, 3, 4), 2):  # the controls: one sweep each, all are told
        assert theory.off(stationary(precision, owner, *other), expected) > 0.05
    lockstep = theory.covariance(theory.round_of(precision, owner, 1))
    assert theory.off(stationary(precision, owner, (1,), 2), lockstep) < 1e-12
    facts = made.facts(state)
    assert facts.more["mean_off"] < 0.05
    assert records["queries"].mean() == pytest.approx(facts.more["updates_per_round"], rel=0.02)  # 15
    assert records["span"].mean() == pytest.approx(facts.more["critical_per_round"], rel=0.02)
    assert facts.more["critical_per_round"] == pytest.approx(10)  # the first's four
    assert facts.more["bytes_per_worker"] == 8 * 6 * 2 / 3
    # told with probability one half: rounds since the last one are geometric
    assert records["staleness"][100:].mean() == pytest.approx(1, abs=0.05)


def test_any_split_of_the_variables():
    def owner(*words):
        return method(*GAUSSIAN, "sampler.processors=3", *words).owner.tolist()

    assert owner() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    assert owner("sampler.partition=stripes") == [0, 1, 2] * 4
    assert sorted(owner("sampler.partition=random")) == owner() != owner("sampler.partition=random")
    assert owner("sampler.owners=[0,0,0,0,0,0,0,0,0,2,1,1]") == [0] * 9 + [2, 1, 1]
    for wrong in ("[0,1,2]", "[0,0,0,0,0,0,0,0,0,0,1,1]"):
        with pytest.raises(ConfigError, match=r"^sampler\.owners: .* 0 to 2 for each of 12 .*=null"):
            owner(f"sampler.owners={wrong}")


@pytest.mark.parametrize("schedule", ["bsp", "asynchronous"])
def test_the_same_bits_wherever_a_chain_is_cut(schedule):
    made = method(*GAUSSIAN, f"sampler.schedule={schedule}")
    whole, parts = steps(made, 150), steps(made, 150, cuts=(1, 60, 103))
    assert same(whole[0], parts[0])
    assert same(whole[1], parts[1])
    assert not np.array_equal(steps(made, 150, seed=1)[1]["theta"], whole[1]["theta"])


def test_divergence_is_told_before_a_first_round():
    made = method(*GAUSSIAN, *EQUAL, "dataset.coupling=0.12")
    with pytest.raises(DensityError, match=r"^diverges: rho = 1\.32, .* sampler\.processors"):
        made.init(0)


def test_divergence_of_late_messages_is_told_before_overflow():
    made = method(*GAUSSIAN, *EQUAL, LATE, "dataset.coupling=0.9")
    with pytest.raises(DensityError, match=r"^diverges: rho = 9\.90"):
        made.advance(made.init(0), 400)


def test_what_does_not_go_together_is_told_with_a_remedy():
    with pytest.raises(
        ConfigError, match=r"^sampler\.processors=13: .* choose sampler\.processors=12 or fewer"
    ):
        method(*GAUSSIAN, "sampler.processors=13")
    with pytest.raises(ConfigError, match=r"schedule=bsp tells all; choose sampler\.schedule=asynchronous$"):
        method(*GAUSSIAN, "sampler.receivers=1")
    with pytest.raises(ConfigError, match=r"choose sampler\.most_sweeps=3 or more$"):
        method(*GAUSSIAN, "sampler.sweeps=3", "sampler.most_sweeps=2")
    with pytest.raises(ConfigError, match=r"choose dataset\.n_variables=9$"):
        method(*GAUSSIAN, "dataset.law=grid")
    with pytest.raises(ConfigError, match=r"choose dataset\.n_variables=12$"):
        method(*GAUSSIAN, "sampler=hogwild_shares", "dataset.n_variables=4")


def test_counts_of_a_round():
    made = method(*GAUSSIAN, "sampler.processors=5", "sampler.sweeps=3")
    records = steps(made, 2)[1]
    assert records["queries"].tolist() == [36, 36]
    assert records["span"].tolist() == [9, 9]
    assert made.facts().more["bytes_per_worker"] == 96


def test_shares_of_matrices():
    made = method(*GAUSSIAN[:2], "sampler=hogwild_shares", "dataset.coupling=0.999")
    whole, parts = steps(made, 20), steps(made, 20, cuts=(7,))
    assert same(whole[0], parts[0])
    shares = made.estimates(whole[0])
    assert shares["dominant_stable_percent"] == 100
    assert shares["others_stable_percent"] < 100
    weak = method(*GAUSSIAN[:2], "sampler=hogwild_shares", "dataset.coupling=0.1")
    shares = weak.estimates(steps(weak, 10)[0])
    assert shares["within_falls_percent"] == shares["cross_grows_percent"] == 100
    assert shares["monotone_percent"] < 100
    within, cross = errors(matrix(0, 0.2), blocks(12, 3))
    assert within[-1] < within[0]
    assert np.isfinite(cross).all()
