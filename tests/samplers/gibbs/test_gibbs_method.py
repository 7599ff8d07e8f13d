"""The program of graph arms: cut anywhere it goes on bit for bit; its draws, facts and watched numbers."""

import numpy as np
import pytest

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.config.bound import Map
from flyrun.experiments.config.dataset.graph_data import CompleteGraph, EdgeList, Grid, RandomFactors, Uai
from flyrun.experiments.config.model import EdgeTables, FactorGraph, Ising, Potts
from flyrun.experiments.config.protocol import Protocol
from flyrun.experiments.config.sampler.chain import RandomWalk
from flyrun.experiments.config.sampler.gibbs import (
    DoubleMin,
    Gibbs,
    LocalMinibatch,
    Mgpmh,
    MinGibbs,
    PoissonGibbs,
)
from flyrun.experiments.samplers.gibbs.method import prepare
from flyrun.ground.errors import ConfigError, DataError

GRID = Grid(side=4, gamma=1.0)
SAMPLERS = {
    "gibbs": Gibbs(),
    "systematic": Gibbs(scan="systematic"),
    "permutation": Gibbs(scan="permutation"),
    "min_gibbs": MinGibbs(),
    "local_minibatch": LocalMinibatch(batch=5),
    "local_poisson": LocalMinibatch(batch=5, batches="poisson"),
    "biased": MinGibbs(batch=0.1, estimator="biased"),
    "subset": MinGibbs(batch=0.01, estimator="subset"),
    "mgpmh": Mgpmh(),
    "double_min": DoubleMin(),
    "poisson_gibbs": PoissonGibbs(),
}


def _program(sampler, tmp_path, model=None, dataset=GRID, thin=2):
    protocol = Protocol(iterations=40, burn_in=10, thin=thin)
    model = model or Potts(beta=1.0, n_values=3)
    arm = Arm("test", sampler.name, dataset, model, None, None, None, sampler, protocol)
    return prepare(arm, tmp_path)


@pytest.mark.thorough(but=(2, "mgpmh", "double_min"))
@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_cut_anywhere_it_goes_on_bit_for_bit(sampler, tmp_path):
    program = _program(sampler, tmp_path)
    start = program.init(3)
    kept = {name: array.copy() for name, array in start.items()}
    whole_state, whole = program.advance(start, 40)
    state, parts = start, []
    for n in (6, 20, 14):
        state, draws = program.advance(state, n)
        parts.append(draws)
    for name, array in kept.items():
        np.testing.assert_array_equal(start[name], array)
        np.testing.assert_array_equal(state[name], whole_state[name])
    for name in whole:
        if name != "seconds":
            np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), whole[name])
    assert whole["theta"].shape == (20, 16)
    assert {len(values) for name, values in whole.items() if name != "theta"} == {40}


def test_draws_are_what_their_names_say(tmp_path):
    program = _program(SAMPLERS["gibbs"], tmp_path, thin=1)
    _, draws = program.advance(program.init(0), 30)
    weight, theta = choices_weight(program), draws["theta"]
    energies = [sum(weight[i, j] for i in range(16) for j in range(i) if x[i] == x[j]) for x in theta]
    np.testing.assert_allclose(draws["energy"], energies)
    np.testing.assert_allclose(program.trace(theta)["log_posterior"], energies)
    grid = theta.reshape(-1, 4, 4)
    equal = (grid[:, 1:] == grid[:, :-1]).sum((1, 2)) + (grid[:, :, 1:] == grid[:, :, :-1]).sum((1, 2))
    np.testing.assert_allclose(draws["agreement"], equal / 24)
    assert np.all(draws["nominal"] == 3 * 15)


def choices_weight(program):
    return program.graph.pairs.weight


