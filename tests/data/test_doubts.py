"""What is improbable of a table is refused, and every remedy that a refusal prints works as it is printed."""

import gzip
import re
import shlex
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.cli.verbs import fit as arguments
from flyrun.experiments import data
from flyrun.experiments.config.arm import GROUPS
from flyrun.fitting import lines
from flyrun.ground.errors import FlyrunError
from flyrun.tables import doubts, text_table
from flyrun.tables import pieces as table_files
from flyrun.tables.layout import Layout

N = 60
RNG = np.random.default_rng(5)
X = RNG.normal(size=N).round(4)
Y = ["no", "yes"] * (N // 2)


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))


def write(name="mine.csv", encoding="utf-8", **columns):
    """Columns of text as a file, quoted where need be."""
    table = (
        pd.DataFrame({"x": X, **columns, "y": Y}) if "y" not in columns else pd.DataFrame({"x": X, **columns})
    )
    table.to_csv(name, index=False, encoding=encoding)


def layout(*words):
    """What `flyrun fit` takes a table for."""
    return Layout.from_dict(data.load(arguments.parse(words).typed_table).info["layout"])


def column(name, *words):
    return next(one for one in layout(*words).features if one.name == name)


def refusal(*words):
    """The one line that a fit of these words ends with; "" where the table can be fitted."""
    try:
        layout(*words)
    except FlyrunError as error:
        return str(error)
    return ""


_WORD = r"""(?:"[^"]*"|'[^']*'|[^\s;"']+)"""
_OPTION = rf"""(?:--[a-z]+(?:=|\ ){_WORD}|"dataset\.[^"]*"|dataset\.\S+=[^\s;]+)"""


def remedies(said):
    """The options that a message tells to add, each as a list of words."""
    for found in re.finditer(rf"{_OPTION}(?: {_OPTION})*", said.partition(";")[2]):
        yield shlex.split(found[0].rstrip(","))


def tried(*words):
    """Type every remedy that a refusal prints, each alone, in place of the same setting; all must help."""
    said, count = refusal(*words), 0
    assert said.count("\n") == 0 < len(said)
    for remedy in remedies(said):
        keys = {word.partition("=")[0] for word in remedy if word.startswith("dataset.")}
        kept = [word for word in words if word.partition("=")[0] not in keys]
        after = refusal(*kept, *remedy)
        assert not after, f"{said}\n{remedy} ends in\n{after}"
        count += 1
    return said, count


