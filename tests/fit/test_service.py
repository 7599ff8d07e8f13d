"""A fit as a service has it: one row at a time, from many threads, out of one file, with little memory."""

import io
import json
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flyrun
from flyrun.fitting import predict, stored
from flyrun.ground.errors import ConfigError, DataError
from flyrun.tables import by_name, formula, new_rows
from flyrun.tables.layout import Column, Layout
from tests.in_process import flyrun as command

#: formulas of which each kind of term is one, and what its target is
FITS = {
    "claims ~ age * C(region) + log(power) + I(age**2)": {"model": "poisson", "exposure": "years"},
    "claims ~ age + (1 + age | broker)": {"model": "poisson", "exposure": "years"},
    "paid ~ bs(age, df=4) + region": {},
    "ill ~ age + s(power)": {},
}
ROW = {"age": 41.0, "region": "north", "power": 90, "years": 0.5, "broker": "b3"}
_LIMIT_MS, _LIMIT_MB = 2.0, 150.0


def table(n=600):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {"age": rng.uniform(18.0, 80.0, n), "region": rng.choice(["north", "south", "east"], n)}
    )
    frame["power"], frame["years"] = rng.integers(50, 200, n), rng.uniform(0.1, 1.0, n)
    frame["broker"] = [f"b{k}" for k in rng.integers(0, 12, n)]
    eta = 0.02 * frame["age"] + 0.5 * (frame["region"] == "north") - 1.0
    frame["claims"] = rng.poisson(frame["years"] * np.exp(eta))
    frame["paid"], frame["ill"] = eta + rng.normal(size=n), np.where(rng.random(n) < 0.5, "yes", "no")
    return frame


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    home, data = tmp_path_factory.mktemp("home"), table()
    names = {}
    for number, (text, options) in enumerate(FITS.items()):
        flyrun.fit(data, text, name=f"f{number}", results_dir=home / "results", budget=60, **options)
        names[text] = home / "results" / "runs" / f"f{number}"
    return names


@pytest.fixture
def service(fits):
    return flyrun.load(fits["claims ~ age * C(region) + log(power) + I(age**2)"])


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("kind", ["mean", "response"])
@pytest.mark.parametrize("text", FITS)
def test_a_row_has_the_prediction_of_its_frame(fits, text, kind):
    fit = flyrun.load(fits[text])
    row = fit.predict(ROW, kind, seed=3)
    assert row == fit.predict(pd.DataFrame([ROW]), kind, seed=3).iloc[0].to_dict()
    assert row != fit.predict(ROW | {"age": 42.0}, kind, seed=3)


def test_a_row_has_the_prediction_of_the_command(fits, tmp_path):
    text = "claims ~ age + (1 + age | broker)"
    new = ROW | {"broker": "new"}
    pd.DataFrame([new]).to_csv(tmp_path / "new.csv", index=False)
    run = command(tmp_path, "predict", str(fits[text]), "new.csv", "--new-groups", "draw", "--draws", "100")
    told = pd.read_csv(io.StringIO(run.stdout)).iloc[0]
    fit = flyrun.load(fits[text])
    row = fit.predict(new, draws=100, new_groups="draw")
    assert [told[name] for name in row] == pytest.approx([*row.values()], rel=1e-5)
    with pytest.raises(DataError, match=r"broker holds 'new'.*; new_groups='draw' gives it an effect"):
        fit.predict(new)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"age": "x"}, "its only row, column age holds 'x', but held numbers"),
        ({"age": "1_0"}, "its only row, column age holds '1_0', but held numbers"),
        ({"age": None}, "its only row, column age has no value"),
        ({"age": float("inf")}, "its only row, column age holds inf"),
        ({"age": pd.NA}, "its only row, column age has no value"),
        ({"region": "noth"}, "did you mean north?"),
        ({"years": 0.0}, "its only row, column years is 0, but exposures are numbers above 0"),
        ({"age": [1.0, 2.0]}, r"age holds several values; write pandas\.DataFrame\(\.\.\.\) of rows"),
        ({"age": 1j}, "complex numbers"),
        ({"power": 0}, r"log\(power\) is -inf"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_row_that_does_not_fit_is_refused_in_a_line(service, change, fault):
    with pytest.raises(DataError, match=fault) as error:
        service.predict(ROW | change)
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="has no column 'age'"):
        service.predict({name: value for name, value in ROW.items() if name != "age"})


