"""What a run stores, when it repeats and when it does not."""

import json
import os

import numpy as np
import pytest
import runner_fakes as fakes
import xarray
from runner_fakes import assert_same, draws_of

from flyrun.experiments.runner import cell as cell_module
from flyrun.experiments.runner import chunks, compile_ahead, store
from flyrun.experiments.runner import launch as launch_module
from flyrun.experiments.runner.launch import run
from flyrun.ground import environment, run_files
from flyrun.ground.errors import ConfigError, DataError, StoreError


def test_draws_are_those_of_the_program(unbroken):
    arm = fakes.make_job(".").arms[0]
    program = fakes.prepare(arm, None)
    _, draws = program.advance(program.init(1), fakes.ITERATIONS)
    stored = unbroken["one", 1]
    whole = np.concatenate([stored["warmup_posterior/theta"], stored["posterior/theta"]], axis=1)
    np.testing.assert_array_equal(whole[0], draws["theta"])
    assert stored["warmup_sample_stats/queries"].shape == (1, fakes.BURN_IN)
    np.testing.assert_array_equal(stored["sample_stats/log_joint"][0], draws["log_joint"][fakes.BURN_IN :])


def test_one_and_two_workers_give_the_same_bits(tmp_path, unbroken, screen):
    result = run(fakes.make_job(tmp_path, workers=2), screen.console, fakes.prepare)
    assert [outcome.state for outcome in result.outcomes] == ["done"] * 4
    assert_same(draws_of(result.run_dir), unbroken)
    assert "one: run seeds 0, 1: no results yet" in str(screen)
    assert "accepted 1.00, 7 queries/iter" in str(screen)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_process_compiles_the_last_arms_where_several_work(tmp_path, monkeypatch, workers):
    monkeypatch.setattr(compile_ahead, "_WORTH_S", 0.5)
    monkeypatch.setattr(compile_ahead, "cores", lambda: 2)
    if workers == 2:  # the first process works for as long as the second takes to start
        monkeypatch.setenv("FAKE_LASTS", "22:666666")
    names = ("1", "22", "333", "4444", "five5", "666666")
    job = fakes.make_job(tmp_path, arms=names, seeds=1, workers=workers)
    result = run(job, None, fakes.prepare_slowly)
    done, failed = result.of("done"), result.of("failed")
    assert {one.cell.arm.name for one in done} == {*names} - {"five5"}
    assert [(one.cell.arm.name, one.message) for one in failed] == [("five5", "ValueError: a planted fault")]
    by = {}
    for path in (result.run_dir / "setup").iterdir():
        arm, process = path.name.split(".")
        by.setdefault(arm, set()).add(int(process))
    assert all(os.getpid() in processes for processes in by.values())  # which finds what was compiled
    assert len(by["1"]) == workers
    assert len(by["666666"]) == 2 * workers - 1


def test_arms_of_the_same_settings_are_two(tmp_path):
    result = run(fakes.make_job(tmp_path, arms=("one", "two"), seeds=1), None, fakes.prepare)
    draws = draws_of(result.run_dir)
    assert_same({("one", 0): draws["one", 0]}, {("one", 0): draws["two", 0]})


def test_chunk_lengths_leave_the_draws_alone(tmp_path, unbroken, monkeypatch):
    monkeypatch.setattr(chunks, "_FIRST_CHUNK", 7)
    monkeypatch.setattr(chunks, "_MAX_CHUNK_BYTES", 2500)
    result = run(fakes.make_job(tmp_path, arms=("one",), seeds=1), None, fakes.prepare)
    assert_same(draws_of(result.run_dir), {("one", 0): unbroken["one", 0]})


def test_files_of_a_finished_cell(tmp_path):
    result = run(fakes.make_job(tmp_path, thin=4, seeds=1), None, fakes.prepare)
    cell = store.open_cells(result.run_dir)[0]
    assert {path.name for path in cell.folder.iterdir()} == {"posterior.nc", "cell.json", "done", "log.txt"}
    with xarray.open_datatree(cell.folder / "posterior.nc", engine="h5netcdf") as tree:
        assert tree.attrs["arm"] == "one"
        assert tree.attrs["exact"] == 1
        assert list(tree["posterior"]["theta_dim"].values) == ["a", "b", "c"]
        assert tree["posterior"]["draw"].values[[0, -1]].tolist() == [fakes.BURN_IN + 3, fakes.ITERATIONS - 1]
        assert tree["sample_stats"]["draw"].values[[0, -1]].tolist() == [fakes.BURN_IN, fakes.ITERATIONS - 1]
        trace = tree["trace"]
        assert trace["iteration"].values[[0, -1]].tolist() == [3, fakes.ITERATIONS - 1]
        last = tree["posterior"]["theta"].values[0, -1]
        assert trace["log_posterior"].values[-1] == -0.5 * (last**2).sum()
    info = cell.info
    assert info["tuning"] == {"step": 1.0}
    assert info["means"]["queries"] == 7
    assert info["settings"]["prior"]["name"] == "gaussian"
    assert info["environment"]["numpy"] == np.__version__
    assert info["timings"]["setup_s"] == 0.5
    assert info["timings"]["sampling_s"] > 0