def test_facts(tmp_path):
    facts = {name: _program(sampler, tmp_path).facts().plain() for name, sampler in SAMPLERS.items()}
    assert [name for name in facts if not facts[name]["exact"]] == [
        "local_minibatch",
        "local_poisson",
        "biased",
        "subset",
    ]
    assert facts["biased"]["estimator"] == "biased"
    assert facts["subset"]["estimator"] == "subset"
    assert facts["systematic"]["update"] == "Gibbs, systematic scan"
    assert facts["double_min"]["estimator"] == "faithful + superposed"
    assert facts["mgpmh"]["estimator"] == "faithful"
    assert facts["min_gibbs"]["estimator"] == "superposed"
    assert facts["gibbs"]["estimator"] == "none"
    psi, largest = facts["gibbs"]["total_energy_bound"], facts["gibbs"]["local_energy_bound"]
    assert facts["double_min"]["batches"] == pytest.approx([largest**2, psi**2])
    assert facts["poisson_gibbs"]["batches"] == pytest.approx([largest**2])
    assert facts["local_minibatch"]["batches"] == [5.0]
    assert facts["gibbs"]["largest_degree"] == 15


@pytest.mark.thorough
def test_graphs_from_files(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("0,1,0.5\n1,2,-0.25\n0,5,1\n")
    program = _program(SAMPLERS["mgpmh"], tmp_path, Ising(beta=0.5), EdgeList(path=str(edges)))
    _, draws = program.advance(program.init(0), 20)
    assert draws["theta"].shape == (10, 6)
    assert program.facts().plain()["total_energy_bound"] == pytest.approx(1.75)
    network = tmp_path / "net.uai"
    network.write_text("MARKOV 2 2 3 1 2 0 1 6 1 2 3 4 5 6")
    program = _program(SAMPLERS["min_gibbs"], tmp_path, FactorGraph(), Uai(path=str(network)))
    _, draws = program.advance(program.init(0), 20)
    assert draws["theta"].max() <= 2
    for sampler, model, dataset in (
        ("gibbs", FactorGraph(), Uai()),
        ("mgpmh", Ising(), EdgeList()),
    ):
        with pytest.raises(DataError, match=r"dataset\.path=null: must name a file"):
            _program(SAMPLERS[sampler], tmp_path, model, dataset)


@pytest.mark.thorough
def test_generated_graphs(tmp_path):
    dataset = RandomFactors(n_variables=10, degree=6, n_values=3)
    program = _program(SAMPLERS["double_min"], tmp_path, FactorGraph(), dataset)
    _, draws = program.advance(program.init(0), 20)
    assert draws["theta"].max() == 2
    assert program.facts().plain()["local_energy_bound"] == pytest.approx(2.0)
    dataset = CompleteGraph(n_variables=12)
    program = _program(SAMPLERS["mgpmh"], tmp_path, EdgeTables(n_values=3), dataset)
    _, draws = program.advance(program.init(0), 20)
    assert draws["theta"].shape == (10, 12)
    facts = program.facts().plain()
    assert (facts["largest_degree"], facts["neighbour_pairs"]) == (11, 12)
    assert facts["total_energy_bound"] == pytest.approx(6.0)
    with pytest.raises(ConfigError, match=r"dataset\.width=4: must divide dataset\.n_variables=10"):
        RandomFactors(n_variables=10, width=4)
    with pytest.raises(ConfigError, match=r"n_values\^width is 40,000,000,000.*take fewer"):
        RandomFactors(n_variables=10, width=5, n_values=100)


def test_what_does_not_fit_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"dataset=grid and model=factor_graph do not fit.*choose uai"):
        _program(SAMPLERS["gibbs"], tmp_path, FactorGraph())
    protocol = Protocol(iterations=40, burn_in=10)
    with pytest.raises(ConfigError, match="sampler=random_walk and model=potts do not fit"):
        Arm("test", "x", GRID, Potts(), None, None, None, RandomWalk(), protocol)
    with pytest.raises(ConfigError, match="bound=map: model=potts has none"):
        Arm("test", "x", GRID, Potts(), None, Map(), None, Gibbs(), protocol)
