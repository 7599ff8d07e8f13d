"""Sections: runs that mix answers, summaries section by section, made by the worker; runs merged."""

from __future__ import annotations

import importlib
import json
import math
import pickle
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.experiments.config.catalogue import illustrations
from flyrun.experiments.report import summaries
from flyrun.experiments.report.build import SECTIONS, Page, build, load, summarise
from flyrun.experiments.report.metrics import table as metrics_table
from flyrun.experiments.report.section import sections, shown
from flyrun.experiments.runner import store
from flyrun.experiments.runner.posterior import PosteriorFile
from flyrun.ground import files, run_files
from flyrun.ground.diagnostics import ess
from flyrun.ground.page.figures import caption
from flyrun.ground.page.metrics import Metric
from flyrun.ground.page.render import markdown
from tests.report.test_report_page import _Page
from tests.stored import KEY, cell_folder, write_cell, write_run, write_three_arms


def write_answer(root, arm, seed, answers, mean, exact=True, queries=5_000.0):
    """A finished cell that answers with weighted draws or with a density, and snapshots of its E θ."""
    mean, steps = np.asarray(mean, float), np.array([1, 2, 4])
    folder = cell_folder(root, arm, seed)
    tree = PosteriorFile(folder / run_files.POSTERIOR, (4, 0, 1), {"arm": arm, "seed": seed, "exact": exact})
    tree.add([(0, 4, {"queries": np.full(4, queries / 4)})])
    costs = dict.fromkeys(("queries", "visits", "span"), queries * steps / 4)
    costs["seconds"] = 0.5 + 0.1 * steps
    means = mean * (steps / 4)[:, None]
    tree.add_group("estimate", {"step": steps, **costs, "mean": means, "square": means**2 + 1}, "snapshot")
    if answers == "weighted":
        theta = mean + np.random.default_rng(seed).normal(size=(50, mean.size))
        weights = {"theta": theta, "log_weight": np.zeros(50), "sign": np.ones(50)}
        tree.add_group("weighted", weights, "draw")
    else:
        tree.add_group("approximation", {"location": mean, "precision": np.eye(mean.size)})
    tree.close()
    settings = {"dataset": {"name": "mnist_7v9"}, "model": {"name": "logistic"}, "sampler": {"name": answers}}
    facts = {"update": f"{answers} answers", "exact": exact, "n_data": 12214, "n_params": mean.size}
    info = {
        "experiment": "mnist_logreg", "name": "mnist_logreg", "arm": arm, "seed": seed, "key": KEY,
        "settings": settings, "answers": answers, "tuning": {}, "iterations": 4, "burn_in": 0, "thin": 1,
        "facts": {**facts, "setup_queries": 100, "setup_s": 0.5}, "environment": {"cpu": "A processor"},
        "timings": {"sampling_s": 0.4, "burn_in_s": 0.0, "wall_s": 1.0, "compile_s": 0.0, "setup_s": 0.5},
        "finished": "2030-01-01T00:00:00+00:00",
    }  # fmt: skip
    files.write_json(folder / store.CELL, info)
    store.mark_done(folder)


def add_estimates(root, arm, seed, theta):
    """Give a stored cell of draws the snapshots that the runner writes."""
    path = cell_folder(root, arm, seed) / run_files.POSTERIOR
    import h5netcdf

    with h5netcdf.File(path, "a") as file:
        group = file.create_group("estimate")
        group.dimensions = {"snapshot": 1, "mean_dim": theta.shape[1]}
        for name, value in (("queries", 1e6), ("visits", 1e6), ("span", 1e6), ("seconds", 2.5)):
            group.create_variable(name, ("snapshot",), "f8")[:] = [value]
        group.create_variable("mean", ("snapshot", "mean_dim"), "f8")[:] = theta.mean(axis=0)[None]
    store.mark_done(path.parent)


