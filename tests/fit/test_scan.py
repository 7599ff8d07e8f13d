"""One scan of many Parquet files: against all likelihoods of its draws and against a fit of one file."""

import re

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.families.family import family
from flyrun.fitting.request import Request
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.scan import (
    block_sums,
    kept_sums,
    mappers,
    pilot_rows,
    row_weights,
    rows_to_come,
    stage_ranges,
    stages,
    table_files,
)
from flyrun.fitting.scan.block_sums import Intensity, SumLook, Travelled
from flyrun.fitting.scan.pilot import Inputs
from flyrun.fitting.scan.stages import Scan
from flyrun.fitting.stored import about as read_fit
from flyrun.fitting.table_rows import Rows
from flyrun.ground import environment
from flyrun.ground.errors import DataError
from flyrun.ground.schema import schema

parquet = pytest.importorskip("pyarrow.parquet")
pyarrow = pytest.importorskip("pyarrow")
WIDTH = 4
SLOW = pytest.param("student_t", marks=pytest.mark.slow)
CODES = pytest.param("codes", marks=pytest.mark.slow)


def target(model, eta, rng):
    """Targets of one model at predictors."""
    if model in ("logistic", "probit"):
        return (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))).astype(np.int8)
    if model in ("student_t", "gaussian"):
        return (5.0 + 3.0 * eta + rng.standard_t(4, len(eta))).astype(np.float32)
    mean = np.exp(0.5 * eta)
    return (rng.poisson(mean) if model == "poisson" else rng.negative_binomial(3, 3 / (3 + mean))).astype(
        np.int32
    )


def table(rng, n, model="logistic", rare=0):
    """Columns of n rows; of `rare` rows a 0-1 column is 1."""
    x = rng.standard_normal((WIDTH, n)).astype(np.float32)
    x[1] = 3.0 * x[1] + 10.0
    columns = {f"x{k}": one for k, one in enumerate(x)}
    eta = np.array([0.8, -0.2, 0.5, 0.3]) @ x + 1.5
    if rare:
        columns["rare"] = np.isin(np.arange(n), rng.choice(n, rare, replace=False)).astype(np.float32)
        eta = eta + 2.0 * columns["rare"]
    return columns | {"y": target(model, eta, rng)}


def write(folder, columns, files=4, group=500):
    """The rows in so many files."""
    folder.mkdir(exist_ok=True)
    for k, rows in enumerate(np.array_split(np.arange(len(next(iter(columns.values())))), files)):
        own = pyarrow.table({name: values[rows] for name, values in columns.items()})
        parquet.write_table(own, folder / f"part-{k}.parquet", row_group_size=group)
    return folder


def scan(folder, model="logistic", seed=0, mapper=None, said=None, **settings):
    """The scan of a folder, in this process."""

    def in_turn(look, groups, words):
        return [mappers.run_group(look, group).result for group in groups]

    found = table_files.find(str(folder))
    request = Request(str(folder), "y", model, **settings)
    task = schema("model", model).task
    columns = table_files.chosen(found, "y", None, (), {})
    inputs = (
        request,
        found,
        columns,
        request.typed_table,
        mapper or in_turn,
        ([] if said is None else said).append,
    )
    made = Scan(Inputs(*inputs), seed)
    pilot = made.pilot()
    one = family(model)
    return made.run(pilot, made.encoding(pilot, task, one), one)


def all_rows(found, columns, model):
    """The posterior of all rows in the units of the scan's answer."""
    layout = found.layout
    x = [(columns[one.name].astype(float) - one.mean) / one.sd for one in layout.features]
    y = (columns["y"].astype(float) - layout.target.mean) / layout.target.sd
    rows = Rows(np.column_stack([*x, np.ones(len(y))]), y)
    return Posterior(family(model), rows, found.posterior.prior, found.posterior.levels)


def against_all_rows(found, post, most=4_000):
    """Largest z of the weighted draws' means against those by all likelihoods, and the variance of exact log
    weights."""
    own = found.answer.found
    x, part = own.x[:most], slice(0, most)
    exact = post.log_density(x) - found.posterior.log_density(x)
    exact = np.exp(exact - exact.max())
    exact /= exact.mean()
    w = own.sign[part] * np.exp(own.log_weight[part] - own.log_weight[part].max())
    w /= w.mean()
    mean = exact @ x / len(x)
    away = np.linalg.solve(own.proposal.root, (x - mean).T).T  # so that coefficients tell apart
    off = (w - exact)[:, None] * away
    return np.abs(off.mean(axis=0)) / (off.std(axis=0) / np.sqrt(len(x))), float(np.log(exact).var())


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    """Draws enough to test by."""
    monkeypatch.setattr(row_weights, "DRAWS", 4_000)
    monkeypatch.setattr(row_weights, "_BY_CHAINS", 2_000)