AGES = [str(20 + 7 * k % 41) for k in range(N)]
DOUBTFUL = {
    "thousands": ([f"{k // 9 + 1}.{300 + 7 * k}" if k % 3 else f"{300 + k}" for k in range(N)],
                  "'1.307' in row 1 (line 3 of the file) beside '300' in row 0", 2),
    "zeros": (["01001", "90210", "02139"] * 20, "a number with zeros ahead", 3),
    "many zeros": ([f"{k:03}" for k in range(5, N + 5)], "a number with zeros ahead", 3),
    "missing": (["-999" if k % 10 == 0 else AGES[k] for k in range(N)], "is -999 in 6 rows, far from all", 3),
    "one missing": (["99" if k == 7 else str(k % 8) for k in range(N)], "is 99 in one row, far from all", 3),
    "no code": (["-77.5" if k % 9 == 0 else AGES[k] for k in range(N)], "is -77.5 in 7 rows", 3),
    "row numbers": ([str(k + 1) for k in range(N)], "each whole number from 1 to 60 once", 2),
    "shuffled rows": ([str(k) for k in RNG.permutation(N)], "each whole number from 0 to 59 once", 2),
    "store_id": ([str(17 + k % 5) for k in range(N)], "that are names by its own", 3),
    "64 bits": ([str(2**60 + k % 2) for k in range(N)], "beyond 9007199254740992", 2),
    "days": ([f"202401{k % 28 + 1:02}" for k in range(N)], "that are dates, such as 20240101", 2),
    "texts": ([f"name {'abc'[k // 26]}{chr(97 + k % 26)}" for k in range(N)], "60 different texts in 60", 2),
    "lines": ([("a\nb", "c")[k % 2] for k in range(N)], "a text of several lines", 2),
    "case": (["Yes", "yes", "no"] * 20, "'Yes' and 'yes'; write them alike", 2),
    "blanks": (["a b", "a  b", "c"] * 20, "'a  b' and 'a b'", 2),
    "NFC": (["é", unicodedata.normalize("NFD", "é"), "c"] * 20, r"'e\\u0301' and '\\xe9'", 2),
    "alphabets": (["A", "\u0410", "c"] * 20, r"'A' and '\\u0410'", 2),
    "dashes": (["18-25 y", "18–25 y", "c"] * 20, r"'18-25 y' and '18\\u201325 y'", 2),
    "one number": (["1", "1.0", "b", "c", "d"] * 12, "'1' and '1.0'", 1),
    "stray": (["?" if k == 9 else AGES[k] for k in range(N)], "numbers, but also '?' in row 9 (line 11", 3),
    "dashed": (["--" if k == 9 else AGES[k] for k in range(N)], "holds numbers, but also '--'", 3),
}  # fmt: skip


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_is_improbable_is_refused_and_each_remedy_works(name):
    """What can be read but is not meant so: codes, row numbers, spreadsheets' points, levels alike."""
    cells, said, helps = DOUBTFUL[name]
    write(**{name: cells})
    found, count = tried("mine.csv", "--target", "y")
    assert said in found or re.search(said, found)
    assert f"column {name} " in found
    assert count == helps, found


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["thousands", "zeros", "missing", "64 bits"])
def test_the_same_in_quotes_compressed_in_pieces_and_by_other_signs(name, monkeypatch):
    """What a column is taken for does not depend on how its file is read."""
    monkeypatch.setattr(table_files, "_CELLS", 1)
    cells, said, _ = DOUBTFUL[name]
    table = pd.DataFrame({"x": X, name: cells, "y": Y})
    table.to_csv("quoted.csv", index=False, quoting=1)
    table.to_csv("packed.csv.gz", index=False)
    table.to_csv("wide.csv", index=False, encoding="utf-16")
    table.to_csv("tabs.tsv", index=False, sep="\t")
    table.replace(r"\.", ",", regex=True).to_csv("commas.csv", index=False, sep=";", decimal=",")
    more = {"wide.csv": ["--encoding", "utf-16"], "commas.csv": ["--decimal", ","]}
    for file in ("quoted.csv", "packed.csv.gz", "wide.csv", "tabs.tsv", "commas.csv"):
        words = (file, "--target", "y", *more.get(file, []))
        said = said.replace("1.307", "1,307") if file == "commas.csv" else said
        assert said in refusal(*words), file
        assert said in refusal(*words, "--rows", "50").replace("in 5 rows", "in 6 rows"), file
        if name == "64 bits":
            assert column(name, *words, "--categorical", name).levels == [str(2**60), str(2**60 + 1)]
        else:
            assert column(name, *words, "--numeric", name).levels is None


@pytest.mark.parametrize(
    "cells",
    [
        [f"{value:.3f}" for value in RNG.uniform(1, 9, N)],  # all with a point
        [f"{value:.3f}".rstrip("0").rstrip(".") for value in np.r_[5.0, 1.25, RNG.uniform(1, 9, N - 2)]],
        [f"{value:.3f}" if value < 0.99 else "1" for value in RNG.uniform(0, 1.2, N)],  # 0.304 is no thousand
        ["0", "1", "10", "100"] * 15,  # doses
        [str(value) for value in np.r_[np.zeros(30, int), np.arange(500, 530)]],  # none, or much
        [str(1950 + k) for k in range(N)],  # years
        [str(value) for value in RNG.integers(1, N, N)],
        ["0", "0.5", "00"[:1], "10"] * 15,
        [str(round(value, 2)) for value in RNG.standard_cauchy(N)],
        ["2.5", "-2.5"] * 30,
    ],
)
def test_what_is_probable_is_read_as_before(cells):
    """A rule must leave alone what well-formed tables hold: the negative control of all rules on numbers."""
    write(v=cells)
    values = np.array(cells, float)
    found = column("v", "mine.csv", "--target", "y")
    assert (found.levels, found.low, found.high) == (None, values.min(), values.max())


