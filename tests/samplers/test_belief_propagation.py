"""Loopy belief propagation: exact on a tree, by enumeration; not on a lattice, whose right value is known."""

import numpy as np
import pytest

from flyrun.experiments.models.graphs.planar import pair_correlation
from flyrun.ground.errors import ConfigError
from tests.samplers.hogwild.arms import method, same, steps

CHAIN = (
    "dataset=lattice",
    "dataset.rows=1",
    "dataset.columns=6",
    "model=ising",
    "sampler=belief_propagation",
)


def test_a_tree_is_exact_and_loops_are_not():
    """Of neighbours on a chain E s_i s_j = tanh β, which a lattice's messages tell too."""
    chain = method(*CHAIN, "model.beta=0.7")
    state, told = steps(chain, 200)
    np.testing.assert_allclose(2 * chain.agreement(state) - 1, np.tanh(0.7), rtol=1e-9)
    assert told["queries"].sum() == 200 * 2 * 5
    lattice = method(*CHAIN, "model.beta=0.3", "dataset.rows=6")
    found = 2 * lattice.estimates(steps(lattice, 200)[0])["agreement"] - 1
    assert found == pytest.approx(np.tanh(0.3), rel=1e-6)
    assert pair_correlation(6, 6, 0.3) - found > 0.02


def test_what_one_end_knows_comes_to_the_other():
    """A chain with a held end, by enumeration; wrong where a message brings back what it was told."""
    chain = method(*CHAIN, "model.beta=0.5", "sampler.damping=1")
    held, known = 0.8, chain._known

    def with_field(told, leave_out=True):
        heard = known(told) if leave_out else known(told) + np.roll(told, len(chain.coupling))
        return heard + held * (chain.source == 0)

    states = 2 * np.array(np.meshgrid(*[[0, 1]] * 6)).reshape(6, -1) - 1
    weight = np.exp(0.5 * (states[1:] * states[:-1]).sum(axis=0) + held * states[0])
    right = np.arctanh((states[5] * weight).sum() / weight.sum())
    for leave_out in (True, False):
        chain._known = lambda told, leave_out=leave_out: with_field(told, leave_out)
        odds = chain.result(steps(chain, 60)[0])["log_odds"][5]
        assert (abs(odds / 2 - right) < 1e-9) == leave_out


def test_cuts_do_not_matter_and_other_models_are_refused():
    chain = method(*CHAIN)
    assert same(steps(chain, 7)[0], steps(chain, 7, cuts=(3,))[0])
    with pytest.raises(ConfigError, match="choose model=ising"):
        method(*CHAIN, "model=potts")