@pytest.mark.thorough(but="logistic")
@pytest.mark.parametrize("model", ["logistic", "probit", "poisson", "negative_binomial", SLOW])
def test_weights_by_few_rows_are_those_by_all_rows(tmp_path, model):
    n = 4_000 if model == "student_t" else 1_000  # of fewer rows the tails of the noise are known too little
    columns = table(np.random.default_rng(3), n, model, rare=12)
    found = scan(write(tmp_path / "shards", columns), model)
    z, variance = against_all_rows(found, all_rows(found, columns, model))
    own = found.answer
    assert z.max() < 3.5
    assert own.core > 0
    assert own.variance == pytest.approx(variance, rel=0.3, abs=0.003)
    assert own.found.effective == pytest.approx(own.planned * len(own.found.x), rel=0.15)


def core_twice(pick):
    def wrong(look, size, rng):
        index, count, intensity, core = pick(look, size, rng)
        return index, count, intensity, np.zeros_like(core)

    return wrong


def wrong_intensity(pick):
    def wrong(look, size, rng):
        index, count, intensity, core = pick(look, size, rng)
        return index, count, 2.0 * intensity, core

    return wrong


@pytest.mark.parametrize("wrong", [core_twice, wrong_intensity])
def test_wrong_sums_and_intensities_are_seen(tmp_path, monkeypatch, wrong):
    monkeypatch.setattr(SumLook, "_pick", wrong(SumLook._pick))
    columns = table(np.random.default_rng(3), 1_000, rare=12)
    found = scan(write(tmp_path / "shards", columns))
    assert against_all_rows(found, all_rows(found, columns, "logistic"))[0].max() > 4


@pytest.mark.thorough
@pytest.mark.parametrize("rare", [0, 12])
def test_fewer_draws_where_the_rows_of_all_would_not_fit(tmp_path, monkeypatch, rare):
    columns = table(np.random.default_rng(3), 20_000, rare=rare)
    folder = write(tmp_path / "shards", columns)
    usual = scan(folder)
    most = usual.answer.nbytes // 2
    monkeypatch.setattr(rows_to_come, "_MOST_BYTES", most)
    monkeypatch.setattr(stages, "_SCANS", 1)  # so that no better centre is looked for first,
    monkeypatch.setattr(stages, "_ALL_ROWS", 0)  # nor all rows kept
    found = scan(folder, said=(said := []))
    assert 1_000 <= len(found.answer.found.x) < 0.9 * len(usual.answer.found.x)
    assert any("because the rows of more would not fit" in line for line in said)
    assert found.answer.nbytes < 1.2 * most
    z, _ = against_all_rows(found, all_rows(found, columns, "logistic"))
    assert z.max() < 3.5
    assert found.answer.planned > 0.5


def test_room_for_rows_ends_where_it_is_said_to(monkeypatch):
    """Rows that travel for as many draws as fit fill the room, and more memory is named where it is short."""
    usual = rows_to_come.rows_to_come(0.5, 10**6, 17, 1)
    assert usual.most == np.inf  # all rows take 80 MB
    assert "memory" not in usual.remedy
    monkeypatch.setattr(mappers, "memory", lambda: 10 * mappers.OF_MEMORY * 10**6)
    short = rows_to_come.rows_to_come(0.5, 10**6, 17, 1)
    assert "(8 MB) will come" in short.told(short.most)
    assert "a machine of more memory" in short.remedy
    among = rows_to_come.rows_to_come(0.5, 10**6, 17, 4)
    assert among.most > short.most  # a level has its least room


def test_intensities_beyond_what_exponentials_reach_are_drawn_right():
    look = SumLook(None, "logistic", None, Intensity(1.0, 0.0, np.inf), 0)
    index, count, intensity, core = look._pick(np.full(2_000, 900.0), np.random.default_rng(0))
    assert len(index) == 2_000
    assert not core.any()
    assert (intensity == 900.0).all()
    assert count.mean() == pytest.approx(900.0, abs=4 * 30 / 2_000**0.5)
    assert count.std() == pytest.approx(30.0, rel=0.08)
    few = look._pick(np.full(200_000, 0.1), np.random.default_rng(1))
    assert few[1].sum() == pytest.approx(20_000, abs=4 * 20_000**0.5)
    assert (few[1] == 2).sum() == pytest.approx(200_000 * 0.005 * np.exp(-0.1), rel=0.15)


