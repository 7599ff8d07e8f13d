"""`flyrun predict RUN FOLDER`: a part a file, as of the file alone; the same command goes on after a kill."""

import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.fitting import predict, stored
from flyrun.fitting.scan import predicted_files

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
LANDS = ("north", "south", "west")
PREDICT = ["predict", "claims", "rows", "--out", "out"]


def rows(rng, n, first=0):
    """Rows that the fit fits, with columns that it does not know."""
    land = rng.choice(LANDS, n)
    day = datetime.date(2026, 7, 1)
    return pyarrow.table(
        {
            "id": pyarrow.array(np.arange(n) + 2**60 + first, pyarrow.int64()),
            "age": rng.normal(40.0, 10.0, n).astype(np.float32),
            "land": pyarrow.array(land).dictionary_encode(),
            "date": pyarrow.array([day + datetime.timedelta(days=int(k)) for k in rng.integers(0, 30, n)]),
        }
    )


def write(folder, count=3, n=700):
    """Files in folders that hold a column's values."""
    for k in range(count):
        place = folder / f"year={2024 + k % 2}"
        place.mkdir(parents=True, exist_ok=True)
        parquet.write_table(rows(np.random.default_rng(k), n + k, k * 10_000), place / f"part-{k}.parquet")
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder in which a fit is."""
    home = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"age": rng.normal(40.0, 10.0, 300), "land": rng.choice(LANDS, 300)})
    frame["year"] = rng.choice([2024, 2025], 300)
    eta = 0.02 * (frame.age - 40.0) + 0.3 * (frame.land == "west") + 0.1 * (frame.year == 2025)
    frame["claims"] = rng.poisson(np.exp(eta))
    frame.to_csv(home / "claims.csv", index=False)
    before = os.getcwd()
    os.chdir(home)
    try:
        words = ["claims ~ age + land + year", "--model", "poisson", "--quiet"]
        assert main(["fit", "claims.csv", *words]) == 0
    finally:
        os.chdir(before)
    runs = home / "results/runs"
    shutil.copytree(runs / "claims", runs / "other")
    about = (runs / "other/fit.json").read_text()
    (runs / "other/fit.json").write_text(about.replace('"prior_scale": ', '"prior_scale": 1'))
    return home


@pytest.fixture
def place(home, tmp_path, monkeypatch):
    """A folder of one test's own, in which the fits are, too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(home / "results")
    write(tmp_path / "rows")
    return tmp_path


def parts(folder):
    """Of a folder, by their names."""
    return {
        str(path.relative_to(folder)): parquet.read_table(path) for path in sorted(folder.rglob("*.parquet"))
    }


def failure(capsys, words):
    """The line of a command that is refused."""
    capsys.readouterr()
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_each_part_is_what_its_file_alone_gives_and_keeps_columns_as_they_are(place, capsys):
    assert main([*PREDICT, "--keep", "id,date,land", "--interval", "80"]) == 0
    told = capsys.readouterr()
    assert "2,103 predictions in 3 files: out" in told.out
    made = parts(place / "out")
    assert sorted(made) == sorted(parts(place / "rows"))
    assert [path.name for path in (place / "out").iterdir() if path.is_file()] == ["_predictions.json"]
    fit = stored.fitted(place / "results/runs/claims")
    for name, part in made.items():
        table = parquet.ParquetFile(place / "rows" / name).read()
        frame = table.to_pandas().assign(year=float(re.search(r"\d{4}", name)[0]))
        wanted = predict.predictions(fit, frame, interval=0.8, draws=400)
        pd.testing.assert_frame_equal(part.select([*wanted]).to_pandas(), wanted, check_exact=True)
        assert part.column("row").to_pylist() == list(range(table.num_rows))
        assert part.select(["id", "date", "land"]).equals(table.select(["id", "date", "land"]))
    # other draws are other numbers: the control
    assert not np.array_equal(predict.predictions(fit, frame, draws=399)["mean"], wanted["mean"])


