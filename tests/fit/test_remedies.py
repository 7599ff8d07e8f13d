"""Every remedy that a table's errors print is typed once, as it is printed, and works."""

import ast
import re
import shlex
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.fitting.request import TypedTable
from flyrun.tables.options import Table
from tests.fit.test_fit_tables import apart  # noqa: F401  (a fixture)

N = 60
TABLE = Path(sys.modules[Table.__module__].__file__).parent
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|(?!--|out\b)[^\s;`\"']*[^\s,;`\"'.])"
_TYPED = re.compile(rf"(?<![\w-])--[a-z]+(?:[ =]{_VALUE})?(?: --[a-z]+ {_VALUE})*")
#: places that print how a key is called, no remedy; and those whose remedy is for a file of another encoding
#: or program, which other tests type
_NO_REMEDY = {
    ("order.py", "typed_order"),
    ("loader.py", "store"),
    ("loader.py", "_path"),
    ("pieces.py", "_explained"),
    ("possible.py", "models_as_typed"),
    ("seen.py", "without"),
    ("options.py", "check"),  # options that do not agree
    ("pieces.py", "_readied"),  # of frames in Python: test_doors.py
    ("pieces.py", "beside"),  # of nested columns of Parquet: test_scan_guards.py
}


def rows(**columns):
    rng = np.random.default_rng(0)
    found = pd.DataFrame({"x": rng.normal(size=N).round(3), "y": rng.integers(0, 2, N)})
    return found.assign(k=np.arange(N) % 3, z=rng.normal(size=N).round(3)).assign(**columns)


def one(cell, row=17):
    """Numbers but for one cell."""
    return [cell if k == row else str(20 + k % 40) for k in range(N)]


WORDS = np.array(["none", "mild", "bad"])[np.arange(N) % 3]
NUMBERED = [f"{1 + k % 3} {word}" for k, word in enumerate(WORDS)]
SHARES = np.linspace(0.1, 3.0, N).round(3)
#: columns, words after the file, and a column that may take another's place
CASES = {
    "a missing value": ({"a": [None, *range(1, N)]}, "--target y --numeric a", ""),
    "a word for one": ({"a": one("NA")}, "--target y", ""),
    "an empty column": ({"a": [None] * N}, "--target y", ""),
    "a stray word": ({"a": one("old")}, "--target y", ""),
    "decimal commas": ({"a": [f"{k},5" for k in range(N)]}, "--target y --features a", ""),
    "prices": ({"a": [f"${k % 7}.00" for k in range(N)]}, "--target y", ""),
    "dates": ({"a": [f"2024-01-{1 + k % 28:02}" for k in range(N)]}, "--target y", ""),
    "dates as numbers": ({"a": [20240101 + k % 28 for k in range(N)]}, "--target y", ""),
    "complex numbers": ({"a": ["(1+2j)", "(0.5-1j)"] * (N // 2)}, "--target y", ""),
    "a code": ({"a": [-999, *np.arange(1, N) % 40]}, "--target y", ""),
    "numbers of rows": ({"a": range(N)}, "--target y", ""),
    "an id": ({"my_id": np.arange(N) % 7 * 3}, "--target y", ""),
    "zeros ahead": ({"a": [f"0{k % 9}1" for k in range(N)]}, "--target y", ""),
    "thousands": ({"a": ["1.304", "300"] * (N // 2)}, "--target y", ""),
    "large whole numbers": ({"a": [2**60 + k % 5 for k in range(N)]}, "--target y", ""),
    "levels alike": ({"a": ["Yes", "yes", "no"] * (N // 3)}, "--target y", ""),
    "equal numbers": ({"a": ["1", "1.0", "u"] * (N // 3)}, "--target y --categorical a", ""),
    "a text a row": ({"a": [f"name {k:c}" for k in range(97, 97 + N)]}, "--target y", ""),
    "a constant": ({"a": 3}, "--target y", ""),
    "huge numbers": ({"a": [1e200, *range(1, N)]}, "--target y", ""),
    "tiny numbers": ({"a": 1e-310 * (1.0 + np.arange(N) % 7)}, "--target y", ""),
    "many levels": ({"a": [f"w{k % 150}" for k in range(5 * N)]}, "--target y", ""),
    "text said to be numeric": ({"a": WORDS}, "--target y --numeric a", ""),
    "a category of many": ({"a": np.sqrt(np.arange(5 * N))}, "--target y --categorical a", ""),
    "a nameless column": ({"": [*range(1, N), 0]}, "--target y", ""),
    "a level's name": ({"a": ["u", "v"] * (N // 2), "a[v]": SHARES}, "--target y", ""),
    "a target of three": ({}, "--target k --model logistic", ""),
    "a target of words": ({"a": WORDS}, "--target a --model logistic", ""),
    "words for numbers": ({"a": WORDS}, "--target a --model poisson", ""),
    "words in order": ({"a": WORDS}, "--target a --model ordinal", ""),
    "numbered words": ({"a": NUMBERED}, "--target a --model ordinal", ""),
    "counts or classes": ({}, "--target k", ""),
    "a constant target": ({"a": 3}, "--target a --model gaussian", "x"),
    "a target too spread": ({"a": 1e-310 * (1.0 + np.arange(N) % 7)}, "--target a --model gaussian", "x"),
    "a target of many": ({"a": [f"w{k % 150}" for k in range(5 * N)]}, "--target a --model softmax", "y"),
    "many classes": ({"a": np.sqrt(np.arange(5 * N))}, "--target a --model softmax", ""),
    "counts below 0": ({}, "--target x --model poisson", "k"),
    "shares as counts": ({"a": SHARES}, "--target a --model poisson", "k"),
    "an offset of text": ({"a": WORDS}, "--target k --model poisson --offset a", "x"),
    "an exposure of 0": ({"a": np.arange(N) % 4}, "--target k --model poisson --exposure a --drop x", "b"),
    "weights that are shares": ({"a": SHARES}, "--target y --weights a", "k"),
    "weights of 0": ({"a": 0}, "--target y --weights a", "k"),
    "successes without trials": ({}, "--target k --model binomial", "b"),
    "trials of words": ({"a": WORDS}, "--target a --trials b --model binomial", "k"),
    "trials of numbers": ({}, "--target z --trials b --model gaussian", ""),
    "an offset of classes": ({}, "--target k --model softmax --offset x", ""),
    "a role twice": ({}, "--target y --offset y", "x"),
    "a reference of none": ({"a": WORDS}, "--target y --reference b=5", ""),
    "a reference of a number": ({}, "--target y --reference k=1", ""),
    "a level that is not there": ({"a": WORDS}, "--target y --reference a=bda", ""),
    "an order that lacks one": ({"a": WORDS}, "--target a --order a=none,mild", ""),
    "an order with a slip": ({"a": WORDS}, "--target y --order a=none,mlid,bad", ""),
    "an order of no column": ({"a": WORDS}, "--target y --order q=none,mild", ""),
    "an order of many": ({"a": np.sqrt(np.arange(5 * N))}, "--target y --order a=1,2", ""),
}  # fmt: skip
#: situations whose remedy is to mend the file
_WITHOUT = {"a level that is not there", "an order of no column"}
CALLED = set[tuple[str, str]]()


def table(name):
    """A situation's table, with a column b that may stand for any other, and its words."""
    columns, words, other = CASES[name]
    longest = max([N, *(len(value) for value in columns.values() if np.ndim(value))])
    found = rows()
    found = pd.concat([found] * -(-longest // N), ignore_index=True).head(longest)
    return found.assign(b=4 + np.arange(longest) % 5).assign(**columns), shlex.split(words), other


def said(words, capsys):
    """Exit code, and the line on stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code = main(["fit", "mine.csv", *words, "--check"])
    return code, capsys.readouterr().err


def remedies(words, error, other):
    """The commands that an error's remedies make of one; `other` is a column that has no fault."""
    known, found = [*words], []
    for option, and_more in re.findall(r"leave (--[a-z]+) out( and)?", error):
        place = known.index(option)
        left = known[:place] + known[place + 2 :]
        known, found = (left, found) if and_more else (known, [*found, left])
    mends = re.sub(r"--model [a-z]+ takes two", "", error.partition("; ")[2])
    for typed in _TYPED.findall(re.sub(r"leave (--[a-z]+) out", "", mends)):
        new = [part.replace("COLUMN", "b") for part in shlex.split(typed)]
        if len(new) == 1:  # "name another column with --offset"
            if not other:
                continue
            column = known[known.index(new[0]) + 1]
            stays = new[0] != "--target" and column == known[known.index("--target") + 1]
            new += [other] if stays else [other, "--drop", column]
        before = [*known]
        for flag in new[::2]:
            if flag in before and flag in (
                "--target",
                "--model",
                "--offset",
                "--exposure",
                "--trials",
                "--weights",
            ):
                place = before.index(flag)
                del before[place : place + 2]
        found.append(before + new)
    return found


@pytest.fixture
def recorded(monkeypatch):
    """Which functions of the table's package ask how a remedy is typed."""
    for kind, names in ((TypedTable, ("say", "without")), (Table, ("out", "missing_as", "without"))):
        for name in names:
            own = getattr(kind, name)

            def call(self, *given, _own=own):
                for back in (1, 2):  # a column's own method may stand between
                    code = sys._getframe(back).f_code
                    CALLED.add((Path(code.co_filename).name, code.co_name))
                return _own(self, *given)

            monkeypatch.setattr(kind, name, call)


@pytest.mark.parametrize("name", CASES)
def test_remedies_work_as_they_are_printed(name, recorded, capsys):
    made, words, other = table(name)
    made.to_csv("mine.csv", index=False)
    code, error = said(words, capsys)
    assert code == 2, name
    typed_ones = remedies(words, error, other)
    assert typed_ones or name in _WITHOUT, error
    for typed in typed_ones:
        code, again = said(typed, capsys)
        assert code == 0, f"{error}{typed}: {again}"


def test_every_place_that_names_an_option_is_tried(recorded, capsys):
    """No function of the table's package says how an option is typed that no situation here reaches."""
    CALLED.clear()
    for name in CASES:
        made, words, _ = table(name)
        made.to_csv("mine.csv", index=False)
        said(words, capsys)
    there = set[tuple[str, str]]()
    for path in TABLE.glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef):
                calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
                names = {call.attr for call in calls if isinstance(call, ast.Attribute)}
                there |= (
                    {(path.name, function.name)} if names & {"say", "without", "out", "missing_as"} else set()
                )
    assert len(there) > 20
    assert there - {(path, name) for path, name in CALLED} - _NO_REMEDY == set()


def test_a_remedy_that_fails_is_seen(monkeypatch, capsys):
    """The broken twin: a remedy that names an option that does not help."""
    rows(a=3).to_csv("mine.csv", index=False)
    monkeypatch.setattr(Table, "without", lambda self, name: f"leave it out with --numeric {name}")
    words = ["--target", "y"]
    code, error = said(words, capsys)
    (typed,) = remedies(words, error, "")
    assert (code, said(typed, capsys)[0]) == (2, 2)
