"""Where the prior decides and not the table, a line says so and names the columns."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, special
from sklearn import datasets

import flyrun
from flyrun.cli.main import main
from flyrun.cli.verbs.fit import parse
from flyrun.experiments import data
from flyrun.fitting import engine, identified, page, question, weighted_draws
from flyrun.tables import loader

N = 150
TARGETS = ("two", "three", "numbers")


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """In a folder of its own. Few rows' weights are not held against HMC: caveats ask for moments alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(weighted_draws, "in_doubt", lambda *_: False)


def people(rows=N, **columns):
    """A table of which height, in cm, and age explain something."""
    rng = np.random.default_rng(4)
    cm, age = rng.normal(170, 9, rows).round(1), rng.integers(20, 80, rows)
    signal = (cm - 170) / 9 + (age - 50) / 18
    noise = rng.logistic(size=rows)
    return pd.DataFrame({
        "cm": cm, "age": age, **columns,
        "two": np.where(signal + noise > 0, "yes", "no"),
        "three": np.array(["u", "v", "w"])[np.digitize(signal + noise, [-1, 1])],
        "numbers": signal + noise,
    })  # fmt: skip


def caveats(words):
    """What a fit says before its numbers."""
    return engine.answer(question.of(parse(words))).caveats


def told(frame, target, *words):
    """What is said of a table's coefficients."""
    others = [name for name in TARGETS if name != target and name in frame]
    frame.drop(columns=others).to_csv("mine.csv", index=False)
    return caveats(["mine.csv", "--target", target, *words])


@pytest.mark.parametrize("target", TARGETS)
def test_columns_that_say_the_same_are_named_whatever_the_model(target):
    """A direction that the data leave open is said, not left to intervals that each hold 0."""
    frame = people()
    frame["inch"] = (frame.cm / 2.54).round(1)
    (line,) = told(frame, target)
    assert line.startswith("cm and inch say nearly the same")
    remedy = shlex.split(re.search("as with (.*)$", line)[1])
    assert remedy == ["--drop", "inch"]
    assert told(frame, target, *remedy) == []
    # on scales of their own too
    (line,) = told(frame, target, "dataset.standardize=false")[:1]
    assert "cm" in line
    assert "inch" in line


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("numbers ~ {}", "cr(cm, df=4)"),
        ("numbers ~ age * {}", "cc(cm, df=4)"),
        ("numbers ~ {} + cr(age, df=3, constraints='center')", "cs(cm, df=4)"),
        ("two ~ C(kind):{}", "cr(cm, df=3)"),
        ("numbers ~ `a:b` + {}", "`b-c`"),
        ("numbers ~ {}", "bs(kind, df=4)"),
        ("numbers ~ age + {}", "I(`age` / 2)"),
    ],
)
def test_the_remedy_for_terms_of_a_formula_can_be_typed(text, term):
    frame = people(kind=np.arange(N) % 3)
    frame["a:b"] = frame["b-c"] = np.sin(np.arange(N)).round(3)
    frame.to_csv("mine.csv", index=False)
    typed = text.format(term)
    (*_, line) = caveats(["mine.csv", typed])
    if found := re.search(r"write (.*?\)) for (.*?\))(?: and |$)", line):
        assert found[2] == term
        mended = typed.replace(term, found[1])
    else:
        one_of, alone = re.search(r"leave (.*) out of the formula(?:, as (.*))?$", line).groups()
        assert (alone or one_of) == term
        mended = re.sub(rf"\s*[+]?\s*{re.escape(term)}", " 1" if typed.endswith(f"~ {term}") else "", typed)
    assert mended != typed
    assert not [one for one in caveats(["mine.csv", mended]) if "nearly" in one]


