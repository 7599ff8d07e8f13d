"""Test error against rows read, distance from the exact arm against queries: of a small run, and by hand."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.sections import held_out

pytestmark = pytest.mark.figures("held_out")

ARMS = ("one_pass_smc", "sgld", "svi_jaakkola_jordan", "streaming_laplace", "firefly_hmc")
WORDS = [
    "experiment=pmd_logistic",
    f"only=[{','.join(ARMS)}]",
    "dataset=mnist_7v9",
    "dataset.n_components=5",
    "protocol.iterations=60",
    "protocol.burn_in=20",
    "protocol.seeds=2",
    "executor.workers=1",
    # exact as well, and compiled in a fifth of the time
    *(f"arms.firefly_hmc.{one}" for one in ("sampler=random_walk", "bound=none", "brightness=none")),
    "arms.firefly_hmc.protocol.iterations=8000",
    "arms.firefly_hmc.protocol.burn_in=1000",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("held_out")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(WORDS) == 0
    return folder / "results/runs/pmd_logistic"


@pytest.mark.thorough
def test_a_run_of_every_kind_has_both_tables_and_says_what_their_orders_are(run):
    rows = {row["arm"]: row for row in csv.DictReader((run / "table.csv").open())}
    assert tuple(rows) == ARMS
    for arm in ARMS:
        assert 0 < float(rows[arm]["test_error"]) < 0.6, arm
        assert float(rows[arm]["test_log_likelihood"]) < 0
        assert float(rows[arm]["averaged"]) < 0
        assert rows[arm]["truth"] == "arm firefly_hmc"
    streaming, exact = rows["streaming_laplace"], rows["firefly_hmc"]
    assert float(streaming["off"]) < 0.3
    assert float(streaming["sd_ratio"]) == pytest.approx(1, abs=0.1)
    assert float(streaming["visits"]) == 12_214
    assert float(streaming["test_log_likelihood"]) == pytest.approx(
        float(exact["test_log_likelihood"]), abs=1e-3
    )
    assert exact["off"] == ""
    assert float(rows["svi_jaakkola_jordan"]["sd_ratio"]) < 1
    assert float(rows["one_pass_smc"]["off"]) > float(streaming["off"])
    page = (run / "report.md").read_text()
    assert "pairs of arms stand the other way round" in page
    assert "Distance from the posterior" in page
    assert (run / "figures/held_out.png").stat().st_size > 10_000


@pytest.mark.thorough
def test_no_other_run_works_it_out(run):
    info = json.loads((run / "run.json").read_text())
    assert info["held_out"] is True
    assert not held_out.SECTION.serves({**info, "held_out": False})


def _arm(name, means, errors, draws=False):
    """Two snapshots of one seed whose exact posterior is N(0, I)."""
    cell = {
        "pred_queries": [10.0, 1e6], "pred_visits": [10.0, 1e4], "pred_error": errors, "pred_mean": means,
        "pred_rows": 100, "pred_sd": [[1.0, 1.0], [2.0, 0.5]], "pred_log_likelihood": [-1.0, -0.5],
        "averaged": -0.4, "effective": np.nan, "data_note": "made up", "final_mean": means[-1],
        "draws_mean": [], "draws_sd": [],
    }  # fmt: skip
    if draws:
        cell |= {"draws_mean": [0.0, 0.0], "draws_sd": [1.0, 1.0], "ess": [100.0] * 2, "square": [50.0] * 2}
    info = {"facts": {"exact": draws, "update": name}, "answers": "draws" if draws else "density"}
    return ArmResult(name, 1, (info,), (SimpleNamespace(**cell),), SimpleNamespace(), {}, {}, {})


def test_distance_ratio_and_orders_by_hand():
    exact = _arm("exact", [[0.0, 0.0], [0.0, 0.0]], [0.5, 0.02], draws=True)
    arms = [
        _arm("near", [[9.0, 9.0], [0.3, 0.4]], [0.5, 0.03]),  # 0.02 ± 0.014
        _arm("far", [[9.0, 9.0], [6.0, 8.0]], [0.03, 0.02]),
        _arm("farther", [[9.0, 9.0], [60.0, 80.0]], [0.5, 0.04]),
    ]
    run = Run({}, (*arms, exact), "")
    one = held_out.course(run, arms[0])
    np.testing.assert_allclose(one.off, [[9.0, np.sqrt(0.125)]])
    np.testing.assert_allclose(one.ratio, [[1.0, 1.0]])
    assert held_out.course(run, exact).off.shape == (1, 0)
    row = held_out.SECTION.cells_of(run, arms[0])
    assert row["test_error_1e3"] == 0.5
    assert row["test_error_1e4"] == 0.03
    assert row["off_1e5"] == 9.0
    assert row["truth_error"] == pytest.approx(0.1)
    found = held_out.orders(run)
    assert found.by_rows[0] == "far"
    assert set(found.by_rows[1:]) == {"near", "exact"}
    assert found.never == ["farther"]
    assert found.by_distance == ["exact", "near", "far", "farther"]
    # far before exact and near; those two, and none with farther, are told apart by distance alone
    assert (found.turned, found.pairs) == (2, 5)
    note, sentence = held_out.SECTION.lead(run)
    assert note == "made up"
    assert "2 of 5 pairs" in sentence
    assert held_out.orders(Run({}, (arms[0], exact), "")) is None
