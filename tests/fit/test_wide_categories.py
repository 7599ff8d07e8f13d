"""Categories of many levels: the answer is that of a column a level, which few levels allow for both."""

import numpy as np
import pandas as pd
import pytest

import flyrun
from flyrun.cli.main import main
from flyrun.fitting import bars, engine, question, wide_categories
from flyrun.fitting.bars import Bar
from flyrun.fitting.request import Request
from flyrun.ground.errors import ConfigError, DataError
from flyrun.tables import frames
from tests.fit.test_scan import write

CHANGED = ("flyrun.tables.columns.MOST_LEVELS", "flyrun.tables.seen.MOST_LEVELS")


def table(levels=8, n=240, seed=0):
    """Rows of a category of text and of numbers, the first level as rare as others."""
    rng = np.random.default_rng(seed)
    code = np.append(np.arange(levels), rng.integers(0, levels, n - levels))
    x, e = rng.normal(3.0, 2.0, n), rng.uniform(0.5, 2.0, n)
    eta = 0.3 * x - 1.0 + rng.normal(0.0, 0.7, levels)[code]
    columns = {
        "x": x,
        "e": e,
        "g": np.array([f"g{k:03d}" for k in range(levels)])[code],
        "zip": 10 * code + 7,
    }
    columns |= {"gaussian": eta + rng.normal(0.0, 0.8, n), "poisson": rng.poisson(e * np.exp(eta))}
    columns |= {"logistic": (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int)}
    return pd.DataFrame(columns | {"negative_binomial": rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, n))})


@pytest.fixture
def wide(monkeypatch):
    """Takes how many levels make a category one of many."""
    return lambda most: [monkeypatch.setattr(name, most) for name in CHANGED]


def chained(frame, formula, model, **more):
    """The rows and the levels' rows of a fit whose coefficients chains draw."""
    target, _, right = formula.partition(" ~ ")
    with frames.held(frame) as file:
        asked = Request(file, target, model=model, table={"formula": right}, **more)
        answer = engine.answer(question.of(asked, chains=True))
    return pd.DataFrame(answer.rows).set_index("coefficient"), answer.groups[0].table()


def agree(frame, model, dense, summary, levels, name="g", draws=400.0):
    """How far means are from those of a column a level, in Monte Carlo errors, and ratios of sds."""
    rows = pd.concat([summary, levels])
    names = [f"{name}[{level}]" for level in levels.index]
    there = dense.rename(index=lambda row: row.replace(f"C({name})", name)).loc[[*summary.index, *names]]
    error = there["sd"] * np.sqrt(2.0 / draws)
    z = (rows["mean"].to_numpy() - there["mean"].to_numpy()) / error.to_numpy()
    known = (there["sd"] + rows["sd"].to_numpy()).notna().to_numpy()  # of phi draws may tell no sd
    return np.abs(z[known]).max(), (rows["sd"].to_numpy() / there["sd"].to_numpy())[known]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", ["gaussian", "poisson", "logistic", "negative_binomial"])
def test_coefficients_are_those_of_a_column_a_level(model, wide):
    frame = table()
    formula = f"{model} ~ x + g" + (" + offset(log(e))" if model == "poisson" else "")
    dense = flyrun.fit(frame, formula, model=model)
    predicted = dense.loo()
    wide(5)
    fit = flyrun.fit(frame, formula, model=model)
    z, ratio = agree(frame, model, dense.summary(), fit.summary(), fit.groups)
    assert z < 4.5
    assert np.abs(np.log(ratio)).max() < 0.15
    means, others = (its.predict(frame) for its in (dense, fit))
    assert (np.abs(means["mean"] - others["mean"]) < 0.3 * means["sd"]).all()
    assert list(fit.groups.index) == sorted({*frame["g"]})[1:]
    assert fit.loo().elpd == pytest.approx(predicted.elpd, abs=0.05 * predicted.se)


def test_negative_control_another_prior_is_seen(wide):
    frame = table()
    dense = flyrun.fit(frame, "poisson ~ x + g", model="poisson")
    wide(5)
    fit = flyrun.fit(frame, "poisson ~ x + g", model="poisson", priors={"g": "normal(0, 0.4)"})
    z, ratio = agree(frame, "poisson", dense.summary(), fit.summary(), fit.groups)
    assert z > 6.0
    assert ratio.min() < 0.8


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["poisson", "gaussian", "logistic"])
def test_chains_draw_the_same(model, wide):
    frame = table()
    dense = flyrun.fit(frame, f"{model} ~ x + g", model=model)
    wide(5)
    summary, levels = chained(frame, f"{model} ~ x + g", model)
    z, ratio = agree(frame, model, dense.summary(), summary, levels)
    assert z < 4.5
    assert np.abs(np.log(ratio)).max() < 0.15


