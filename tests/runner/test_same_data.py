"""The same data are the same data, wherever they lie and however their place is written."""

import json
import shutil

import numpy as np
import pytest
from scipy.io import savemat

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.runner import launch
from flyrun.experiments.runner.cell import cell_key, cells

TABLE = "x,y\n" + "".join(f"{k % 7},{k % 2}\n" for k in range(30))
WORDS = {
    "table.csv": ["dataset=table", "dataset.target=y", "model=logistic", "bound=none", "sampler=random_walk"],
    "edges.csv": ["dataset=edge_list", "model=ising", "sampler=gibbs"],
    "net.uai": ["dataset=uai", "model=factor_graph", "sampler=gibbs"],
    "20ng": ["dataset=newsgroups", "model=lda", "sampler=lda_svi"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a file of each kind, where we are."""
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "edges.csv").write_text("i,j,weight\n0,1,0.5\n1,2,0.5\n")
    (tmp_path / "net.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n\n4\n1.0 2.0 2.0 1.0\n")
    (tmp_path / "20ng").mkdir()
    for part in ("tr", "va", "ts_h1", "ts_h2"):
        for kind in ("tokens", "counts"):
            savemat(tmp_path / "20ng" / f"bow_{part}_{kind}.mat", {kind: np.ones((1, 3))})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arm_of(words, path):
    (arm,) = compose_job([*words, f"dataset.path={path}", "protocol=smoke"]).arms
    return arm


@pytest.mark.parametrize("file", WORDS)
def test_one_file_has_one_key(folder, file):
    """Whatever dataset has a path: `t.csv`, `./t.csv`, an absolute path, and a folder that moved."""
    moved = folder / "moved"
    moved.mkdir()
    copy = shutil.copytree if (folder / file).is_dir() else shutil.copy
    copy(folder / file, moved / file)
    keys = {cell_key(arm_of(WORDS[file], path)) for path in (file, f"./{file}", folder / file, moved / file)}
    assert len(keys) == 1


def test_another_content_has_another_key(folder):
    before = cell_key(arm_of(WORDS["table.csv"], "table.csv"))
    (folder / "table.csv").write_text(TABLE + "5,1\n")
    assert cell_key(arm_of(WORDS["table.csv"], "table.csv")) != before


def test_another_file_under_the_same_name_is_not_the_same_problem(folder):
    """The content, not its place, stands in run.json, by which results of other data are kept."""
    told = []
    for path in ("table.csv", "./table.csv", "other.csv"):
        (folder / "other.csv").write_text(TABLE + "5,1\n")
        job = compose_job([*WORDS["table.csv"], f"dataset.path={path}", "protocol=smoke", "name=same"])
        told.append(json.dumps(launch._entry(job, cells(job))["arms"]))
    assert told[0] == told[1] != told[2]