@pytest.fixture
def mixed(tmp_path):
    root = write_run(tmp_path / "mixed", {"regular": [0, 1], "is": [0, 1], "vb": [0], "later": [0]})
    draws = [write_cell(root, "regular", seed) for seed in (0, 1)]
    for seed, theta in enumerate(draws):
        add_estimates(root, "regular", seed, theta)
    mean, sd = np.concatenate(draws).mean(axis=0), np.concatenate(draws).std(axis=0)
    for seed in (0, 1):
        write_answer(root, "is", seed, "weighted", mean)
    write_answer(root, "vb", 0, "density", mean + sd * [1.0, 0.0, -2.0], exact=False)
    return root


@pytest.mark.thorough
def test_a_chain_weighted_draws_and_a_density_share_a_table_and_a_page(mixed):
    result = build(mixed)
    table = pd.read_csv(mixed / "table.csv").set_index("arm")
    assert table.index.tolist() == ["regular", "is", "vb", "later"]
    assert table["answers"].fillna("").tolist() == ["draws", "weighted", "density", ""]
    assert table.loc["is", "off"] == pytest.approx(0.0, abs=1e-6)
    assert table.loc["vb", "off"] == pytest.approx(math.sqrt(5 / 3), rel=1e-3)
    assert table.loc["vb", "off_worst"] == pytest.approx(2.0, rel=1e-3)
    assert math.isnan(table.loc["regular", "off"])
    assert (table["truth"].dropna() == "arm regular").all()
    assert 0.01 < table.loc["vb", "truth_error"] < 0.2
    assert table.loc["vb", "total_queries"] == 5000
    assert table.loc["vb", "total_seconds"] == pytest.approx(0.9)
    assert math.isnan(table.loc["vb", "ess_per_1000"])
    assert table.loc["regular", "speedup"] == 1
    assert table.loc["later", "note"].startswith("0/1 seeds (1 missing)")
    assert "Approximations, which never become the posterior however long they run: vb." in " ".join(
        result.warnings
    )
    page = _Page((mixed / "report.html").read_text())
    assert not page.open
    assert page.tags.count("table") == 7  # burn-in has one
    views_of = {view.title: [row[0] for row in view.rows] for view in Page(load(mixed)).views}
    assert views_of["How far answers are from the posterior"] == ["regular", "is", "vb", "later"]
    assert views_of["Cost"] == ["regular", "later"]  # what is not finished is in every table


def test_arms_without_any_draws_have_a_report(tmp_path):
    root = write_run(tmp_path, {"is": [0], "vb": [0]})
    write_answer(root, "is", 0, "weighted", [1.0, 2.0])
    write_answer(root, "vb", 0, "density", [1.0, 2.0])
    result = build(root)
    assert result.table["total_queries"].tolist() == [5000, 5000]
    assert {"experiment", "update", "seeds", "exact", "off"} <= set(result.table.columns) | {"off"}
    assert any("No exact arm of this run has draws" in text for text in result.warnings)
    assert [section.name for section in shown(load(root), SECTIONS)] == [
        "arms",
        "plausible",
        "accuracy",
        "weights",
        "convergence",
    ]


def test_chains_alone_show_no_estimates(tmp_path):
    table = Page(load(write_three_arms(tmp_path, seeds=1))).table
    assert "answers" not in table
    assert "us_per_update" not in table


def test_a_chain_without_what_is_optional_has_a_report(tmp_path):
    root = write_run(tmp_path, {"bare": [0, 1]}, reference={})
    for seed in (0, 1):
        theta = np.random.default_rng(seed).normal(size=(100, 2))
        folder = cell_folder(root, "bare", seed)
        write_cell(root, "bare", seed)
        tree = PosteriorFile(folder / run_files.POSTERIOR, (100, 20, 1), {"arm": "bare"})
        tree.add([(0, 100, {"theta": theta, "queries": np.ones(100)})])
        tree.close()
        store.mark_done(folder)
    row = build(root).table.iloc[0]
    assert row["ess_per_1000"] > 0
    assert math.isnan(row["accept_rate"])
    assert math.isnan(row["bright_mean"])