def test_arviz_reads_the_posterior(tmp_path):
    pytest.importorskip("xarray_einstats")
    import arviz_stats

    result = run(fakes.make_job(tmp_path, arms=("one",), seeds=1), None, fakes.prepare)
    with store.open_cells(result.run_dir)[0].tree() as tree:
        assert arviz_stats.ess(tree)["theta"].shape == (fakes.D,)


def test_a_second_run_is_cached_and_prepares_nothing(tmp_path, screen):
    run(fakes.make_job(tmp_path), None, fakes.prepare)
    result = run(fakes.make_job(tmp_path), screen.console, fakes.refuse)
    assert str(screen).strip() == "all 4 cells cached"
    assert len(result.of("cached")) == 4


@pytest.mark.thorough
def test_other_settings_run_again_and_say_why(tmp_path, screen, monkeypatch):
    run(fakes.make_job(tmp_path, seeds=1), None, fakes.prepare)
    run(fakes.make_job(tmp_path, seeds=2), screen.console, fakes.prepare)
    assert "one: cached seed 0: finished" in str(screen)
    assert "one: run seed 1: no results yet" in str(screen)
    with pytest.raises(ConfigError, match=r"protocol\.init=prior, now map\); name=walk_2 keeps both"):
        run(fakes.make_job(tmp_path, seeds=1, init="map"), screen.console, fakes.prepare)
    assert len(run(fakes.make_job(tmp_path, seeds=2), None, fakes.refuse).of("cached")) == 4
    run(fakes.make_job(tmp_path, seeds=1, init="map", fresh=True), None, fakes.prepare)
    assert run_files.read_run(tmp_path / "runs" / "walk")["arms"][0]["settings"]["protocol"]["init"] == "map"
    monkeypatch.setattr(cell_module.code_digest, "of_modules", lambda names: "edited")
    run(fakes.make_job(tmp_path, seeds=1, init="map"), screen.console, fakes.prepare)
    assert "one: run seed 0: settings, code or data are not those of the stored results" in str(screen)


def test_fresh_repeats_only_what_was_selected(tmp_path):
    run(fakes.make_job(tmp_path), None, fakes.prepare)
    cells = store.open_cells(tmp_path / "runs" / "walk")
    before = {cell.folder: (cell.folder / "done").stat().st_mtime_ns for cell in cells}
    result = run(fakes.make_job(tmp_path, arms=("three",), fresh=True), None, fakes.prepare)
    assert result.resume_command == "flyrun experiment=walk"
    for cell in cells:
        assert ((cell.folder / "done").stat().st_mtime_ns == before[cell.folder]) == (cell.arm == "one")


def test_arms_of_another_problem_leave_the_list(tmp_path):
    run(fakes.make_job(tmp_path, seeds=1), None, fakes.prepare)
    other = {"iterations": 2 * fakes.ITERATIONS}
    with pytest.raises(ConfigError, match=r"other settings .*=1200, now 2400.*fresh=true replaces"):
        run(fakes.make_job(tmp_path, arms=("three",), seeds=1, **other), None, fakes.prepare)
    assert len(run_files.read_run(tmp_path / "runs" / "walk")["arms"]) == 2
    run(fakes.make_job(tmp_path, arms=("three",), seeds=1, fresh=True, **other), None, fakes.prepare)
    info = json.loads((tmp_path / "runs" / "walk" / "run.json").read_text())
    assert [arm["name"] for arm in info["arms"]] == ["three"]


def test_one_arm_alone_keeps_the_others_listed(tmp_path):
    run(fakes.make_job(tmp_path, seeds=1), None, fakes.prepare)
    run(fakes.make_job(tmp_path, arms=("three",), seeds=2), None, fakes.prepare)
    info = json.loads((tmp_path / "runs" / "walk" / "run.json").read_text())
    assert [(arm["name"], arm["seeds"]) for arm in info["arms"]] == [("one", [0]), ("three", [0, 1])]
    assert info["asked"] == ["three"]
    assert info["command"] == "flyrun experiment=walk prior.scale=1"


