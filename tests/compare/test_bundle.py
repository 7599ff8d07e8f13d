"""`flyrun bundle` and `flyrun run`: a run packed, run again, and what differs told apart."""

from __future__ import annotations

import json
import shutil
import zipfile

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.check import judge
from flyrun.experiments.compare import bundle as bundles

RUN = ["experiment=toy_flymc", "protocol=smoke", "only=[regular,map_tuned]", "executor.workers=1"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    assert main([*RUN, "name=toy", f"results_dir={folder}"]) == 0
    return folder


@pytest.fixture(scope="module")
def packed(results, tmp_path_factory):
    out = tmp_path_factory.mktemp("packed") / "toy.zip"
    assert main(["bundle", "toy", f"--results-dir={results}", f"--out={out}"]) == 0
    return out


@pytest.fixture
def altered(packed, tmp_path):
    """Pack it again with another bundle.json, or other files."""

    def write(change=lambda about: None, **texts):
        out = tmp_path / "altered.zip"
        with zipfile.ZipFile(packed) as source, zipfile.ZipFile(out, "w") as archive:
            for name in source.namelist():
                content = source.read(name)
                if name == bundles.ABOUT:
                    about = json.loads(content)
                    change(about)
                    content = json.dumps(about)
                archive.writestr(name, texts.get(name.partition(".")[0], content))
        return out

    return write


def again(archive, results, *words):
    return main(["run", str(archive), f"--results-dir={results}", "--workers=1", *words])


@pytest.mark.thorough
def test_the_same_code_on_the_same_machine_gives_the_same_bits(packed, results, capsys):
    assert again(packed, results) == 0
    assert "toy_rerun: 2 exact" in capsys.readouterr().out
    first, second = ((results / "runs" / name / "config.yaml").read_text() for name in ("toy", "toy_rerun"))
    assert second.replace("toy_rerun", "toy") == first
    assert again(packed, results, "--fresh") == 0
    assert "2 exact" in capsys.readouterr().out


def test_a_run_gives_the_same_archive_each_time(packed, results, tmp_path):
    assert main(["bundle", "toy", f"--results-dir={results}", f"--out={tmp_path / 'toy.zip'}"]) == 0
    assert (tmp_path / "toy.zip").read_bytes() == packed.read_bytes()


def test_draws_are_packed_where_asked_for(results, tmp_path):
    out = tmp_path / "toy.zip"
    assert main(["bundle", "toy", f"--results-dir={results}", f"--out={out}", "--draws"]) == 0
    with zipfile.ZipFile(out) as archive:
        assert json.loads(archive.read(bundles.ABOUT))["draws"] == "in draws/"
        assert b"@inproceedings{maclaurin2014," in archive.read("references.bib")
        (stored,) = (results / "runs/toy/map_tuned").glob("*/seed=1/posterior.nc")
        assert archive.read("draws/map_tuned/seed=1.nc") == stored.read_bytes()
        assert sum(name.startswith("draws/") for name in archive.namelist()) == 4


def test_other_draws_from_the_same_set_up_differ(altered, results, capsys):
    def change(about):
        about["arms"]["map_tuned"] |= {"draws": "other", "level": [-1.0, -1.0]}

    assert again(altered(change), results) == 1
    printed = capsys.readouterr().out
    assert "toy_rerun: 1 exact, 1 differs" in printed
    assert "map_tuned: from the same set-up: level -1 to " in printed


def test_the_same_draws_from_other_code_are_exact(altered, results, capsys):
    def change(about):
        about["arms"]["map_tuned"]["setup"] = "other"
        about["versions"]["numpy"] = "1.0"

    assert again(altered(change), results) == 0
    assert "2 exact" in capsys.readouterr().out


def test_with_other_libraries_means_are_compared_in_standard_errors(altered, results, capsys):
    def change(about, by=0.0):
        about["versions"]["numpy"] = "1.0"
        arm = about["arms"]["map_tuned"]
        arm |= {"draws": "other", "queries": [value + by for value in arm["queries"]]}

    assert again(altered(change), results) == 0
    printed = capsys.readouterr().out
    assert "1 exact, 1 alike" in printed
    assert ", there 1.0; agree at level 0.0002" in printed  # 0.001 / (2 arms · 3)
    assert "queries 0 se" in printed
    assert again(altered(lambda about: change(about, 1e9)), results) == 1
    assert "means differ more than luck allows: queries 1e+09 to" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        (
            {
                "warmup_sample_stats/queries": [[5, 5]],
                "sample_stats/queries": [[3, 4]],
                "sample_stats/log_joint": [[-1.0, -3.0]],
                "posterior/theta": [[[0.0, 1.0], [0.0, 1.0], [0.0, 2.0]]],
            },
            (17, 1, -2),
        ),
        (  # of a graph: what was evaluated, not what the published algorithm would have drawn
            {
                "sample_stats/queries": [[9, 9]],
                "sample_stats/actual": [[2, 3]],
                "sample_stats/changed": [[0.5, 0.25]],
                "sample_stats/energy": [[7.0, 9.0]],
                "posterior/theta": [[[0], [1]]],
            },
            (5, 0.75, 8),
        ),
        ({"estimate/queries": [10, 30], "estimate/mean": [[9.0, 9.0], [1.0, 2.0]]}, (30, 0, 1.5)),
    ],
)
def test_what_is_kept_of_a_cell(arrays, expected):
    assert bundles._statistics({name: np.array(values) for name, values in arrays.items()}) == expected


