"""`flyrun compare` on commits of a small repository, and what it says where there is none to read."""

from __future__ import annotations

import csv
import subprocess

import pytest

from flyrun.cli.main import main

HEADER = "experiment,arm,n_data,seeds,queries_per_iter,queries_per_iter_sd\n"


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def publish(folder, name, *rows):
    place = folder / "results" / "measured" / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "table.csv").write_text(HEADER + "".join(f"{name},{row}\n" for row in rows))
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", name)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Tags empty, first (one: two arms, two), second (one: arm b costs twice, two: other data)."""
    folder = tmp_path_factory.mktemp("checkout")
    git(folder, "init", "-q")
    (folder / "README").write_text("nothing yet\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "empty")
    git(folder, "tag", "empty")
    publish(folder, "two", "a,7,5,50,1")
    publish(folder, "one", "a,10,5,100,1", "b,10,5,200,1")
    git(folder, "tag", "first")
    publish(folder, "two", "a,8,5,50,1")
    publish(folder, "one", "a,10,5,100,1", "b,10,5,400,1")
    git(folder, "tag", "second")
    return folder


@pytest.fixture
def verdicts(checkout, monkeypatch, tmp_path):
    monkeypatch.chdir(checkout)

    def of(*words):
        out = tmp_path / "c.csv"
        assert main(["compare", *words, f"out={out}"]) == 0
        return {(row["experiment"], row["arm"]): row["verdict"] for row in csv.DictReader(out.open())}

    return of


def test_two_commits(verdicts, capsys):
    ours = {("one", "a"): "identical", ("one", "b"): "worse", ("two", "a"): "not compared"}
    assert verdicts("first", "second") == ours
    said = capsys.readouterr().out
    assert "A: results/measured as of first (" in said
    assert "not compared: n_data 7, 8" in said
    assert verdicts("second", "HEAD~2") == ours | {("one", "b"): "better"}


def test_one_table_of_a_commit_with_a_folder(verdicts, checkout):
    assert verdicts("first:one", "one")["one", "b"] == "worse"
    assert verdicts("first:two", "first") == {("two", "a"): "identical"}
    # a folder below the checkout's root, and results that lie elsewhere
    assert verdicts("first", "second", f"results_dir={checkout}/results")["one", "b"] == "worse"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["first", "third"],
            "compare third: is neither a run nor a table, nor a commit of the git checkout ",
        ),
        (["first", ":one"], "compare :one: is neither"),
        (["first", "HEAD^{tree}"], "nor a commit"),
        (["first", "empty"], "holds no table.csv or table.json under results/measured; name one"),
        (["first", "second:three"], "under results/measured/three; name one"),
        (["first", "broken"], "table.csv in results/measured as of broken ("),
    ],
)
def test_what_no_commit_holds_is_one_line(checkout, monkeypatch, capsys, words, text):
    monkeypatch.chdir(checkout)
    if "broken" in words:
        (checkout / "results/measured/one/table.csv").write_text("a,b\n1,2\n")
        git(checkout, "commit", "-aqm", "broken")
        git(checkout, "tag", "broken")
        git(checkout, "reset", "-q", "--hard", "second")
    assert main(["compare", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("flyrun: error: ")
    assert said.count("\n") == 1
    assert text in said


def test_without_git(checkout, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["compare", "first", "second"]) == 2
    assert "git is not installed" in capsys.readouterr().err
