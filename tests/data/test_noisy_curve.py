"""The generated curve: the recipe's noise, test rows without any, the same rows from the same seed."""

import numpy as np

import flyrun.experiments.data
from flyrun.experiments.config.dataset.row_data import NoisyCurve
from flyrun.experiments.data.toys import curve


def test_rows_follow_the_recipe():
    data = flyrun.experiments.data.load(NoisyCurve(n_data=20_000, noise=0.3))
    x = data.features[:, 0]
    assert data.task == "regression"
    assert abs(x).max() < 1
    assert abs(x.mean()) < 0.02
    assert abs((data.target - curve(x)).std() - 0.3) < 0.01
    np.testing.assert_array_equal(data.test_target, curve(data.test_features[:, 0]))
    np.testing.assert_allclose(curve(np.array([0.0, 0.5])), [0.5, np.sin(1.5) + 0.5 * np.cos(5.0)])


def test_seed_and_numbers_make_the_data():
    configs = [NoisyCurve(), NoisyCurve(), NoisyCurve(seed=1), NoisyCurve(noise=0.2), NoisyCurve(n_data=99)]
    assert len({flyrun.experiments.data.load(config).target.tobytes() for config in configs}) == 4
    assert len({flyrun.experiments.data.fingerprint(config) for config in configs}) == 4