def test_the_error_of_thinned_draws_is_what_it_is_told_to_be(place, capsys):
    assert main(PREDICT) == 0
    told = capsys.readouterr().err
    share, largest, ends = map(
        float, re.search(r"by (\S+) of .*sd, (\S+) at most.* by about (\S+) of it", told).groups()
    )
    fit = stored.fitted(place / "results/runs/claims")
    # of many lots of so many draws, how far a row's mean and low are from those of all: here, of even draws
    rng, row = np.random.default_rng(0), parquet.ParquetFile(place / "rows/year=2024/part-0.parquet").read()
    (draws,) = predict.means(fit, predict.checked_rows(fit, row.to_pandas().assign(year=2024.0)[:5]))
    lots = draws[rng.integers(0, len(draws), (300, predicted_files.FEW))][..., 0]
    sds = draws[..., 0].std(axis=0)
    off = (lots.mean(axis=1) - draws[..., 0].mean(axis=0)) / sds
    normal, even = (
        np.log(lots),
        np.log(draws[..., 0]),
    )  # of which the share is; of skewed ones it is about that
    low = (np.quantile(normal, 0.05, axis=1) - np.quantile(even, 0.05, axis=0)) / even.std(axis=0)
    assert share == pytest.approx(off.std(), rel=0.15)
    assert ends == pytest.approx(low.std(), rel=0.15)
    sds = np.concatenate([part["sd"].to_numpy() for part in parts(place / "out").values()])
    assert largest == pytest.approx(sds.max() * share, rel=0.02)
    assert main([*PREDICT[:-1], "all", "--draws", str(len(draws))]) == 0
    assert "draws" not in capsys.readouterr().err


def test_new_targets_are_drawn_anew_in_each_file(place):
    table = rows(np.random.default_rng(0), 600)
    for name in ("a", "b"):
        parquet.write_table(table, place / f"rows/year=2024/{name}.parquet")
    assert main([*PREDICT, "--kind", "response", "--seed", "3"]) == 0
    first, other = (parquet.read_table(place / f"out/year=2024/{name}.parquet") for name in ("a", "b"))
    assert not first["mean"].equals(other["mean"])
    assert np.allclose(first["mean"].to_numpy().mean(), other["mean"].to_numpy().mean(), rtol=0.02)
    # and do not depend on what other files there are
    (place / "rows/year=2024/a.parquet").unlink()
    assert main([*PREDICT[:-1], "fewer", "--kind", "response", "--seed", "3"]) == 0
    assert parquet.read_table(place / "fewer/year=2024/b.parquet").equals(other)


def test_rows_are_chosen_by_columns_and_by_names_of_folders(place):
    assert main([*PREDICT, "--where", "year == 2024 and age > 45"]) == 0
    made = parts(place / "out")
    assert [*made] == ["year=2024/part-0.parquet", "year=2024/part-2.parquet"]
    for name, part in made.items():
        ages = parquet.ParquetFile(place / "rows" / name).read()["age"].to_numpy()
        assert part["row"].to_pylist() == np.flatnonzero(ages > 45).tolist()


def test_what_is_whole_is_kept_and_all_else_made_again_when_resumed(place, capsys):
    assert main(PREDICT) == 0
    before = {path: path.stat().st_mtime_ns for path in (place / "out").rglob("*.parquet")}
    whole = {path: path.read_bytes() for path in before}
    damaged, changed, kept = sorted(before)
    damaged.write_bytes(whole[damaged][:-100])
    left = damaged.with_name(f".{damaged.name}.123.tmp")
    left.write_bytes(b"half")
    of_changed = place / "rows" / changed.relative_to(place / "out")
    parquet.write_table(rows(np.random.default_rng(9), 50), of_changed)
    told = capsys.readouterr()
    assert main(PREDICT) == 0
    again = capsys.readouterr()
    assert "3 files, 1 of them from before" in again.out
    assert kept.stat().st_mtime_ns == before[kept]
    assert damaged.read_bytes() == whole[damaged]
    assert len(parquet.read_table(changed)) == 50
    assert not left.exists()
    assert "draws, evenly spaced" in told.err
    of_changed.unlink()
    assert main(PREDICT) == 0
    assert f"{changed}: of a file that is not there any more; delete it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--interval", "50"], ["--keep", "id"], ["--draws", "100"], ["--where", "age > 30"], "other"]
)
def test_other_predictions_are_not_written_among_those_there(place, capsys, words):
    assert main(PREDICT) == 0
    whole = {path: path.read_bytes() for path in (place / "out").rglob("*.parquet")}
    command = [PREDICT[0], words, *PREDICT[2:]] if isinstance(words, str) else [*PREDICT, *words]
    line = failure(capsys, command)
    assert "out: holds other predictions (" in line
    assert all(path.read_bytes() == content for path, content in whole.items())
    command[command.index("out")] = re.search(r"--out (\S+) keeps both", line)[1]
    assert main(command) == 0


