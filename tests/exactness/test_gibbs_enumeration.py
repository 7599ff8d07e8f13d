"""Samplers of graphs, followed through every random choice: they leave π invariant, or are seen not to."""

import itertools
from math import exp
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from flyrun.experiments.models.graphs.graph import factor_masses, factor_share, local_energies
from flyrun.experiments.samplers.gibbs import poisson_estimator
from flyrun.experiments.samplers.gibbs.double_min import DoubleMin, double_min
from flyrun.experiments.samplers.gibbs.gibbs import build as gibbs
from flyrun.experiments.samplers.gibbs.local_minibatch import local_minibatch, local_poisson
from flyrun.experiments.samplers.gibbs.mgpmh import Mgpmh, mgpmh, propose_energies
from flyrun.experiments.samplers.gibbs.min_gibbs import MinGibbs, min_gibbs
from flyrun.experiments.samplers.gibbs.poisson_estimator import estimate, estimator, needs_energy
from flyrun.experiments.samplers.gibbs.poisson_gibbs import poisson_gibbs
from flyrun.experiments.samplers.gibbs.single_site import draw_value, resample_site
from flyrun.ground.numerics.alias import Even
from flyrun.ground.numerics.compiled import implements
from tests.exactness.enumeration import outcomes
from tests.exactness.planted import Planted
from tests.exactness.small_graphs import (
    GRAPHS,
    STATES,
    energies,
    interpret,
    number,
    stationary,
    transition_matrix,
)

EXACT = {
    "gibbs": lambda graph: gibbs(None, graph),
    "mgpmh": lambda graph: mgpmh(graph, 0.3),
    "poisson_gibbs": lambda graph: poisson_gibbs(graph, 0.1),
}


@pytest.mark.thorough(but=("two-valued", "general-gibbs", "general-mgpmh"))
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_pi_is_left_invariant(name, graph, monkeypatch):
    interpret(monkeypatch)
    kernel = EXACT[name](graph)
    matrix, left_out = transition_matrix(kernel, graph, most=4)
    pi = stationary(graph)
    # Batches above `most` are left out, whose probability is known: what arrives may be short by no more.
    missing = pi - pi @ matrix
    assert left_out < {"gibbs": 1e-14, "mgpmh": 1e-4, "poisson_gibbs": 2e-2}[name]
    assert missing.min() > -1e-15
    assert missing.sum() <= left_out + 1e-14
    if name != "poisson_gibbs":
        # The size of a batch has nothing to do with x, so balance holds for every size: no error at all.
        flow = pi[:, None] * matrix
        np.testing.assert_allclose(flow, flow.T, atol=1e-16)


@pytest.mark.thorough(but="mgpmh")
@pytest.mark.parametrize("name", ["mgpmh", "poisson_gibbs"])
def test_what_is_missing_shrinks_as_larger_batches_are_followed(name, monkeypatch):
    interpret(monkeypatch)
    graph = GRAPHS["two-valued"]
    before = 1.0
    for most in (1, 3, 5):
        matrix, left_out = transition_matrix(EXACT[name](graph), graph, most)
        missing = stationary(graph) - stationary(graph) @ matrix
        assert missing.min() > -1e-15
        assert missing.sum() <= left_out < 0.3 * before
        before = left_out


def test_superposed_minibatch_has_the_transitions_of_the_faithful_one(monkeypatch):
    interpret(monkeypatch)
    graph = GRAPHS["two-valued"]
    faithful, missing = transition_matrix(mgpmh(graph, 0.3), graph, most=7)
    superposed, missing_too = transition_matrix(mgpmh(graph, 0.3, "superposed"), graph, most=6)
    assert max(missing, missing_too) < 1e-6
    np.testing.assert_allclose(faithful, superposed, atol=missing + missing_too)


@pytest.mark.thorough(but="two-valued")
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_local_minibatch_is_biased_unless_it_takes_all_factors(graph, monkeypatch):
    interpret(monkeypatch)
    pi = stationary(graph)
    for batch in (1, 3):
        matrix, left_out = transition_matrix(local_minibatch(graph, batch), graph, most=0)
        assert left_out < 1e-14
        values, vectors = np.linalg.eig(matrix.T)
        own = np.real(vectors[:, np.argmax(values.real)])
        bias = 0.5 * np.abs(own / own.sum() - pi).sum()
        low, high = (0.002, 0.05) if batch == 1 else (0.0, 1e-13)
        assert low <= bias <= high


def _kept_law(matrix):
    values, vectors = np.linalg.eig(matrix.T)
    own = np.real(vectors[:, np.argmax(values.real)])
    return own / own.sum()


def test_local_minibatch_by_poisson_batches_is_biased_the_less_the_larger_they_are(monkeypatch):
    interpret(monkeypatch)
    graph, found = GRAPHS["two-valued"], []
    pi = stationary(graph)
    for batch, most in ((0.3, 5), (1.0, 7)):
        matrix, left_out = transition_matrix(local_poisson(graph, batch), graph, most)
        assert left_out < 1e-4
        found.append(0.5 * np.abs(_kept_law(matrix) - pi).sum())
    assert 0.3 > found[0] > 1.2 * found[1] > 0.01


