"""The toy data: the recipe's means, both labels, the same rows from the same seed."""

import numpy as np

import flyrun.experiments.data
from flyrun.experiments.config.dataset.row_data import Toy2d


def test_rows_follow_the_recipe():
    data = flyrun.experiments.data.load(Toy2d(n_data=20_000, separation=3.0))
    assert data.features.shape == (20_000, 3)
    assert data.target.sum() == 0
    np.testing.assert_array_equal(data.features[:, 2], 1)
    for label in (-1, 1):
        rows = data.features[data.target == label, :2]
        np.testing.assert_allclose(rows.mean(axis=0), label * 1.5 / np.sqrt(2), atol=0.05)
        np.testing.assert_allclose(np.cov(rows.T), np.eye(2), atol=0.05)


def test_seed_and_numbers_make_the_data():
    first, again = (flyrun.experiments.data.load(Toy2d()) for _ in range(2))
    np.testing.assert_array_equal(first.features, again.features)
    others = [Toy2d(seed=1), Toy2d(separation=2.0), Toy2d(n_data=41)]
    digests = {flyrun.experiments.data.fingerprint(config) for config in [Toy2d(), *others]}
    assert len(digests) == 4
    assert not np.array_equal(first.features, flyrun.experiments.data.load(others[0]).features)
