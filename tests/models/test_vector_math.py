"""The vectorised functions against the C library in extended precision."""

import numba
import numpy as np
import pytest

from flyrun.models import vector_math

RNG = np.random.default_rng(0)


def _apply(function, x):
    @numba.njit
    def loop(x, out):
        for i in range(x.shape[0]):
            out[i] = function(x[i])

    out = np.empty_like(x)
    loop(x, out)
    return out


@pytest.mark.parametrize(
    ("name", "reference", "x"),
    [
        ("exp_negative", np.exp, -np.concatenate([10.0 ** RNG.uniform(-18, 2.85, 20_000), [0.0, 708.0]])),
        ("one_minus_exp_negative", lambda x: -np.expm1(x), -(10.0 ** RNG.uniform(-300, 5, 20_000))),
        ("log_positive", np.log, 10.0 ** RNG.uniform(-300, 300, 20_000)),
        ("log_positive", np.log, 1.0 + RNG.normal(0.0, 0.05, 20_000)),
        ("log1p_unit", np.log1p, np.concatenate([10.0 ** RNG.uniform(-300, 0, 20_000), [0.0, 1.0]])),
    ],
)
def test_within_two_units_in_the_last_place(name, reference, x):
    expected = reference(x.astype(np.longdouble))
    error = np.abs(_apply(getattr(vector_math, name), x) - expected)
    assert np.all(error <= 2.0 * np.spacing(np.abs(expected).astype(float)))


def test_far_below_the_range_exp_is_negligible_and_not_infinite():
    assert np.all(_apply(vector_math.exp_negative, np.array([-709.0, -1e300, -np.inf])) < 1e-307)
