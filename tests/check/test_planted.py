"""The probes of `flyrun check`: each planted error is found, and what is sound passes."""

from __future__ import annotations

import pytest

from flyrun.check import probes
from flyrun.prove.posteriors import Truth
from flyrun.samplers.method import prepare
from tests.check.planted import ACCEPTANCE, DRIFT, SOUND, TEMPERATURE, Planted, TooReady

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


def test_a_mean_that_is_a_tenth_of_an_sd_off_would_show(folder):
    """A check without power that passes: the least visible error is printed, and is below 0.1 sd."""
    passed, said = probe("random walk", folder)
    assert passed
    assert float(said.partition("off by ")[2].split()[0]) < 0.1
