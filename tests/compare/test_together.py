"""A published table as a whole, a report published: the missing shows, the unfinished is not published."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.experiments.compare import published as together
from flyrun.experiments.compare.publish import publish
from flyrun.experiments.report import figures
from flyrun.ground import paths
from flyrun.ground.errors import StoreError
from tests.stored import TABLE1, write_cell, write_run, write_three_arms

PUBLISHED = json.loads(TABLE1.read_text())


@pytest.fixture
def results(tmp_path):
    write_three_arms(tmp_path / "runs" / "mnist_logreg", seeds=2)
    softmax = write_run(
        tmp_path / "runs" / "cifar_softmax",
        {"regular": [0, 1], "further": [0]},
        name="cifar_softmax",
        experiment="cifar_softmax",
        reference=PUBLISHED["cifar_softmax"],
    )
    facts = {"gauge": {"classes": 3}, "gradients": True}
    write_cell(softmax, "regular", 0, queries=18_000, facts=facts)
    write_cell(softmax, "further", 0, rest=True)
    return tmp_path


@pytest.mark.thorough
def test_nine_rows_with_the_papers_values_and_what_is_missing(results, capsys):
    out = results / "measured" / "table1"
    assert main(["table", "firefly_table1", f"results_dir={results}", f"out={out}"]) == 0
    table = pd.read_csv(out.with_suffix(".csv"))
    assert table["beyond_paper"].tolist() == 6 * [False] + [True] + 3 * [False]
    for row in table[~table["beyond_paper"]].to_dict("records"):
        published = PUBLISHED[row["experiment"]][row["arm"]]
        assert all(row[f"paper_{key}"] == value for key, value in published.items())
    rows = table.set_index(["experiment", "arm"])
    assert rows.loc[("mnist_logreg", "map_tuned"), "cpu"] == "A processor"
    assert rows.loc[("mnist_logreg", "regular"), "queries_per_iter"] == 12_214
    assert rows["seeds"].tolist() == [2, 2, 2, 1, 0, 0, 1, 0, 0, 0]
    assert rows.loc[("opv_robust", "regular"), "note"] == "not run; flyrun experiment=opv_robust"
    text = out.with_suffix(".md").read_text()
    printed = capsys.readouterr().out
    assert max(len(line) for line in printed.splitlines() if "±" in line) <= 100
    assert "…" not in printed
    for said in (text.replace("\\", ""), printed):
        assert "opv_robust is not run yet: `flyrun experiment=opv_robust`" in said
        assert "cifar_softmax, untuned: this run has no finished seed of it" in said
        assert "cifar_softmax, regular: 1 of 2 seeds are finished" in said
        assert "further *" in said
        assert "cifar_softmax (*: not in the paper): against the paper" in said
        assert "cifar_softmax, further: the chain of seed 0 never moved" in said
        assert "without the gauge" in said
    assert "| regular | 18,000 | 18,000 |" in text
    assert "| finished | 2030-01-01T00:00:00+00:00 | 2030-01-01T00:00:00+00:00 |" in text


@pytest.mark.parametrize("name", paths.references())
def test_every_name_that_is_offered_is_a_table(name, tmp_path):
    assert len(together.build(name, tmp_path).table)


def test_nothing_run_is_a_table_too(tmp_path):
    result = together.build("firefly_table1", tmp_path)
    assert (len(result.table), result.complete, result.files) == (9, False, ())


@pytest.mark.thorough
def test_the_papers_values_say_what_they_are_where_ours_are_missing(results, capsys):
    main(["table", "firefly_table1", f"results_dir={results}", f"out={results / 'mine'}"])
    text = (results / "mine.md").read_text()
    assert "| arm | queries/iter | paper | ESS/1000 iter | paper | speedup | paper | seeds |" in text
    assert "| arm | paper's queries/iter | paper's ESS/1000 iter | paper's speedup | seeds |" in text


@pytest.mark.thorough
@pytest.mark.figures
def test_publish_copies_what_the_report_shows(results, capsys):
    folder = results / "measured" / "mnist_logreg"
    (folder / "figures").mkdir(parents=True)
    (folder / "figures" / "of_before.png").write_bytes(b"")
    assert main(["publish", "mnist_logreg", f"results_dir={results}", f"out={results / 'measured'}"]) == 0
    text = (folder / "report.md").read_text()
    drawn = sorted(path.name for path in (folder / "figures").iterdir())
    assert drawn == ["autocorrelation.png", "convergence.png", "ess_time.png"]
    assert all(f"(figures/{name})" in text for name in drawn)
    assert (folder / "table.csv").exists()
    assert json.loads((folder / "settings.json").read_text())["arms"].keys() == {
        "regular",
        "untuned",
        "map_tuned",
    }
    assert "6 files" in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.figures
def test_figures_are_written_as_pdf_where_asked_for(results, tmp_path, capsys):
    """The same run gives the same file; published without, those of before go."""
    words = ["publish", "mnist_logreg", f"results_dir={results}", f"out={tmp_path}"]
    assert main([*words, "--figures", "pdf"]) == 0
    pages = sorted((tmp_path / "mnist_logreg/figures").glob("*.pdf"))
    assert [page.stem for page in pages] == ["autocorrelation", "convergence", "ess_time"]
    content = [page.read_bytes() for page in pages]
    assert all(page.startswith(b"%PDF-") and b"/FontFile2" in page for page in content)  # TrueType
    assert not any(b"/CreationDate" in page for page in content)
    assert main(["report", "mnist_logreg", f"results_dir={results}", "--figures=pdf"]) == 0
    folder = results / "runs/mnist_logreg/figures"
    assert [(folder / page.name).read_bytes() for page in pages] == content
    assert main(words) == 0
    assert not list((tmp_path / "mnist_logreg/figures").glob("*.pdf"))
    assert len(list((tmp_path / "mnist_logreg/figures").glob("*.png"))) == 3
    assert main([*words, "--figures", "eps"]) == 2
    assert "must be pdf" in capsys.readouterr().err


def test_unfinished_runs_are_not_published(results, monkeypatch):
    monkeypatch.setattr(figures, "draw", lambda *_: ({}, [], []))
    with pytest.raises(StoreError, match="not every cell is finished"):
        publish(results / "runs" / "cifar_softmax", results / "measured")
    assert not (results / "measured").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["table"], "TABLE is missing; as in `flyrun table firefly_table1 --out table1`"),
        (["table", "firefly"], "published tables: firefly_table1 (did you mean firefly_table1?)"),
        (["table", "firefly_table1", "where=x"], "it takes --results-dir, --latex and --out"),
        (["publish"], "RUN is missing; as in `flyrun publish mnist_logreg`"),
        (["publish", "nowhere"], "no such run"),
    ],
)
def test_bad_lines(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert said in capsys.readouterr().err