def test_a_value_far_out_is_found_over_pieces_and_ends_that_are_not_are_not(monkeypatch):
    """Extremes are judged by the whole column, however it comes in pieces."""
    monkeypatch.setattr(text_table, "_BYTES", 2000)
    rng = np.random.default_rng(2)
    v = np.sort(rng.normal(40, 5, 5000).round(2))  # far from its piece's others is not far from all
    table = pd.DataFrame({"v": v, "y": rng.permutation(np.arange(5000) % 2)})
    table.to_csv("mine.csv", index=False)
    assert refusal("mine.csv", "--target", "y") == ""
    table.loc[rng.choice(5000, 40, replace=False), "v"] = -999
    table.sort_values("v").to_csv("sorted.csv", index=False)
    table.to_csv("mine.csv", index=False)
    for file in ("mine.csv", "sorted.csv"):
        assert "is -999 in 40 rows, far from all others" in refusal(file, "--target", "y")
        found = column("v", file, "--target", "y", "--na", "-999", "--missing", "drop")
        assert found.low > 0


def test_every_rule_is_tried():
    """A rule without a table that it refuses is none."""
    tried_ones = set()
    rules = {*doubts.NUMBERS, *doubts.TEXTS, *doubts.NAMES}
    for name, (cells, *_) in DOUBTFUL.items():
        write(**{name: cells})
        with pytest.MonkeyPatch.context() as patch:
            for group in ("NUMBERS", "TEXTS", "NAMES"):
                noted = tuple(_noting(rule, tried_ones) for rule in getattr(doubts, group))
                patch.setattr(doubts, group, noted)
            refusal("mine.csv", "--target", "y")
    assert tried_ones == rules


def _noting(rule, those):
    def noting(seen):
        error = rule(seen)
        if error is not None:
            those.add(rule)
        return error

    return noting


def test_words_are_looked_at_where_cells_are_missing_too():
    """Rules on how numbers are written pass over missing cells, and rows beyond those asked for."""
    cells = [None if k < 20 else f"0{k}" if k == 50 else str(k + 1000) for k in range(N)]
    write(v=cells, note=["a, b"] * N)
    words = ("mine.csv", "--target", "y", "--missing", "drop", "--drop", "note")
    assert "holds '050' in row 50 (line 52 of the file)" in refusal(*words)
    assert refusal(*words, "--rows", "30") == ""
    assert "holds '050'" in refusal(*words, "--rows", "31")


def test_words_for_missing_values_in_every_kind_of_file():
    """A word that stands for a missing value is one in text and numbers, however they are stored."""
    write(
        v=["-999" if k % 10 == 0 else AGES[k] for k in range(N)],
        w=["?" if k == 3 else "ab"[k % 2] for k in range(N)],
    )
    np.savez("mine.npz", x=X, v=np.array([-999 if k % 10 == 0 else int(AGES[k]) for k in range(N)]),
             w=np.array(["?" if k == 3 else "ab"[k % 2] for k in range(N)]), y=np.array(Y))  # fmt: skip
    for file in ("mine.csv", "mine.npz"):
        words = (file, "--target", "y", "--na", "-999", "--na", "?", "--missing", "drop")
        found = layout(*words)
        assert (found.rows, found.dropped) == (53, 7)
        assert column("w", *words).levels == ["a", "b"]
        assert column("v", *words).low == 20


def test_words_for_cells_are_not_applied_to_headers_and_a_category_keeps_them():
    """NA and None are missing values in cells alone, and levels where a column is said to be a category."""
    cells = RNG.permutation(["NA", "attached", "None", "own"] * 15)
    write(**{"NA": AGES, "garage": cells})
    words = ("mine.csv", "--target", "y")
    said, count = tried(*words, "--drop", "NA")
    assert "row 0 (line 2 of the file), column garage holds 'NA', a word for a missing value" in said
    assert count == 3
    assert column("garage", *words, "--categorical", "garage").levels == ["NA", "None", "attached", "own"]
    assert column("NA", *words, "--categorical", "garage").low == 20
    more = ("--categorical", "garage", "--na", "NA", "--missing", "drop")
    assert column("garage", *words, *more).levels == ["None", "attached", "own"]