class OneByOne(Planted):
    """Picks that no Poisson number announced: a branch each."""

    def pick(self, probabilities):
        return self.paths.choose(probabilities)


@pytest.mark.thorough(but="biased-two-valued")
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("method", ["biased", "subset"])
def test_min_gibbs_with_a_biased_estimate_samples_its_tilted_law(method, graph, monkeypatch):
    """Theorem 1: x ∝ E e^ε, here by one pick of a factor, all of whose estimates are followed."""
    interpret(monkeypatch)
    kernel = min_gibbs(graph, 1.0, method)
    laws = [_law(kernel.estimator, graph, x, -1, 0, 0, OneByOne)[0] for x in STATES]
    states = [(row, value) for row, law in enumerate(laws) for value in law]
    place = {state: k for k, state in enumerate(states)}
    matrix = np.zeros((len(states), len(states)))

    def run(rng, x, value, i):
        y = x.copy()
        kernel.memory.energy[0], kernel.memory.estimate[0] = 0.0, value
        resample_site.methods[type(kernel)](kernel, OneByOne(rng), graph, y, i)
        return number(y), round(float(kernel.memory.estimate[0]), 9)

    for (row, value), k in place.items():
        for i in range(3):
            start = STATES[row], value, i
            for probability, end in outcomes(lambda rng, s=start: run(rng, *s), most=0):
                matrix[k, place[end]] += probability / 3.0
    joint = np.array([laws[row][value] * exp(value) for row, value in states])
    joint /= joint.sum()
    np.testing.assert_allclose(joint @ matrix, joint, atol=1e-8)
    tilted = np.array([sum(p * exp(value) for value, p in law.items()) for law in laws])
    marginal = np.bincount([row for row, _ in states], joint)
    np.testing.assert_allclose(marginal, tilted / tilted.sum(), atol=1e-12)
    assert 0.5 * np.abs(marginal - stationary(graph)).sum() > 1e-3  # and that is not π


def test_a_subset_is_of_different_factors_each_as_likely(monkeypatch):
    """All subsets of two factors, enumerated; the mean is ζ, and of all factors ζ itself."""
    interpret(monkeypatch)
    graph, x = GRAPHS["two-valued"], STATES[5]
    shares = [factor_share(graph, f, x, -1, 0) * mass for f, mass in enumerate(factor_masses(graph))]
    sums = [len(shares) / 2 * sum(pair) for pair in itertools.combinations(shares, 2)]
    law, zeta = _law(estimator(graph, 2.0, "subset"), graph, x, -1, 0, 0, OneByOne)
    wanted = {round(value, 9): sums.count(value) / len(sums) for value in sums}
    assert law == pytest.approx(wanted)
    assert sum(p * value for value, p in law.items()) == pytest.approx(zeta)
    whole, _ = _law(estimator(graph, 1e6, "subset"), graph, x, -1, 0, 0, OneByOne)
    assert whole == pytest.approx({round(zeta, 9): 1.0})


class ExponentiatedTwice(NamedTuple):
    """MGPMH whose acceptance takes e^energy for the energy, and so exponentiates twice: a published bug."""

    proposal: object
    memory: object
    energies: np.ndarray
    weights: np.ndarray


@implements(resample_site, ExponentiatedTwice)
def _exponentiated_twice(kernel, rng, graph, x, i):
    values = kernel.energies
    propose_energies(kernel.proposal, rng, graph, x, i, values, kernel.memory.actual)
    before = x[i]
    value = draw_value(rng, values, graph.bounds.sizes[i], kernel.weights)
    proposed, current = values[value], values[before]
    local_energies(graph, i, x, values)
    acceptance = exp(min(0.0, exp(values[value]) - exp(values[before]) + current - proposed))
    if rng.random() < acceptance:
        x[i] = value
    return acceptance


@pytest.mark.thorough(but="two-valued")
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_negative_control_energies_exponentiated_twice(graph, monkeypatch):
    interpret(monkeypatch)
    good = mgpmh(graph, 0.3)
    matrix, left_out = transition_matrix(ExponentiatedTwice(*good), graph, most=5)
    pi = stationary(graph)
    flow = pi[:, None] * matrix
    assert isinstance(good, Mgpmh)
    assert np.abs(flow - flow.T).max() > 1e-4
    assert np.abs(pi - pi @ matrix).sum() > 2 * left_out


class TwoPoint(NamedTuple):
    """ζ + log(1 ± ½), each with probability ½: another estimate with E e^ε = e^ζ, small enough to follow."""

    batch: float


@implements(estimate, TwoPoint)
def _two_point(estimator, rng, graph, x, i, u, energy, meter):
    return energy + (np.log(1.5) if rng.random() < 0.5 else np.log(0.5))


@implements(needs_energy, TwoPoint)
def _two_point_needs(estimator):
    return True


