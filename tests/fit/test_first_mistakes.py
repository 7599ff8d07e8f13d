"""What goes wrong first for people who are new: each ends in one line that helps, or works and says so."""

import io
import re
import shlex
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main

N = 60


def table(**columns):
    rng = np.random.default_rng(0)
    age = rng.normal(50, 9, N).round(1)
    died = (rng.random(N) < 1 / (1 + np.exp((50 - age) / 9))).astype(int)
    found = pd.DataFrame({"age": age, "sex": rng.choice(["f", "m"], N), "died": died})
    return found.assign(visits=rng.poisson(2, N) % 6, share=rng.random(N).round(3)).assign(**columns)


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))
    table().to_csv("t.csv", index=False)


def said(capsys, *words):
    """Exit code, and all that was said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code = main(["fit", *words])
    out, error = capsys.readouterr()
    return code, error if code else out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["t.csv", "died ~ agee + sex"], "names agee, which is no column.*did you mean age?"),
        (["t.csv", "--target", "dead"], "no column 'dead' .*did you mean died.*it has age, sex, died"),
        (["t.csv", "dead ~ age"], "no column 'dead' .*did you mean died"),
        (["t.csv", "died"], "no ~ between the target and what explains it; as in 'died ~"),
        (["t.csv", "died = age + sex"], "no ~ between.*as in 'died ~ age . sex'$"),
        (["t.csv", "died"], "as in 'died ~ age . sex'; or .*`flyrun fit t.csv --target died`, which"),
        (["t.csv", "diet"], "did you mean died..; or .*`flyrun fit t.csv --target died`"),
        (["t.csv", "`died`"], "--target died`"),
        (["t.csv", "died", "--model", "logistic"], "--target died`"),
        (["t.csv", "--target"], "a value is missing; .*`flyrun fit t.csv --target [a-z]+`"),
        (["--target"], "a value is missing; .*`flyrun fit FILE --target COLUMN`"),
        (["t.csv"], "`flyrun fit t.csv --target [a-z]+`"),
        (["died ~ age", "t.csv"], "the file comes first: `flyrun fit t.csv 'died ~ age'`"),
        (["died", "t.csv"], "the file comes first: `flyrun fit t.csv --target died`"),
        (
            ["t.csv", "died ~ age + offset(agee)"],
            r"offset\(COLUMN\) of the formula: t.csv has no column 'agee'",
        ),
        (["t.csv", "dead ~ age"], "the formula's left side: t.csv has no column 'dead'"),
        (["t.csv", "died", "age", "+", "sex"], "one word too many .a formula stands in quotes: 'died ~"),
        (["t.csv", "sex ~ age", "--model", "gaussian"], "holds text .'f'.*choose --model logistic"),
        (["t.csv", "visits ~ age"], "may be counts.*choose --model poisson or --model negative_binomial"),
        (
            ["t.csv", "share ~ age", "--model", "poisson"],
            "target share is 0.*counts are whole numbers from 0",
        ),
        (["t.csv", "share ~ age", "--model", "logistic"], "--model logistic takes two"),
        (["tt.csv", "died ~ age"], "tt.csv: no such file .did you mean t.csv?"),
        (["nowhere/t.csv", "died ~ age"], "no such file"),
        (["t.csv", "died ~ age", "--model", "binary"], "--model binary: is called logistic here"),
        (["t.csv", "share ~ age", "--model", "normal"], "--model normal: is called gaussian here"),
        (["t.csv", "visits ~ age", "--model", "poison"], "must be logistic.*did you mean poisson?"),
        (["t.csv", "died ~ age", "--family", "binomial"], "--family: no such option.*--model"),
    ],
)
def test_one_line_names_what_is_wrong_and_what_helps(words, line, capsys):
    code, text = said(capsys, *words)
    assert code == 2
    assert text.count("\n") == 1
    assert re.search(line, text), text


@pytest.mark.parametrize(
    "words", [["t.csv", "died"], ["t.csv", "diet"], ["died ~ age", "t.csv"], ["died", "t.csv"]]
)
def test_the_command_that_an_error_names_runs(words, capsys):
    commands = re.findall("`flyrun fit (.*?)`", said(capsys, *words)[1])
    for command in commands:
        assert said(capsys, *shlex.split(command), "--check")[0] == 0
    if words == ["t.csv", "died"]:
        formula = re.search("as in ('.*?')", said(capsys, *words)[1])[1]
        assert said(capsys, "t.csv", *shlex.split(formula), "--check")[0] == 0
    assert commands


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"age": ["old", *range(20, 19 + N)]}, "holds numbers, but also 'old' in row 0 .line 2 .*--na old"),
        ({"age": [None, *range(20, 19 + N)]}, "row 0 .line 2.*has no value; fill it in, .*--missing drop"),
        ({"one": 3}, "column one is 3 in every row; leave the column out with --drop one"),
    ],
)
def test_columns_that_cannot_be_used_are_named(columns, line, capsys):
    table(**columns).drop(columns=["visits", "share"]).to_csv("t.csv", index=False)
    code, text = said(capsys, "t.csv", "--target", "died")
    assert code == 2
    assert text.count("\n") == 1
    assert re.search(line, text), text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("t.xlsx", "is a spreadsheet; open it there and save the sheet as CSV"),
        ("t.svmlight", "is of no kind that can be read; .*load_svmlight_file"),
        ("t.rds", "is of no kind that can be read; .*write.csv"),
    ],
)
def test_files_of_other_programs_are_refused_with_the_way_out(name, line, capsys, tmp_path):
    content = io.BytesIO(b"1 1:2\n")
    if name == "t.xlsx":
        with zipfile.ZipFile(content, "w") as file:
            file.writestr("xl/workbook.xml", "")
    (tmp_path / name).write_bytes(content.getvalue())
    code, text = said(capsys, name, "died ~ age")
    assert code == 2
    assert text.count("\n") == 1
    assert re.search(line, text), text


def test_semicolons_are_read_and_decimal_commas_asked_about(capsys):
    table().to_csv("semi.csv", index=False, sep=";")
    assert said(capsys, "semi.csv", "died ~ age + sex", "--check")[0] == 0
    table().to_csv("comma.csv", index=False, sep=";", decimal=",")
    code, text = said(capsys, "comma.csv", "died ~ age")
    assert code == 2
    assert "add --decimal , if such commas are decimal" in text
    assert said(capsys, "comma.csv", "died ~ age", "--decimal", ",", "--check")[0] == 0


def test_yes_and_no_as_1_and_2_and_a_copied_column_are_fitted_and_told(capsys):
    made = table(died=table().died + 1, again=2 * table().age)
    made.to_csv("t.csv", index=False)
    code, text = said(capsys, "t.csv", "died ~ age + again")
    assert code == 0
    assert f"logistic regression of died = 2 ({(made.died == 2).sum()} rows) against 1" in text
    assert re.search("age and again|again and age", text)