def test_missing_dropped_is_offered_only_where_rows_stay():
    """A remedy is tried before it is printed: no row is complete where a column is empty."""
    write(v=[None if k else "3" for k in range(N)], w=[None if k == 0 else AGES[k] for k in range(N)])
    said = refusal("mine.csv", "--target", "y")
    assert said.endswith("; fill it in, or leave the column out with --drop v, which has 59 of 60 empty")
    said, count = tried("mine.csv", "--target", "y", "--drop", "v")
    assert "leave such rows out, 1 of 60, with --missing drop" in said
    assert count == 2


@pytest.mark.parametrize("where", ["footer", "units"])
@pytest.mark.parametrize("quoted", [False, True])
def test_rows_of_other_things_leave_numbers_numbers(where, quoted):
    """A remedy is tried before it is printed: a footer or units made text of all numbers near them."""
    head, *rows = pd.DataFrame({"v": AGES, "w": X, "y": Y}).to_csv(index=False).splitlines()
    rows = [f'"{row.split(",")[0]}",{row.partition(",")[2]}' for row in rows] if quoted else rows
    odd = "Total: 60 rows,," if where == "footer" else "kg,cm,"
    Path("mine.csv").write_text("\n".join([head, *([*rows, odd] if where == "footer" else [odd, *rows]), ""]))
    words = ("mine.csv", "--target", "y")
    said = refusal(*words)
    assert "leave such rows out, 1 of 61, with --missing drop" in said
    found = layout(*words, "--missing", "drop")
    assert [(one.name, one.levels) for one in found.features] == [("v", None), ("w", None)]
    assert (found.rows, found.dropped) == (N, 1)
    np.testing.assert_allclose(found.features[1].mean, X.mean())
    # a line of units that is full: the first word that is no number
    Path("mine.csv").write_text("\n".join([head, "kg,cm,code", *rows, ""]))
    assert "'kg' in row 0 (line 2 of the file)" in refusal(*words)
    assert layout(*words, "--na", "kg", "--missing", "drop").rows == N


@pytest.mark.parametrize("name", ["cp1252", "utf-16", "utf-32", "latin-1"])
def test_other_encodings_are_named_by_one_that_reads_the_file(name):
    """A remedy is tried before it is printed: the encoding that is offered reads the file."""
    cells = ["é\x81" if name == "latin-1" else "é€"[: 1 + (k % 2)] for k in range(N)]
    write(encoding=name, c=cells, d=["a", "b"] * 30)
    words = ("mine.csv", "--target", "y", "--drop", "c")
    said, count = tried(*words)
    assert f"add --encoding {name}, or save it as UTF-8" in said
    assert count == 1
    assert refusal(*words, "--encoding", "cp125") == (
        "--encoding cp125: no such encoding; name one such as utf-8, cp1252 or utf-16"
    )


def test_files_under_another_name_tell_the_command_that_helps():
    """A remedy is tried before it is printed: files of another kind than their names say."""
    write("plain.csv", v=AGES)
    content = Path("plain.csv").read_bytes()
    Path("my table.csv").write_bytes(gzip.compress(content))
    Path("a.csv.gz").write_bytes(content)
    np.savez("b.npz", x=X, v=np.array(AGES, int), y=np.array(Y))
    Path("b.npz").rename("b.csv")
    for file, made in (("my table.csv", "my table.csv.gz"), ("a.csv.gz", "a.csv"), ("b.csv", "b.npz")):
        said = refusal(file, "--target", "y")
        _, old, new = shlex.split(re.search(r"`(mv .*)`", said)[1])
        assert (old, new) == (file, made)
        Path(old).rename(new)
        assert refusal(new, "--target", "y") == ""
    with zipfile.ZipFile("book.csv", "w") as book:
        book.writestr("xl/workbook.xml", "")
    assert "is a spreadsheet; open it there and save the sheet as CSV" in refusal("book.csv", "--target", "y")
    with zipfile.ZipFile("c.csv", "w") as packed:
        packed.writestr("plain.csv", content)
    assert "is a zip archive; unpack it with `unzip c.csv`" in refusal("c.csv", "--target", "y")


