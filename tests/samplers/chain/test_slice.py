"""Slice sampling: one update with planted randomness, evaluations, tuning, NaN."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from flyrun.experiments.models.likelihood import Quadratic, quadratic
from flyrun.experiments.samplers.chain import slice
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.targets.target import keep, kept_log_data, log_data
from flyrun.experiments.samplers.chain.update import update
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.compiled import implements
from tests.exactness.chains import full_target, sample, student_t_toy, z_scores
from tests.exactness.enumeration import interpreted

PROBLEM = student_t_toy()


class Recorder(NamedTuple):
    """A standard normal log density that counts evaluations and remembers what it was asked to keep."""

    base: Quadratic
    asked: list
    kept: list


@implements(log_data, Recorder)
def _log_data(target, theta, gradient):
    target.asked.append(theta.copy())
    return 0.0


@implements(keep, Recorder)
def _keep(target):
    target.kept.append(len(target.asked))


@implements(kept_log_data, Recorder)
def _kept_log_data(target, gradient):
    return 0.0


class Planted:
    """A generator with known draws: the direction is the first axis."""

    def __init__(self, exponential, uniforms):
        self.normals, self.exponential, self.uniforms = iter([2.0, 0.0]), exponential, iter(uniforms)

    def standard_normal(self):
        return next(self.normals)

    def standard_exponential(self):
        return self.exponential

    def random(self):
        return next(self.uniforms)


def _update(exponential, uniforms, width=1.0, most_widenings=20, first=0.5):
    target = Recorder(quadratic(np.eye(2), np.zeros(2), 0.0), [], [])
    kernel = slice.build(SimpleNamespace(width=width, most_widenings=most_widenings), 2)
    theta = np.array([first, 0.0])
    plain = {"_log_density_along": slice._log_density_along, "_refuse_nan": slice._refuse_nan}
    rng = Planted(exponential, uniforms)
    try:
        slice._refuse_nan = interpreted(slice._refuse_nan)
        slice._log_density_along = interpreted(slice._log_density_along)
        update.methods[slice.Slice](kernel, rng, target, theta)
    finally:
        for name, function in plain.items():
            setattr(slice, name, function)
    return theta, [float(point[0]) for point in target.asked], target.kept, kernel


def test_one_update_steps_out_shrinks_and_keeps_the_point_evaluated_last():
    # Level: −½·0.25 − 1.875 = −2, so the slice is |x| < 2. First interval: 0.5 + (−0.25, 0.75).
    # Half of 21 widenings go each way: left ends 0.25, −0.75, −1.75, −2.75 (out); right 1.25, 2.25 (out).
    # Then −2.75 + 5·0.95 = 2.0 is not above the level: right end. −2.75 + 4.75·0.4 = −0.85 is.
    theta, asked, kept, kernel = _update(1.875, [0.25, 0.5, 0.95, 0.4])
    np.testing.assert_allclose(asked, [0.25, -0.75, -1.75, -2.75, 1.25, 2.25, 2.0, -0.85], atol=1e-12)
    assert theta[0] == pytest.approx(-0.85)
    assert kept == [8]
    assert kernel.counts.tolist() == [4, 1]


def test_the_number_of_widenings_is_bounded_and_shared_at_random():
    # 3 widenings, 0.3·4 = 1 of them to the left; all of both sides is inside the slice |x| < 10
    _, asked, _, kernel = _update(49.875, [0.25, 0.3, 0.5], most_widenings=3)
    np.testing.assert_allclose(asked[:-1], [0.25, 1.25, 2.25], atol=1e-12)
    assert kernel.counts.tolist() == [3, 0]
    _, asked, _, _ = _update(49.875, [0.25, 0.3, 0.5], most_widenings=0)
    assert len(asked) == 1


@pytest.mark.thorough
def test_every_evaluation_is_metered_and_the_start_is_not():
    target = full_target(PROBLEM)
    kernel = slice.build(SimpleNamespace(width=0.05, most_widenings=20), 2)
    n_data = PROBLEM.features.rows.shape[0]
    for seed in range(50):
        draws = sample(target, kernel, NoBrightness(), [0.3, 0.0], 1, seed, burn_in=1)
        widened, narrowed = kernel.counts
        # each widening and narrowing is one evaluation, the last point is one, and each side's stepping out
        # ends at a point outside, unless its share of widenings ran out
        extra = draws.queries[0] / n_data - widened - narrowed - 1
        assert extra == 2 or (extra in (0, 1) and widened >= 1)


@pytest.mark.thorough
def test_width_is_tuned_to_a_balance_of_widening_and_narrowing():
    kernel = slice.build(SimpleNamespace(width=None, most_widenings=100), 2)
    sample(full_target(PROBLEM), kernel, NoBrightness(), [0, 0], 1, 3, burn_in=4000)
    tuned = kernel.step.current[0]
    assert tuned == pytest.approx(np.exp(kernel.step.average[0]))
    costs = {}
    for width in (tuned / 10, tuned, tuned * 10):
        kernel = slice.build(SimpleNamespace(width=width, most_widenings=100), 2)
        draws = sample(full_target(PROBLEM), kernel, NoBrightness(), [0.3, 0.0], 4000, 3)
        costs[width] = draws.queries.mean()
        assert kernel.step.current[0] == width  # a given width is kept
    assert costs[tuned] == min(costs.values())


@pytest.mark.thorough
def test_without_stepping_out_the_width_is_tuned_all_the_same():
    kernel = slice.build(SimpleNamespace(width=None, most_widenings=0), 2)
    draws = sample(full_target(PROBLEM), kernel, NoBrightness(), [0, 0], 20_000, 3, burn_in=4000)
    assert 1.0 < kernel.step.current[0] / PROBLEM.sd.max() < 20.0
    assert np.abs(z_scores(draws.theta, PROBLEM)).max() < 4.0


@pytest.mark.thorough
def test_a_density_that_turns_nan_raises_and_does_not_loop():
    rows = PROBLEM.features.rows.copy()
    rows[3, 0] = np.nan
    broken = full_target(PROBLEM._replace(features=type(PROBLEM.features)(rows)))
    kernel = slice.build(SimpleNamespace(width=0.1, most_widenings=20), 2)
    with pytest.raises(DensityError, match="not a number"):
        sample(broken, kernel, NoBrightness(), [0.0, 0.0], 10, 1, burn_in=5)


def test_a_density_that_is_not_the_one_kept_raises_and_does_not_loop():
    with pytest.raises(DensityError, match="shrank to its start"):
        _update(-5.0, [0.25, 0.5] + [0.45] * 300)
