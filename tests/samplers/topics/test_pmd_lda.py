"""The experiment from the command line, on few documents: table, page, caching, and one line for bad data."""

import csv

import pytest

from tests.in_process import flyrun

EXPERIMENT = "experiment=pmd_lda"
SMALL = [
    "dataset.n_documents=150", "dataset.n_valid=20", "dataset.n_test=20", "dataset.n_words=60",
    "dataset.n_topics=4", "model.n_topics=4", "dataset.length=20", "protocol.iterations=10",
    "arms.gibbs.protocol.iterations=12", "protocol.seeds=2", "executor.workers=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("topics")
    done = flyrun(folder, EXPERIMENT, *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "results/runs/pmd_lda", done.stdout


@pytest.mark.thorough
def test_all_arms_stand_in_one_table(run):
    folder, printed = run
    rows = {row["arm"]: row for row in csv.DictReader((folder / "table.csv").open())}
    assert list(rows) == ["pmd", "svi", "sgrld", "one_pass_smc", "one_pass_smc_rejuvenated", "gibbs"]
    for arm, row in rows.items():
        assert 1 < float(row["perplexity"]) < 60, arm
        assert (row["seeds"], row["exact"]) == ("2", str(arm == "gibbs"))
        assert (float(row["setup_queries"]) > 0) == (arm in ("pmd", "svi", "sgrld"))
    assert rows["svi"]["perplexity_gibbs_fold_in"]
    assert rows["sgrld"]["perplexity_last_draw"]
    assert not rows["pmd"]["perplexity_last_draw"]
    assert float(rows["one_pass_smc"]["run_visits"]) == 150
    assert float(rows["one_pass_smc_rejuvenated"]["run_visits"]) == 150
    assert float(rows["pmd"]["run_visits"]) == 750
    assert float(rows["gibbs"]["run_visits"]) == 12 * 150
    assert float(rows["one_pass_smc"]["run_queries"]) * 5 == float(rows["pmd"]["run_queries"])
    assert "What was tuned" in printed
    assert {path.name for path in (folder / "figures").glob("*.png")} == {
        "functionals_queries.png",
        "functionals_visits.png",
    }


@pytest.mark.thorough
def test_a_second_call_runs_nothing(run):
    folder, _ = run
    assert "all 12 cells cached" in flyrun(folder.parents[2], EXPERIMENT, *SMALL).stdout


def test_a_missing_folder_is_told_in_a_line(tmp_path):
    done = flyrun(tmp_path, EXPERIMENT, "dataset=newsgroups", "dataset.path=nowhere")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "dataset.path=nowhere: has no bow_tr_tokens.mat; name the folder" in done.stderr