@pytest.mark.thorough
def test_chains_that_a_budget_ended_at_different_lengths_share_a_row(tmp_path):
    root = write_run(tmp_path, {"regular": [0, 1]})
    long, short = (write_cell(root, "regular", seed, iterations=1200 - 150 * seed) for seed in (0, 1))
    assert len(long) > len(short)
    row = build(root).table.iloc[0]
    expected = ess.summary(np.stack([long[-len(short) :], short]))
    assert row["rhat_max"] == pytest.approx(expected.rhat.max(), rel=1e-6)
    assert row["seeds"] == 2


@pytest.mark.thorough
@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
@pytest.mark.parametrize("how", [{"rest": True}, {"iterations": 201}], ids=["at rest", "one draw"])
def test_a_run_with_nothing_to_draw_has_a_report(tmp_path, how):
    root = write_run(tmp_path, {"regular": [0, 1]})
    for seed in (0, 1):
        write_cell(root, "regular", seed, **how)
    assert build(root).table.iloc[0]["seeds"] == 2


def _count(monkeypatch):
    """Which sections work out something, from now on."""
    made = []
    real = summaries._cached

    def cached(path, draws, makers, given):
        def counted(name, make):
            return lambda values: made.append((path.name, name)) or make(values)

        return real(path, draws, {n: (one, counted(n, make)) for n, (one, make) in makers.items()}, given)

    monkeypatch.setattr(summaries, "_cached", cached)
    return made


@pytest.mark.thorough
def test_an_edit_of_one_section_makes_only_that_ones_summaries_anew(tmp_path, monkeypatch):
    root = write_three_arms(tmp_path, seeds=1)
    made = _count(monkeypatch)
    first = build(root).table
    assert ("summary.json", "chains") in made
    made.clear()
    build(root)
    assert made == []
    digest = summaries._code_digest
    edited = lambda section: digest(section) + ("x" if section.name == "chains" else "")  # noqa: E731
    monkeypatch.setattr(summaries, "_code_digest", edited)
    pd.testing.assert_frame_equal(build(root).table, first)
    assert set(made) == {("summary.json", "chains")}


@pytest.mark.thorough
def test_a_large_runs_arms_are_read_side_by_side_to_the_same_report(tmp_path, monkeypatch):
    assert all(pickle.loads(pickle.dumps(section)) is section for section in SECTIONS)
    here, elsewhere = (write_three_arms(tmp_path / name, seeds=1) for name in ("here", "elsewhere"))
    build(here)
    monkeypatch.setattr(summaries, "_WORTH_BYTES", 0)
    monkeypatch.setattr(summaries, "_cached", None)  # nothing is summarised in this process
    build(elsewhere)
    for name in ("table.csv", "report.md"):
        assert (elsewhere / name).read_text() == (here / name).read_text()


def test_every_sections_digest_is_of_its_own_file():
    digests = [summaries._code_digest(section) for section in SECTIONS if section.summarise]
    assert len(set(digests)) == len(digests)


@pytest.mark.thorough
def test_a_summary_made_as_a_cell_ends_serves_the_report(tmp_path, monkeypatch):
    root = write_three_arms(tmp_path, seeds=2)
    for cell in store.open_cells(root):
        summarise(cell.folder)
    made = _count(monkeypatch)
    build(root)
    assert {file for file, _ in made} == {"diagnostics.json"}


def test_as_a_cell_ends_only_what_its_run_asks_for_is_worked_out(tmp_path, monkeypatch):
    """Bounds of log Z, which an experiment asks for, take minutes a cell."""
    root = write_three_arms(tmp_path, seeds=1)
    made = _count(monkeypatch)
    summarise(next(iter(store.open_cells(root))).folder)
    info = run_files.read_run(root)
    others = {section.name for section in SECTIONS if section.summarise and not section.serves(info)}
    assert "bounds" in others
    assert made
    assert not {name for _, name in made} & others


