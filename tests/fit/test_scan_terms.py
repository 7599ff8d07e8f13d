"""A formula's matrix in a scan: with the state of the whole table, not that of a part."""

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.fitting.python import fit, load
from flyrun.fitting.scan import mappers, table_files, terms, text_levels
from flyrun.fitting.scan.text_levels import TextLook
from flyrun.tables import formula
from tests.fit.test_scan import write

pytest.importorskip("pyarrow")
TEXT = "center(dose) * kind + bs(age, df=4)"
N = 600


def in_turn(look, groups, words):
    return [mappers.run_group(look, group).result for group in groups]


def found(folder):
    """A table in row groups of unlike rows, and its terms as a scan finds them."""
    rng = np.random.default_rng(2)
    kinds = np.repeat(["b", "a", "c"], N // 3)
    columns = {"dose": np.sort(rng.gamma(2.0, 1.0, N)), "age": rng.permutation(np.linspace(20, 90, N))}
    shards = table_files.find(str(write(folder / "shards", columns | {"kind": kinds, "y": kinds}, group=50)))
    names, groups = ("dose", "age", "kind"), [[block] for block in shards.blocks]
    words = text_levels.tree(in_turn(TextLook(("kind",)), groups, ""))
    levels = (("kind", tuple(words.of("kind"))),)
    made = terms.find([TEXT], shards, names, levels, groups, in_turn, 0)
    return pd.DataFrame(columns | {"kind": kinds}), made.each[0]


def of_whole(table, own):
    """The matrix of a whole table, as of one file."""
    read = formula.read(TEXT, list(table))
    return formula.Matrix.of(read, own.columns, table).columns(table, "the table")


def by_parts(table, own):
    """The same by parts, as workers make it."""
    codes = table.assign(kind=table["kind"].map({"a": 0, "b": 1, "c": 2}))
    x = codes.to_numpy(np.float64)
    return np.concatenate([own.of(part, np.arange(len(part)), "a part") for part in np.array_split(x, 9)])


def test_the_matrix_of_parts_is_that_of_the_whole(tmp_path):
    table, own = found(tmp_path)
    whole = of_whole(table, own)
    assert own.names == tuple(whole)
    np.testing.assert_allclose(by_parts(table, own), whole, rtol=1e-12, atol=1e-12)


def test_the_state_of_a_part_is_another(tmp_path, monkeypatch):
    monkeypatch.setattr(terms, "MOST", 60)
    table, own = found(tmp_path)
    away = np.abs(by_parts(table, own) - of_whole(table, own).to_numpy()).max(axis=0)
    assert away.max() > 0.02
    assert np.isfinite(away).all()  # the ends of splines are those of all rows


def test_rows_that_lack_a_value_have_none_of_the_matrix(tmp_path):
    own = found(tmp_path)[1]
    x = np.array([[1.0, 30.0, 0.0], [np.nan, 30.0, 1.0]])
    made = own.of(x, np.arange(2), "a part")
    assert np.isfinite(made[0]).all()
    assert np.isnan(made[1]).all()


@pytest.mark.thorough
def test_names_in_backticks_are_columns_in_every_door(tmp_path, monkeypatch):
    """One file, a scan of several, a frame in Python, and predictions of each."""
    monkeypatch.chdir(tmp_path)
    rng, names = np.random.default_rng(4), ["dose-rate", "1", "x|g", "a:b", "log", "y ~"]
    columns = {name: rng.normal(size=N) for name in names} | {"dose": rng.normal(size=N)}
    columns["y"] = columns["n ~"] = sum(columns[name] for name in names) + rng.normal(size=N) / 10
    write(tmp_path / "many", columns)
    pd.DataFrame(columns).to_csv("one.csv", index=False)
    text = "`n ~` ~ dose + `dose-rate` + `1` * `x|g` + `a:b` + log + I(`log` ** 2) + `y ~`"
    assert main(["fit", "many", text, "--model", "gaussian", "--quiet"]) == 0
    assert main(["fit", "one.csv", text, "--quiet"]) == 0
    fits = [load("results/runs/many"), load("results/runs/one"), fit(pd.DataFrame(columns), text)]
    rows = pd.DataFrame(columns).head(20)
    for one in fits:
        found = one.summary()
        assert {*names, "dose", "1:x|g", "I(`log` ** 2)"} <= {*found.index}
        assert np.abs(found.loc[names, "mean"] - 1.0).max() < 0.05
        assert np.abs(one.predict(rows)["mean"] - columns["n ~"][:20]).max() < 0.5
    for one in ("many", "one.csv"):
        assert main(["fit", one, text.replace("`dose-rate`", "dose-rate"), "--model", "gaussian"]) == 2


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("age * C(kind) + I(dose**2) + log(dose)", 1),
        ("age + C(kind, Sum)", 1),
        ("age + center(dose)", 60),
        ("age + bs(dose, df=4)", 60),
        ("age + C(dose > 2)", 60),
    ],
)
def test_all_rows_are_read_for_what_other_rows_say_alone(tmp_path, text, read):
    rng = np.random.default_rng(2)
    columns = {"dose": rng.gamma(2.0, 1.0, 3_000), "age": rng.standard_normal(3_000), "y": np.arange(3_000)}
    columns |= {"kind": rng.choice(["a", "b"], 3_000)}
    shards = table_files.find(str(write(tmp_path / "shards", columns, group=50)))
    names, groups, asked = ("dose", "age", "kind"), [[block] for block in shards.blocks], []

    def looked(look, groups, words):
        asked.extend(groups)
        return in_turn(look, groups, words)

    made = terms.find([text], shards, names, (("kind", ("a", "b")),), groups, looked, 0)
    assert len(asked) == read
    every = pd.DataFrame({name: columns[name] for name in names})
    own = made.each[0]
    sources = own.columns
    whole = formula.Matrix.of(formula.read(text, list(every)), sources, every).columns(every, "all")
    assert own.names == tuple(whole)
    x = every.assign(kind=every["kind"].map({"a": 0, "b": 1}))[[column.name for column in sources]]
    parts = own.of(x.to_numpy(np.float64), np.arange(3_000), "a part")
    np.testing.assert_allclose(parts, whole, rtol=1e-12, atol=1e-12)
