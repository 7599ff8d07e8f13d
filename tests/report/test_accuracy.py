"""How far answers are off: what they are held against, the sign and size of a bias, what is marked as far."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.accuracy.posterior_errors import Answer, Truth, at_budget, errors
from flyrun.experiments.accuracy.truth import together, truth_of
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.sections import accuracy, ess

SETTINGS = {"dataset": {"name": "none"}, "model": {"name": "none"}}


def _arm(name, exact, mean, sd, read, size=400.0, answers="draws"):
    cell = SimpleNamespace(
        final_mean=mean, final_sd=sd, draws_mean=mean, draws_sd=sd,
        ess=[size, size], square=[size / 2, size], free=[], free_square=[],
        queries_per_iter=2.0 * read, bright_mean=read, n_iterations=4_000, accept_rate=0.3,
        total_queries=1e6, total_seconds=1.0, total_visits=1e6,
    )  # fmt: skip
    facts = {"exact": exact, "n_data": 1_000, "setup_queries": 8_000}
    info = {"facts": facts, "settings": SETTINGS, "timings": {"sampling_s": 1.0}, "answers": answers}
    pooled = SimpleNamespace(names=["mu", "log_sd"])
    return ArmResult(name, 1, (info,), (cell,), pooled, {0: "done"}, {}, {})


REGULAR = _arm("regular", True, [1.0, 2.0], [0.1, 0.2], 1_000.0)
BIASED = _arm("austerity", False, [1.05, 1.6], [0.1, 0.8], 50.0)
DENSITY = _arm("laplace", False, [1.05, 1.6], [0.1, 0.8], 50.0, answers="density")


def test_a_bias_has_a_sign_and_is_in_sds_of_the_exact_arm():
    row = accuracy.SECTION.cells_of(Run({}, (REGULAR, BIASED), ""), BIASED)
    assert (row["off_worst"], row["off_worst_of"]) == (pytest.approx(-2.0), "log_sd")
    assert row["off"] == pytest.approx(np.sqrt((0.5**2 + 2.0**2) / 2))
    assert row["off_worst_error"] == pytest.approx(np.hypot(4.0 / 20, 1 / 20))  # sd × 4 of its own 1/√400
    assert row["sd_ratio"] == pytest.approx(2.0)
    assert (row["sd_ratio_least"], row["sd_ratio_most"]) == (pytest.approx(1.0), pytest.approx(4.0))
    assert row["data_read"] == pytest.approx(0.05)
    assert row["queries_per_draw"] == pytest.approx(100 * 4_000 / 300)  # of squares 200 and 400
    assert row["queries_per_draw_with_setup"] == pytest.approx(100 * 4_000 / 300 + 8.0)
    assert row["truth"] == "arm regular"


def test_beside_a_density_each_seed_is_judged_by_what_it_hands_in():
    run = Run({}, (REGULAR, BIASED, DENSITY), "")
    chain, density = (accuracy.SECTION.cells_of(run, arm) for arm in (BIASED, DENSITY))
    for name in ("off", "off_worst", "sd_ratio", "sd_ratio_least", "sd_ratio_most", "truth"):
        assert chain[name] == density[name]
    assert chain["off_worst"] == pytest.approx(2.0)  # a size: over seeds signs would cancel
    assert "off_error" not in chain


def _seeds(name, means, sds, exact, size=400.0, **facts):
    """An arm of one seed for each of the means."""
    arms = [_arm(name, exact, mean, sd, 50.0, size) for mean, sd in zip(means, sds, strict=True)]
    infos = tuple({**one.infos[0], "facts": {**one.infos[0]["facts"], **facts}} for one in arms)
    cells = tuple(one.cells[0] for one in arms)
    return ArmResult(
        name, len(arms), infos, cells, arms[0].pooled, dict.fromkeys(range(len(arms)), "done"), {}, {}
    )


def test_splits_are_judged_one_by_one_in_absolute_value_with_their_own_spread():
    """Errors of mu of −.46, .17 and .88 sds: together they are .2 off, which says nothing of any split."""
    means = [[1.0 - 0.046, 2.0], [1.017, 2.0], [1.088, 2.0]]
    split = _seeds("rejection", means, [[0.1, 0.2]] * 3, False, one_target=False)
    row = accuracy.SECTION.cells_of(Run({}, (REGULAR, split), ""), split)
    each = np.array([0.46, 0.17, 0.88])
    assert row["off_worst"] == pytest.approx(each.mean())
    assert row["off_worst_error"] == pytest.approx(each.std(ddof=1) / np.sqrt(3))
    assert row["off"] == pytest.approx(each.mean() / np.sqrt(2))
    assert row["off_error"] == pytest.approx(each.std(ddof=1) / np.sqrt(6))
    assert (row["judged"], row["off_worst_of"], row["off_the_truth"]) == ("each split", "mu", False)
    assert "+" not in accuracy._worst(row)


def test_splits_that_are_surely_off_are_marked():
    split = _seeds("full", [[1.1, 2.0], [0.9, 2.0], [1.1, 2.0]], [[0.1, 0.2]] * 3, False, one_target=False)
    row = accuracy.SECTION.cells_of(Run({}, (REGULAR, split), ""), split)
    assert row["off_the_truth"]
    assert row["off_worst"] == pytest.approx(1.0)  # signed, they would have been a third of that off


def test_what_seeds_differ_by_is_in_the_error_of_draws_put_together():
    """Chains that stay in modes of their own have many effective draws, and tell little."""
    stuck = _seeds("stuck", [[0.9, 2.0], [1.1, 2.0], [1.13, 2.0]], [[0.02, 0.2]] * 3, False)
    row = accuracy.SECTION.cells_of(Run({}, (REGULAR, stuck), ""), stuck)
    assert row["off_worst"] == pytest.approx(0.4333, rel=1e-3)
    assert row["off_worst_error"] > 0.7
    assert not row["off_the_truth"] or "mean" not in row["off_z_of"]


def test_it_is_shown_where_an_arm_is_biased_and_that_arm_has_no_speedup():
    both = Run({}, (REGULAR, BIASED), "")
    assert accuracy.SECTION.wanted(both)
    assert not accuracy.SECTION.wanted(Run({}, (REGULAR,), ""))
    assert ess.base_of(both, BIASED) is None
    assert ess.base_of(both, REGULAR) is REGULAR


def test_few_effective_draws_are_told_of():
    few = _arm("few", False, [1.0, 2.0], [0.1, 0.2], 50.0, size=100.0)
    (text,) = accuracy.SECTION.arm_caveats(Run({}, (REGULAR, few), ""), few)
    assert text == "its bias rests on 75 effective draws, by the worse of means and squares."


@pytest.mark.parametrize(("z", "far"), [(3.1, False), (3.3, True)])
def test_a_mean_and_an_sd_are_off_where_one_of_two_is_as_rare_as_three_errors(z, far):
    truth = Truth(np.zeros(1), np.ones(1), np.zeros(1), "it")
    answer = Answer(np.array([[z * 0.01]]), np.ones((1, 1)), np.full((1, 1), 0.01), np.full((1, 1), 0.01))
    found = accuracy._together(answer, truth, ["theta"], 1)
    assert found["off_z"] == pytest.approx(z)
    assert found["off_the_truth"] is far
    assert accuracy._together(answer, truth, ["theta"], 10)["off_the_truth"] is False  # the largest of ten


def test_an_sd_errs_by_the_effective_draws_of_squares_not_of_means():
    """Antithetic chains have many more of θ than of (θ - mean)²: their sds are not as sure as their means."""
    found = together(_arm("antithetic", True, [0.0, 0.0], [1.0, 1.0], 100_000.0, size=800.0))
    one = errors(found, Truth(np.zeros(2), np.ones(2), np.zeros(2), "it"))
    np.testing.assert_allclose(one.error, [[800**-0.5, 800**-0.5]])
    np.testing.assert_allclose(one.ratio_error, [[800**-0.5, 1600**-0.5]])  # of 400 squares, and of 800


def test_what_an_arm_is_held_against_is_quadrature_before_the_stored_reference_before_an_exact_arm():
    run = Run({}, (REGULAR, BIASED), "")
    assert truth_of(run, BIASED).source == "arm regular"
    assert truth_of(Run({}, (BIASED,), ""), BIASED) is None
    known = SimpleNamespace(exact_mean=[0.0, 0.0], exact_sd=[1.0, 1.0])
    by_grid = ArmResult("it", 1, BIASED.infos, BIASED.cells, known, {}, {}, {})
    assert truth_of(run, by_grid).source == "quadrature"


def test_ratios_have_one_kind_of_mean_and_may_be_unknown():
    truth = Truth(np.zeros(2), np.array([1.0, 2.0]), np.zeros(2), "it")
    one = errors(Answer(np.ones((3, 2)), np.array([[1.0, 8.0]] * 3)), truth)
    assert one.sd_ratio == pytest.approx([2.0] * 3)
    assert errors(Answer(np.ones((3, 2)), np.empty((3, 0))), truth).ratio.shape == (3, 0)


def test_at_a_budget_stands_what_was_last_handed_in():
    spent, values = np.array([10.0, 20.0]), np.array([[1.0, 5.0], [2.0, 6.0]])
    found = at_budget(spent, [5.0, 10.0, 19.0, 1e9], values)
    np.testing.assert_array_equal(found, [[np.nan, np.nan], [1, 5], [1, 5], [2, 6]])
    np.testing.assert_array_equal(at_budget(spent, 20.0, values), [2, 6])
