"""The section of functionals: names come from what cells stored, costs leave out setting up."""

import numpy as np
import pandas as pd
import pytest

from flyrun.experiments.report.build import SECTIONS, Page, build, load
from flyrun.experiments.report.colours import styles_of
from flyrun.experiments.report.section import shown
from flyrun.experiments.report.sections import functionals
from flyrun.experiments.runner import store
from flyrun.experiments.runner.posterior import PosteriorFile
from flyrun.ground import files, run_files
from tests.report.test_sections import write_answer
from tests.stored import cell_folder, write_cell, write_run, write_three_arms

SETUP, SETUP_S = 100.0, 0.5


def write_functionals(root, arm, seed, values, tuning=None, searched=(), n_data=20):
    """A finished cell that hands in these numbers, {name: (3,)}."""
    write_answer(root, arm, seed, "density", [1.0])
    folder = cell_folder(root, arm, seed)
    tree = PosteriorFile(folder / run_files.POSTERIOR, (4, 0, 1), {"arm": arm, "seed": seed, "exact": False})
    tree.add([(0, 4, {"queries": np.full(4, 1000.0), "visits": np.full(4, 10.0)})])
    steps = np.array([1, 2, 4])
    costs = {"queries": SETUP + 1000.0 * steps, "visits": SETUP + 10.0 * steps, "span": SETUP + 10.0 * steps}
    costs["seconds"] = SETUP_S + 0.1 * steps
    estimates = {name: np.asarray(one, float) for name, one in values.items()}
    tree.add_group("estimate", {"step": steps, **costs, **estimates}, "snapshot")
    tree.close()
    info = files.read_json(folder / store.CELL)
    info["tuning"] = tuning or {}
    info["facts"] |= {"known_perplexity": 5.0, "searched": list(searched)}
    info["facts"]["n_data"] = n_data
    if n_data is None:
        del info["facts"]["n_data"]
    files.write_json(folder / store.CELL, info)
    store.mark_done(folder)


@pytest.fixture
def run(tmp_path):
    root = write_run(tmp_path / "run", {"one": [0, 1], "other": [0], "later": [0]})
    for seed in (0, 1):
        write_functionals(root, "one", seed, {"perplexity": [9, 8, 7 + seed]}, {"a": 0.25})
    write_functionals(root, "other", 0, {"perplexity": [9, 8, 6], "coherence": [0, 1, 2]})
    return root


@pytest.mark.thorough
@pytest.mark.figures
def test_values_at_the_end_and_what_they_cost_without_setting_up(run):
    build(run)
    table = pd.read_csv(run / "table.csv").set_index("arm")
    assert table["perplexity"].tolist()[:2] == [7.5, 6.0]
    assert table.loc["one", "perplexity_sd"] == pytest.approx(np.sqrt(0.5))
    assert table.loc["other", "coherence"] == 2
    assert np.isnan(table.loc["one", "coherence"])
    assert table.loc["one", ["run_queries", "run_visits", "setup_queries"]].tolist() == [4000, 40, 100]
    assert table.loc["one", "run_seconds"] == pytest.approx(0.4)
    assert table.loc["one", "step"] == "a = 0.25"
    assert [section.name for section in shown(load(run), SECTIONS)] == ["arms", "functionals"]
    titles = [view.title for view in Page(load(run)).views]
    assert titles == ["At the end (mean ± sd over seeds)", "What was tuned"]  # no words of topics are known
    page = (run / "report.html").read_text()
    assert "coherence" in page
    assert {path.stem for path in (run / "figures").iterdir()} == {
        "functionals_visits",
        "functionals_queries",
    }


def test_arms_without_functionals_have_no_such_part(tmp_path):
    root = write_three_arms(tmp_path, seeds=1)
    assert "functionals" not in [section.name for section in shown(load(root), SECTIONS)]


