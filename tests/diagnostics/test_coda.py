"""The port of R-CODA's effectiveSize against R's own numbers (coda/README.md says where they come from)."""

import json
from pathlib import Path

import numpy as np
import pytest

from flyrun.ground.diagnostics import coda

FOLDER = Path(__file__).parent / "coda"
REFERENCE = json.loads((FOLDER / "coda_reference.json").read_text())["values"]


@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_matches_r(name):
    series = np.loadtxt(FOLDER / f"{name}.txt")
    assert coda.effective_size(series) == pytest.approx(REFERENCE[name]["ess"], rel=1e-9, abs=0)
    assert coda.spectrum(series[None]).order[0] == REFERENCE[name]["order"]


def test_columns_are_independent_of_each_other():
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(500, 4)).cumsum(axis=0) + rng.normal(size=(500, 4))
    draws[:, 2] = 0.1
    together = coda.effective_size(draws)
    alone = [coda.effective_size(draws[:, d]) for d in range(4)]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    assert together[2] == 0


def test_constant_and_linear_chains_have_no_effective_draws():
    assert coda.effective_size(np.full(100, 0.1)) == 0
    assert coda.effective_size(np.arange(100.0)) == 0


def test_autocovariance_equals_the_sum():
    series = np.random.default_rng(2).normal(size=(2, 37)) + 3
    centred = series - series.mean(axis=1, keepdims=True)
    expected = [(centred[:, : 37 - k] * centred[:, k:]).sum(axis=1) / 37 for k in range(9)]
    np.testing.assert_allclose(coda.autocovariance(series, 8), np.transpose(expected), atol=1e-14)


def test_yule_walker_solves_the_normal_equations():
    covariance = coda.autocovariance(np.random.default_rng(3).normal(size=(1, 200)).cumsum(axis=1), 6)
    variance, total = coda.yule_walker(covariance)
    gamma = covariance[0]
    for order in range(1, 7):
        matrix = gamma[np.abs(np.subtract.outer(np.arange(order), np.arange(order)))]
        phi = np.linalg.solve(matrix, gamma[1 : order + 1])
        assert total[0, order] == pytest.approx(phi.sum(), rel=1e-9)
        assert variance[0, order] == pytest.approx(gamma[0] - phi @ gamma[1 : order + 1], rel=1e-9)


@pytest.mark.parametrize("bad", [np.zeros((2, 2)), np.zeros((5, 2, 2)), np.array([1.0, np.nan, 2.0, 3.0])])
def test_rejects_what_it_cannot_fit(bad):
    with pytest.raises(ValueError, match="draws"):
        coda.effective_size(bad)