@pytest.mark.thorough
def test_two_categories_and_a_parameters_own(wide):
    frame = table(n=400)
    frame["h"] = np.random.default_rng(5).choice(list("abcdefg"), len(frame))
    formulas = ["gaussian ~ x + g + h", "sigma ~ h"]
    dense = flyrun.fit(frame, formulas, model="gaussian")
    wide(5)
    fit = flyrun.fit(frame, formulas, model="gaussian")
    rows = dense.summary()
    for part, name in (("g", "g[{}]"), ("h", "h[{}]"), ("sigma[h]", "sigma[h[{}]]")):
        levels = fit.groups.loc[part]
        there = rows.loc[[name.format(level) for level in levels.index.get_level_values(0)]]
        assert np.abs(levels["mean"].to_numpy() - there["mean"].to_numpy()).max() < 0.35 * there["sd"].max()
        assert 0.8 < (levels["sd"].to_numpy() / there["sd"].to_numpy()).mean() < 1.2


@pytest.mark.thorough
def test_more_levels_than_columns_are_made_for(wide):
    frame = table(levels=120, n=3_000)
    fit = flyrun.fit(frame, "poisson ~ x + C(zip)", model="poisson")
    wide(200)
    dense = flyrun.fit(frame, "poisson ~ x + C(zip)", model="poisson")
    z, ratio = agree(frame, "poisson", dense.summary(), fit.summary(), fit.groups, "zip")
    assert z < 4.8
    assert np.abs(np.log(ratio)).max() < 0.2


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", ["gaussian", "poisson"])
def test_a_folder_gives_what_its_rows_as_one_table_do(model, wide, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    frame = table(n=600)
    write(tmp_path / "shards", {name: values.to_numpy() for name, values in frame.items()}, group=100)
    wide(5)
    monkeypatch.setattr("flyrun.fitting.scan.text_levels.MOST_LEVELS", 5)
    one = flyrun.fit(frame, f"{model} ~ x + g", model=model)
    many = flyrun.fit(str(tmp_path / "shards"), f"{model} ~ x + g", model=model)
    np.testing.assert_allclose(
        many.summary()["mean"], one.summary()["mean"], atol=0.15 * one.summary()["sd"].min()
    )
    assert list(many.groups.index) == list(one.groups.index)
    assert list(many.groups["rows"]) == list(one.groups["rows"])
    assert np.abs(many.groups["mean"] - one.groups["mean"]).max() < 0.2 * one.groups["sd"].min()


def test_what_a_person_is_told(wide):
    frame = table()
    wide(5)
    fit = flyrun.fit(
        frame, "poisson ~ x + g", model="poisson", reference={"g": "g005"}, priors={"g": "normal(0, 1)"}
    )
    assert list(fit.groups.index) == [f"g{k:03d}" for k in (0, 1, 2, 3, 4, 6, 7)]
    row = {"x": 1.0, "g": "g005"}
    beta = fit.posterior["posterior"]["beta"].to_numpy().reshape(-1, 2)
    known = np.exp(beta @ [1.0, 1.0]).mean()
    assert fit.predict(row)["mean"] == pytest.approx(known, rel=0.05)
    with pytest.raises(
        DataError, match=r"g.*holds 'new'.*a level that the fit has not seen; leave the row out"
    ):
        fit.predict({"x": 1.0, "g": "new"}, new_groups="draw")
    changes = fit.comparisons("g")
    assert changes.index[0] == "g000 against g005"


@pytest.mark.parametrize(
    ("formula", "more", "match"),
    [
        ("poisson ~ x * g", {}, r"x \* g .*write g as a term of its own, or \(1 \+ x \| g\)"),
        ("poisson ~ x + C(g):x", {}, r"C\(g\):x has a coefficient for each of more than 100 levels"),
        ("poisson ~ g + (1 | g)", {}, r"\(1 \| g\): g is a term too"),
        ("poisson ~ g", {"reference": {"g": "g00"}}, r"C\(g\): there is no level 'g00'.*name one that it"),
        ("poisson ~ g", {"priors": {"g": "laplace(0, 1)"}}, r"takes normal\(0, SD\); write .*C\(g\): normal"),
        ("poisson ~ g", {"priors": {"g[g001]": "normal(0, 1)"}}, "has one prior of all"),
        ("poisson ~ C(e)", {}, r"C\(e\): has 240 levels in 240 rows, fewer than two rows each; leave e out"),
        ("poisson", {}, "drop.*or write a formula: 'poisson ~ g' gives each"),
    ],
)  # fmt: skip
def test_what_is_not_fitted_is_refused_with_what_is(formula, more, match, wide):
    wide(5)
    with pytest.raises((ConfigError, DataError), match=match):
        flyrun.fit(table(), formula, model="poisson", **more)


def test_rare_levels_and_the_question_are_told(wide, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = table()
    frame = frame[(frame["g"] != "g000") | (np.arange(len(frame)) == 0)]
    frame.to_csv("t.csv", index=False)
    wide(5)
    assert main(["fit", "t.csv", "poisson ~ x + g", "--model", "poisson"]) == 0
    said = "".join(capfd.readouterr())
    assert "2 columns, 9 coefficients" in said
    assert "with C(g): 8 levels of 1 to" in said
    assert said.count("C(g): 7 levels have a coefficient each against g000; is (1 | g) meant?") == 1
    assert "coefficients of levels integrated out" in said
    assert "group effects" not in said
    assert "C(g): 1 of 8 levels has fewer than 5 rows, so that the prior tells much of it: g000" in said
    assert "--reference g=" in said


@pytest.mark.thorough
def test_a_folder_says_once_what_is_read_and_no_formula_to_levels(wide, capfd, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    frame = table(n=600).assign(side=lambda rows: np.arange(len(rows)) % 2).drop(columns="zip")
    write(tmp_path / "shards", {name: values.to_numpy() for name, values in frame.items()}, group=100)
    wide(5)
    monkeypatch.setattr("flyrun.fitting.scan.text_levels.MOST_LEVELS", 5)
    assert main(["fit", "shards", "gaussian ~ x + g", "--model", "gaussian"]) == 0
    said = "".join(capfd.readouterr())
    assert said.count("one scan reads") == 1
    assert said.count("meant?") == 1
    words = ["fit", "shards", "--target", "gaussian", "--model", "gaussian", "--by", "side", "--quiet"]
    assert main(words) == 2
    line = capfd.readouterr().err
    assert line.rstrip().endswith("leave the column out with --drop g")
    assert main([*words, "--drop", "g"]) == 0  # which is a remedy


@pytest.mark.parametrize(
    ("formula", "column", "rest", "bar"),
    [
        ("x + C(g)", "g", "x", Bar(("g",), fixed=True)),
        ("g", "g", "1", Bar(("g",), fixed=True)),
        (
            "x + C(`a b`, Treatment('p + q')) + z",
            "a b",
            "x + z",
            Bar(("a b",), fixed=True, reference="p + q"),
        ),
        ("x - 1 + `g`", "g", "x - 1", Bar(("g",), fixed=True)),
        ("x * g", "g", "x * g", None),
    ],
)
def test_a_category_is_taken_out_of_a_formula(formula, column, rest, bar):
    assert bars.without(formula, column) == (rest, bar)
    if bar is not None:  # as it prints itself, it reads itself
        assert bars.read([str(bar)]) == [bar]
        assert bars.read([f"sigma ~ {bar}"]) == [bars.replace(bar, of="sigma")]


def test_a_request_that_names_no_such_column_stays_refused():
    many = wide_categories.ManyLevelsError("too many", "g")

    def answer(request):
        raise many

    with pytest.raises(DataError, match="too many"):
        wide_categories.parted(Request("t.csv", "y"), answer)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", ["gaussian", "poisson", "logistic"])
def test_two_categories_are_integrated_out_together(model, wide):
    frame = table(n=400)
    frame["h"] = np.random.default_rng(5).choice(list("abcdefg"), len(frame))
    dense = flyrun.fit(frame, f"{model} ~ h + x + g", model=model)
    wide(5)
    fit = flyrun.fit(
        frame,
        f"{model} ~ h + x + g",
        model=model,
        priors={"h": "normal(0, 2.5)"} if model != "gaussian" else None,
    )
    for part in ("g", "h"):
        levels = fit.groups.loc[part]
        z, ratio = agree(frame, model, dense.summary(), fit.summary(), levels, part)
        assert z < 4.5
        assert np.abs(np.log(ratio)).max() < 0.15
    assert list(fit.groups.index.get_level_values(0).unique()) == ["h", "g"]
    means, others = (its.predict(frame) for its in (dense, fit))
    assert (np.abs(means["mean"] - others["mean"]) < 0.3 * means["sd"]).all()