def test_one_seed_decides_nothing():
    one = {"setup": "a", "draws": "a", "queries": [1.0], "moves": [1.0], "level": [1.0]}
    verdict = judge.judge(one, one | {"draws": "b", "level": [1.1]}, "numpy is another", 3)
    assert verdict.kind == judge.DIFFERS
    assert "one seed does not tell luck from a difference: level 1 to 1.1" in verdict.why


def test_standard_errors_are_those_of_two_means():
    assert judge.apart_by([1.0, 3.0], [2.0, 6.0]) == "0.89 se"  # 2 / sqrt(2/2 + 8/2)
    assert judge.apart_by([1.0, 1.0], [1.0, 1.0]) == "0 se"
    assert judge.apart_by([1.0, 1.0], [2.0, 2.0]) == "no spread to hold it against"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda about: about["packages"].update({"flyrun-nowhere": "1.0"}),
            "pip install flyrun-nowhere==1.0",
        ),
        (lambda about: about["packages"].update({"; rm -rf /": "1"}), "is no package"),
        (lambda about: about.update(format=9), "another format"),
        (lambda about: about.pop("arms"), "is no bundle ('arms')"),
        (lambda about: about["arms"]["regular"].update(more=1), "is no bundle"),
        (lambda about: about.update(versions=[]), "is no bundle"),
        (lambda about: about["digests"].update({"config.yaml": "0"}), "config.yaml is not as it was packed"),
        (lambda about: about.update(run="../up"), "folder name"),
    ],
)
def test_a_bundle_that_cannot_be_run_is_one_line(altered, tmp_path, capsys, change, text):
    assert again(altered(change), tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert text in line
    assert not (tmp_path / "runs").exists()


def test_another_version_of_a_package_is_a_line(altered, results, capsys):
    assert again(altered(lambda about: about["packages"].update(rich="1.0")), results) == 0
    assert ", there 1.0." in next(line for line in capsys.readouterr().out.splitlines() if line[:1] == "!")


@pytest.mark.parametrize("what", ["missing.zip", "text.zip", "npz.zip"])
def test_what_is_no_bundle_is_refused(tmp_path, what, capsys):
    (tmp_path / "text.zip").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "npz.zip", "w") as archive:
        archive.writestr("theta.npy", b"")
    assert again(tmp_path / what, tmp_path) == 2
    assert f"{what}: " in capsys.readouterr().err


def test_a_file_that_would_fill_memory_is_not_read(altered, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bundles, "_MOST_BYTES", 100)
    assert again(altered(), tmp_path) == 2
    assert "is too large" in capsys.readouterr().err


def test_a_run_that_is_not_finished_or_of_an_earlier_flyrun_is_not_packed(results, tmp_path, capsys):
    shutil.copytree(results / "runs/toy", tmp_path / "runs/toy")
    (tmp_path / "runs/toy/config.yaml").unlink()
    words = ["bundle", "toy", f"--results-dir={tmp_path}", f"--out={tmp_path / 'x.zip'}"]
    assert main(words) == 2
    assert "again, which samples nothing anew" in capsys.readouterr().err
    assert main([*RUN, "name=toy", f"results_dir={tmp_path}"]) == 0  # as it says
    assert main(words) == 0
    next((tmp_path / "runs/toy/regular").glob("*/seed=0/done")).unlink()
    assert main(words) == 2
    assert "not every cell is finished" in capsys.readouterr().err


def test_a_table_of_ones_own_travels_beside_it(tmp_path, capsys):
    table = "x,y\n" + "".join(f"{i % 7 - 3},{i * i % 3 > 0:d}\n" for i in range(40))
    (tmp_path / "mine.csv").write_text(table)
    data = f"dataset.path={tmp_path / 'mine.csv'}"
    words = ["dataset=table", data, "dataset.target=y", "model=logistic", "bound=map", "sampler=random_walk"]
    assert main([*words, "protocol=smoke", "executor.workers=1", "name=own", f"results_dir={tmp_path}"]) == 0
    out = tmp_path / "own.zip"
    assert main(["bundle", "own", f"--results-dir={tmp_path}", f"--out={out}"]) == 0
    (tmp_path / "mine.csv").rename(tmp_path / "moved.csv")
    capsys.readouterr()
    assert again(out, tmp_path) == 2
    assert "mine.csv" in capsys.readouterr().err
    assert again(out, tmp_path, f"--data={tmp_path / 'moved.csv'}") == 0
    assert "1 exact" in capsys.readouterr().out
    (tmp_path / "other.csv").write_text(table.replace("0", "1", 3))
    assert again(out, tmp_path, f"--data={tmp_path / 'other.csv'}", "--name=third") == 2
    assert "holds other data than the bundle's run read" in capsys.readouterr().err