def test_sentences_keep_the_case_of_names():
    about = {
        "layout": {
            "target": {"name": "y"},
            "features": [{"name": "cr(x, df=4)[1]"}],
            "sources": [{"name": "x"}],
        },
        "coefficients": [{"coefficient": "cr(x, df=4)[1]"}],
    }
    lines = [
        "cr(x, df=4)[1] and x say",
        "x tells",
        "xerox is no column",
        "the chains",
        "y is",
        "",
        "5,000 draws",
    ]
    kept = [
        "cr(x, df=4)[1] and x say",
        "x tells",
        "Xerox is no column",
        "The chains",
        "y is",
        "",
        "5,000 draws",
    ]
    assert page._sentences(about, lines) == kept


def test_groups_are_kept_apart_and_levels_that_fill_a_row_are_found():
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 3, N)
    frame = people(a=kind == 0, b=kind == 1, c=kind == 2, weight=rng.normal(size=N))
    frame = frame.astype({"a": int, "b": int, "c": int})
    frame["pounds"] = 2.2 * frame.weight
    pair, ones = sorted(told(frame, "numbers"), reverse=True)
    assert pair.startswith("weight and pounds say nearly the same")
    assert ones.startswith("a, b and c nearly follow from each other")
    assert "leave one of them out, as with --drop c" in ones
    assert told(frame, "numbers", "--drop", "c,pounds") == []


def test_more_columns_than_rows():
    rng = np.random.default_rng(2)
    more = {f"x{k:02}": rng.normal(size=20) for k in range(25)}
    line, together = told(people(20, **more), "two")
    assert "and 21 more nearly follow from each other" in line
    assert "leave 8 of them out" in line  # 27 columns, which 20 rows and an intercept leave 19 dimensions
    assert together.startswith("the columns together tell")


@pytest.mark.parametrize("target", TARGETS)
def test_ordinary_tables_are_left_in_peace(target):
    """The control: columns that correlate by .9, a rare level, few rows for their columns."""
    rng = np.random.default_rng(3)
    frame = people(rare=np.where(np.arange(N) % 75 == 0, "a", "b"))
    frame["like"] = frame.cm + rng.normal(0, 4.3, N)
    assert np.corrcoef(frame.cm, frame.like)[0, 1] > 0.88
    assert told(frame, target) == []
    few = {f"x{k}": rng.normal(size=60) for k in range(6)}
    assert told(people(60, **few), target) == []


