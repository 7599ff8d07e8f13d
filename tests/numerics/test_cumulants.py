"""Compiled densities and slopes of many rows are those of the families."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from flyrun.families.family import family
from flyrun.ground.numerics.cumulants import KERNELS


@pytest.mark.parametrize("name", ["binomial", "poisson"])
def test_values_and_slopes_are_the_familys(name: str) -> None:
    rng, its = np.random.default_rng(0), family(name)
    eta = np.concatenate([4.0 * rng.standard_normal((200, 8)), [[-800.0] * 8, [-40.0] * 8, [40.0] * 8]])
    trials = rng.integers(1, 9, len(eta)).astype(float) if name == "binomial" else np.ones(len(eta))
    y, weights = rng.integers(0, 1 + trials).astype(float), rng.uniform(0.0, 3.0, len(eta))
    columns = y[:, None], trials[:, None], [eta]
    each, slopes = its.log_density(*columns), its.derivatives(*columns)[0][0]
    for valued in (True, False):
        out, total = eta.copy(), np.ones(8)
        KERNELS[its.cumulant](y, trials, weights, out, valued, total)
        assert_allclose(out, weights[:, None] * slopes, rtol=1e-13, atol=1e-13)
        assert_allclose(total, 1.0 + valued * (weights @ each), rtol=1e-13)
