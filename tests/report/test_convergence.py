"""Whether an answer that is come to by steps had settled: what it moved in the last half of them."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.sections import certificates, convergence


def _draws(mean, answers="density", sd=1.0):
    mean = np.array(mean, float)[:, None]
    known = {"step": np.arange(1, len(mean) + 1), "mean": mean, "square": mean**2 + sd**2}
    return SimpleNamespace(info={"answers": answers}, values=lambda group, name: known.get(name))


def _arm(*moved, **facts):
    cells = tuple(SimpleNamespace(moved_last_half=one) for one in moved)
    infos = tuple({"facts": facts, "settings": {}} for _ in moved)
    return ArmResult("it", len(moved), infos, cells, SimpleNamespace(), {}, {}, {})


@pytest.mark.parametrize(("mean", "moved"), [([4, 2, 1, 0.5], 1.5), ([4, 1, 1, 1], 0.0), ([0, 1, 0, 1], 0.0)])
def test_what_an_answer_moved_from_half_of_its_steps(mean, moved):
    assert convergence.summarise(_draws(mean))["moved_last_half"] == pytest.approx(moved)


def test_coordinates_that_still_moved_are_counted():
    draws = _draws([0.0] * 4)
    mean = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.01, 0.0, 2.0]])
    square = mean**2 + np.array([1.0, 1.0, 1.0])
    square[-1, 1] = 1.2
    known = {"step": np.arange(1, 5), "mean": mean, "square": square}
    draws.values = lambda group, name: known.get(name)
    assert convergence.summarise(draws)["coordinates_moved"] == 2, "one by its mean, one by its sd"


def test_one_step_and_draws_tell_nothing():
    assert convergence.summarise(_draws([3.0])) == {}
    assert convergence.summarise(_draws([3.0, 2.0], answers="draws")) == {}


def test_an_sd_that_still_grows_counts():
    draws = _draws([0.0] * 4)
    known = {name: draws.values("estimate", name) for name in ("step", "mean", "square")}
    known["square"] = np.array([[1.0], [1.0], [1.0], [4.0]])
    draws.values = lambda group, name: known.get(name)
    assert convergence.summarise(draws)["moved_last_half"] == pytest.approx(np.log(2))


def test_a_seed_that_still_moves_is_told_of():
    one = _arm(1e-6, 0.3)
    assert not convergence.settled(one)
    (text,) = convergence.SECTION.arm_caveats(Run({}, (one,), ""), one)
    assert text.startswith("1 of 2 seeds had not settled")
    assert convergence.SECTION.arm_caveats(Run({}, (), ""), _arm(1e-6, 1e-5)) == []


def test_a_divergence_is_known_only_where_every_seed_tells():
    """A seed whose variance is too large for it must not drop out of the mean."""
    facts = [{"certificate_variance": 0.01, "certificate_kl": 0.005}, {"certificate_variance": 9_000.0}]
    cells = tuple(SimpleNamespace() for _ in facts)
    arm = ArmResult("adf", 2, tuple({"facts": one} for one in facts), cells, SimpleNamespace(), {}, {}, {})
    row = certificates.SECTION.cells_of(Run({}, (arm,), ""), arm) | {"seeds": 2}
    assert np.isnan(row["certificate_kl"])
    assert certificates._kl(row) == "unknown of 1 of 2"
    assert row["certificate_variance"] == pytest.approx(4_500, rel=1e-3)