@pytest.mark.parametrize(
    ("groups", "seen"), [(1, 0.5), (4, 0.02), (24, 0.02), (50, 0.01), (200, 1e-3), (500, 1e-4)]
)
def test_stages_read_each_row_group_once_but_for_few_that_are_for_a_centre(groups, seen):
    plan = stage_ranges.stages_of(groups, seen)
    own = [stage for stage in plan if not stage.again]
    assert sorted(k for one in own for k in range(one.begun, one.end)) == list(range(groups))
    assert sum(one.end - one.begun for one in plan) <= 1.05 * groups
    done = {k for one in plan if one.again for k in range(one.begun, one.end)}
    for one in own:
        assert one.told == pytest.approx(max(len(done) / groups, seen))  # what is known before
        done |= {*range(one.begun, one.end)}


def test_the_more_row_groups_the_fewer_rows_travel_up_to_a_bound(monkeypatch):
    def cost(groups, seen):
        own = (one for one in stage_ranges.stages_of(groups, seen) if not one.again)
        return sum((one.end - one.begun) / groups / one.told for one in own)

    assert cost(200, 1e-3) < 3.9  # of stages without end, ln 20
    assert cost(200, 1e-3) < cost(50, 1e-2) < 4.3
    monkeypatch.setattr(stage_ranges, "_FOR_CENTRES", (0.01,))
    assert cost(200, 1e-3) > 5


def test_rows_are_kept_as_they_are_if_far_above_most_and_not_if_all_are_large():
    even, ones = np.full(1_000, 1e-3), np.ones(1_000)
    assert pilot_rows.bulk_and_core(even, ones) == pytest.approx((1e-3, 2e-2))
    few = np.where(np.arange(1_000) < 10, 1.0, even)
    few[10] = np.inf
    assert pilot_rows.bulk_and_core(few, ones) == pytest.approx((1e-3, 2e-2))
    assert pilot_rows.bulk_and_core(1e-6 * even, ones) == pytest.approx((1e-9, 1e-5))
    size, weight = np.repeat([1e-3, 1.0], [400, 600]), np.repeat([1.0, 1e-3], [400, 600])
    assert pilot_rows.bulk_and_core(size, weight) == pytest.approx(
        (1e-3, 2e-2)
    )  # most of a pilot, not of all


def test_rows_travel_as_the_smallest_numbers_that_are_exact():
    def rows(y, count):
        x = np.ones((2, 3), np.float32)
        values = [x, np.array(y), x[:, :0], np.array(count), np.full(2, 0.1, np.float32), x[:, :1], x[:, :1]]
        kinds = zip(values, block_sums._KINDS, strict=True)
        return Travelled(*(block_sums._packed(one, kind) for one, kind in kinds), np.zeros(2, np.int8))

    for y, count, size in (([0, 1], [0, 255], 1), ([0.5, 1], [1, 300], 4), ([0.1, 1], [1, 300], 8)):
        made = rows(y, count)
        assert made.y.itemsize == size
        assert made.unpacked(True).y.tolist() == y
        assert made.unpacked(True).copies.tolist() == count
    assert rows([0, 1], [1, 2]).nbytes == 2 * (12 + 1 + 1 + 4 + 4 + 4 + 1)
    look = SumLook(None, "logistic", None, Intensity(0.1, 0.0, np.inf), 0)
    _, _, intensity, _ = look._pick(np.linspace(1.0, 9.0, 99), np.random.default_rng(0))
    assert (
        intensity.astype(np.float32) == intensity
    ).all()  # else a copy is drawn by another than it is weighted by


def move_land_to_folders(folder):
    """Two of four files each, as a table partitioned by its column land."""
    for k, path in enumerate(sorted(folder.glob("*.parquet"))):
        place = folder / f"land={['no', 'se%20fi'][k // 2]}"
        place.mkdir(exist_ok=True)
        parquet.write_table(parquet.read_table(path).drop_columns(["land"]), place / path.name)
        path.unlink()