def test_many_rows_tell_apart_what_few_cannot():
    """A correlation of .999 is no fault where the rows are enough."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=40_000)
    near = x + 0.04 * rng.normal(size=len(x))
    problem = {"x": x, "near": near, "numbers": x - near + rng.normal(size=len(x))}
    assert told(pd.DataFrame(problem), "numbers") == []
    assert len(told(pd.DataFrame(problem).head(200), "numbers")) == 1


@pytest.mark.parametrize("order", ["mixed", "sorted"])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_column_that_separates_two_classes_is_named(order, mapped, monkeypatch):
    """A likelihood without a mode is said, with the column that takes it away."""
    monkeypatch.setattr(identified, "_BLOCK", 40)
    if mapped:
        monkeypatch.setattr(loader, "IN_MEMORY", 100)
    frame = people()
    frame["test"] = np.where(frame.two == "yes", 3.0, 1.0) + np.random.default_rng(0).random(N)
    if order == "sorted":
        frame = frame.sort_values("two")
    (line,) = told(frame, "two")
    assert line.startswith("test tells no and yes apart in every row: only the prior keeps its coefficient")
    remedy = shlex.split(re.search("leave it out with (.*)$", line)[1])
    assert told(frame, "two", *remedy) == []
    frame.loc[frame.index[frame.two == "no"][0], "test"] = 3.5  # one row among the others
    assert not any(line.startswith("test") for line in told(frame, "two"))


def test_a_word_that_is_the_answer_is_named():
    frame = people()
    frame["outcome"] = np.where(frame.two == "yes", "died", "alive")
    (line,) = told(frame, "two")
    assert line.startswith("outcome[died] tells no and yes apart")
    assert line.endswith("leave it out with --drop outcome")


def test_one_of_three_classes_is_named():
    iris = datasets.load_iris(as_frame=True)
    frame = iris.data.assign(kind=iris.target_names[iris.target])
    (line,) = [one for one in told(frame, "kind") if "tell" in one]
    assert "each tell setosa from all others in every row" in line
    assert line.startswith("petal length (cm) and petal width (cm)")


def test_columns_that_separate_only_together():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, 2))
    keep = np.abs(x.sum(axis=1)) > 0.5
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "two": x.sum(axis=1) > 0})[keep]
    (line,) = told(frame, "two")
    assert line.startswith("the columns together tell two's classes apart in every row")


def test_curvatures_that_have_no_sense_name_nothing():
    assert identified.groups(np.zeros((1, 1)), np.ones(1)) == []
    assert identified.groups(np.diag([1.0, 0.0, 0.0]), np.ones(3)) == []


def test_an_intercept_alone_is_fitted(capsys):
    """What is left when no column is, the null model, is a model: its posterior by quadrature."""
    y = np.arange(40) % 5 == 0
    pd.DataFrame({"y": y}).to_csv("mine.csv", index=False)
    assert main(["fit", "mine.csv", "--target", "y"]) == 0
    assert "mine.csv: 40 rows, no columns, the intercept alone" in capsys.readouterr().out
    (row,) = pd.read_csv("results/runs/mine/table.csv").itertuples()

    def density(theta):
        log = special.log_expit(theta) * y.sum() + special.log_expit(-theta) * (~y).sum() - theta**2 / 200.0
        return np.exp(log + 22.0)

    whole = integrate.quad(density, -10, 10)[0]
    mean = integrate.quad(lambda t: t * density(t), -10, 10)[0] / whole
    sd = np.sqrt(integrate.quad(lambda t: (t - mean) ** 2 * density(t), -10, 10)[0] / whole)
    assert abs(row.mean - mean) < 4.0 * sd / np.sqrt(row.ess)  # level below 0.0001
    assert row.sd == pytest.approx(sd, rel=0.1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("words", [("--drop", "cm,age"), ("--drop", "age,cm", "--missing", "drop")])
def test_dropping_every_column_leaves_the_intercept(target, words):
    assert told(people(), target, *words) == []
    rows = data.load(parse(["mine.csv", "--target", target, *words]).typed_table)
    assert rows.feature_names == ("intercept",)
    np.testing.assert_array_equal(rows.features, 1.0)


def cells(change, target, *words, rows=400, **columns):
    """Lines on empty cells of a table of three arms, two sexes, a number of two values and one of many."""
    rng = np.random.default_rng(8)
    arm, sex = rng.choice([*"abc"], rows), rng.choice([*"fm"], rows)
    frame = pd.DataFrame({"arm": arm, "sex": sex, "t": rng.integers(1, 3, rows), "x": rng.normal(size=rows)})
    frame["y"] = change(frame, rng.poisson(2, rows))
    frame.assign(**columns).to_csv("cell.csv", index=False)
    read = question.of(parse(["cell.csv", *target, *words]))
    return identified.empty_cells(read.layout, read.dataset)


PLAIN, CROSSED = ("--target", "y"), ("y ~ arm * sex + x",)


def test_levels_whose_rows_are_all_at_an_end_are_named():
    """There the likelihood has no mode, and intervals are the prior's."""
    counts = ("--model", "poisson")
    in_b, ref, t1 = ((lambda f, y, w=w: np.where(w(f), 0, y)) for w in (
        lambda f: f.arm == "b", lambda f: f.arm == "a", lambda f: f.t == 1,
    ))  # fmt: skip
    for change, name in ((in_b, "arm[b]"), (ref, "arm[a]"), (t1, "t = 1")):
        for more in ((), ("dataset.standardize=false",)):
            (line,) = cells(change, PLAIN, *counts, *more)
            assert line.startswith(
                f"{name}: y is 0 in every row, so that only the prior, whose sd --prior-scale"
            )
    (line,) = cells(ref, ("y ~ C(arm) + x",), *counts)
    assert line.startswith("the reference of C(arm): y is 0")
    # twins that must not be named
    assert cells(lambda f, y: y, PLAIN, *counts) == []
    assert (
        cells(lambda f, y: np.where((f.arm == "b") & (np.arange(len(f)) > 20), 0, y + 1), PLAIN, *counts)
        == []
    )


