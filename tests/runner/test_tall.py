"""Scale: what does not grow with the data, and what the report says of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.data import tall
from flyrun.experiments.report.build import build
from flyrun.experiments.runner import store
from flyrun.experiments.runner.chunks import _trace_points
from flyrun.experiments.samplers.method import prepare
from flyrun.ground import environment


@pytest.fixture(autouse=True, scope="module")
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tall, "BLOCK", 1_000)
        yield


def _program(folder, n_data, bound="local"):
    words = ["experiment=tall_logreg", "only=n_1e4", f"dataset.n_data={n_data}", f"bound={bound}"]
    return prepare(compose_job(words).arms[0], folder)


@pytest.mark.thorough
@pytest.mark.parametrize(("bound", "low", "high"), [("map", 0.7, 1.3), ("local", 0.45, 0.65)])
def test_state_does_not_grow_with_the_data_and_with_local_bounds_the_bright_fall(
    tmp_path, monkeypatch, bound, low, high
):
    """Five times the data: as many bright, or with local bounds 5^(−1/2) = 0.45 times as many for large N."""
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path))
    bright, sizes = [], []
    for n_data in (2_000, 10_000):
        program = _program(tmp_path, n_data, bound)
        assert program.problem.features.rows.dtype == np.float32
        state, _ = program.advance(program.init(0), 500)
        state, draws = program.advance(state, 1_500)
        bright.append(draws["bright"].mean())
        sizes.append(sum(values.nbytes for values in program.init(0).values()))
    assert low < bright[1] / bright[0] < high
    assert sizes[1] < 1.5 * sizes[0] < 20_000


@pytest.mark.thorough
def test_a_packed_state_is_the_chain(tmp_path, monkeypatch):
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path))
    program = _program(tmp_path, 2_000)
    whole, draws = program.advance(program.init(3), 400)
    state, pieces = program.init(3), []
    for n in (1, 149, 250):
        state, piece = program.advance(state, n)
        pieces.append(piece["theta"])
    np.testing.assert_array_equal(np.concatenate(pieces), draws["theta"])
    assert state.keys() == whole.keys()
    for name, values in whole.items():
        np.testing.assert_array_equal(state[name], values)


@pytest.mark.thorough
@pytest.mark.figures("tall_scaling")
def test_the_run_tells_what_the_number_of_data_costs(tmp_path, monkeypatch):
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))
    words = ["experiment=tall_logreg", "only=[n_1e4,n_1e5]", "arms.n_1e4.dataset.n_data=1000"]
    words += ["arms.n_1e5.dataset.n_data=3000", "protocol=smoke", "executor.workers=1"]
    assert main([*words, f"results_dir={tmp_path}"]) == 0
    folder = tmp_path / "runs" / "tall_logreg"
    for cell in store.open_cells(folder):
        told = cell.info["memory"]
        assert told["peak_bytes"] > 1e7
        assert told["setup_peak_bytes"] > 1e7
    text = (folder / "report.md").read_text()
    assert "Against the number of data" in text
    assert "tall (1,000 to 3,000 data, 21 parameters)" in text
    assert (folder / "figures" / "tall_scaling.png").stat().st_size > 10_000
    rows = json.loads((folder / "table.json").read_text())["rows"]
    assert [row["n_data"] for row in rows] == [1000, 3000]
    for row in rows:
        per_ess = 1000 * row["queries_per_iter"] / row["ess_per_1000"]
        assert row["queries_per_ess"] == pytest.approx(per_ess, rel=0.1)
        assert 10 < row["peak_mb"] < 10_000
    again = build(folder).table
    assert again["queries_per_ess"].notna().all()


@pytest.mark.thorough
def test_peak_memory_is_seen():
    environment.reset_peak()
    before = environment.peak_memory()
    assert before is not None
    block = np.ones(30_000_000)
    assert environment.peak_memory() >= before + 0.8 * block.nbytes
    del block


def test_fewer_trace_points_where_each_takes_long():
    assert [_trace_points(n) for n in (None, 12_214, 500_000, 900_000, 10**7)] == [200, 200, 20, 11, 8]
