"""Moments beside exact ones: a small run, its page, and what it says of a mean that is lost."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.report.sections import quadrature

pytestmark = pytest.mark.figures

ARMS = ("ep", "cavi", "cavi_from_prior", "laplace", "ep_n_50", "ep_n_200")
WORDS = ["experiment=clutter", f"only=[{','.join(ARMS)}]", "dataset.n_sets=5", "executor.workers=1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quadrature")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(WORDS) == 0
    return folder / "results/runs/clutter"


@pytest.mark.thorough
def test_a_run_has_its_table_and_says_what_is_lost(run):
    rows = {row["arm"]: row for row in csv.DictReader((run / "table.csv").open())}
    assert tuple(rows) == ARMS
    assert float(rows["ep_n_200"]["off_worst"]) < 0.01
    assert float(rows["ep_n_200"]["sd_ratio"]) == pytest.approx(1, abs=0.01)
    assert abs(float(rows["ep_n_200"]["evidence_off"])) < 0.05
    assert float(rows["cavi_from_prior"]["off_median"]) > 1
    assert float(rows["cavi_from_prior"]["evidence_off"]) < float(rows["cavi"]["evidence_off"]) < 0
    assert rows["laplace"]["evidence_off"] == ""
    page = (run / "report.md").read_text()
    assert "Moments beside exact ones" in page
    assert "E θ at the end" not in page
    assert page.count("it has ended elsewhere") >= 1
    assert rows["laplace"]["settled"] == ""  # one step
    assert rows["ep_n_200"]["settled"] == "True"
    assert (run / "figures/quadrature.png").stat().st_size > 10_000


@pytest.mark.thorough
def test_no_other_run_works_it_out(run):
    info = json.loads((run / "run.json").read_text())
    assert quadrature.SECTION.serves(info)
    assert not quadrature.SECTION.serves({**info, "quadrature": False})


def test_distances_are_in_the_exact_sds():
    cells = [
        SimpleNamespace(moment_mean=[1.0, 4.0], moment_sd=[1.0, 3.0]),
        SimpleNamespace(moment_mean=[3.0, 4.0], moment_sd=[1.0, 2.0]),
    ]
    known = {"moment_evidence": [-7.0, -9.0], "total_queries": [4, 6], "total_seconds": [1, 1]}
    pooled = SimpleNamespace(exact_mean=[1.0, 2.0], exact_sd=[2.0, 1.0], exact_evidence=-7.5)
    arm = SimpleNamespace(cells=cells, pooled=pooled, each=lambda name: np.array(known[name], float))
    row = quadrature._row(None, arm)
    assert row["off_median"] == pytest.approx(1.25)  # of 0 and 2, of 1 and 2
    assert row["off_worst"] == 2
    assert (row["sd_ratio_least"], row["sd_ratio_most"]) == (0.5, 2.5)
    assert row["evidence_off"] == -0.5
    assert (row["off_far"], row["off_told"]) == (2, 4)  # of 0, 2, 1 and 2
    assert quadrature._arm_caveats(None, arm) == [
        "2 of 4 means are more than 1 sd off, the farthest 2.0: there it has ended elsewhere."
    ]