@pytest.mark.thorough
def test_the_runner_summarises_cells_and_no_failure_there_is_theirs(tmp_path, monkeypatch):
    words = ["dataset=toy_2d", "model=logistic", "sampler=random_walk", "protocol=smoke", "name=toy"]
    words += ["executor.workers=1", f"results_dir={tmp_path}", "--quiet"]
    assert main(words) == 0
    assert list(tmp_path.rglob("summary.json"))

    def fail(*_):
        raise ValueError("planted")

    monkeypatch.setattr(summaries, "of_cell", fail)
    from flyrun.experiments.config.compose import compose_job
    from flyrun.experiments.runner.launch import run

    result = run(compose_job([*words[:-1], "name=again"]), summarise=summarise)
    assert result.exit_code == 0
    assert result.of("done")
    logs = [path.read_text() for path in (tmp_path / "runs" / "again").rglob("log.txt")]
    assert logs
    assert all("no summary: ValueError: planted" in text for text in logs)


def _set_problem(root, **values):
    info = json.loads((root / "run.json").read_text())
    for arm in info["arms"]:
        arm["problem"] = {"dataset": {"name": "mnist_7v9"}, "model": {"name": "logistic"}, **values}
    (root / "run.json").write_text(json.dumps(info))


@pytest.mark.thorough
def test_runs_of_one_problem_make_one_report(tmp_path, capsys):
    a = write_three_arms(tmp_path / "runs" / "a", seeds=2)
    b = write_run(tmp_path / "runs" / "b", {"regular": [0], "mine": [0]}, title="Others")
    for arm in ("regular", "mine"):
        write_cell(b, arm, 0)
    _set_problem(a, protocol={"iterations": 1200})
    _set_problem(b, protocol={"iterations": 2400})
    assert main(["report", "a", "b", f"results_dir={tmp_path}"]) == 0
    folder = tmp_path / "runs" / "a+b"
    table = pd.read_csv(folder / "table.csv")
    assert table["arm"].tolist() == ["a/regular", "untuned", "map_tuned", "b/regular", "mine"]
    assert table["speedup"][0] == 1  # the first run's baseline is everyone's
    assert table["speedup"][3] == pytest.approx(table["ess_per_1000"][3] / table["ess_per_1000"][0])
    assert (folder / "report.html").stat().st_size > 10_000
    assert "flyrun report a b" in (folder / "report.md").read_text()
    assert "Sevens against nines; Others" in capsys.readouterr().out
    assert main(["report", "a", "b", f"results_dir={tmp_path}", f"out={tmp_path / 'page'}"]) == 0
    assert (tmp_path / "page" / "table.csv").read_text() == (folder / "table.csv").read_text()


def test_runs_of_other_problems_are_refused(tmp_path, capsys):
    for name, scale in (("a", 1.0), ("b", 2.0)):
        root = write_run(tmp_path / "runs" / name, {"regular": [0]})
        write_cell(root, "regular", 0)
        _set_problem(root, prior={"name": "gaussian", "scale": scale})
    assert main(["report", "a", "b", f"results_dir={tmp_path}"]) == 2
    said = capsys.readouterr().err
    assert "prior.scale is 1.0 in a, arm regular and 2.0 in b, arm regular; only runs of one" in said
    assert said.count("\n") == 1
    assert main(["report", "a", "a", f"results_dir={tmp_path}"]) == 2
    assert "a is named twice" in capsys.readouterr().err


PART = """
from flyrun.extend import Metric, Section

SECTION = Section(
    "speed", place=15, title="Speed", reads=("steps",), summarise=lambda draws: {"steps": draws.shape[0]},
    metrics=[Metric("kept_draws", "draws", of=lambda run, arm: int(arm.each("steps").sum()))],
)
"""


def _package(tmp_path, monkeypatch, points, code=PART):
    """A package with a section, as pip would leave it; what is known of sections is read anew."""
    site = tmp_path / "site"
    told = site / "flyrun_speed-1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: flyrun-speed\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(f"[flyrun.sections]\n{points}\n")
    (site / "flyrun_speed.py").write_text(code)
    monkeypatch.syspath_prepend(site)
    sections.cache_clear()
    monkeypatch.setattr("flyrun.experiments.report.build.SECTIONS", sections())


