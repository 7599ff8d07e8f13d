"""`flyrun compare RUN --against COMMIT`: a run's command again, by a commit of flyrun or of a package."""

import csv
import os
import shutil
import subprocess
import sys

import pytest

from flyrun.experiments.check import against
from flyrun.ground.errors import ConfigError
from tests.compare.test_compare_commits import git
from tests.plugins.test_plugins import ARM, EXAMPLE, install
from tests.test_layout import PACKAGE

SEEDS = "protocol.seeds=4"
TURN = "rng.random() < 1 / (1 + np.exp(-move * here[d]))"


def flyrun(site, *words):
    environment = {**os.environ, "PYTHONPATH": str(site), "FLYRUN_COMPILE": "quick"}
    command = [sys.executable, "-P", "-m", "flyrun", *words]
    return subprocess.run(
        command, cwd=site.parent, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A package's checkout of two commits, and a run by the second, whose turns are not Barker's."""
    folder = tmp_path_factory.mktemp("packages") / "site"
    install(folder, "barker = flyrun_barker:Barker")
    shutil.copy(EXAMPLE, folder)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    (folder / "flyrun_barker.py").write_text(EXAMPLE.read_text().replace(TURN, "rng.random() < 0.9"))
    done = flyrun(
        folder, *(word for word in ARM if "seeds" not in word), SEEDS, "name=b", "executor.workers=1"
    )
    assert done.returncode == 0, done.stderr
    git(folder, "commit", "-qam", "two")
    return folder


def compared(site, *words):
    done = flyrun(site, "compare", "b", *words, "--workers", "1", "--out", "c.csv")
    assert done.returncode == 0, done.stderr
    rows = csv.DictReader((site.parent / "c.csv").open())
    return {row["metric"]: row for row in rows}, done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("commit", [pytest.param("HEAD~1", marks=pytest.mark.slow), "HEAD"])
def test_two_commits_of_a_package(site, commit):
    """The package that the run's sampler is from is meant; the commit that made the run makes it again."""
    before = (site / "flyrun_barker.py").read_text()
    rows, printed = compared(site, "--against", commit)
    row = rows["queries_per_iter"]
    assert (row["verdict"] == "identical") == (commit == "HEAD")
    assert row["paired"] == "True"
    assert f"A: b by commit {commit}\n" in printed
    assert (site / "flyrun_barker.py").read_text() == before
    assert not (site / "results").exists()


def changed():
    """Whether flyrun/ is other than its last commit; a tree without git is."""
    words = ["git", "-C", PACKAGE, "status", "--porcelain", "."]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode != 0 or bool(done.stdout)


@pytest.mark.slow
def test_flyruns_own_commit_where_that_is_asked_for(site):
    try:
        rows, _ = compared(site, "--against", "HEAD", "--package", "flyrun")
    except AssertionError as error:
        if not changed():
            raise
        pytest.skip(f"options of this tree may not be in HEAD yet: {str(error)[:200]}")
    assert set(rows) >= {"queries_per_iter"}


@pytest.mark.thorough
def test_a_package_in_no_checkout_and_one_that_fails_there_are_one_line(site, tmp_path):
    lost = tmp_path / "site"
    shutil.copytree(site, lost, ignore=shutil.ignore_patterns(".git"))
    shutil.copytree(site.parent / "results", tmp_path / "results")
    done = flyrun(lost, "compare", "b", "--against", "HEAD")
    assert done.returncode == 2
    assert "is in no git checkout; install it from a checkout with `pip install -e FOLDER`" in done.stderr
    git(lost, "init", "-q")
    (lost / "flyrun_barker.py").write_text("raise RuntimeError('broken')\n")
    git(lost, "add", ".")
    git(lost, "commit", "-q", "-m", "broken")
    shutil.copy(site / "flyrun_barker.py", lost)
    done = flyrun(lost, "compare", "b", "--against", "HEAD")
    assert done.returncode == 2
    assert "the run ended with 2: " in done.stderr
    assert "broken" in done.stderr


def test_flyrun_from_a_wheel_has_no_commits(tmp_path, monkeypatch):
    monkeypatch.setattr(against.paths, "in_checkout", lambda: False)
    with (
        pytest.raises(ConfigError, match="compare --against HEAD: flyrun runs from a wheel"),
        against.checked_out("HEAD", "compare"),
    ):
        pass
