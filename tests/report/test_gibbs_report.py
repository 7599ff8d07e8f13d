"""The report of a run on a graph: a short run through the command line, and numbers worked out by hand."""

import dataclasses
import io
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from flyrun.experiments.report.build import Page, build, load
from flyrun.experiments.report.colours import styles_of
from flyrun.experiments.report.sections import long_run as gibbs_reference
from tests.in_process import flyrun
from tests.stored import write_three_arms

SWEEPS, BURN_IN, VARIABLES = 400, 100, 16


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    words = ["experiment=ising_local_minibatch", "dataset.side=4", "protocol.seeds=3", "name=small"]
    words += [f"protocol.iterations={SWEEPS}", f"protocol.burn_in={BURN_IN}", "executor.workers=1"]
    words += [
        "only=[gibbs,local_40,local_80,local_160]",
        "arms.local_40.sampler.batch=2",
        "arms.local_80.sampler.batch=4",
        "arms.local_160.sampler.batch=8",
    ]
    done = flyrun(folder, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "results" / "runs" / "small", done.stdout


@pytest.mark.thorough
def test_terminal_speaks_of_sweeps_and_factors(run):
    _, text = run
    assert "400 sweeps in" in text
    assert "sweeps/s" in text
    assert "30 factors/update (15 looked at)" in text
    assert "queries" not in text
    assert "Ψ = " in text
    tables = text[text.index("Error at the end") : text.index("! ")]
    assert max(map(len, tables.splitlines())) <= 100
    assert "…" not in tables


@pytest.mark.thorough
def test_biased_sampler_is_marked_in_every_output(run):
    root, text = run
    assert len(re.findall(r" no +[\d\n]", text)) >= 6
    for name, cell in (("report.md", "| no |"), ("report.html", "<td>no</td>")):
        page = (root / name).read_text()
        assert page.count(cell) == 9
        assert "this sampler is biased" in page
        assert "our choice" in page
    table = pd.read_csv(root / "table.csv")
    assert table["exact"].tolist() == [True, False, False, False]
    assert table["note"].fillna("").str.startswith("biased").tolist() == [False, True, True, True]
    meta = json.loads((root / "table.json").read_text())
    assert [row["exact"] for row in meta["rows"]] == [True, False, False, False]
    told = [text.partition(":")[0] for text in meta["meta"]["warnings"] if "biased" in text]
    biased = table.loc[~table["exact"], "arm"]
    assert all(any(arm in names for names in told) for arm in biased)


@pytest.mark.thorough
def test_table_agrees_with_the_draws(run):
    root, _ = run
    table = pd.read_csv(root / "table.csv").set_index("arm")
    errors, energies = {}, {}
    for arm in load(root).arms:
        trees = [_tree(root, arm.name, info) for info in arm.infos]
        errors[arm.name] = np.array([tree["sample_stats"]["error"].values[0, -1] for tree in trees])
        energies[arm.name] = np.array([tree["sample_stats"]["energy"].values.mean() for tree in trees])
        for tree in trees:
            tree.close()
    ours, base = errors["local_40"], errors["gibbs"]
    assert table.loc["local_40", "error"] == pytest.approx(ours.mean())
    assert table.loc["local_40", "error_sd"] == pytest.approx(ours.std(ddof=1))
    assert table.loc["local_40", "error_ratio"] == pytest.approx(ours.mean() / base.mean())
    gap = energies["local_40"].mean() - energies["gibbs"].mean()
    both = math.sqrt((energies["local_40"].var(ddof=1) + energies["gibbs"].var(ddof=1)) / 3)
    assert table.loc["local_40", "energy_off"] == pytest.approx(gap / both)
    assert table.loc["local_40", "energy_off"] < -5
    assert table.loc["gibbs", "updates"] == SWEEPS * VARIABLES
    assert math.isnan(table.loc["gibbs", "energy_off"])
    assert table.loc["local_40", "batch"] == "2 factors"


def _tree(root, arm, info):
    from flyrun.experiments.runner import store

    return store.open_cell(root, arm, info["key"], info["seed"]).tree()


@pytest.mark.thorough
def test_figures_and_what_they_cost(run):
    root, _ = run
    names = {path.name for path in (root / "figures").iterdir()}
    figures = ("error_updates", "error_factors", "error_seconds")
    assert names == {f"{name}.{kind}" for name in figures for kind in ("png", "svg")}
    loaded = load(root)
    cell = loaded.arms[0].cells[0]
    assert cell.curve_updates[0] == VARIABLES
    assert cell.curve_updates[-1] == SWEEPS * VARIABLES
    assert cell.curve_error[-1] == cell.error
    assert cell.curve_factors[-1] == pytest.approx(cell.nominal * SWEEPS * VARIABLES)
    assert cell.curve_seconds[-1] == pytest.approx(1e-6 * cell.us_per_update * SWEEPS * VARIABLES)
    assert len(set(styles_of(loaded.arms).values())) == 4


@pytest.mark.thorough
def test_a_second_report_is_the_same(run):
    root, _ = run
    before = {name: (root / name).read_bytes() for name in ("table.csv", "report.md", "report.html")}
    console = Console(file=io.StringIO(), width=100)
    assert build(root, console).complete
    assert before == {name: (root / name).read_bytes() for name in before}


@pytest.mark.thorough
def test_arms_without_seeds_and_one_seed(run):
    loaded = load(run[0])
    gibbs, local = loaded.arms[0], loaded.arms[1]
    missing = dataclasses.replace(gibbs, infos=(), cells=(), states=dict.fromkeys(range(3), "missing"))
    alone = dataclasses.replace(loaded, arms=(missing, local))
    table = Page(alone).table
    assert table["note"].tolist()[0] == "0/3 seeds (3 missing)"
    assert Page(alone).views[0].rows[0][-1] == "0/3"
    assert any("plain Gibbs" in text for text in Page(alone).caveats)
    one = dataclasses.replace(local, infos=local.infos[:1], cells=local.cells[:1], wanted=1)
    single = dataclasses.replace(loaded, arms=(gibbs, one))
    assert math.isnan(Page(single).table["energy_off"][1])
    assert any("One seed" in text for text in Page(single).caveats)


@pytest.mark.thorough
def test_arms_on_the_papers_graph_are_held_against_the_stored_long_run(tmp_path):
    words = ["experiment=ising_local_minibatch", "only=[gibbs,local_40]", "name=stored", "protocol.seeds=4"]
    words += ["protocol.iterations=700", "protocol.burn_in=200", "executor.workers=1"]
    done = flyrun(tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    root = tmp_path / "results" / "runs" / "stored"
    loaded = load(root)
    long_run = gibbs_reference.reference(loaded)
    assert (long_run.arm, len(long_run.energy)) == ("", 16)
    table = Page(loaded).table.set_index("arm")
    for name in ("energy", "agreement"):
        # fixed seeds; plain Gibbs is not marked, and the biased sampler is: its negative control
        assert abs(table.loc["gibbs", f"{name}_off"]) < gibbs_reference.FAR
        assert table.loc["local_40", f"{name}_off"] < -10 * gibbs_reference.FAR
        assert table.loc["gibbs", f"reference_{name}_se"] < 0.3 * table.loc["gibbs", f"{name}_se"]
    rows = {row[0]: row for row in Page(loaded).views[2].rows}
    assert list(rows) == ["long Gibbs run", "gibbs", "local_40"]
    assert [" !" in "".join(rows[name]) for name in rows] == [False, False, True]
    assert "stored, 16 chains" in (root / "report.md").read_text()


def test_other_runs_keep_their_report(tmp_path):
    loaded = load(write_three_arms(tmp_path, seeds=1))
    table = Page(loaded).table
    assert "queries_per_iter" in table
    assert "factors_actual" not in table
