"""Chains that stay on one side of a border are found by the share that is known; healthy ones are not."""

import numpy as np
import pytest

from flyrun.experiments.report.sections.ess import sizes
from flyrun.ground.diagnostics.occupation import counts_off, stuck

DRAWS = 4_000
INDEPENDENT = np.full(4, 300.0)  # effective draws of θ of each chain


def chains(rng, share, stay, count=4):
    """Indicators (C, T) that are drawn anew with probability 1 − stay, and the first is from the share."""
    fresh = rng.random((count, DRAWS)) < share
    new = rng.random((count, DRAWS)) > stay
    new[:, 0] = True
    last = np.maximum.accumulate(np.where(new, np.arange(DRAWS), 0), axis=1)
    return np.take_along_axis(fresh, last, axis=1).astype(float)


def verdict(inside, design, independent=INDEPENDENT):
    moved = np.ptp(inside, axis=1) > 0
    effective = np.where(moved, sizes(inside.T), 0.0)
    return stuck(inside.mean(axis=1), effective, independent[: len(inside)], design)


@pytest.mark.parametrize("design", [0.9, 0.5, 0.1, 0.01])
def test_chains_that_stay_are_found(design):
    """All within, all beyond, each on a side of its own, and one alone among others that move."""
    rng, still = np.random.default_rng(1), np.zeros((4, DRAWS))
    assert verdict(1.0 + still, design)
    assert verdict(still, design) == (design >= 0.1)  # of 12 visits by design a tenth may be right
    assert verdict(still, design, 40 * INDEPENDENT)
    apart = still.copy()
    apart[:2] = 1.0
    assert verdict(apart, design)
    lonely = chains(rng, 0.5, 0.9)
    lonely[0] = 0.0
    assert verdict(lonely, 0.5)
    crossed = 1.0 * (np.arange(DRAWS) > 1_000)  # once
    assert verdict(np.tile(crossed, (4, 1)), 0.5)
    assert verdict(still, 0.5, np.full(4, np.nan))


@pytest.mark.slow
@pytest.mark.parametrize("stay", [0.0, 0.9, 0.97])
@pytest.mark.parametrize("design", [0.9, 0.5, 1e-4])
def test_healthy_chains_are_not(design, stay):
    """The posterior's share may be off the Gaussian's: odds three times as large here, and a third."""
    rng = np.random.default_rng([7, int(100 * stay)])
    wrong = 0
    for k in range(150):
        odds = design / (1 - design) * (3.0, 1.0, 1.0 / 3.0)[k % 3]
        wrong += verdict(chains(rng, odds / (1 + odds), stay), design)
    assert wrong == 0


def test_rare_sets_are_not_asked_for():
    assert not verdict(np.zeros((4, DRAWS)), 1e-4)
    assert not verdict(np.zeros((4, DRAWS)), 1e-100, 1e6 * INDEPENDENT)
    # and negative control: a set where a chain should hardly ever be
    assert verdict(np.ones((4, DRAWS)), 1e-4)


@pytest.mark.parametrize("mean", [0.02, 3.0, 400.0])
def test_counts_as_expected_are_not_off_and_others_are(mean):
    rng, size = np.random.default_rng(2), np.full(4, 200.0)
    for _ in range(200):
        expected = mean * rng.uniform(0.5, 1.5, 4)
        observed = rng.poisson(expected * size) / size
        assert not counts_off(observed, expected, size)
    assert counts_off(np.zeros(4), expected, size)
    assert counts_off(np.append(observed[:3], 8.0 * mean), expected, size)  # one chain of four
    assert not counts_off(np.zeros(4), np.zeros(4), size)
    assert counts_off(np.full(4, 0.01), np.zeros(4), size)
    assert not counts_off(observed, expected, np.full(4, np.nan))