@pytest.mark.thorough
def test_a_chain_stands_beside_them(run):
    draws = write_run(run.parent / "both", {"one": [0], "regular": [0]})
    write_functionals(draws, "one", 0, {"perplexity": [9, 8, 7]})
    write_cell(draws, "regular", 0)
    table = build(draws).table.set_index("arm")
    assert table.loc["one", "perplexity"] == 7
    assert np.isnan(table.loc["regular", "perplexity"])


def test_the_likeliest_words_of_topics_where_the_vocabulary_is_known(run):
    path = cell_folder(run, "other", 0) / store.CELL
    info = files.read_json(path)
    info["facts"]["top_words"] = [f"oil barrel {i}" for i in range(20)]
    files.write_json(path, info)
    store.mark_done(path.parent)
    last = Page(load(run)).views[-1]
    assert last.title == "Likeliest words of the first topics: other"
    assert last.rows[0] == ("1", "oil barrel 0")
    assert len(last.rows) == 8


@pytest.mark.figures
def test_lines_are_of_one_truth_and_what_lies_on_each_other_is_one(tmp_path):
    arms = ("one", "same", "other", "elsewhere")
    root = write_run(tmp_path / "run", {name: [0] for name in arms})
    for name, end in zip(arms, (7, 7, 6, 5), strict=True):
        write_functionals(root, name, 0, {"perplexity": [9, 8, end]})
    folder = cell_folder(root, "elsewhere", 0)
    info = files.read_json(folder / store.CELL)
    info["facts"]["known_perplexity"] = 4.0
    files.write_json(folder / store.CELL, info)
    store.mark_done(folder)
    run = load(root)
    lines = functionals._lines(run.done, "perplexity", 5.0, "visits")
    assert list(lines) == ["one, same", "other"]
    assert list(functionals._lines(run.done, "perplexity", None, "visits")) == [
        "one, same",
        "other",
        "elsewhere",
    ]


def test_steps_that_were_tried_stand_beside_each_other(tmp_path):
    """Those of both arms, all perplexities; the size that is best inside those tried, and at their edge."""
    root = write_run(tmp_path / "run", {"inside": [0], "edge": [0]})
    tried = [[a, 1.0, 0.5, 100.0 + abs(a - 0.1)] for a in (0.03, 0.1, 0.3)]
    write_functionals(root, "inside", 0, {"perplexity": [9, 8, 7]}, searched=tried)
    write_functionals(root, "edge", 0, {"perplexity": [9, 8, 7]}, searched=tried[:2])
    table = build(root).table.set_index("arm")
    assert table["tries"].tolist() == [3, 2]
    assert table["best_at_edge"].tolist() == ["", "a"]
    view = next(view for view in Page(load(root)).views if view.title.startswith("Steps tried"))
    assert view.header == ("step", "inside", "edge")
    assert view.rows[-1] == ("0.3 1 0.5", "100.2", "-")
    assert table["perplexity_one_pass"].tolist() == [8, 8]  # of snapshots after 10, 20 and 40 of 20 data
    assert table["perplexity_quarter_pass"].isna().all()


def test_variables_of_a_graph_have_no_pass_over_rows(tmp_path):
    root = write_run(tmp_path / "run", {"gibbs": [0]})
    write_functionals(root, "gibbs", 0, {"correlation": [0.1, 0.2, 0.3]}, n_data=None)
    (arm,) = load(root).arms
    assert arm.done == arm.wanted
    assert not {"first_correlation", "early_correlation"} & vars(arm.cells[0]).keys()


@pytest.mark.figures
def test_the_axis_of_costs_is_named_by_what_it_measures(run):
    """And by no arm, whose names loop inside."""
    for cost, name in (("visits", "data visited"), ("queries", "likelihood queries")):
        done = load(run).done
        figure = functionals._FIGURES[f"functionals_{cost}"](done, styles_of(done), "title")
        assert [axis.get_xlabel() for axis in figure.axes if axis.get_xlabel()] == [name]