#: right sides and whether names say all that there is
BY_NAME = {
    "age + region": True,
    "age * region": True,
    "age:region + power": True,
    "C(region) * C(band)": True,
    "log(power) + I(age**2) + sqrt(age) + I(age / power - 2.5)": True,
    "age * power * log(years)": True,
    "exp(-years) + abs(age - 40) + log1p(power) + expm1(years) + log10(age) + log2(age)": True,
    "`the age` + age": True,
    "bs(age, df=4) + power": False,
    "center(age)": False,
    "C(region, Sum)": False,
    "C(age > 30)": False,
}


@pytest.mark.parametrize("right", BY_NAME)
def test_columns_by_their_names_are_those_of_formulaic(right):
    frame = table(50).assign(
        band=lambda frame: frame.index % 3, **{"the age": lambda frame: frame["age"] ** 2}
    )
    read = formula.read(right, list(frame))
    sources = [
        Column(name, ["north", "east", "south"], text=True)
        if name == "region"
        else Column(name, ["0", "1", "2"])
        if name == "band"
        else Column(name)
        for name in read.columns
    ]
    matrix = formula.Matrix.of(read, sources, frame)
    right_one = matrix.columns(frame, "the table")
    layout = Layout(
        "counts", Column("y"), [Column(name) for name in right_one], sources=sources, formula=right
    )
    rows = new_rows.checked(
        new_rows.of_frame(frame, [source.name for source in sources]), frame.index, layout, "rows", str
    )
    made = by_name.values(layout, rows.columns)
    assert (made is not None) == BY_NAME[right]
    if made is not None:
        assert np.array_equal(np.column_stack(made), right_one.to_numpy())
        layout.features[0], layout.features[-1] = layout.features[-1], layout.features[0]  # the control
        assert len(made) == 1 or not np.array_equal(
            np.column_stack(by_name.values(layout, rows.columns)), right_one.to_numpy()
        )


def milliseconds(call, times=60):
    """The median time of this thread."""
    call()
    seen = []
    for _ in range(times):
        began = time.thread_time()
        call()
        seen.append(1e3 * (time.thread_time() - began))
    return np.median(seen)


@pytest.mark.parametrize("given", ["row", "frame"])
@pytest.mark.parametrize("text", [text for text in FITS if "bs" not in text])
def test_a_row_takes_two_milliseconds_at_most(fits, text, given):
    fit = flyrun.load(fits[text])
    row = ROW if given == "row" else pd.DataFrame([ROW])
    assert milliseconds(lambda: fit.predict(row)) <= _LIMIT_MS
    # the control: what reads the draws again takes longer
    assert milliseconds(lambda: flyrun.load(fits[text]).predict(row), 10) > _LIMIT_MS


@pytest.mark.thorough
def test_eight_threads_get_the_answers_of_one(fits):
    for text in FITS:
        rows = [ROW | {"age": age} for age in np.linspace(20.0, 75.0, 40)]
        asked = [(row, kind) for row in rows for kind in ("mean", "response")]
        wanted = [flyrun.load(fits[text]).predict(row, kind, seed=1) for row, kind in asked[:4]]
        fit, barrier = flyrun.load(fits[text]), threading.Barrier(8)

        def answers(_, fit=fit, barrier=barrier, asked=asked):
            barrier.wait()
            return [fit.predict(row, kind, seed=1) for row, kind in asked]

        with ThreadPoolExecutor(8) as pool:
            first, *others = pool.map(answers, range(8))
        assert first[:4] == wanted
        assert all(other == first for other in others)
        assert first[0] != first[2]


SERVICE = """
import json, sys
import flyrun

def peak_mb():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024.0

fit = flyrun.load(sys.argv[1])
row = json.loads(sys.argv[2])
told = fit.predict(row)
heavy = [name for name in ("pandas", "formulaic", "numba", "sklearn") if name in sys.modules]
peak = peak_mb()
import pandas
framed = fit.predict(pandas.DataFrame([row])).iloc[0].to_dict()
print(json.dumps([told, heavy, peak, framed, peak_mb()]))
"""


