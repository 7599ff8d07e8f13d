"""Special functions beside SciPy's."""

import numpy as np
import pytest
from scipy.special import zeta

from flyrun.ground.numerics.special import trigamma


@pytest.mark.parametrize("x", [np.exp(np.linspace(-300.0, 300.0, 20_001)), 0.7, np.linspace(0.1, 20.0, 7)])
def test_trigamma_is_hurwitz_zeta(x):
    np.testing.assert_allclose(trigamma(x), zeta(2.0, x), rtol=4e-15)
    assert np.any(np.abs(trigamma(x) / zeta(2.0, np.multiply(x, 1.0 + 1e-13)) - 1.0) > 4e-15)  # the control
