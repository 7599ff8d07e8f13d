"""Speedups against the length that R-CODA sees: the same chains cut short, never thinned ones."""

import numpy as np
import pandas as pd
import pytest

from flyrun.experiments.report.build import build
from flyrun.ground.diagnostics import coda
from tests.stored import write_cell, write_run, write_three_arms


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = write_run(tmp_path_factory.mktemp("lengths"), {"regular": [0, 1], "map_tuned": [0, 1]})
    sizes = {"iterations": 5200, "burn_in": 200}
    draws = {}
    for seed in (0, 1):
        draws["regular", seed] = write_cell(root, "regular", seed, stickiness=0.9, **sizes)
        draws["map_tuned", seed] = write_cell(root, "map_tuned", seed, queries=200, stickiness=0.99, **sizes)
    build(root)
    return root, draws


@pytest.mark.thorough
def test_each_length_is_the_same_chains_cut_short(run):
    root, draws = run
    table = pd.read_csv(root / "table.csv").set_index("arm")
    lengths = [column for column in table if column.startswith("ess_at_") and not column.endswith("_sd")]
    assert lengths == ["ess_at_1000", "ess_at_2000", "ess_at_5000"]
    for n in (1000, 2000, 5000):
        for over, name in ((np.mean, "speedup_at"), (np.median, "speedup_median_at")):
            sizes = {
                arm: np.mean([over(coda.effective_size(draws[arm, seed][:n])) for seed in (0, 1)])
                for arm in ("regular", "map_tuned")
            }
            wanted = sizes["map_tuned"] / sizes["regular"] * 12214 / 200
            assert table.loc["map_tuned", f"{name}_{n}"] == pytest.approx(wanted, rel=0.02)
            assert table.loc["regular", f"{name}_{n}"] == 1
    # the whole is the last: the table against the paper says the same
    assert table.loc["map_tuned", "speedup_at_5000"] == pytest.approx(table.loc["map_tuned", "speedup"])
    assert abs(table.loc["map_tuned", "speedup_at_1000"] / table.loc["map_tuned", "speedup"] - 1) > 0.01


def test_a_report_shows_the_tables_and_the_figure(run):
    text = (run[0] / "report.md").read_text()
    assert "**Speedup against the length that R-CODA sees, median over coordinates**" in text
    assert "| arm | 1,000 | 2,000 | 5,000 | seeds |" in text
    assert (run[0] / "figures/lengths.png").exists()


@pytest.mark.thorough
def test_thinned_draws_are_no_length_and_are_told_of(tmp_path):
    write_three_arms(tmp_path, iterations=3200, thin=5)
    text = build(tmp_path).text
    assert not any("length that R-CODA sees" in view.title for view in text.views)
    assert any("one of 5 draws of regular, untuned, map_tuned" in line for line in text.caveats)


def test_draws_that_are_all_kept_are_not_told_of(run):
    assert "R-CODA sees one of" not in (run[0] / "report.md").read_text()