def serve(where, fit):
    """What a process of its own says, in an empty folder that is its home, too."""
    environment = {"HOME": str(where), "TMPDIR": str(where), "PYTHONDONTWRITEBYTECODE": "1", "PATH": ""}
    environment |= {"PYTHONPATH": str(stored.Path(flyrun.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, "-c", SERVICE, str(fit), json.dumps(ROW)],
        cwd=where, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(run.stdout)


def test_a_service_is_small_and_writes_nothing(fits, service, tmp_path):
    told, heavy, peak, framed, now = serve(tmp_path, service.folder)
    assert told == framed == service.predict(ROW)
    assert heavy == []
    assert peak < now <= _LIMIT_MB
    assert [*tmp_path.iterdir()] == []
    assert not any(path.name.startswith(".") for path in service.folder.iterdir())


def test_a_model_is_one_file_that_needs_no_other(fits, tmp_path):
    away = tmp_path / "away"
    away.mkdir()
    for number, text in enumerate(FITS):
        fit, file = flyrun.load(fits[text]), away / f"{number}.flyrun"
        fit.save(file)
        other = flyrun.load(file)
        frame = table(20)
        pd.testing.assert_frame_equal(other.predict(frame), fit.predict(frame))
        pd.testing.assert_frame_equal(other.summary(), fit.summary())
        assert np.array_equal(other.posterior["posterior"]["beta"], fit.posterior["posterior"]["beta"])
        with zipfile.ZipFile(file) as archive:
            assert archive.namelist() == ["model.json", "fit.json", "posterior.nc"]
            json.loads(archive.read("fit.json"))
            assert archive.read("posterior.nc").startswith(b"\x89HDF")
    assert serve(tmp_path, file)[0] == fit.predict(ROW)
    again = tmp_path / "again.flyrun"
    other.save(again)
    assert again.read_bytes() == file.read_bytes()
    table(5).to_csv(tmp_path / "new.csv", index=False)
    named = command(tmp_path, "predict", str(fit.folder), "new.csv")
    alone = command(tmp_path, "predict", str(again), "new.csv")
    assert alone.returncode == 0
    assert alone.stdout == named.stdout
    with pytest.raises(ConfigError, match="a report goes into the folder of a fit"):
        other.write_report()


def test_a_model_that_is_not_whole_is_refused_in_a_line(service, tmp_path):
    file = tmp_path / "model.flyrun"
    service.save(file)
    whole = file.read_bytes()
    wrong = bytearray(whole)
    wrong[len(whole) // 2] ^= 1
    for content in (whole[: len(whole) // 2], bytes(wrong), b"", b"words"):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"is no whole model .*`fit.save\(...\)`") as error:
            flyrun.load(file).predict(ROW)
        assert "\n" not in str(error.value)
    run = command(tmp_path, "predict", "model.flyrun", "new.csv")
    assert run.returncode == 2
    file.write_bytes(whole)  # the control
    assert flyrun.load(file).predict(ROW) == service.predict(ROW)


@pytest.mark.parametrize(
    ("member", "key", "value", "fault"),
    [
        ("model.json", "format", 9, "install that version or a later one"),
        ("fit.json", "settings", {"model": "of_another"}, "of a package that is not installed here"),
    ],
)
def test_a_model_of_another_world_is_refused(service, tmp_path, member, key, value, fault):
    file = tmp_path / "model.flyrun"
    service.save(file)
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents[member] = json.dumps(json.loads(contents[member]) | {key: value}).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    with pytest.raises(ConfigError, match=fault):
        flyrun.load(file).predict(ROW)


def test_thinned_draws_of_a_service_are_those_asked_for(service):
    few = service.predict(ROW, draws=50)
    assert few == service.predict(ROW, draws=50)
    assert few != service.predict(ROW)
    whole = stored.fitted(service.folder)
    assert few == predict.of_row(whole.thinned(50), ROW)


def test_a_table_is_not_written_over(service, tmp_path):
    table = tmp_path / "claims.csv"
    table.write_text("a\n1\n", "utf-8")
    with pytest.raises(ConfigError, match=r"a model ends in \.flyrun; name it .*claims\.flyrun") as error:
        service.save(table)
    assert table.read_text("utf-8") == "a\n1\n"
    named = str(error.value).rpartition("name it ")[2]
    service.save(named)
    assert flyrun.load(named).predict(ROW) == service.predict(ROW)


def test_whatever_predict_takes_is_loaded(fits, tmp_path, monkeypatch):
    folder = fits["ill ~ age + s(power)"]
    monkeypatch.chdir(folder.parents[2])
    flyrun.load(folder).save(tmp_path / "m.flyrun")
    table(3).to_csv(tmp_path / "new.csv", index=False)
    wanted = flyrun.load(folder).predict(ROW)
    for given in (folder.name, f"{folder.name}/", f"results/runs/{folder.name}", tmp_path / "m.flyrun"):
        assert flyrun.load(given).predict(ROW) == wanted
        assert command(Path(), "predict", str(given), str(tmp_path / "new.csv")).returncode == 0
    with pytest.raises(ConfigError, match="no: holds no finished fit"):
        flyrun.load("no")