def _extended(kernel, graph, most):
    """Transition matrix over (x, which of the two estimates of ζ(x) is kept)."""
    zeta = energies(graph)
    offsets = np.log([0.5, 1.5])
    matrix = np.zeros((54, 54))

    def run(rng, x, row, offset, i):
        y = x.copy()
        kernel.memory.energy[0], kernel.memory.estimate[0] = zeta[row], zeta[row] + offset
        resample_site.methods[type(kernel)](kernel, Planted(rng), graph, y, i)
        kept = kernel.memory.estimate[0] - zeta[number(y)]
        return number(y), int(np.argmin(np.abs(offsets - kept))), np.abs(offsets - kept).min()

    for row, x in enumerate(STATES):
        for which, offset in enumerate(offsets):
            for i in range(3):
                start = x, row, offset, i
                for probability, (y, kept, off) in outcomes(lambda rng, s=start: run(rng, *s), most):
                    assert off < 1e-12
                    matrix[2 * row + which, 2 * y + kept] += probability / 3.0
    joint = np.stack([stationary(graph) * 0.25, stationary(graph) * 0.75], axis=1).ravel()
    return matrix, joint


@pytest.mark.thorough(but="two-valued")
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_min_gibbs_leaves_the_joint_of_x_and_estimate_invariant(graph, monkeypatch):
    interpret(monkeypatch)
    kernel = min_gibbs(graph, 1.0)._replace(estimator=TwoPoint(1.0))
    assert isinstance(kernel, MinGibbs)
    matrix, joint = _extended(kernel, graph, most=0)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-14)
    np.testing.assert_allclose(joint @ matrix, joint, atol=1e-15)


@pytest.mark.thorough(but="two-valued")
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_double_min_leaves_the_joint_of_x_and_estimate_invariant(graph, monkeypatch):
    interpret(monkeypatch)
    kernel = double_min(graph, 0.3, 1.0)._replace(estimator=TwoPoint(1.0))
    assert isinstance(kernel, DoubleMin)
    matrix, joint = _extended(kernel, graph, most=3)
    flow = joint[:, None] * matrix
    assert matrix.sum(axis=1).min() > 0.999
    np.testing.assert_allclose(flow, flow.T, atol=1e-16)


def _law(drawn, graph, x, i, u, most, planted=Planted):
    """Every value of an estimate (rounded, to merge equal ones) with its probability."""
    zeta = energies(graph)[number([u if j == i else x[j] for j in range(3)])]
    body = estimate.methods[type(drawn)]
    law: dict[float, float] = {}

    def run(rng):
        return body(drawn, planted(rng), graph, x, i, u, zeta, np.zeros(1))

    for probability, value in outcomes(run, most):
        law[round(float(value), 9)] = law.get(round(float(value), 9), 0.0) + probability
    return law, zeta


@pytest.mark.thorough(but="two-valued")
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_the_estimate_exponentiated_has_mean_exp_energy(graph, monkeypatch):
    interpret(monkeypatch)
    drawn = estimator(graph, 0.9, "faithful")
    for x, (i, u) in itertools.product(STATES[::7], ((0, 2), (2, 0), (-1, 0))):
        law, zeta = _law(drawn, graph, x, i, u, most=6)
        mean = sum(probability * exp(value) for value, probability in law.items())
        # what is left out: batches above 6 factors, each at most log(1 + Ψ/λ)
        rest = _tail(0.9 + graph.bounds.total, 7) * exp(graph.bounds.total)
        assert exp(zeta) - rest <= mean <= exp(zeta) + 1e-9


@pytest.mark.thorough(but="two-valued")
@pytest.mark.parametrize("name", ["two-valued", "repelling"])
def test_faithful_and_superposed_estimates_have_one_law(name, monkeypatch):
    interpret(monkeypatch)
    graph = GRAPHS[name]
    for x, (i, u) in itertools.product(STATES[::5], ((0, 2), (1, 1))):
        faithful, _ = _law(estimator(graph, 0.6, "faithful"), graph, x, i, u, most=7)
        superposed, _ = _law(estimator(graph, 0.6, "superposed"), graph, x, i, u, most=7)
        for value, probability in faithful.items():
            assert superposed[value] == pytest.approx(probability, abs=_tail(0.6, 8))


def _tail(mean, start):
    """P(Poisson(mean) ≥ start)."""
    body, term = 0.0, exp(-mean)
    for k in range(start):
        body += term
        term *= mean / (k + 1)
    return 1.0 - body


def test_auto_takes_the_superposed_estimate_where_it_can():
    kinds = {name: type(estimator(graph, 1.0, "auto")) for name, graph in GRAPHS.items()}
    faithful, superposed = poisson_estimator.Faithful, poisson_estimator.Superposed
    both = {"general": faithful, "edges": faithful}
    assert kinds == {"two-valued": superposed, "repelling": superposed, **both}
    assert not isinstance(mgpmh(GRAPHS["two-valued"], 1.0).proposal.table, Even)
    configured = SimpleNamespace(batch=0.5, second_batch=0.5, estimator="auto")
    total = GRAPHS["general"].bounds.total
    from flyrun.experiments.samplers.gibbs import double_min as module

    kernel = module.build(configured, GRAPHS["general"])
    assert kernel.estimator.batch == pytest.approx(0.5 * total**2)
