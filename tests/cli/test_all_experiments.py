"""`protocol=smoke` runs every experiment to its table: what makes it small leaves every arm something."""

import csv

import pytest

from flyrun.cli.main import main
from flyrun.experiments.config.catalogue import files
from flyrun.experiments.report import summaries

#: of one whose smoke leaves chains, importance and weighted draws a budget, the arms that compile soon
FAST = {
    "arena_tall": ["only=[random_walk_whitened,importance,weighted]", "dataset.n_data=500"],
    "toy_flymc": ["only=[regular,map_tuned]"],
}


def run_to_its_table(name, words, folder, capsys):
    code = main(
        [f"experiment={name}", "protocol=smoke", "executor.workers=1", f"results_dir={folder}", *words]
    )
    said = capsys.readouterr()
    assert code == 0, said.out + said.err
    rows = list(csv.DictReader((folder / "runs" / name / "table.csv").open()))
    assert rows
    assert all(int(row["seeds"]) > 0 for row in rows)


@pytest.mark.thorough
@pytest.mark.figures
@pytest.mark.parametrize("name", FAST)
def test_smoke_runs_an_experiment_to_its_table(name, tmp_path, capsys):
    run_to_its_table(name, FAST[name], tmp_path, capsys)


@pytest.mark.thorough
def test_cells_that_no_report_can_be_made_of_are_a_failure(tmp_path, capsys, monkeypatch):
    words = ["experiment=toy_flymc", "only=[regular]", "protocol=smoke", f"results_dir={tmp_path}"]
    assert main(words) == 0

    def lacking(draws, sections):
        raise KeyError("n_data")

    monkeypatch.setattr(summaries, "of_cell", lacking)
    assert main(words) == 1
    assert "seed 0 is failed: its draws cannot be read: 'n_data'" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", files("experiment"))
def test_smoke_runs_every_experiment_to_its_table(name, tmp_path, capsys):
    run_to_its_table(name, [], tmp_path, capsys)
