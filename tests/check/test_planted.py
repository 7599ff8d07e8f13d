"""The probes of `flyrun check`: each planted error is found, and what is sound passes."""

from __future__ import annotations

import pytest

from flyrun.experiments.check import probes
from flyrun.experiments.prove.posteriors import Truth
from flyrun.experiments.samplers.chain.hmc import Hmc
from flyrun.experiments.samplers.chain.update import tune, update
from flyrun.experiments.samplers.gibbs.mgpmh import Mgpmh
from flyrun.experiments.samplers.gibbs.single_site import begin, resample_site
from flyrun.experiments.samplers.method import prepare
from tests.check.planted import ACCEPTANCE, DRIFT, SOUND, TEMPERATURE, Planted, TooReady, edited

# compiled once for all faults; each runs 2.4 million iterations
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("setup")


def probe(name, folder, **replaced):
    """A probe's verdict with parts of its kernel in another's place."""
    arm = probes.probes()[name]
    method = prepare(arm, folder)
    if "rule" in replaced:
        method._kernel = method._kernel._replace(rule=replaced["rule"])
    if "share" in replaced:
        method._brightness = TooReady(method._brightness, replaced["share"])
    return probes.judged(method, Truth(arm, folder))


@pytest.mark.parametrize(
    ("fault", "exact"), [(SOUND, True), (TEMPERATURE, False), (ACCEPTANCE, False), (DRIFT, False)]
)
def test_a_random_walk_with_a_planted_error_is_found(folder, fault, exact):
    """Elsewhere a sampler at temperature 2 was called alike: 1.1 is found, and so are an acceptance × 1.1 and
    a drift of a tenth of each step."""
    passed, said = probe("random walk", folder, rule=Planted(fault))
    assert passed == exact, said


@pytest.mark.parametrize("name", ["Firefly", "Firefly-HMC"])
@pytest.mark.parametrize(("share", "exact"), [(0.0, True), (0.1, False)])
def test_brightness_that_darkens_too_readily_is_found(folder, name, share, exact):
    """A tenth more of bright data go dark than should."""
    passed, said = probe(name, folder, share=share)
    assert passed == exact, said


def test_an_energy_that_hmc_gets_wrong_is_found(folder):
    """A tenth of what kicks change the energy by is left out; seeds that run away hid it."""
    energy = "log_ratio -= share *"
    wrong = edited(Hmc, update, energy, "log_ratio -= 0.9 * share *", tune)
    arm = probes.probes()["Firefly-HMC"]
    method = prepare(arm, folder)
    method._kernel = wrong(*method._kernel)
    passed, said = probes.judged(method, Truth(arm, folder))
    assert not passed, said


@pytest.mark.parametrize(
    ("share", "exact"),
    [("energies[before]", True), ("0.9 * energies[before]", False)],
    ids=["sound", "wrong"],
)
def test_an_energy_that_a_graphs_kernel_gets_wrong_is_found(folder, share, exact):
    """Acceptance leaves out a tenth of the minibatch's energy at the old value; the control leaves none."""
    wrong = edited(Mgpmh, resample_site, "energies[before]", share, begin)
    method = prepare(probes.graph_probes()["mgpmh"], folder)
    method._kernel = wrong(*method._kernel)
    passed, said = probes.judged(method, probes.Enumerated(method))
    assert passed == exact, said


@pytest.mark.parametrize("name", probes._GRAPHS)
def test_each_sound_kernel_of_a_graph_passes(folder, name):
    """Against the distribution by counting, of which a tenth of an sd would show."""
    method = prepare(probes.graph_probes()[name], folder)
    passed, said = probes.judged(method, probes.Enumerated(method))
    assert passed, said
    assert float(said.partition("off by ")[2].split()[0]) < 0.1


def test_a_mean_that_is_a_tenth_of_an_sd_off_would_show(folder):
    """A check without power that passes: the least visible error is printed, and is below 0.1 sd."""
    passed, said = probe("random walk", folder)
    assert passed
    assert float(said.partition("off by ")[2].split()[0]) < 0.1
