"""How many iterations chains take from far off to where they settle."""

import pandas as pd
import pytest

from flyrun.experiments.report.build import build, load
from flyrun.experiments.report.colours import styles_of
from flyrun.experiments.report.sections import chains
from tests.stored import write_cell, write_run


def needed(root):
    build(root)
    table = pd.read_csv(root / "table.csv").set_index("arm")
    return table["burn_in_needed"] if "burn_in_needed" in table else pd.Series(dtype=float)


def test_iterations_until_the_log_posterior_is_that_of_settled_chains(tmp_path):
    """Stored chains come in as 20,000 e^(−t/τ), τ a tenth of burn-in: nothing is left after some 9 τ."""
    root = write_run(tmp_path, {"regular": [0, 1], "map_tuned": [0, 1]})
    for seed in (0, 1):
        write_cell(root, "regular", seed, iterations=2400, burn_in=200)
        write_cell(root, "map_tuned", seed, iterations=2400, burn_in=400)
    counts = needed(root)
    assert 100 < counts["regular"] < 260
    assert counts["map_tuned"] == pytest.approx(2 * counts["regular"], rel=0.3)
    assert "Burn-in from far off" in (root / "report.md").read_text()


def test_chains_that_still_climb_have_no_number(tmp_path):
    """The negative control: of the log posterior's last quarter alone every chain has a level."""
    root = write_run(tmp_path, {"regular": [0, 1]})
    for seed in (0, 1):
        write_cell(root, "regular", seed, iterations=1200, burn_in=1100)
    assert needed(root).dropna().empty


def test_a_chain_that_never_comes_in_has_no_number(tmp_path):
    root = write_run(tmp_path, {"regular": [0, 1], "map_tuned": [0, 1]})
    for seed in (0, 1):
        write_cell(root, "regular", seed)
        write_cell(root, "map_tuned", seed, shift=40.0)
    counts = needed(root)
    assert counts["regular"] > 0
    assert pd.isna(counts["map_tuned"])


@pytest.mark.figures
def test_the_figure_names_chains_that_do_not_agree_and_shows_no_counts_alone(tmp_path):
    root = write_run(tmp_path, {"regular": [0, 1], "map_tuned": [0, 1]})
    for seed in (0, 1):
        write_cell(root, "regular", seed)
        write_cell(root, "map_tuned", seed, shift=40.0 * seed)
    arms = load(root).done
    figure = chains._convergence(arms, styles_of(arms), "")
    names = {line.get_label() for line in figure.axes[0].lines}
    assert {"regular", "map tuned (not settled)"} <= names
    for arm in arms:
        for cell in arm.cells:
            cell.trace_log_posterior = []
    assert chains._convergence(arms, styles_of(arms), "") is None
