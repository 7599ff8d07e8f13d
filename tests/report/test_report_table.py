"""The table's numbers against hand computations, and what it says when cells are missing."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from flyrun.experiments.report import figures
from flyrun.experiments.report.arms import ArmResult
from flyrun.experiments.report.build import build
from flyrun.experiments.report.sections import arms, paper
from flyrun.experiments.report.sections import ess as ess_section
from flyrun.experiments.runner import store
from flyrun.ground import files
from flyrun.ground.diagnostics import coda, ess
from flyrun.ground.errors import StoreError
from flyrun.ground.page import render
from flyrun.ground.page.metrics import mean_sd
from tests.stored import cell_folder, write_cell, write_run, write_three_arms


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch):
    """Drawing takes a second and is not what is tested here."""
    monkeypatch.setattr(figures, "draw", lambda *_: ({}, [], []))


def _row(table, arm):
    return table.set_index("arm").loc[arm]


@pytest.mark.thorough
def test_columns_are_the_promised_ones_in_order(tmp_path):
    result = build(write_three_arms(tmp_path / "run", seeds=2))
    stored = pd.read_csv(tmp_path / "run" / "table.csv")
    columns = [name for one in (*arms.METRICS, *paper.METRICS) for name in one.columns]
    assert stored.columns[: len(columns)].tolist() == columns
    assert stored["arm"].tolist() == ["regular", "untuned", "map_tuned"]
    assert stored["queries_per_iter"].dtype == float
    assert _row(stored, "regular")["dataset"] == "mnist_7v9"
    assert result.complete


@pytest.mark.thorough
def test_values_by_hand(tmp_path):
    root = write_run(tmp_path, {"regular": [0, 1], "map_tuned": [0, 1]})
    size, seconds = {}, {"regular": 2.0, "map_tuned": 0.5}
    draws = {arm: [] for arm in seconds}
    for arm, queries, stickiness in (("regular", 12214, 0.8), ("map_tuned", 200, 0.9)):
        for seed in (0, 1):
            theta = write_cell(
                root, arm, seed, queries=queries, stickiness=stickiness, sampling_s=seconds[arm]
            )
            draws[arm].append(theta)
        size[arm] = np.array([coda.effective_size(theta).mean() for theta in draws[arm]])
    table = build(root).table
    row, base = _row(table, "map_tuned"), _row(table, "regular")
    per_1000 = size["map_tuned"]  # 1,000 iterations after burn-in
    assert row["ess_per_1000"] == pytest.approx(per_1000.mean(), rel=1e-9)
    assert row["ess_per_1000_sd"] == pytest.approx(per_1000.std(ddof=1), rel=1e-9)
    assert base["queries_per_iter"] == 12214
    assert base["queries_per_iter_sd"] == 0
    speedup = row["ess_per_1000"] / row["queries_per_iter"] * 12214 / size["regular"].mean()
    assert row["speedup"] == pytest.approx(speedup, rel=1e-9)
    assert (base["speedup"], base["speedup_sd"]) == (1, 0)
    assert row["us_per_iter"] == pytest.approx(500)
    assert row["ess_per_s"] == pytest.approx(per_1000.mean() / 0.5)
    assert row["wall_speedup"] == pytest.approx(per_1000.mean() / 0.5 / (size["regular"].mean() / 2))
    pooled = ess.summary(np.stack(draws["map_tuned"]))
    assert row["ess_bulk_min_per_1000"] == pytest.approx(pooled.bulk.min() / 2)
    assert row["rhat_max"] == pytest.approx(pooled.rhat.max())
    assert (row["paper_queries_per_iter"], row["paper_ess_per_1000"], row["paper_speedup"]) == (207, 1.4, 22)
    assert row["accept_rate"] == pytest.approx(0.234)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("sticky", "bound"),
    [((), ""), (("regular",), "≥"), (("map_tuned",), "≤"), (("regular", "map_tuned"), "~")],
)
def test_a_ratio_that_rests_on_unsettled_chains_is_a_bound(tmp_path, sticky, bound):
    root = write_run(tmp_path, {"regular": [0, 1], "map_tuned": [0, 1]})
    for arm in ("regular", "map_tuned"):
        for seed in (0, 1):
            write_cell(root, arm, seed, stickiness=0.995 if arm in sticky else 0.1)
    row = _row(build(root).table, "map_tuned")
    assert row["ratio_bound"] == bound
    shown = render.bounded("speedup")(row.to_dict())
    assert shown.startswith(f"{bound} " if bound else tuple("0123456789"))
    assert ("bulk-effective" in (root / "report.md").read_text(encoding="utf-8")) == bool(bound)


@pytest.mark.thorough
def test_speedup_sd_is_propagated_from_both_arms(tmp_path):
    table = build(write_three_arms(tmp_path, seeds=4)).table
    runs = {}
    for arm in ("regular", "map_tuned"):
        cells = [store.open_cell(tmp_path, arm, "0123456789ab", seed) for seed in range(4)]
        stored = (cell.arrays("posterior/theta", "sample_stats/queries") for cell in cells)
        runs[arm] = np.array(
            [coda.effective_size(theta).mean() / queries.mean() for theta, queries in stored]
        )
    cv = {arm: values.std(ddof=1) / values.mean() for arm, values in runs.items()}
    row = _row(table, "map_tuned")
    expected = row["speedup"] * math.sqrt(cv["map_tuned"] ** 2 + cv["regular"] ** 2)
    assert row["speedup_sd"] == pytest.approx(expected, rel=1e-9)


def test_thinned_draws_count_per_iteration(tmp_path):
    root = write_run(tmp_path, {"regular": [0]})
    theta = write_cell(root, "regular", 0, thin=4, iterations=4800, burn_in=800)
    assert theta.shape == (1000, 3)
    row = _row(build(root).table, "regular")
    assert row["ess_per_1000"] == pytest.approx(coda.effective_size(theta).mean() / 4, rel=1e-9)


def test_missing_failed_and_unfinished_cells_are_marked(tmp_path):
    root = write_run(tmp_path, {"regular": [0, 1], "untuned": [0, 1, 2, 3], "map_tuned": [0, 1]})
    for seed in (0, 1):
        write_cell(root, "regular", seed)
    write_cell(root, "untuned", 0, queries=6252)
    files.write_json(cell_folder(root, "untuned", 2) / store.FAILED, {"message": "ran into a wall"})
    (cell_folder(root, "untuned", 3) / "checkpoint-000000700.npz").write_bytes(b"")
    result = build(root)
    assert not result.complete
    row = _row(result.table, "untuned")
    assert (row["seeds"], row["seeds_wanted"]) == (1, 4)
    assert row["note"] == "1/4 seeds (1 missing, 1 failed, 1 unfinished)"
    assert math.isnan(row["queries_per_iter_sd"])
    empty = _row(result.table, "map_tuned")
    assert math.isnan(empty["queries_per_iter"])
    assert empty["paper_speedup"] == 22
    said = "\n".join(result.warnings)
    assert "untuned: 1 of 4 seeds are finished" in said
    assert "seed 2 is failed: ran into a wall" in said
    assert "seed 3 is unfinished: stopped at iteration 700" in said
    for name in ("report.md", "report.html"):
        text = (root / name).read_text()
        assert "1/4" in text
        assert "0/2" in text
        assert "ran into a wall" in text
    meta = json.loads((root / "table.json").read_text())["meta"]
    assert meta["states"]["untuned"] == {"0": "done", "1": "missing", "2": "failed", "3": "unfinished"}


def test_without_the_regular_arm_there_is_no_speedup(tmp_path):
    root = write_run(tmp_path, {"map_tuned": [0, 1]})
    for seed in (0, 1):
        write_cell(root, "map_tuned", seed, queries=207)
    result = build(root)
    row = _row(result.table, "map_tuned")
    assert math.isnan(row["speedup"])
    assert "no speedup" in row["note"]
    assert any("no speedup" in text for text in result.warnings)


def test_published_values_may_be_named_instead_of_given(tmp_path):
    root = write_run(tmp_path, {"map_tuned": [0]}, reference="firefly_table1", reference_name=None)
    assert _row(build(root).table, "map_tuned")["paper_speedup"] == 22
    assert "Maclaurin" in json.loads((root / "table.json").read_text())["meta"]["source"]
    none = write_run(tmp_path / "none", {"map_tuned": [0]}, reference={}, reference_name=None)
    assert math.isnan(_row(build(none).table, "map_tuned")["paper_speedup"])
    assert "| paper |" not in (none / "report.md").read_text()


def test_nothing_finished_still_gives_a_table(tmp_path):
    result = build(write_run(tmp_path, {"regular": [0], "untuned": [0]}))
    assert not result.complete
    assert result.table["seeds"].tolist() == [0, 0]
    assert json.loads((tmp_path / "table.json").read_text())["rows"][0]["queries_per_iter"] is None


@pytest.mark.thorough
def test_caveats(tmp_path):
    root = write_run(tmp_path, {"regular": [0, 1, 2], "untuned": [0, 1], "map_tuned": [0, 1]})
    for seed in (0, 1, 2):
        write_cell(root, "regular", seed, stickiness=0.5)
    write_cell(root, "untuned", 0, shift=2.0, accept=0.6, facts={"exact": False})
    write_cell(root, "untuned", 1, shift=-2.0, accept=0.6, environment={"cpu": "Another"})
    write_cell(root, "map_tuned", 0, rest=True, iterations=2200)
    write_cell(root, "map_tuned", 1, rest=True, iterations=2200)
    result = build(root)
    said = "\n".join(result.warnings)
    assert "untuned: this sampler is biased" in said
    assert "untuned: the runs do not agree yet: R-hat is" in said
    assert "untuned: acceptance is 0.60, not near its target 0.234" in said
    assert "map_tuned: the chain of seed 0, 1 never moved" in said
    assert "map_tuned: low ESS (mean 0, worst" in said
    assert "differ in iterations after burn-in" in said
    assert "2 different machines" in said
    assert "different processors (A processor; Another)" in said
    assert "regular:" not in said
    assert _row(result.table, "map_tuned")["ess_per_1000"] == 0


@pytest.mark.thorough
def test_a_second_report_uses_stored_summaries_until_the_draws_change(tmp_path, monkeypatch):
    root = write_run(tmp_path, {"regular": [0, 1]})
    for seed in (0, 1):
        write_cell(root, "regular", seed)
    first = build(root).table
    opened = []
    open_file = store.StoredCell.file
    monkeypatch.setattr(store.StoredCell, "file", lambda cell: opened.append(cell.seed) or open_file(cell))
    pd.testing.assert_frame_equal(build(root).table, first)
    assert not opened
    write_cell(root, "regular", 1, stickiness=0.2, finished="2031-01-01T00:00:00+00:00")
    assert build(root).table["ess_per_1000"][0] > first["ess_per_1000"][0]
    assert 1 in opened


def test_damaged_summaries_are_made_anew(tmp_path):
    root = write_run(tmp_path, {"regular": [0]})
    write_cell(root, "regular", 0)
    first = build(root).table
    for path in root.rglob("summary.json"):
        path.write_text("[1, 2")
    for path in root.rglob("diagnostics.json"):
        path.write_text("[]")
    pd.testing.assert_frame_equal(build(root).table, first)


def test_no_run_is_a_one_line_error(tmp_path):
    with pytest.raises(StoreError, match=r"run\.json does not exist"):
        build(tmp_path)


def _without_class_mean(theta):
    rows = theta.reshape(len(theta), 3, -1)
    return (rows - rows.mean(axis=1, keepdims=True)).reshape(theta.shape)


@pytest.mark.thorough
def test_gauge_free_and_worse_of_squares_by_hand(tmp_path, monkeypatch):
    monkeypatch.setattr(ess_section, "_BLOCK_BYTES", 8 * 1000 * 2 * 3)  # a column of Theta at a time
    root = write_run(tmp_path, {"regular": [0, 1], "map_tuned": [0, 1]})
    facts = {"gauge": {"classes": 3}, "gradients": True}
    draws = {}
    for arm, queries, stickiness in (("regular", 18000, 0.5), ("map_tuned", 600, -0.6)):
        draws[arm] = [
            write_cell(root, arm, s, queries=queries, stickiness=stickiness, n_params=6, facts=facts)
            for s in (0, 1)
        ]
    row = _row(build(root).table, "map_tuned")
    free = {arm: [_without_class_mean(theta) for theta in chains] for arm, chains in draws.items()}
    means = {arm: [coda.effective_size(one).mean() for one in chains] for arm, chains in free.items()}
    squares = {
        arm: [coda.effective_size((one - one.mean(axis=0)) ** 2).mean() for one in chains]
        for arm, chains in free.items()
    }
    assert row["ess_gauge_free_per_1000"] == pytest.approx(np.mean(means["map_tuned"]), rel=1e-6)
    assert row["ess_square_per_1000"] == pytest.approx(np.mean(squares["map_tuned"]), rel=1e-6)
    # antithetic: the means' ESS is above the number of draws, the squares' below
    assert row["ess_gauge_free_per_1000"] > 1000 > row["ess_square_per_1000"]
    assert row["ess_worse_per_1000"] == row["ess_square_per_1000"]
    worse = {arm: np.minimum(means[arm], squares[arm]).mean() for arm in draws}
    ratio = worse["map_tuned"] / row["queries_per_iter"] / (worse["regular"] / 18000)
    assert row["speedup_worse"] == pytest.approx(ratio, rel=1e-6)
    assert row["speedup_worse_sd"] > 0
    pooled = ess.summary(np.stack(free["map_tuned"]))
    assert row["ess_gauge_free_bulk_min_per_1000"] == pytest.approx(pooled.bulk.min() / 2, rel=1e-6)
    assert row["ess_gauge_free_square_min_per_1000"] == pytest.approx(pooled.square.min() / 2, rel=1e-6)
    text = (root / "report.md").read_text()
    assert "| arm | gauge-free ESS | speedup | square ESS | worse ESS | speedup | seeds |" in text


def test_runs_without_gauge_and_gradients_show_neither(tmp_path):
    root = write_run(tmp_path, {"regular": [0]})
    write_cell(root, "regular", 0)
    row = _row(build(root).table, "regular")
    assert math.isnan(row["ess_gauge_free_per_1000"])
    assert row["ess_worse_per_1000"] > 0
    assert "worse" not in (root / "report.md").read_text()


@pytest.mark.thorough
def test_a_run_of_part_of_the_data_is_not_held_against_the_paper(tmp_path):
    root = write_three_arms(tmp_path, seeds=1)
    assert build(root).table["paper_speedup"].notna().all()
    info = json.loads((root / "run.json").read_text())
    for arm in info["arms"]:
        arm["problem"] = {"dataset": {"name": "mnist_7v9", "limit": 400}}
    (root / "run.json").write_text(json.dumps(info))
    result = build(root)
    assert result.table["paper_speedup"].isna().all()
    assert "Against the paper" not in (root / "report.md").read_text()
    assert "Efficiency" in (root / "report.md").read_text()


def test_a_figure_has_no_more_lines_than_can_be_told_apart():
    swept = [{"arm": "a2"} if k < 2 else None for k in range(13)]
    made = [ArmResult(f"a{k}", 1, (), (), None, {}, {}, {}, sweep) for k, sweep in enumerate(swept)]
    few = figures._few(made)
    assert [arm.name for arm in few] == [f"a{k}" for k in range(2, 12)]  # those of a sweep come last
    assert figures._few(made[:10]) == made[:10]


def test_equal_values_have_no_spread():
    assert np.std(np.full(3, 0.1), ddof=1) > 0.0  # their mean rounds
    assert mean_sd(np.full(3, 0.1)) == (0.1, 0.0)
    assert mean_sd(np.array([0.1, 0.2]))[1] == pytest.approx(0.1 / math.sqrt(2))
