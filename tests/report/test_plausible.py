"""What a cell hands in is held against what can be: finite, with a spread, within what the prior allows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.sections import plausible

RNG = np.random.default_rng(4)
GOOD = RNG.standard_normal((200, 2)) + 1.0
SETTINGS = {"model": {"name": "logistic"}, "prior": {"name": "gaussian"}}
FACTS = {"prior_scale": 2.0, "coordinates": ["dose", "bias"]}


class _Stored:
    """A cell with these groups."""

    def __init__(self, settings=SETTINGS, facts=FACTS, **groups):
        self.info, self.facts, self.groups = {"settings": settings}, facts, groups

    def real(self):
        return "posterior" in self.groups

    def positions(self):
        return self.groups["posterior"]

    def values(self, group, name):
        return self.groups.get(group, {}).get(name)


def said(stored):
    cell = SimpleNamespace(**plausible.summarise(stored))
    arm = ArmResult("a", 1, ({},), (cell,), None, {0: "done"}, {}, {})
    return plausible.SECTION.arm_caveats(Run({}, (arm,), ""), arm) if plausible.SECTION.about(arm) else None


def weighted(theta, log_weight):
    return {"weighted": {"theta": theta, "log_weight": log_weight}}


def density(mean, covariance):
    return {"approximation": {"mean": np.array(mean), "covariance": np.array(covariance)}}


def estimate(mean, square):
    return {"estimate": {"mean": np.array(mean), "square": np.array(square)}}


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ({"posterior": GOOD}, ""),
        ({"posterior": np.where(np.arange(200)[:, None] == 3, np.inf, GOOD)}, "2 of its means or sds are no"),
        ({"posterior": GOOD * [1e-20, 1.0] + [7.0, 0.0]}, "1 of its sds are below 1e-14 of their means"),
        ({"posterior": GOOD * 1e-9}, ""),  # small, of a small unit
        ({"posterior": GOOD + np.array([0.0, 16.0])}, "its mean of bias is 8.5 prior scales from 0"),
        (weighted(GOOD, np.zeros(200)), ""),
        (weighted(GOOD, np.full(200, -np.inf)), "2 of its means or sds are no"),
        (weighted(GOOD * 1e160, np.zeros(200)), "2 of its means or sds are no"),
        (density([0.0, 1.0], np.eye(2)), ""),
        (density([0.0, np.nan], np.eye(2)), "1 of its means or sds are no"),
        (density([0.0, 1.0], -np.eye(2)), "2 of its means or sds are no"),
        (density([-3.2e154, 1.0], np.diag([6e139, 1.0])), "its sds are below 1e-14"),
        (estimate([[np.nan], [1.0]], [[1.0], [2.0]]), ""),  # what counts is the last one
        (estimate([[1.0], [np.inf]], [[1.0], [2.0]]), "1 of its means or sds are no"),
    ],
)
def test_what_cannot_be_an_answer_has_a_line(groups, text):
    lines = said(_Stored(**groups))
    assert bool(lines) == bool(text), lines
    assert text in " ".join(lines)


def test_numbers_with_priors_of_their_own_are_not_held_against_the_coefficients():
    far = {"posterior": GOOD + 100.0}
    assert said(_Stored(**far))
    assert said(_Stored({**SETTINGS, "model": {"name": "gamma"}}, **far)) == []
    assert said(_Stored({**SETTINGS, "prior": {"name": "of another package"}}, **far)) == []
    assert said(_Stored({**SETTINGS, "prior": {"name": "laplace"}}, **far))
    assert said(_Stored(facts={}, **far)) == []
    assert said(_Stored({**SETTINGS, "prior": {"name": "laplace"}}, posterior=GOOD + 60.0)) == []


def test_what_has_no_moments_is_not_judged():
    assert said(_Stored()) is None
    assert said(_Stored(weighted={"theta": np.arange(3), "log_weight": np.zeros(3)})) is None