def test_bad_data_ends_the_run_and_keeps_what_was_there(tmp_path, monkeypatch):
    run(fakes.make_job(tmp_path), None, fakes.prepare)
    monkeypatch.setenv("FAKE_FAULT", "data")
    with pytest.raises(DataError, match="row 3"):
        run(fakes.make_job(tmp_path, fresh=True), None, fakes.prepare)
    assert {cell.state for cell in store.open_cells(tmp_path / "runs" / "walk")} == {"done"}


def test_no_run_to_read(tmp_path):
    with pytest.raises(StoreError, match="does not exist"):
        store.open_cells(tmp_path)


def test_a_chain_that_can_be_extended_goes_on_from_where_it_ended(tmp_path, unbroken, screen):
    def to(iterations):
        job = fakes.make_job(tmp_path, arms=("one",), extend=True, iterations=iterations, thin=2)
        return run(job, screen.console, fakes.prepare)

    short = to(600)
    assert draws_of(short.run_dir)["one", 0]["sample_stats/queries"].shape == (1, 600 - fakes.BURN_IN)
    whole = to(fakes.ITERATIONS)
    assert "one: resume seeds 0, 1: finished at iteration 600, wanted is 1,200" in str(screen)
    wanted = run(fakes.make_job(tmp_path / "other", arms=("one",), thin=2), None, fakes.prepare)
    assert_same(draws_of(whole.run_dir), draws_of(wanted.run_dir))
    assert [cell.info["sessions"] for cell in store.open_cells(whole.run_dir)] == [2, 2]
    assert [outcome.state for outcome in to(fakes.ITERATIONS).outcomes] == ["cached"] * 2
    # asked for less, a longer chain ends earlier, and loses nothing for later
    cut = to(900)
    first = draws_of(cut.run_dir)["one", 1]["posterior/theta"]
    np.testing.assert_array_equal(first, draws_of(wanted.run_dir)["one", 1]["posterior/theta"][:, :300])
    again = to(fakes.ITERATIONS)
    assert_same(draws_of(again.run_dir), draws_of(wanted.run_dir))


def test_every_processor_that_a_cell_ran_on_is_noted(tmp_path, monkeypatch):
    """Bits are the same on like processors only, so a cell that moved from one to another says so."""
    for iterations, cpu in ((600, "one kind"), (900, "another"), (fakes.ITERATIONS, "another")):
        monkeypatch.setattr(environment, "processor", lambda cpu=cpu: cpu)
        job = fakes.make_job(tmp_path, arms=("one",), seeds=1, extend=True, iterations=iterations)
        result = run(job, None, fakes.prepare)
    (cell,) = store.open_cells(result.run_dir)
    assert cell.info["environment"]["cpu"] == "one kind, then another"


@pytest.mark.parametrize(("queries", "said"), [("98000", True), ("70", False)])
def test_steps_that_cost_thousands_of_passes_say_so_while_they_run(
    tmp_path, screen, monkeypatch, queries, said
):
    """As Zig-Zag at a leverage point does: 98,000 queries a slice for a dozen rows, without a word."""
    monkeypatch.setenv("FAKE_QUERIES", queries)
    run(fakes.make_job(tmp_path, arms=("one",), seeds=1), screen.console, fakes.prepare)
    assert (
        "takes 98,000 likelihood queries, as many as 14,000 passes over all 7 data" in str(screen)
    ) is said


def test_a_run_given_a_time_stops_at_a_chunk_border_and_goes_on_later(tmp_path, unbroken, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "0.001")
    job = fakes.make_job(tmp_path, arms=("one",))
    result = run(job, None, fakes.prepare, stop_after_s=0.3)
    assert not result.interrupted
    assert result.of("stopped")
    monkeypatch.delenv("FAKE_SLEEP")
    run(job, None, fakes.prepare)
    assert_same(draws_of(result.run_dir), {cell: unbroken[cell] for cell in (("one", 0), ("one", 1))})


def test_a_cell_that_was_finished_meanwhile_is_not_run_again(tmp_path):
    """Between plan and run another process may end a cell, as a worker that outlived its run."""
    job = fakes.make_job(tmp_path, arms=("one",), seeds=1)
    run(job, None, fakes.prepare)
    (cell,) = cell_module.cells(job)
    launch_module._clean([], [cell], fresh=False)
    outcome = chunks.run_cell(cell_module.Task(cell, fakes.refuse, tmp_path, {}), print, lambda: False, {})
    assert outcome.state == "done"
    assert outcome.info["iterations"] == fakes.ITERATIONS