@pytest.fixture
def as_installed():
    """What is known of sections is of this environment, before and after."""
    yield
    sys.modules.pop("flyrun_speed", None)
    sections.cache_clear()


def test_another_packages_section_stands_at_its_place(tmp_path, monkeypatch, as_installed):
    _package(tmp_path, monkeypatch, "speed = flyrun_speed:SECTION")
    run = write_three_arms(tmp_path)
    text = build(run).text
    assert text.views[0].title == "Speed"
    table = pd.read_csv(run / "table.csv")
    assert table["kept_draws"].gt(0).all()
    [own] = [one for one in sections() if one.name == "speed"]
    assert pickle.loads(pickle.dumps(own)) is own  # as it goes to a worker


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("points", "code", "reason"),
    [
        ("speed = flyrun_speed:SECTION", "import nothing_of_that_name", "speed cannot be loaded (ModuleNot"),
        ("speed = flyrun_speed:SECTION", "SECTION = 3", "speed is no Section;"),
        (
            "speed = flyrun_speed:SECTION",
            "from flyrun.extend import Sections",
            "speed imports Sections from flyrun.extend, which contract 1.0 does not have; write `from",
        ),
        ("a = flyrun_speed:SECTION", PART.replace('"speed"', '"ess"'), "ess is the name of another;"),
    ],
)
def test_a_section_that_cannot_be_used_is_a_caveat(tmp_path, monkeypatch, as_installed, points, code, reason):
    _package(tmp_path, monkeypatch, points, code)
    report = build(write_three_arms(tmp_path))
    [caveat] = [text for text in report.warnings if "flyrun-speed" in text]
    assert reason in caveat
    assert caveat.endswith("mend or remove the package flyrun-speed.")
    assert "ESS" in str(report.text.views)


def _sentences(text):
    return len(re.findall(r"[.!?](?=\s+[A-Z(]|\s*$)", text))


def test_a_caption_is_at_most_two_sentences():
    plots = {name: plot for section in SECTIONS for name, plot in section.figures.items()}
    for file in illustrations():
        plots |= importlib.import_module(f"flyrun.experiments.report.illustrations.{file}").FIGURES
    assert not {name: caption(plot) for name, plot in plots.items() if not 0 < _sentences(caption(plot)) < 3}
    assert _sentences("One (of 3.5). Two, e.g. this. Three.") == 3  # the control


def test_columns_that_say_nothing_are_not_shown_and_the_others_are_explained():
    rows = [{"arm": "a", "seeds": 1, "seeds_wanted": 1, "x": 1.0, "y": math.nan}]
    metrics = [Metric("x", "of x", means="what x is"), Metric("y", "of y", means="what y is")]
    view = metrics_table("t", metrics, rows)
    assert view.header == ("arm", "of x", "seeds")
    assert view.notes == (("of x", "what x is"),)
    assert "what x is" in markdown(view)
    assert metrics_table("t", metrics, [{**rows[0], "y": 2.0}]).header == ("arm", "of x", "of y", "seeds")


def _declared_twice(texts):
    """Columns that more than one of these files declares."""
    names = (set(re.findall(r"(?:Metric|of_cells|word)\(\s*\"(\w+)\"", text)) for text in texts)
    return {
        name for name, times in Counter(name for of_file in names for name in of_file).items() if times > 1
    }


def test_how_far_and_at_what_cost_is_declared_once_for_all_sections():
    files = Path(metrics_table.__code__.co_filename).parent.rglob("*.py")
    shared = {"off", "off_worst", "sd_ratio", "truth", "truth_error", "total_queries", "total_seconds"}
    assert not shared & _declared_twice(path.read_text("utf-8") for path in files)
    assert _declared_twice(['Metric("off")', 'of_cells(\n    "off", "off")']) == {"off"}  # the control
