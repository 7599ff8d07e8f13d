"""One scan, a posterior for each level of a column: against the likelihoods of each level's rows, and against
fits of these rows alone."""

import csv
from pathlib import Path

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.families.family import family
from flyrun.fitting import level_fits
from flyrun.fitting.request import Request
from flyrun.fitting.scan import kept_sums, level_scans, mappers, pilot, row_groups, row_weights, table_files
from flyrun.fitting.scan.level_scans import LevelScans
from flyrun.fitting.scan.one_look import Split
from flyrun.fitting.scan.pilot import Inputs
from flyrun.fitting.stored import about as read_fit
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import schema
from tests.fit.test_scan import against_all_rows, all_rows, move_land_to_folders, scan, table, write

parquet = pytest.importorskip("pyarrow.parquet")
pyarrow = pytest.importorskip("pyarrow")
LEVELS = ("no", "se fi", "rare")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Draws enough to test by, and few rows that make a level one of few rows."""
    monkeypatch.setattr(row_weights, "DRAWS", 2_000)
    monkeypatch.setattr(row_weights, "_BY_CHAINS", 1_000)
    monkeypatch.setattr(level_scans, "_WHOLE", 150)


def by_land(rng, n=2_000, model="logistic", order=False, rare=40):
    """A table whose column land holds three levels, one rare, and whose x1 differs among them.

    order: rows stand by level.
    """
    columns = table(rng, n, model, rare)
    land = np.array(LEVELS)[rng.choice(3, n, p=[0.55, 0.4, 0.05])]
    land = np.sort(land) if order else land
    shift = 30.0 * (land == LEVELS[0])
    return columns | {"x1": (columns["x1"] + shift).astype(np.float32), "land": land}


def scans(folder, model="logistic", mapper=None, **settings):
    """What a scan of a folder found of each level, and how often it read the files."""
    request = Request(str(folder), "y", model, by="land", **settings)
    found, options = table_files.find(str(folder)), request.typed_table
    columns = table_files.chosen(found, "y", None, ("land",), {})
    mapper = mapper or mappers.Mapper(mappers.in_turn, kept_sums.Kept(folder / "kept"), lambda line: None)
    made = LevelScans(Inputs(request, found, columns, options, mapper, lambda line: None), 0)
    made.pilot()
    task = schema("model", model).task
    return made.run(task, family(model)), made.rows_read / found.rows


def of_level(columns, level):
    """Its rows, without what says so."""
    own = columns["land"] == level
    return {name: values[own] for name, values in columns.items() if name != "land"}


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["logistic", "poisson"])
def test_weights_of_each_level_are_those_by_all_its_rows(tmp_path, model):
    columns = by_land(np.random.default_rng(3), model=model)
    found, _ = scans(write(tmp_path / "shards", columns), model)
    assert list(found) == sorted(LEVELS)
    for level, made in found.items():
        own = of_level(columns, level)
        assert made.layout.rows == len(own["y"])
        assert (made.answer.travelled == 0) == (level == "rare")
        z, variance = against_all_rows(made, all_rows(made, own, model))
        if level == "rare":
            assert made.answer.core == len(own["y"])
            continue
        assert z.max() < 3.7  # of 12 coefficients
        assert made.answer.variance == pytest.approx(variance, rel=0.3, abs=0.005)
        assert made.answer.found.effective == pytest.approx(
            made.answer.planned * len(made.answer.found.x), rel=0.15
        )


def one_row_astray(shares):
    """Rows of a level, but that some go to the next one."""

    def wrong(look, part, names):
        cut = list(shares(look, part, names))
        for (code, look_at, own), (*_, other) in zip(cut, cut[1:] + cut[:1], strict=True):
            few = slice(None, 5)
            more = [
                np.concatenate(both)
                for both in zip(own.columns, (c[few] for c in other.columns), strict=True)
            ]
            yield code, look_at, own._replace(columns=more, place=np.append(own.place, other.place[few]))

    return wrong


def test_rows_of_another_level_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(Split, "_shares", one_row_astray(Split._shares))
    columns = by_land(np.random.default_rng(3))
    found, _ = scans(write(tmp_path / "shards", columns))
    level = LEVELS[0]
    assert (
        against_all_rows(found[level], all_rows(found[level], of_level(columns, level), "logistic"))[0].max()
        > 4
    )


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["logistic", "gaussian"])
def test_a_level_is_as_a_scan_of_its_rows_alone(tmp_path, model):
    columns = by_land(np.random.default_rng(5), 3_000, model)
    found, _ = scans(write(tmp_path / "shards", columns), model)
    for level in LEVELS[:2]:
        alone = scan(write(tmp_path / level, of_level(columns, level)), model)
        one, other = found[level].answer.found, alone.answer.found
        assert found[level].layout.names == alone.layout.names
        for own, theirs in zip(found[level].layout.features, alone.layout.features, strict=True):
            assert (own.mean, own.sd) == pytest.approx((theirs.mean, theirs.sd), rel=1e-5, abs=1e-5)
        (mean, shape), (their_mean, their_shape) = one.moments(), other.moments()
        error = np.sqrt(np.diag(shape) * (1 / one.effective + 1 / other.effective))
        assert (np.abs(mean - their_mean) < 4.5 * error).all()
        assert np.sqrt(np.diag(shape)) == pytest.approx(np.sqrt(np.diag(their_shape)), rel=0.12)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("place", ["column", "folders"])
def test_levels_that_stand_apart_are_met_and_read_once(tmp_path, monkeypatch, place):
    monkeypatch.setattr(pilot, "_PILOT_LEAST", 400)
    columns = by_land(np.random.default_rng(3), 4_000, order=True, rare=0)
    if place == "folders":  # the first two files are all of one level
        columns["land"] = np.repeat(["no", "se fi"], 2_000)
    folder = write(tmp_path / "shards", columns, group=100)
    if place == "folders":
        move_land_to_folders(folder)
    found, times = scans(folder)
    assert {level: made.layout.rows for level, made in found.items()} == {
        str(level): int(rows)
        for level, rows in zip(*np.unique(columns["land"], return_counts=True), strict=True)
    }
    assert times < 2.2  # of rows in order the pilot reads whole row groups


@pytest.mark.thorough
def test_a_block_is_decoded_once_for_all_levels(tmp_path, monkeypatch):
    monkeypatch.setattr(pilot, "_PILOT_LEAST", 400)
    read = []
    opened = row_groups.parts
    monkeypatch.setattr(
        "flyrun.fitting.scan.one_look.parts",
        lambda block, *rest: read.append(block.number) or opened(block, *rest),
    )
    found, times = scans(write(tmp_path / "shards", by_land(np.random.default_rng(3), 20_000), group=250))
    assert sorted(read) == list(range(80))
    assert times < 1.45  # with the pilot, of twenty row groups of so few, and the look for levels
    assert len(found) == 3


@pytest.mark.thorough
def test_results_of_levels_are_kept_and_who_looks_changes_no_bit(tmp_path):
    folder = write(tmp_path / "shards", by_land(np.random.default_rng(6)))
    results = [scans(folder)[0]]
    with mappers.local(2) as run:
        there = mappers.Mapper(run, kept_sums.Kept(tmp_path / "other"), lambda line: None)
        results.append(scans(folder, mapper=there)[0])
    again = mappers.Mapper(mappers.in_turn, kept_sums.Kept(folder / "kept"), lambda line: None)
    results.append(scans(folder, mapper=again)[0])
    assert again.done == 0
    for level in LEVELS:
        here, *others = (one[level].answer.found for one in results)
        for other in others:
            assert np.array_equal(other.x, here.x)
            assert np.array_equal(other.log_weight, here.log_weight)


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("given", ["shards", "one.parquet", "one.csv"])
def test_levels_have_runs_of_their_own_and_stand_side_by_side(tmp_path, monkeypatch, capsys, given):
    monkeypatch.setattr(level_fits, "MOST_REPORTS", 0)
    rng, numbers = np.random.default_rng(5), np.array([2019, 2020])
    columns = by_land(rng, 600)
    kinds = np.array(["b", "c", "a"])[rng.integers(0, 3, 600)]
    columns |= {"land": numbers[rng.integers(0, 2, 600)]}
    columns["kind"] = np.where((columns["land"] == 2020) & (kinds == "a"), "b", kinds)  # which 2020 has not
    monkeypatch.chdir(tmp_path)
    write(Path("shards"), columns)
    whole = pyarrow.table(columns)
    parquet.write_table(whole, "one.parquet")
    whole.to_pandas().to_csv("one.csv", index=False)
    of_2020 = pyarrow.table({name: values[columns["land"] == 2020] for name, values in columns.items()})
    parquet.write_table(of_2020.drop_columns(["land"]), "alone.parquet")
    monkeypatch.setattr("flyrun.fitting.second_process.report", lambda folder: None)
    assert main(["fit", given, "--target", "y", "--by", "land", "--quiet"]) == 0
    base = Path(given).stem
    assert capsys.readouterr().out == f"results/runs/{base}/levels.csv\n"
    rows = rows_of(f"results/runs/{base}/levels.csv")
    assert {row["land"] for row in rows} == {"2019", "2020"}
    assert main(["fit", "alone.parquet", "--target", "y", "--quiet"]) == 0
    there = {row["coefficient"]: row for row in read_fit(Path("results/runs/alone"))["coefficients"]}
    own = {row["coefficient"]: row for row in rows if row["land"] == "2020"}
    assert own.keys() == there.keys()
    assert "kind[b]" not in own
    for name, row in own.items():
        error = there[name]["sd"] * (1 / float(row["ess"]) + 1 / there[name]["ess"]) ** 0.5
        assert abs(float(row["mean"]) - there[name]["mean"]) < 4.5 * error
    assert own["x0"]["run"] == f"{base}-2020"
    fit = read_fit(Path(f"results/runs/{base}-2020"))
    assert fit["settings"]["dataset"]["where"] == "land == '2020'"
    capsys.readouterr()
    assert main(["predict", f"{base}-2020", "alone.parquet"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(of_2020)
    assert main(["fit", given, "--target", "y", "--by", "land", "--drop", "x0", "--quiet"]) == 2
    assert "--fresh replaces them" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["shards", "one.parquet"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--by", "lan"], "--by lan: no such column (did you mean land?)"),
        (["--by", "y"], "--by y: is the target; name another column"),
        (["--by", "x0", "--weights", "x0"], "--by x0: is the weights; name another column"),
        (["--by", "x0", "--features", "x0,x2"], "--by x0: explains the target in --features"),
        (["--by", "x0"], "--by x0: more than 1,000 levels"),
        (["--by", "one"], "--by one: has one value alone in all rows"),
        (
            ["--by", "gaps", "--drop", "land"],
            "lack a value of gaps; leave out, and count, such rows with --missing",
        ),
        (["--by", "land", "--check"], "--check looks at all rows together"),
    ],
)
def test_columns_that_rows_are_not_told_apart_by_are_refused(
    tmp_path, monkeypatch, capsys, given, words, said
):
    columns = by_land(np.random.default_rng(0), 1_200)
    columns |= {"one": np.full(1_200, "a"), "gaps": np.where(np.arange(1_200) % 7, columns["land"], None)}
    write(tmp_path / "shards", columns, files=1, group=1_200)
    parquet.write_table(pyarrow.table(columns), tmp_path / "one.parquet")
    monkeypatch.chdir(tmp_path)
    assert main(["fit", given, "--target", "y", *words, "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.thorough
def test_a_level_without_a_posterior_is_told_and_the_others_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(level_fits, "MOST_REPORTS", 0)
    columns = by_land(np.random.default_rng(0), 1_200)
    columns["x0"][columns["land"] == "se fi"] = 1.0
    columns["land"] = np.where(np.arange(1_200) % 7, columns["land"], None)
    write(tmp_path / "shards", columns)
    monkeypatch.chdir(tmp_path)
    words = ["fit", "shards", "--target", "y", "--by", "land", "--missing", "drop"]
    assert main([*words, "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no posterior of se fi, because" in line
    assert "x0 has one value alone in all rows; leave it out with --drop x0" in line
    assert {row["land"] for row in rows_of("results/runs/shards/levels.csv")} == {"no", "rare"}
    assert main([*words, "--drop", "x0", "--fresh"]) == 0  # the remedy
    said = capsys.readouterr().out
    assert "3 levels of land; 172 rows lack one, and are left out" in said
    assert "3 posteriors in results/runs" in said
    assert "x2 " in said


def test_few_rows_of_a_class_under_a_wide_prior_are_refused_with_a_remedy(tmp_path):
    columns = table(np.random.default_rng(0), 2_000)
    columns["y"] = (np.arange(2_000) % 250 == 0).astype(np.int8)
    folder = write(tmp_path / "shards", columns)
    with pytest.raises(ConfigError, match="8 rows have y = 1, too few for 5 coefficients"):
        scan(folder, prior_scale=50.0)
    scan(folder, prior_scale=5.0)
