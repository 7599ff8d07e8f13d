"""Mass far from the mode along a number: it is visited whatever draws see, and variances have it."""

import numpy as np
import pytest

from flyrun.families.family import family
from flyrun.fitting import mode, ridges, weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.rows_posterior import Expansion, Posterior
from flyrun.fitting.table_rows import Rows

SHARE, FAR, SD = 0.004, 7.0, 3.0
TRUE_SD = np.sqrt(1.0 + SHARE * (SD**2 - 1.0) + SHARE * (1.0 - SHARE) * FAR**2)


class Tail:
    """The second number follows the first, and a few in a thousand of the third are far to one side."""

    rows, size, n_coefficients = range(20), 3, 2

    def log_density(self, x):
        near = np.log(1.0 - SHARE) - 0.5 * x[:, 2] ** 2
        far = np.log(SHARE / SD) - 0.5 * ((x[:, 2] - FAR) / SD) ** 2
        return np.logaddexp(near, far) - 0.5 * x[:, 0] ** 2 - 0.5 * ((x[:, 1] - 2.0 * x[:, 0]) / 0.5) ** 2

    def likelihood_at(self, x):
        step, eye = 1e-3, 1e-3 * np.eye(3)
        there = [
            self.log_density(np.array([x + a + b, x + a - b, x - a + b, x - a - b])) for a in eye for b in eye
        ]
        curvature = -np.array([(a - b - c + d) / (4.0 * step**2) for a, b, c, d in there]).reshape(3, 3)
        slope = np.array([np.diff(self.log_density(np.array([x - a, x + a])))[0] for a in eye]) / (2.0 * step)
        return Expansion(x, self.log_density(x[None])[0], slope, curvature)

    def prior_at(self, x):
        return Expansion(x, 0.0, np.zeros(3), np.zeros((3, 3)))


def draws(far, seed):
    rng = np.random.default_rng(seed)
    first = weighted_draws.by_all_rows(Tail(), weighted_draws.Mixture.of(np.zeros(3), SHAPE), rng, 2_000, 1)
    return weighted_draws.by_parts(Tail(), first, rng, far)


SHAPE = np.array([[1.0, 2.0, 0.0], [2.0, 4.25, 0.0], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize("seed", range(3))
def test_a_tail_of_little_mass_has_draws(seed):
    far = ridges.along(Tail(), np.zeros(3), SHAPE)
    centres = np.array([part.centre for part in far])
    assert centres[:, 2].max() > 10.0
    after = draws(far, seed)
    assert weighted_draws._unseen(Tail(), after, centres).sum() <= 1
    sd = np.sqrt(np.diag(after.moments()[1]))
    assert abs(sd[2] / TRUE_SD - 1.0) < 0.04
    # the control: without the walk, variances are told about as surely, of draws that lack the tail
    assert weighted_draws._unseen(Tail(), draws((), seed), centres).any()


def test_others_follow_along_a_number():
    """Columns that are all but alike: their sum is known and their difference is not."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 1)) + 0.05 * rng.standard_normal((30, 2))
    made = Posterior(
        family("logistic"),
        Rows(x, (rng.random(30) < 0.5).astype(float)),
        CoefficientPrior(np.zeros(2), np.ones(2)),
    )
    at, likelihood = mode.find(made)
    shape = mode.covariance(likelihood.curvature + made.prior_at(at).curvature)
    centres = np.array([part.centre for part in ridges.along(made, at, shape)]) - at
    assert np.abs(centres).max() > 2.0
    assert np.abs(centres.sum(axis=1)).max() < np.abs(centres).max()
    for part in ridges.along(made, at, shape):  # of a log density that is all but quadratic, Gauss's
        mahalanobis = (part.centre - at) @ np.linalg.solve(shape, part.centre - at)
        assert (
            abs(made.log_density(at[None])[0] - made.log_density(part.centre[None])[0] - 0.5 * mahalanobis)
            < 1.5
        )