def replaced(place, **columns):
    """Write other columns into one file."""
    path = place / "rows/year=2025/part-1.parquet"
    table = parquet.ParquetFile(path).read()
    for name, change in columns.items():
        table = table.set_column(table.column_names.index(name), name, change(table[name]))
    parquet.write_table(table, path)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"age": lambda held: pyarrow.array([None, *held.to_pylist()[1:]])},
            "part-1.parquet: row 0 (rows count from 0), column age has no value",
        ),
        (
            {"age": lambda held: pyarrow.array([*held.to_pylist()[:-1], np.inf])},
            "part-1.parquet: row 700 (rows count from 0), column age holds inf",
        ),
        (
            {"land": lambda held: pyarrow.array([*held.to_pylist()[:-1], "east"])},
            "part-1.parquet: row 700 (rows count from 0), column land holds 'east'",
        ),
        ({"age": lambda held: pyarrow.array(map(str, held.to_pylist()))}, "column 'age' holds"),
    ],
)
def test_rows_that_do_not_fit_are_named_by_file_and_row(place, capsys, columns, said):
    replaced(place, **columns)
    line = failure(capsys, PREDICT)
    assert said in line
    assert not (place / "out/year=2025/part-1.parquet").exists()
    # what is mended goes on
    write(place / "rows")
    assert main(PREDICT) == 0
    assert len(parts(place / "out")) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predict", "claims", "rows"], "name a folder for them, as --out rows_predictions"),
        ([*PREDICT[:-1], "all.csv"], "name a folder for them, as --out rows_predictions"),
        ([*PREDICT[:-1], "rows/out"], "lies among the files that are read; name a folder beside"),
        ([*PREDICT[:-1], "rows"], "lies among the files that are read"),
        ([*PREDICT[:-1], "."], "lies among the files that are read"),
        ([*PREDICT[:-1], "taken"], "taken: holds other files, as"),
        ([*PREDICT[:-1], "nosuch://bucket/out"], "no such file system is known"),
        ([*PREDICT, "--keep", "ids"], "--keep ids: no such column (did you mean id?)"),
        ([*PREDICT, "--keep", "year"], "--keep year: is in the names of folders"),
        ([*PREDICT, "--where", "yeer > 3"], "--where yeer: no such column"),
        ([*PREDICT, "--where", "age > 1000"], "rows: no row is such that age > 1000"),
        ([*PREDICT, "--kind", "chance"], "--kind chance: "),
        ([*PREDICT, "executor=local"], "executor=local: fit works here"),
        (["predict", "claims", "empty", "--out", "out"], "empty: holds no Parquet file"),
        (
            ["predict", "claims", "rows/year=2024/part-0.parquet", "--workers", "2"],
            "--workers: is for a folder",
        ),
        (
            ["predict", "claims", "rows/year=2024/part-0.parquet", "executor=dask"],
            "executor=dask: is for a folder",
        ),
    ],
)
def test_what_cannot_be_predicted_is_refused_in_a_line(place, capsys, words, said):
    (place / "empty").mkdir()
    write(place / "taken", 1)
    assert said in failure(capsys, words)


