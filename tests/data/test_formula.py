"""Formulas: what they name, what is refused, and matrices in pieces against the whole's by formulaic."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from formulaic import model_matrix

import flyrun.experiments.data
from flyrun.fitting.formula_sides import split
from flyrun.ground.errors import ConfigError, DataError
from flyrun.tables import formula
from flyrun.tables.layout import Column, Layout
from flyrun.tables.options import Table

KNOWN = ["age", "sex", "dose", "my age", "grade"]
LONG = (
    "age * C(sex) + bs(dose, df=4) + center(age) + poly(dose, 2) + scale(age) + cr(age, df=3) + I(dose > 3)"
)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    sex = np.sort(rng.choice(["f", "m", "x"], 300))  # the last level is in the last rows alone
    made = pd.DataFrame({"age": rng.normal(50, 9, 300).round(2), "sex": sex, "dose": rng.gamma(2, 2, 300)})
    made["died"] = np.where(rng.random(300) < 0.4, "yes", "no")
    made["n"] = rng.integers(3, 9, 300)
    made["hits"] = rng.binomial(made.n, 0.3)
    return made


@pytest.fixture(scope="module")
def file(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("formula") / "rows.csv"
    rows.to_csv(path, index=False)
    return path


SOURCES = [Column("age"), Column("sex", ["f", "m", "x"], True), Column("dose")]


def test_a_matrix_in_pieces_is_the_whole_bit_for_bit(rows):
    read = formula.read(LONG, list(rows))
    whole = formula.Matrix.of(read, SOURCES, rows)
    again = formula.Matrix(read, SOURCES, json.loads(json.dumps(whole.state)))
    found = pd.concat([again.columns(rows[k : k + 37], "rows") for k in range(0, 300, 37)])
    theirs = model_matrix(LONG, rows, na_action="raise")
    assert list(found) == [name.replace("[T.", "[") for name in theirs.columns[1:]]
    np.testing.assert_array_equal(found, np.asarray(theirs)[:, 1:])
    # the state of the first rows is another: the control
    first = formula.Matrix.of(read, SOURCES, rows[:60])
    part = first.columns(rows[10:20], "rows")["center(age)"] - found["center(age)"][10:20]
    assert np.abs(part).min() > 0.01


STATES = [
    "bs(dose, df=5)", "bs(dose, df=4, include_intercept=True)", "bs(dose, knots=[2, 5], degree=2)",
    "bs(dose, df=4, extrapolation='clip')", "bs(log(dose), df=4)", "scale(bs(dose, df=4))",
    *(f"{name}(dose, df=4{more})" for name in ("cr", "cs", "cc") for more in ("", ", constraints='center'")),
    "cr(dose, df=3, constraints=[[1, 0, 0, 0]])", "cr(dose, knots=[2, 5], constraints='center') * sex",
    "cc(dose, df=4, lower_bound=0, upper_bound=40)", "cr(center(dose), df=4, constraints='center')",
    "poly(dose, 3)", "poly(dose, 2, raw=True)", "poly(scale(dose), 2):sex", "standardize(poly(dose, 2))",
    "scale(dose)", "scale(dose, center=False, ddof=0)", "scale(dose, center=[1.0])",
    "scale(dose, scale=False)", "center(dose):sex", "standardize(dose)", "standardize(dose, rescale=False)",
    "center(scale(center(dose)))", "C(dose > 3)",
    *(f"C(sex, {name}) * age" for name in ("Sum", "Helmert", "Diff", "Poly")),
]  # fmt: skip


@pytest.mark.thorough(but=12)
@pytest.mark.parametrize("text", STATES)
def test_what_each_function_knows_returns_from_json(text, rows):
    read = formula.read(text, list(rows))
    sources = [one for one in SOURCES if one.name in read.columns]
    whole = formula.Matrix.of(read, sources, rows)
    again = formula.Matrix(read, sources, json.loads(json.dumps(whole.state)))
    found = pd.concat([again.columns(rows[k : k + 37], "rows") for k in range(0, 300, 37)])
    theirs = model_matrix(text, rows, context=formula._OWN)
    np.testing.assert_array_equal(found, np.asarray(theirs)[:, 1:])


def test_a_state_that_lacks_a_function_is_refused(rows):
    whole = formula.Matrix.of(formula.read("center(dose)", list(rows)), SOURCES[2:], rows)
    lacking = {"functions": {}, "categories": {}}
    with pytest.raises(ConfigError, match=r"kept nothing of center\(dose\); fit again"):
        formula.Matrix(whole.formula, whole.sources, lacking).columns(rows[:9], "new rows")


def test_columns_by_a_formula_are_those_without_one(file):
    by_formula = flyrun.experiments.data.load(
        Table(path=str(file), target="died", formula="age + sex + dose")
    )
    plain = flyrun.experiments.data.load(
        Table(path=str(file), target="died", features=("age", "sex", "dose"))
    )
    assert by_formula.feature_names == plain.feature_names
    np.testing.assert_allclose(by_formula.features, plain.features, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(by_formula.target, plain.target)


def test_rows_read_in_pieces_are_encoded_alike(file, monkeypatch):
    table = Table(path=str(file), target="died", formula=LONG)
    whole = flyrun.experiments.data.load(table)
    monkeypatch.setattr("flyrun.tables.pieces.max", lambda *sizes: 41, raising=False)
    cut = flyrun.experiments.data.load(table)
    np.testing.assert_array_equal(whole.features, cut.features)
    assert whole.features[:, :-1].std(axis=0)[0] == pytest.approx(1.0)


def test_successes_and_a_log_are_explained(file, rows):
    said = split("hits | n ~ dose + offset(age)")
    assert said == ("hits", {"trials": "n", "offset": "age", "formula": "dose"})
    found = flyrun.experiments.data.load(Table(path=str(file), target=said.target, **said.options))
    np.testing.assert_array_equal(found.trials, rows.n)
    np.testing.assert_array_equal(found.offset, rows.age)
    said = split("log(dose) ~ offset(log(n)) + age")
    assert said == ("dose", {"log_target": True, "exposure": "n", "formula": "age"})
    found = flyrun.experiments.data.load(Table(path=str(file), target="dose", log_target=True, formula="age"))
    target = Layout.from_dict(found.info["layout"]).target
    np.testing.assert_allclose(found.target * target.sd + target.mean, np.log(rows.dose), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agee", "names agee, which is no column of the table .did you mean age"),
        ("age + (1 | sex)", "has a bar, for groups"),
        ("age^2", r"write I\(x\*\*2\) for a power"),
        ("age + dose**2", r"means dose alone; write I\(dose\*\*2\)"),
        ("bs(age", "cannot be read: Formula ended"),
        ("age +", "cannot be read: Operator"),
        ("0 + age", "has no intercept, .*leave 0 \\+ or - 1 out"),
        ("age - 1", "has no intercept"),
        ("age + .", "--target COLUMN alone"),
        ("np.log(age)", r"write log\(…\)"),
        ("lag(age)", "calls lag, which is no function here"),
        ("age ~ sex", "more than one ~"),
        ("age + C(age)", "names age within C"),
        ("C(log(age))", "takes a column or a comparison"),
        ("I(open('x'))", "calls open"),
        ("{(lambda: age)()}", "calls|has"),
        ("I([one for one in age])", "is not read"),
        ("I(age.__class__)", "point is not read"),
    ],
)
def test_what_a_formula_cannot_mean_is_refused(text, said):
    with pytest.raises(ConfigError, match=said):
        formula.read(text, KNOWN)


def test_what_formulas_can_mean_is_read():
    assert formula.read("(age + dose)**2 + I(age**2) + C(grade)", KNOWN).categories == ("grade",)
    assert formula.read("log(`my age`) + `my age`:sex", KNOWN).columns == ("my age", "sex")
    assert formula.read("1", KNOWN).columns == ()


ODD = [
    "dose-rate",
    "1",
    "0",
    "-1",
    "x|g",
    "a:b",
    "y ~",
    ".",
    "log",
    "C",
    "Intercept",
    "a, (b)",
    "x'y",
    "in",
    "^2",
]


def plainly(odd, values, text):
    """The matrix of a formula in which a column `odd` is called odd, and sex is as it is."""
    table = pd.DataFrame({odd: values, "sex": np.resize(["f", "m"], len(values))})
    read = formula.read(text, list(table))
    sources = {odd: Column(odd), "sex": Column("sex", ["f", "m"], True)}
    matrix = formula.Matrix.of(read, [sources[name] for name in read.columns], table)
    again = formula.Matrix(read, matrix.sources, json.loads(json.dumps(matrix.state)))
    return read, again.columns(table, "rows")


@pytest.mark.thorough(but=12)
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("text", ["`{}`", "sex * `{}`", "bs(`{}`, df=4) + log1p(`{}`)", "I(`{}` ** 2):sex"])
def test_a_column_in_backticks_is_that_column_whatever_its_name(name, text):
    values = np.linspace(1.0, 9.0, 20) ** 2
    read, found = plainly(name, values, text.replace("{}", name))
    other, wanted = plainly("plain", values, text.replace("{}", "plain"))
    assert read.columns == tuple(name if one == "plain" else one for one in other.columns)
    np.testing.assert_array_equal(found, wanted)
    assert list(found) == [one.replace("plain", name) for one in wanted]  # in a call with its backticks


def test_a_column_called_as_a_function_and_the_function():
    table = pd.DataFrame({"log": [1.0, 2.0, 4.0], "Sum": [3.0, 1.0, 1.0], "sex": ["a", "b", "c"]})
    read = formula.read("log + log(log) + C(sex, Sum) + Sum", list(table))
    assert set(read.columns) == {"log", "Sum", "sex"}
    sources = [Column("log"), Column("Sum"), Column("sex", ["a", "b", "c"], True)]
    found = formula.Matrix.of(read, sources, table).columns(table, "rows")
    np.testing.assert_array_equal(found["log"], table["log"])
    np.testing.assert_array_equal(found["Sum"], table["Sum"])
    np.testing.assert_allclose(found["log(`log`)"], np.log(table["log"]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dose + dose-rate", "has dose-rate without backticks; write `dose-rate` for the column$"),
        ("dose*age + dose-age", "has dose-age without .*, or dose - age for what its signs mean"),
        ("dose:age", "write `dose:age` for the column, or dose : age"),
        ("log(dose)", r"write `log\(dose\)` for the column, or log\( dose \)"),
        ("dose + age - sex", "names sex, but has no term with it"),
        ("dose - rate", "names rate, which is no column of the table"),
        ("`rate` + dose - `rate`", "names rate, which is no column"),
    ],
)
def test_a_formula_that_would_leave_out_a_column_that_it_names_is_refused(text, said):
    known = [*KNOWN, "dose-rate", "dose-age", "dose:age", "log(dose)"]
    with pytest.raises(ConfigError, match=said):
        formula.read(text, known)
    remedy = re.search(r", or (.*) for what its signs mean", said)
    if remedy:  # as it is printed, it is read
        formula.read(
            text.replace(remedy[1].replace(" ", "").replace("\\", ""), remedy[1].replace("\\", "")), known
        )


def test_what_a_minus_leaves_in_is_no_mistake():
    assert formula.read("(age + dose)**2 - age", KNOWN).columns == ("dose", "age")
    assert formula.read("dose * age - dose : age", [*KNOWN, "dose:age"]).columns == ("dose", "age")
    assert formula.read("C(sex, Treatment('a|b ~ c'))", KNOWN).columns == ("sex",)


@pytest.mark.parametrize("name", ["y ~ z", "1", "a|b", "offset(x)", "log", "-"])
def test_quotes_are_kept_on_both_sides(name):
    said = split(f"`{name}` | `n|{name}` ~ `offset({name})` + offset(log(`{name}`)) + x")
    assert said.target == name
    assert said.options == {"trials": f"n|{name}", "exposure": name, "formula": f"`offset({name})`  + x"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("died age", "has no ~"),
        ("`y ~ x`", "has no ~"),
        ("dose-rate ~ x", "in backticks where its name has other signs"),
        ("~ age", "explains nothing"),
        ("a + b ~ age", "explains 'a \\+ b'"),
        ("y ~ offset(2 * age)", "more than a column"),
        ("y ~ offset(a) + offset(b)", "more than one offset"),
    ],
)
def test_sides_that_are_not_read_are_refused(text, said):
    with pytest.raises(ConfigError, match=said):
        split(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("log(age - 50)", r"row \d+ .*log\(age - 50\) is (nan|-inf)"),
        ("log(sex)", "cannot be worked out of the table"),
        ("C(sex, Treatment('q'))", "q.* is not among the provided levels"),
        ("I(age > 1000)", "is 0 in every row; leave the term out|cannot be worked"),
        ("age + died", "names died, which is the target"),
    ],
)
def test_formulas_that_a_table_does_not_fit_are_refused(file, text, said):
    with pytest.raises((ConfigError, DataError), match=said):
        flyrun.experiments.data.load(Table(path=str(file), target="died", formula=text))


def test_rows_beyond_a_spline_are_named(rows):
    matrix = formula.Matrix.of(formula.read("bs(dose, df=4)", list(rows)), SOURCES, rows)
    beyond = rows.assign(dose=np.where(np.arange(300) == 7, 99.0, rows.dose))
    with pytest.raises(DataError, match=r"row 7 .*dose is 99, beyond .*extrapolation='extend'"):
        matrix.columns(beyond, "new")
    with pytest.raises(DataError) as refused:
        matrix.columns(beyond, "new")
    longer = formula.read(str(refused.value).rpartition("fit with ")[2], list(rows))  # as it is printed
    assert np.isfinite(formula.Matrix.of(longer, SOURCES, rows).columns(beyond, "new")).all(axis=None)
    unseen = rows.assign(sex="q")
    with pytest.raises(DataError, match="column sex holds other values"):
        formula.Matrix.of(formula.read("sex", list(rows)), SOURCES, rows).columns(unseen, "new")
