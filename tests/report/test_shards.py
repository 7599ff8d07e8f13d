"""What several workers make: queries in all and on the critical path, and the mark of what is off."""

import numpy as np
import pandas as pd
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.report.build import build
from flyrun.experiments.runner.cell import run_dir
from flyrun.experiments.runner.launch import run

pytestmark = pytest.mark.figures


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Averages of eight shards' draws, each with both of two modes, fall between them."""
    folder = tmp_path_factory.mktemp("results")
    words = [
        "experiment=consensus_two_modes", "only=[regular,full_J_8,product_J_8]", "protocol.iterations=700",
        "protocol.burn_in=100", "protocol.thin=1", "arms.regular.protocol.iterations=700",
        "protocol.seeds=2", "executor.workers=1", f"results_dir={folder}",
    ]  # fmt: skip
    job = compose_job(words)
    assert run(job).exit_code == 0
    build(run_dir(job))
    return run_dir(job)


@pytest.mark.thorough
def test_costs_of_a_draw_are_told_in_all_and_of_the_busiest(made):
    table = pd.read_csv(made / "table.csv").set_index("arm")
    full, product = table.loc["full_J_8"], table.loc["product_J_8"]
    assert full["shards"] == 8
    assert 4.0 < full["queries_per_draw"] / full["span_per_draw"] < 8.0
    assert full["bytes_per_draw"] > 10 * product["bytes_per_draw"]
    assert np.isnan(table.loc["regular"]["shards"])


@pytest.mark.thorough
def test_what_is_off_is_marked_in_every_output(made):
    table = pd.read_csv(made / "table.csv").set_index("arm")
    assert table.loc["full_J_8"]["off_the_truth"]
    assert table.loc["full_J_8"]["ks"] > 0.1
    for name in ("report.md", "report.html"):
        assert "off the truth: " in (made / name).read_text()
    assert table.loc["full_J_8"]["judged"] == "each split"
    assert "seeds have targets of their own" in (made / "report.md").read_text()
