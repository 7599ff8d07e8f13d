"""Slopes on logarithmic scales: of powers, of noise, of the published formulas; what a sweep lets grow."""

import math

import numpy as np
import pytest

from flyrun.experiments.report.arms import ArmResult
from flyrun.experiments.report.sections.scaling import COSTS, PARAMETERS, slope, swept

pytestmark = pytest.mark.figures


def _sizes(delta=250.0, d=10.0, largest=2.0, total=16.0):
    return {"Delta": delta, "D": d, "L": largest, "Psi": total}


def test_slope_of_a_power_is_its_exponent():
    x = np.array([1.0, 3.0, 10.0, 40.0])
    for exponent in (-1.0, 0.0, 0.5, 2.0):
        fitted, se = slope(x, 7.0 * x**exponent)
        assert fitted == pytest.approx(exponent, abs=1e-12)
        assert se == pytest.approx(0.0, abs=1e-12)


def test_standard_error_is_that_of_least_squares():
    rng = np.random.default_rng(0)
    x = np.geomspace(1, 100, 6)
    found = np.array([slope(x, x * np.exp(0.1 * rng.standard_normal(6))) for _ in range(4000)])
    spread = 0.1 / np.sqrt(((np.log(x) - np.log(x).mean()) ** 2).sum())
    assert found[:, 0].mean() == pytest.approx(1.0, abs=4 * spread / np.sqrt(4000))
    assert found[:, 0].std() == pytest.approx(spread, rel=0.05)
    assert np.sqrt((found[:, 1] ** 2).mean()) == pytest.approx(spread, rel=0.05)


def test_what_has_no_slope():
    assert all(map(math.isnan, slope(np.array([2.0]), np.array([1.0]))))
    assert all(map(math.isnan, slope(np.array([2.0, 2.0]), np.array([1.0, 3.0]))))
    assert all(map(math.isnan, slope(np.array([2.0, 4.0]), np.array([0.0, 3.0]))))
    fitted, se = slope(np.array([2.0, 4.0]), np.array([1.0, 4.0]))
    assert fitted == pytest.approx(2.0)
    assert math.isnan(se)


def test_published_exponents():
    found = {name: [cost.exponent(p) for p in ("D", "Delta", "L", "Psi")] for name, cost in COSTS.items()}
    assert found == {
        "gibbs": ["1", "1", "0", "0"],
        "min_gibbs": ["1", "0", "0", "2"],
        "local_minibatch": ["1", "0", "0", "0"],
        "mgpmh": ["0 to 1", "0 to 1", "0 to 2", "0"],
        "double_min": ["0 to 1", "0", "0 to 2", "0 to 2"],
        "poisson_gibbs": ["1", "0", "2", "0"],
    }
    assert COSTS["mgpmh"].at(_sizes()) == 10 * 4 + 250
    assert COSTS["double_min"].at(_sizes()) == 10 * 4 + 256


def _arm(name, sizes, base="", axis=""):
    facts = {fact: sizes[parameter] for parameter, (_, fact, _) in PARAMETERS.items()}
    info = {"settings": {"sampler": {"name": "gibbs"}}, "facts": facts}
    sweep = {"arm": base, "axis": axis, "point": 1} if base else None
    return ArmResult(name, 1, (info,), (None,), None, {}, {}, {}, sweep)


def test_of_a_sweep_what_alone_grows_is_shown():
    arms = [
        _arm("g", _sizes()),
        _arm("far", _sizes(delta=25_000), "g", "degree"),
        _arm("near", _sizes(delta=2500), "g", "degree"),
        _arm("one", _sizes(d=20), "g", "values"),
        _arm("bigger", _sizes(total=32 * (1 + 1e-9)), "g", "total"),
        _arm("smaller", _sizes(total=8, largest=2 * (1 + 1e-9)), "g", "total"),
        _arm("many", _sizes(delta=800, d=20), "g", "many"),
        _arm("more", _sizes(delta=900, d=30), "g", "many"),
        _arm("same", _sizes(), "g", "batch"),
        _arm("again", _sizes(), "g", "batch"),
    ]
    found = {parameter: [arm.name for arm in own] for (_, parameter), own in swept(arms).items()}
    assert found == {"Delta": ["g", "near", "far"], "Psi": ["smaller", "g", "bigger"]}
    assert swept(arms[1:]) == {}
