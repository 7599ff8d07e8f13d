"""Table 1 of the particle mirror descent paper, measured: counts as formulas say, errors against the grid."""

import csv

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.method import prepare
from tools.theorems import pmd_costs as costs

COUNTED = ("svi", "one_pass_smc", "pmd_kernels")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        small = {name: costs.KINDS[name]._replace(sizes=(50, 200), runs=2) for name in COUNTED[1:]}
        patch.setattr(costs, "KINDS", {"svi": costs.KINDS["svi"]._replace(runs=2), **small})
        return {(row["method"], row["m"]): row for row in costs.rows(COUNTED)}


@pytest.mark.thorough
def test_what_is_kept_and_done_in_a_step(found):
    """d = 3, b = 10: m particles and weights; mean and covariance; a pair of all particles for kernels."""
    for m in (50, 200):
        smc, kernels = found["one_pass_smc", m], found["pmd_kernels", m]
        assert smc["kept"] == kernels["kept"] == 4 * m
        assert smc["queries_a_step"] == kernels["queries_a_step"] == 10 * m
        assert (smc["pairs_a_step"], kernels["pairs_a_step"]) == (0, m**2)
        assert smc["total_queries"] == 200 * m  # the rows once
    assert (found["svi", 1]["kept"], found["svi", 1]["queries_a_step"]) == (12, 10)


def test_the_grid_is_the_posterior_and_errors_are_of_it(tmp_path, monkeypatch):
    """Exact draws are at it within their noise; a mean that is one sd off shows as one sd."""
    mean, sd = costs.truth(tmp_path)
    words = (*costs.PROBLEM, "sampler=tempered_smc", "sampler.particles=1500")
    got, spread, _, _ = costs.one(prepare(arm_of(list(words), ()), tmp_path), 10, 0)
    assert np.abs((got - mean) / sd).max() < 0.15
    assert spread / sd == pytest.approx(1, abs=0.1)
    monkeypatch.setattr(costs, "truth", lambda folder: (mean + sd, sd))
    monkeypatch.setitem(costs.KINDS, "svi", costs.KINDS["svi"]._replace(runs=2))
    assert costs.rows(("svi",))[0]["off"] == pytest.approx(1, abs=0.1)


def test_what_is_published():
    """PMD's weighted particles fall as the root of m; kernel densities, whose bias stays, do not."""
    rows = list(csv.DictReader(costs.TABLE.open()))
    assert {row["method"] for row in rows} == set(costs.KINDS)
    slopes = {
        row["method"]: tuple(float(row[end]) for end in ("low", "high")) for row in rows if row["slope"]
    }
    assert slopes["pmd_weighted"][0] < -0.5
    assert slopes["pmd_kernels"][0] > -0.5