def test_a_quote_left_open_does_not_swallow_rows():
    """Rows and lines of a file are held against each other, in columns that are not used too."""
    rows = [f'{k},{AGES[k]},"said ""{k}""",{Y[k]}' for k in range(N)]
    rows[10] = '10,30,"open,no'
    Path("mine.csv").write_text("\n".join(["x,v,note,y", *rows, ""]))
    said = refusal("mine.csv", "--target", "y", "--drop", "note")
    assert "row 10 (line 12 of the file), column note takes in rows from its quote to the next" in said
    rows[10] = '10,30,"two\nlines",no'
    Path("mine.csv").write_text("\n".join(["x,v,note,y", *rows, ""]))
    assert layout("mine.csv", "--target", "y", "--drop", "note,x").rows == N


def test_lines_are_those_of_the_file():
    """A row is named as a person finds it: by the line, also after empty ones and cells of several lines."""
    rows = [f"{AGES[k]},{Y[k]}" for k in range(N)]
    rows[3] = "\n\n" + rows[3]
    rows[20] = "n,no"
    Path("mine.csv").write_text("\n".join(["v,y", *rows, ""]))
    assert "'n' in row 20 (line 24 of the file)" in refusal("mine.csv", "--target", "y")
    np.savez("mine.npz", v=np.array([*AGES[:20], "n", *AGES[21:]]), y=np.array(Y))
    assert "'n' in row 20 (rows count from 0)" in refusal("mine.npz", "--target", "y")


def test_options_are_told_as_they_were_typed():
    """A remedy works beside what was typed: an option in the words in which it was."""
    write(v=["1"] * N, w=["2"] * N)
    words = ("mine.csv", "--target", "y", "dataset.drop=[v]")
    said, count = tried(*words)
    assert said.endswith('leave the column out with "dataset.drop=[v,w]"')
    assert count == 1
    assert "add --numeric" not in said


@pytest.mark.parametrize("file", ["mine.csv", "mine.npz"])
def test_values_are_said_as_they_are_written(file):
    """A value is never the text of a float's digits beyond those that a person wrote."""
    cells = [3.7, 0.1, 2.0] * 20
    write(v=[str(one).removesuffix(".0") for one in cells])
    np.savez("mine.npz", x=X, v=np.array(cells, np.float32), y=np.array(Y))
    assert column("v", file, "--target", "y", "--categorical", "v").levels == ["0.1", "2", "3.7"]
    write(y=[3.7, 0.1] * 30)
    assert layout("mine.csv", "--target", "y").target.levels == ["0.1", "3.7"]


def test_truth_values_beside_missing_ones_are_spelled_as_in_the_file():
    """A value is never text made of what a library made of it."""
    write(member=["TRUE", "FALSE", ""] * 20)
    words = ("mine.csv", "--target", "y", "--missing", "drop")
    assert column("member", *words).levels == ["FALSE", "TRUE"]


def test_bytes_of_npz_are_words():
    np.savez("mine.npz", x=X, c=np.array([b"a", b"b"] * 30), y=np.array(Y))
    assert column("c", "mine.npz", "--target", "y").levels == ["a", "b"]


def test_a_reference_is_the_level_that_others_are_held_against():
    write(dose=["high", "placebo", "low"] * 20, n=AGES)
    words = ("mine.csv", "--target", "y")
    found = layout(*words, "--reference", "dose=placebo", "--reference", "y=yes")
    assert found.names == ["x", "dose[high]", "dose[low]", "n", "intercept"]
    assert found.target.levels == ["yes", "no"]
    typed = layout(*words, "dataset.reference=['dose=placebo']")
    assert typed.names == found.names
    rows = data.load(arguments.parse([*words, "--reference", "dose=placebo"]).typed_table)
    np.testing.assert_array_equal(rows.features[:3, 1:3], [[1, 0], [0, 0], [0, 1]])
    for option, said in (
        ("dose=plcebo", "dose has no level 'plcebo' (did you mean placebo?); it has high, low and placebo"),
        ("dos=low", "no such column is fitted (did you mean dose?)"),
        ("n=20", "n is a number; add --categorical n"),
    ):
        assert said in refusal(*words, "--reference", option)
    assert refusal(*words, "--reference", "n=20", "--categorical", "n") == ""


