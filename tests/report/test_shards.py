"""What several workers make: queries in all and on the critical path, and the mark of what is off."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from flyrun.config.compose import compose_job
from flyrun.report.build import build
from flyrun.report.sections import shards
from flyrun.report.sections.estimates import Truth
from flyrun.runner.cell import run_dir
from flyrun.runner.launch import run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Averages of eight shards' draws, each with both of two modes, fall between them."""
    folder = tmp_path_factory.mktemp("results")
    words = [
        "experiment=consensus_two_modes", "only=[regular,full_J_8,product_J_8]", "protocol.iterations=1500",
        "protocol.burn_in=200", "arms.regular.protocol.iterations=1500", "protocol.seeds=2",
        "executor.workers=1", f"results_dir={folder}",
    ]  # fmt: skip
    job = compose_job(words)
    assert run(job).exit_code == 0
    build(run_dir(job))
    return run_dir(job)


def test_costs_of_a_draw_are_told_in_all_and_of_the_busiest(made):
    table = pd.read_csv(made / "table.csv").set_index("arm")
    full, product = table.loc["full_J_8"], table.loc["product_J_8"]
    assert full["shards"] == 8
    assert 4.0 < full["shards_queries_per_draw"] / full["shards_span_per_draw"] < 8.0
    assert full["shards_bytes_per_draw"] > 10 * product["shards_bytes_per_draw"]
    assert np.isnan(table.loc["regular"]["shards"])


def test_what_is_off_is_marked_in_every_output(made):
    table = pd.read_csv(made / "table.csv").set_index("arm")
    assert table.loc["full_J_8"]["off_the_reference"]
    assert table.loc["full_J_8"]["shards_ks"] > 0.1
    for name in ("report.md", "report.html"):
        assert "off the reference: " in (made / name).read_text()
    assert "seeds have targets of their own" in (made / "report.md").read_text()


@pytest.mark.parametrize(("z", "far"), [(3.1, False), (3.3, True)])
def test_a_mean_and_an_sd_are_off_where_one_of_two_is_as_rare_as_three_errors(monkeypatch, z, far):
    moments = (np.array([z * 0.01]), np.ones(1), np.array([0.01]))
    exact = Truth(np.zeros(1), np.ones(1), np.zeros(1), "it")
    monkeypatch.setattr(shards, "truth", lambda run, arm: exact)
    monkeypatch.setattr(shards, "posterior", lambda arm: moments)
    arm = SimpleNamespace(name="a", pooled=SimpleNamespace(names=["theta"]))
    found = shards._distance(None, arm)
    assert found["shards_z"] == pytest.approx(z)
    assert found["off_the_reference"] is far