def test_cells_of_two_categories_matter_where_their_product_is_a_column():
    counts = ("--model", "negative_binomial")

    def change(f, y):
        return np.where((f.arm == "a") & (f.sex == "m"), 0, y)

    (line,) = cells(change, CROSSED, *counts)
    assert line.startswith("the reference of arm with sex[m]: ")
    assert cells(change, ("y ~ arm + sex + x",), *counts) == []


def test_ends_of_each_target():
    def of(word, other):
        return lambda f, y: np.where(f.arm == "c", word, other(y))

    halves = of("no", lambda y: np.where(y > 1, "yes", "no"))
    assert cells(halves, PLAIN)[0].startswith("arm[c]: y is no in every row")
    assert cells(of("yes", lambda y: np.where(y > 1, "yes", "no")), PLAIN)[0].startswith("arm[c]: y is yes")
    several = cells(of("u", lambda y: np.array([*"uvw"])[y % 3]), PLAIN)
    assert [line[:24] for line in several] == ["arm[c]: y is v in no row", "arm[c]: y is w in no row"]
    ordered = cells(of("1", lambda y: np.array([*"123"])[y % 3]), PLAIN, "--model", "ordinal")
    assert ordered[0].startswith("arm[c]: y is 1 in every row")
    some = ("--trials", "n")
    (line,) = cells(of(9, lambda y: np.minimum(y, 9)), PLAIN, *some, n=9)
    assert line.startswith("arm[c]: y is the number of trials in every row")
    halves = np.repeat([9, 0], 200)  # rows without trials say nothing
    (line,) = cells(lambda f, y: np.where(f.arm == "c", 0, np.minimum(y, halves)), PLAIN, *some, n=halves)
    assert line.startswith("arm[c]: y is 0 in every row")


def test_a_level_of_two_rows_is_left_in_peace():
    def all_0_in(rows):
        return lambda f, y: np.where(np.arange(len(f)) < rows, 0, y + 1)

    for rows, lines in ((2, 0), (3, 1)):
        rare = np.where(np.arange(400) < rows, "rare", "often")
        assert len(cells(all_0_in(rows), PLAIN, "--model", "poisson", rare=rare)) == lines


def test_an_empty_cell_is_told_by_each_way_to_fit():
    rng = np.random.default_rng(9)
    frame = pd.DataFrame({"arm": [*"abcd"] * 20, "site": np.repeat([*"uvwxyz12"], 10)})
    frame["y"] = np.where(frame.arm == "d", 0, rng.poisson(3, 80))
    frame.to_csv("mine.csv", index=False)
    for formula in ("y ~ arm", "y ~ arm + (1 | site)"):
        made = flyrun.fit("mine.csv", formula, model="poisson", name="t", fresh=True)
        assert [line[:23] for line in made.checks()["caveats"]] == ["arm[d]: y is 0 in every"]


def one_row_else(frame, y):
    """A cell that but for one of the last rows is empty."""
    y = np.where(frame.arm == "b", 0, y)
    y[np.flatnonzero(frame.arm == "b")[-1]] = 1
    return y


