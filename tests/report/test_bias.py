"""Biased draws beside exact ones: the bias with its sign, what was read, what a draw cost; no speedup."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.report.arms import ArmResult, Run
from flyrun.report.sections import bias, ess

SETTINGS = {"dataset": {"name": "none"}, "model": {"name": "none"}}


def _arm(name, exact, mean, sd, read, size=400.0):
    cell = SimpleNamespace(
        final_mean=mean, draws_mean=mean, draws_sd=sd,
        ess=[size, size], square=[size / 2, size], free=[], free_square=[],
        queries_per_iter=2.0 * read, bright_mean=read, n_iterations=4_000, accept_rate=0.3,
    )  # fmt: skip
    facts = {"exact": exact, "n_data": 1_000, "setup_queries": 8_000}
    info = {"facts": facts, "settings": SETTINGS, "timings": {"sampling_s": 1.0}}
    pooled = SimpleNamespace(names=["mu", "log_sd"])
    return ArmResult(name, 1, (info,), (cell,), pooled, {0: "done"}, {}, {})


REGULAR = _arm("regular", True, [1.0, 2.0], [0.1, 0.2], 1_000.0)
BIASED = _arm("austerity", False, [1.05, 1.6], [0.1, 0.8], 50.0)


def test_bias_has_a_sign_and_is_in_sds_of_the_exact_arm():
    row = bias.SECTION.row(Run({}, (REGULAR, BIASED), ""), BIASED)
    assert (row["bias_worst"], row["bias_worst_of"]) == (pytest.approx(-2.0), "log_sd")
    assert row["bias"] == pytest.approx(np.sqrt((0.5**2 + 2.0**2) / 2))
    assert row["bias_worst_error"] == pytest.approx(np.hypot(4.0 / 20, 1 / 20))  # sd × 4 of its own 1/√400
    assert (row["sd_ratio"], row["sd_ratio_worst"]) == (pytest.approx(2.0), pytest.approx(4.0))
    assert row["data_read"] == pytest.approx(0.05)
    assert row["queries_per_draw"] == pytest.approx(100 * 4_000 / 300)  # of squares 200 and 400
    assert row["queries_per_draw_with_setup"] == pytest.approx(100 * 4_000 / 300 + 8.0)
    assert row["bias_reference"] == "arm regular"


def test_it_is_shown_where_an_arm_is_biased_and_that_arm_has_no_speedup():
    both = Run({}, (REGULAR, BIASED), "")
    assert bias.SECTION.wanted(both)
    assert not bias.SECTION.wanted(Run({}, (REGULAR,), ""))
    assert ess.base_of(both, BIASED) is None
    assert ess.base_of(both, REGULAR) is REGULAR


def test_few_effective_draws_are_told_of():
    few = _arm("few", False, [1.0, 2.0], [0.1, 0.2], 50.0, size=100.0)
    (text,) = bias.SECTION.arm_caveats(Run({}, (REGULAR, few), ""), few)
    assert text == "its bias rests on 75 effective draws, by the worse of means and squares."