def test_check_says_what_each_column_is_taken_for_and_fits_nothing(capsys):
    write(arm=["Drug", "Placebo"] * 30, zip=["1001", "90210"] * 30)
    assert main(["fit", "mine.csv", "--target", "y", "--check"]) == 0
    said = capsys.readouterr().out
    for line in ("y: no (the reference), yes (the target)", "arm: Drug (the reference), Placebo",
                 "zip: number 1001 … 90210", f"x: number {X.min()} … {X.max()}"):  # fmt: skip
        assert f"  {line}\n" in said
    assert not Path("results").exists()
    said = lines.taken(layout("mine.csv", "--target", "y"), 3)
    assert said[-1] == "  and 2 more columns, which --check shows"
    write(many=[f"level {k % 20:02}" for k in range(N)])
    assert lines.taken(layout("mine.csv", "--target", "y"))[2].endswith(", level 11, level 12 and 7 more")


@pytest.mark.parametrize("task", ["", "student_t", "logistic"])
def test_a_model_that_is_offered_takes_the_target(task):
    """A remedy is tried before it is printed: models that a target's values allow."""
    model = ["--model", task] if task else []
    for values in ([0, 1, 2, 3, 4] * 12, list("abc") * 20, list("ab") * 30, [k * 0.5 + 1 for k in range(N)],
                   [f"n{k}" for k in range(N)], [f"n{k % 25}" for k in range(N)]):  # fmt: skip
        write(y=values)
        if refusal("mine.csv", "--target", "y", *model):
            said = refusal("mine.csv", "--target", "y", *model)
            for remedy in remedies(said):
                if remedy[0] == "--model" and remedy != model:
                    assert refusal("mine.csv", "--target", "y", *remedy) == "", said


def test_words_of_the_long_door_work_as_they_are_printed():
    """The same remedies, as keys: dataset.na, numeric, categorical, missing."""
    assert "dataset" in GROUPS
    for name in ("missing", "zeros", "row numbers"):
        write(**{name: DOUBTFUL[name][0]})
        typed = ("mine.csv", "--target", "y", "dataset.numeric=[]", "dataset.na=[]", "dataset.missing=refuse",
                 "dataset.categorical=[]", "dataset.drop=[]")  # fmt: skip
        said = refusal(*typed)
        found = list(remedies(said))
        assert len(found) == {"missing": 3, "zeros": 3, "row numbers": 2}[name], said
        for remedy in found:
            keys = {word.partition("=")[0] for word in remedy}
            kept = [word for word in typed if word.partition("=")[0] not in keys]
            assert refusal(*kept, *remedy) == "", said


def test_parquet_keeps_what_its_types_say():
    """What a file says of its columns is not lost: nested cells, categories of numbers, orders, long ids."""
    pytest.importorskip("pyarrow")
    order = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    table = pd.DataFrame({
        "x": X,
        "site": pd.Categorical([30, 4, 100] * 20),
        "dose": pd.Series(["mid", "low", "high"] * 20, dtype=order),
        "key": pd.array([2**60, 2**60 + 1, None] * 20, dtype="Int64"),
        "tags": [[1, 2]] * N,
        "pair": [{"a": 1}] * N,
        "raw": [b"a", b"b"] * 30,
        "y": Y,
    })  # fmt: skip
    table.to_parquet("mine.parquet")
    left = []
    for name in ("tags", "pair", "raw"):
        words = (
            "mine.parquet",
            "--target",
            "y",
            "--categorical",
            "key",
            "--missing",
            "drop",
            "--drop",
            ",".join([*left, "x"]),
        )
        assert f"column {name} holds" in refusal(*words)
        left.append(name)
    words = (*words[:-1], "tags,pair,raw")
    found = layout(*words)
    assert found.names == ["x", "site[30]", "dose[mid]", f"key[{2**60 + 1}]", "intercept"]
    assert column("dose", *words).levels == ["low", "mid"]
    assert "beyond 9007199254740992" in refusal(
        "mine.parquet", "--target", "y", "--missing", "drop", "--drop", "tags,pair,raw"
    )