HALVES = np.tile([9, 9, 9, 0], 225)  # rows without trials, or of weight 0, say nothing
SCANS = {
    "level": (PLAIN, "poisson", lambda f, y: np.where(f.arm == "b", 0, y), {}),
    "reference": (PLAIN, "logistic", lambda f, y: np.where(f.arm == "a", 1, y > 1), {}),
    "number": (PLAIN, "poisson", lambda f, y: np.where(f.t == 1, 0, y), {}),
    "product": (CROSSED, "poisson", lambda f, y: np.where((f.arm == "a") & (f.sex == "m"), 0, y), {}),
    "both references": (CROSSED, "poisson", lambda f, y: np.where((f.arm == "a") & (f.sex == "f"), 0, y), {}),
    "classes": (PLAIN, "softmax", lambda f, y: np.where(f.arm == "c", "u", np.array([*"uvw"])[y % 3]), {}),
    "order": (PLAIN, "ordinal", lambda f, y: np.where(f.arm == "c", 1, 1 + y % 3), {}),
    "trials": (
        (*PLAIN, "--trials", "n"), "binomial",
        lambda f, y: np.where(f.arm == "c", f.n, np.minimum(y, f.n)), {"n": HALVES},
    ),
    "weights": (
        (*PLAIN, "--weights", "w"), "poisson",
        lambda f, y: np.where((f.arm == "b") & (f.w > 0), 0, y), {"w": HALVES},
    ),
    "levels": ((*PLAIN, "--by", "sex"), "poisson", lambda f, y: np.where(f.arm == "b", 0, y), {}),
    "none": (PLAIN, "poisson", lambda f, y: y, {}),
    "one row": (PLAIN, "poisson", one_row_else, {}),
    "normal noise": (PLAIN, "gaussian", lambda f, y: np.where(f.arm == "b", 0, y), {}),
}  # fmt: skip


SLOW = ("order", "classes")


@pytest.mark.thorough(but=("level]", "one row"))
@pytest.mark.parametrize(
    "case", [pytest.param(one, marks=[pytest.mark.slow] if one in SLOW else []) for one in SCANS]
)
def test_a_scan_says_of_empty_cells_what_a_fit_of_one_table_says(case, tmp_path):
    """By sums over rows, a level with few rows by these: every door has the line, word for word."""
    pytest.importorskip("pyarrow")
    target, model, change, columns = SCANS[case]
    rng = np.random.default_rng(8)
    arm, sex = rng.choice([*"abc"], 900), rng.choice([*"fm"], 900)
    frame = pd.DataFrame({"arm": arm, "sex": sex, "t": rng.integers(1, 3, 900), "x": rng.normal(size=900)})
    frame = frame.assign(**columns)
    frame["y"] = change(frame, rng.poisson(2, 900))
    frame.to_csv("mine.csv", index=False)
    (tmp_path / "shards").mkdir()
    for k in range(3):
        frame.iloc[300 * k : 300 * (k + 1)].to_parquet(f"shards/{k}.parquet", row_group_size=100)
    said = []
    for file in ("shards", "mine.csv"):
        assert main(["fit", file, *target, "--model", model, "--name", "x", "--fresh", "--quiet"]) == 0
        fits = sorted(tmp_path.glob("results/runs/**/fit.json"))
        each = [json.loads(path.read_text())["caveats"] for path in fits]
        said.append([[line for line in lines if "so that only" in line] for lines in each])
    assert said[0] == said[1]
    assert all(said[0]) == (case not in ("none", "one row", "normal noise"))


def test_a_row_a_group_leaves_two_sds_to_their_priors():
    rng = np.random.default_rng(10)
    frame = pd.DataFrame({"site": [f"s{k}" for k in range(60)], "half": np.repeat(range(30), 2).astype(str)})
    frame["y"] = rng.normal(size=60)
    frame.to_csv("mine.csv", index=False)
    (line,) = flyrun.fit("mine.csv", "y ~ 1 + (1 | site)", model="gaussian").checks()["caveats"]
    assert line.startswith(
        "(1 | site): each of the 60 groups has one row, so that only the priors tell sigma"
    )
    assert flyrun.fit("mine.csv", "y ~ 1 + (1 | half)", model="gaussian").checks()["caveats"] == []
    frame.assign(y=rng.poisson(3, 60)).to_csv("mine.csv", index=False)
    assert flyrun.fit("mine.csv", "y ~ 1 + (1 | site)", model="poisson").checks()["caveats"] == []