def with_more(columns, model, rng):
    """Columns beside the features, a target that goes with them, and the words that name them."""
    n = len(columns["y"])
    eta = 0.4 * columns["x0"] - 0.3
    near = {name: columns[name] for name in ("x0", "x2")}
    if model == "poisson":
        years, times = rng.gamma(2.0, 3.0, n), rng.integers(0, 4, n)
        more = {"y": rng.poisson(years * np.exp(eta)), "years": years, "times": times}
        return near | more, ["--exposure", "years", "--weights", "times"]
    if model == "binomial":
        tries, known = rng.integers(1, 9, n), rng.standard_normal(n)
        more = {"y": rng.binomial(tries, 1 / (1 + np.exp(-eta - known))), "tries": tries, "known": known}
        return near | more, ["--trials", "tries", "--offset", "known"]
    if model == "gaussian":
        return columns | {"times": rng.integers(1, 4, n)}, ["--weights", "times"]
    if model == "text":  # a level that one file alone has, and a column that folders' names hold
        kinds = np.array(["dear", "cheap", "new"])[rng.integers(0, 2, n)]
        kinds[-5:] = "new"
        land = np.repeat(["no", "se fi"], [n // 2, n - n // 2])
        eta = eta + (kinds == "dear") - 0.5 * (land == "no")
        said = np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no")
        return near | {"kind": kinds, "land": land, "y": said}, ["--reference", "kind=dear"]
    if model == "codes":  # numbers that are names, of which the last file alone has one
        code = rng.integers(8, 11, n).astype(np.float64)
        code[-5:] = 100
        own = (rng.random(n) < 1 / (1 + np.exp(-eta - (code == 9)))).astype(int)
        return near | {"code": code, "y": own}, ["--categorical", "code", "--reference", "code=10"]
    if model == "formula":
        kinds = np.array(["dear", "cheap", "new"])[rng.integers(0, 3, n)]
        own = (rng.random(n) < 1 / (1 + np.exp(-eta - (kinds == "dear") * near["x0"]))).astype(int)
        text = "y ~ center(x0) * kind + bs(x2, df=4) + C(code)"
        return near | {"kind": kinds, "code": rng.integers(0, 3, n), "y": own}, [text]
    if model == "softmax":
        classes = np.argmax(np.outer([0.0, 1.0, -0.5], eta) + rng.gumbel(size=(3, n)), axis=0)
        return near | {"y": classes}, ["--prior", "x0: normal(0, 0.05)"]
    return columns, []


@pytest.mark.thorough(but=("logistic", "gaussian"))
@pytest.mark.parametrize(
    "model", ["logistic", "gaussian", "poisson", "binomial", "softmax", "text", CODES, "formula"]
)
def test_a_fit_of_many_files_is_that_of_one(tmp_path, monkeypatch, capsys, model):
    rng = np.random.default_rng(5)
    columns, words = with_more(
        table(rng, 3_000, "gaussian" if model == "gaussian" else "logistic", 40), model, rng
    )
    folder = write(tmp_path / "shards", columns)
    parquet.write_table(pyarrow.table(columns), tmp_path / "one.parquet")
    monkeypatch.chdir(tmp_path)
    given, more = "shards/*.parquet", ["--target", "y", "--model", model, "--quiet", *words]
    if model in ("text", "codes", "formula"):
        more[3] = "logistic"
    if model == "formula":
        more[:2] = []  # which names the target
    if model == "text":
        given = "shards"
        move_land_to_folders(folder)
    assert main(["fit", given, *more]) == 0
    assert main(["fit", "one.parquet", *more]) == 0
    capsys.readouterr()
    many, one = (
        {row["coefficient"]: row for row in read_fit(tmp_path / "results/runs" / name)["coefficients"]}
        for name in (folder.name, "one")
    )
    assert many.keys() == one.keys()
    for name, row in many.items():
        error = row["sd"] * (1 / row["ess"] + 1 / one[name]["ess"]) ** 0.5
        assert abs(row["mean"] - one[name]["mean"]) < 4.5 * error
        assert row["sd"] == pytest.approx(one[name]["sd"], rel=0.12)
        if row["prior_sd"] is not None:
            assert row["prior_sd"] == pytest.approx(one[name]["prior_sd"], rel=1e-4)
    assert not (tmp_path / "results/runs/shards/scan").exists()


def test_what_is_there_is_kept_and_what_is_damaged_is_read_again(tmp_path):
    folder = write(tmp_path / "shards", table(np.random.default_rng(6), 2_000))
    kept = kept_sums.Kept(tmp_path / "kept")
    first = mappers.Mapper(mappers.in_turn, kept, lambda line: None)
    here = scan(folder, mapper=first).answer.found
    results = sorted(kept.folder.iterdir())
    assert len(results) == first.done
    results[0].write_bytes(results[0].read_bytes()[:-1])
    again = mappers.Mapper(mappers.in_turn, kept, lambda line: None)
    other = scan(folder, mapper=again).answer.found
    assert np.array_equal(other.log_weight, here.log_weight)
    assert again.done == 1  # the damaged one alone


FAULTS = {
    "is no whole Parquet file": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "has no column 'x1', which": lambda path: rewrite(path, lambda rows: rows.drop_columns(["x1"])),
    "column 'x1' holds text, in": lambda path: replace(path, ["a"]),
    "a value is missing": lambda path: replace(path, [None, 1.0]),
    "holds an infinite number": lambda path: replace(path, [np.inf]),
}


def rewrite(path, change):
    parquet.write_table(change(parquet.read_table(path)), path)


def replace(path, values):
    """Have a column hold these, again and again."""

    def change(rows):
        column = pyarrow.array(values * (len(rows) // len(values)))
        return rows.set_column(rows.schema.get_field_index("x1"), "x1", column)

    rewrite(path, change)


@pytest.mark.parametrize("said", FAULTS)
def test_a_file_that_cannot_be_used_is_named_in_one_line(tmp_path, monkeypatch, capsys, said):
    write(tmp_path / "shards", table(np.random.default_rng(0), 800))
    FAULTS[said](tmp_path / "shards/part-2.parquet")
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "shards", "--target", "y", "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert "part-2.parquet" in line
    assert not (tmp_path / "results/runs/shards/posterior.nc").exists()


def test_a_file_that_changes_between_looks_is_refused(tmp_path):
    folder = write(tmp_path / "shards", table(np.random.default_rng(0), 800))

    def change(look, groups, words):
        if words != "pilot":
            write(folder, table(np.random.default_rng(1), 804))
        return [mappers.run_group(look, group).result for group in groups]

    with pytest.raises(DataError, match="changed while it was in use"):
        scan(folder, mapper=change)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "z"], "--target z: no such column"),
        (["--target", "x0"], "say what it is with --model"),
        (["--target", "x0", "--model", "logistic"], "--model logistic takes two: choose --model student_t"),
        (["--target", "y", "--weights", "x0"], "but weights are whole numbers from 0; mend"),
        (["--target", "y", "sampler.n_steps=8"], "sampler.n_steps=8: fit draws from the posterior itself"),
        (["--target", "x0", "--model", "poisson"], "but counts are whole numbers from 0; mend"),
        (
            ["--target", "kind", "--drop", "name", "--model", "poisson"],
            "a regression needs numbers: mend it, or choose --model logistic",
        ),
        (["--target", "y", "--reference", "x0=1"], "x0 holds numbers; name a category, or leave it out"),
        (["--target", "y", "--categorical", "x9"], "--categorical x9: no such column"),
        (["--target", "y", "--categorical", "y"], "--categorical y: is the target; leave it out there"),
        (["--target", "y", "--categorical", "x0"], "column x0 holds more than 100 different values"),
        (["--target", "y", "--drop", "kind"], "--drop kind,name"),
    ],
)
def test_what_a_scan_does_not_take_is_refused_with_a_remedy(tmp_path, monkeypatch, capsys, words, said):
    columns = table(np.random.default_rng(0), 800)
    if "--drop" in words:
        columns |= {"kind": np.tile(["a", "b"], 400), "name": np.arange(800).astype(str)}
    write(tmp_path / "shards", columns)
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "shards", *words, "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_finished_results_with_other_settings_are_not_replaced(tmp_path, monkeypatch, capsys):
    write(tmp_path / "shards", table(np.random.default_rng(0), 800))
    monkeypatch.chdir(tmp_path)
    fit = ["fit", "shards", "--target", "y", "--quiet"]
    assert main(fit) == 0
    assert main([*fit, "--drop", "x0"]) == 2
    assert "--fresh replaces them" in capsys.readouterr().err


@pytest.mark.thorough
def test_what_was_read_and_moved_is_told(tmp_path, monkeypatch, capsys):
    write(tmp_path / "shards", table(np.random.default_rng(3), 1_000, rare=12))
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "shards", "--target", "y"]) == 0
    said = capsys.readouterr().out
    assert "4 files, 4 row groups, 1,000 rows, 5 columns: one scan reads" in said
    fit = read_fit(tmp_path / "results/runs/shards")
    assert [one["path"] for one in fit["scan"]["files"]] == [f"shards/part-{k}.parquet" for k in range(4)]
    told = " ".join(fit["lines"])
    assert f"CPU-seconds of {environment.blas_kernels()}" in told
    assert re.search(r"[\d,]+ rows travelled .*: [\d,]+ kept exactly \(11 for rare\), ", told)
    report = (tmp_path / "results/runs/shards/report.md").read_text()
    assert fit["scan"]["files"][3]["footer"][:12] in report
    assert "as two halves of the sample tell (at most 1)" in report
