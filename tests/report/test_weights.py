"""What weighted draws are worth, and certificates, in reports: of small runs, and by hand."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.build import build
from flyrun.experiments.report.sections import certificates, weights
from tests.report.test_sections import write_answer
from tests.stored import write_run

pytestmark = pytest.mark.figures

PROBLEM = ["dataset=toy_2d", "dataset.n_data=60", "model=logistic", "prior=gaussian"]
HOW = ["protocol.seeds=2", "protocol.burn_in=0", "executor.workers=1", "--quiet"]
HEADING = "How far approximations are, by their own certificate"
FAR = "its certificate's k̂ is"


def _run(folder, name, *words):
    """The row of a run of one arm, and its page."""
    assert main([*PROBLEM, *words, *HOW, f"name={name}", f"results_dir={folder}"]) == 0
    root = folder / "runs" / name
    return next(csv.DictReader((root / "table.csv").open())), (root / "report.md").read_text()


@pytest.mark.thorough
def test_a_run_of_weighted_draws_says_what_one_costs(tmp_path):
    row, page = _run(tmp_path, "drawn", "sampler=weighted", "protocol.iterations=400")
    number = {name: float(row[name]) for one in weights.METRICS for name in one.columns if row.get(name)}
    assert number["weighted_draws"] == 400
    assert 100 < number["weighted_effective"] < 400
    assert number["weighted_effective_sd"] > 0
    # near, as the mean of two ratios is not the ratio of means
    drawn = float(row["total_queries"]) - float(row["setup_queries"])
    each = number["queries_per_effective"]
    assert each == pytest.approx(drawn / number["weighted_effective"], rel=0.02)
    setup = float(row["setup_queries"]) / number["weighted_effective"]
    assert number["queries_per_effective_with_setup"] == pytest.approx(each + setup, rel=1e-6)
    assert 0 < number["weight_k_hat"] < 0.7
    assert 1 / 400 < number["largest"] < 0.5
    assert number["kappa"] > 0
    assert number["rate"] > number["kappa"] ** 2
    assert "Weighted draws (mean ± sd over seeds)" in page
    assert HEADING not in page  # draws need no certificate
    assert "do not trust its means" not in page


@pytest.mark.thorough
def test_a_good_approximation_has_a_certificate_and_no_caveat(tmp_path):
    row, page = _run(tmp_path, "near", "sampler=ep", "protocol.iterations=3")
    variance = float(row["certificate_variance"])
    assert 0 < variance < 0.5
    assert float(row["certificate_kl"]) == pytest.approx(variance / 2)
    assert HEADING in page
    assert FAR not in page
    assert "weighted_effective" not in row


def test_a_bad_one_has_a_caveat_and_no_kl(tmp_path):
    far = ["dataset.separation=4", "prior.scale=10", "protocol.iterations=40"]
    row, page = _run(tmp_path, "far", "sampler=jaakkola_jordan", *far)
    assert float(row["certificate_k_hat"]) > 0.7
    assert float(row["certificate_variance"]) > 0.5
    assert not row.get("certificate_kl")
    assert page.count(FAR) == 1


def _arm(facts, **values):
    cells = (SimpleNamespace(**values),) if values else (None,)
    return ArmResult("a", 1, ({"facts": facts},), cells, SimpleNamespace(), {}, {}, {})


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"certificate_variance": 0.1, "certificate_k_hat": 0.71}, True),
        ({"certificate_variance": 0.1, "certificate_k_hat": 0.7}, False),
        ({"certificate_variance": 0.1}, False),  # weights without a tail
        ({"certificate_variance": 26.0, "certificate_k_hat": 0.1}, True),  # so far that k̂ sees nothing
        ({"certificate_variance": 24.0, "certificate_k_hat": 0.1}, False),
        ({"certificate_variance": float("nan")}, True),  # of sums that overflow
        ({"certificate_variance": float("inf"), "certificate_k_hat": float("inf")}, True),
        ({"certificate_k_hat": 0.9}, False),
        ({}, False),
    ],
)
def test_certificates_caveat_is_of_a_k_hat_or_a_variance_above_its_bound(facts, said):
    arm = _arm(facts)
    assert bool(certificates.SECTION.arm_caveats(Run({}, (arm,), ""), arm)) == said


@pytest.mark.parametrize(
    ("k_hat", "largest", "said"),
    [
        (0.9, 0.26, True),
        (0.9, 0.0005, False),
        (0.6, 0.26, False),
        (float("nan"), 1.0, True),
        (float("inf"), 1.0, True),
        (float("nan"), 1 / 500, False),  # even weights have no tail
    ],
)
def test_weights_caveat_is_of_a_heavy_tail_where_one_weight_counts(k_hat, largest, said):
    values = {"weight_k_hat": k_hat, "largest": largest, "weighted_draws": 500}
    arm = _arm({}, weighted_effective=450.0, total_queries=5.0, **values)
    found = weights.SECTION.arm_caveats(Run({}, (arm,), ""), arm)
    assert bool(found) == said
    assert all(f"{largest:.0%} of all" in text for text in found)


def test_a_seed_whose_weight_is_one_is_not_hidden_by_the_others():
    nan = float("nan")
    good = {"weighted_effective": 400.0, "weight_k_hat": 0.2, "largest": 0.005, "weighted_draws": 500}
    bad = {"weighted_effective": 1.0, "weight_k_hat": nan, "largest": 1.0, "weighted_draws": 500}

    def said(*cells):
        kept = tuple(SimpleNamespace(total_queries=5.0, **cell) for cell in cells)
        arm = ArmResult("a", len(kept), ({"facts": {}},) * len(kept), kept, SimpleNamespace(), {}, {}, {})
        return weights.SECTION.arm_caveats(Run({}, (arm,), ""), arm)

    assert said(good, good) == []
    assert said(good, bad) == ["one of its weights is 100% of all: do not trust its means."]
    few = "its weighted draws are worth 2 in all (2 seeds): treat its means as rough."
    assert said(bad, bad)[1:] == [few]
    assert said({**bad, "weighted_effective": nan})[1:] != []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"kappa": 186.0, "rate": 2.0, "n_data": 5_000}, True),
        ({"kappa": 186.0, "rate": 34_000.0, "n_data": 50_000}, False),
        ({"kappa": 186.0, "rate": 34_000.0, "n_data": 10}, False),  # every draw reads all data
        ({}, False),
    ],
)
def test_noise_that_weights_do_not_show_is_known_by_design(facts, said):
    """Two data a draw where κ² = 34,596: few of the draws meet the factors that make up the mean."""
    values = {"weighted_effective": 2000.0, "weight_k_hat": 0.4, "largest": 0.002, "weighted_draws": 20_000}
    arm = _arm(facts, total_queries=5.0, **values)
    found = weights.SECTION.arm_caveats(Run({}, (arm,), ""), arm)
    assert bool(found) == said
    assert all("leave out sampler.queries" in text for text in found)


def test_one_weight_that_is_all_has_an_infinite_k_hat():
    """k̂ of a tail without digits is no number, which no threshold is below."""
    log_weight = np.r_[0.0, -800.0 - np.arange(999.0)]
    found = weights.summarise(_Weighted(log_weight))
    assert found["weight_k_hat"] == float("inf")
    assert found["weighted_effective"] == pytest.approx(1.0)
    # weights that cancel are worth nothing, however large the square of their sum
    assert weights.summarise(_Weighted(np.zeros(3), np.array([1, -1, -1])))["weighted_effective"] == 0.0


class _Weighted:
    """Stored draws of these weights."""

    def __init__(self, log_weight, sign=None):
        self.stored = {"log_weight": log_weight, "sign": sign}

    def values(self, group, name):
        return self.stored[name]


def test_the_effective_number_by_hand():
    size = np.array([1.0, 2.0, 3.0, 2.0])
    found = weights.summarise(_Weighted(np.log(size) - 700.0, np.array([1, 1, 1, -1])))
    assert found["weighted_effective"] == pytest.approx(4**2 / 18)
    assert found["largest"] == pytest.approx(3 / 8)
    assert found["negative"] == 0.25
    # negative control: without signs more draws seem to count
    unsigned = weights.summarise(_Weighted(np.log(size)))
    assert unsigned["weighted_effective"] == pytest.approx(8**2 / 18)
    assert unsigned["negative"] == 0
    assert weights.summarise(_Weighted(np.full(4, -np.inf))) == {}
    assert weights.summarise(_Weighted(None)) == {}


def test_draws_of_one_weight_each_count_for_themselves(tmp_path):
    root = write_run(tmp_path, {"is": [0]})
    write_answer(root, "is", 0, "weighted", [1.0, 2.0])
    row = build(root).table.iloc[0]
    assert row["weighted_effective"] == pytest.approx(50)
    assert row["queries_per_effective"] == pytest.approx((row["total_queries"] - 100) / 50)