def test_columns_are_kept_beside_one_file_too(place, capsys):
    words = ["predict", "other", "rows/year=2024/part-0.parquet", "--where", "age > 45"]
    table = parquet.ParquetFile(words[2]).read().to_pandas().assign(year=2024)
    table.to_parquet("one.parquet")
    words[2] = "one.parquet"
    assert main([*words, "--keep", "id", "--keep", "date", "--out", "out.parquet"]) == 0
    made = pd.read_parquet("out.parquet")
    assert made["id"].tolist() == table["id"][made["row"]].tolist()
    assert made["date"].tolist() == table["date"][made["row"]].tolist()
    assert "--keep ids: one.parquet has no such column (did you mean id?)" in failure(
        capsys, [*words, "--keep=ids"]
    )
    assert "the predictions have a column of this name" in failure(capsys, [*words, "--keep", "mean"])


def kill_rounds(place, times, workers):
    """Kill the command so often, at random, before it ends; then let it end."""
    write(place / "many", 8, 10_000)
    command = [
        sys.executable,
        "-m",
        "flyrun",
        "predict",
        "claims",
        "many",
        "--workers",
        workers,
        "--draws",
        "1000",
    ]
    rng, kills = np.random.default_rng(0), 0
    assert subprocess.run([*command, "--out", "whole"], capture_output=True).returncode == 0
    while kills < times:
        process = subprocess.Popen([*command, "--out", "out"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        before = len([*(place / "out").rglob("*.parquet")])
        while process.poll() is None and len([*(place / "out").rglob("*.parquet")]) == before < 7:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.02))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        process.communicate()
        if len([*(place / "out").rglob("*.parquet")]) >= 6:  # begin anew
            for path in (place / "out").rglob("*.parquet"):
                path.unlink()
    ended = subprocess.run([*command, "--out", "out"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    made, wanted = parts(place / "out"), parts(place / "whole")
    assert made.keys() == wanted.keys()
    assert all(made[name].equals(wanted[name]) for name in made)
    assert not [*(place / "out").rglob("*.tmp")]


@pytest.mark.thorough
def test_kills_lose_and_change_nothing(place):
    kill_rounds(place, 2, "2")


@pytest.mark.thorough
def test_workers_of_dask_write_the_same(place, capsys):
    pytest.importorskip("distributed")
    assert main(PREDICT) == 0
    assert main([*PREDICT[:-1], "dask", "executor=dask", "--workers", "2"]) == 0
    made, wanted = parts(place / "dask"), parts(place / "out")
    assert made.keys() == wanted.keys()
    assert all(made[name].equals(wanted[name]) for name in made)


def test_the_remedy_for_new_groups_works_in_the_same_folder(place, capsys):
    frame = pd.DataFrame({"age": np.random.default_rng(1).normal(size=90), "broker": np.arange(90) % 9})
    frame["paid"] = frame.age + 10.0 * frame.broker + np.random.default_rng(0).normal(size=90)
    frame.to_csv("paid.csv", index=False)
    assert main(["fit", "paid.csv", "paid ~ age + (1 | broker)", "--results-dir", "of", "--quiet"]) == 0
    (place / "new").mkdir()
    frame.to_parquet("new/0.parquet")
    frame.assign(broker=frame.broker + 1).to_parquet("new/1.parquet")
    command = ["predict", "paid", "new", "--results-dir", "of", "--out", "out"]
    line = failure(capsys, command)
    assert "new/1.parquet: row 8 (rows count from 0), column broker holds '9'" in line
    assert (place / "out/0.parquet").is_file()
    assert main([*command, *re.search(r"--new-groups draw", line)[0].split()]) == 0
    assert len(parts(place / "out")) == 2
    assert "new_groups=draw, now zero" in failure(capsys, [*command, "--new-groups", "zero"])


def test_files_without_rows_have_parts_without_rows(place):
    name = "year=2024/none.parquet"
    parquet.write_table(rows(np.random.default_rng(0), 0), place / "rows" / name)
    assert main([*PREDICT, "--keep", "id"]) == 0
    made = parts(place / "out")
    assert len(made[name]) == 0
    assert made[name].schema.equals(made["year=2024/part-0.parquet"].schema)


def test_what_the_folder_is_of_is_written_beside_the_parts(place):
    assert main([*PREDICT, "--draws", "50", "--keep", "id"]) == 0
    told = json.loads((place / "out/_predictions.json").read_text())
    assert (told["format"], told["draws"], told["keep"]) == (1, 50, ["id"])
    assert told["files"] == str(place / "rows")
