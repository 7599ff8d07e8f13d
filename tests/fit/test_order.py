"""`--order pain=none,mild,moderate`: words in the order that is meant, in every door, and what is refused."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.experiments import data
from flyrun.experiments.config.compose import compose_job
from flyrun.fitting.python import fit, load
from flyrun.ground.errors import ConfigError, DataError
from tests.fit.test_fit_tables import apart, loaded, refused  # noqa: F401  (a fixture)

N = 400
WORDS = ["none", "mild", "moderate"]
ORDER = "pain=none,mild,moderate"


def frame():
    rng = np.random.default_rng(0)
    x = rng.normal(size=N)
    place = np.digitize(x + rng.logistic(size=N), [-1.0, 1.0])
    grades = {"pain": np.array(WORDS)[place], "grade": np.array(["1 none", "2 mild", "10 bad"])[place]}
    dose = rng.choice(["low", "mid", "high"], N)
    return pd.DataFrame({"x": x.round(3), **grades, "rank": np.array([30, 10, 20])[place], "dose": dose})


@pytest.fixture
def table(tmp_path):
    found = frame()
    found.to_csv("mine.csv", index=False)
    return found


def slopes(found):
    """The slope and the cutpoints: those of 1, 2 and 3 are the truth."""
    return found.summary()["mean"].loc[["x", "cut_1", "cut_2"]].to_numpy()


@pytest.mark.thorough
def test_words_in_their_order_are_numbers_in_theirs(table):
    numbers = table.assign(pain=table.pain.map({word: k for k, word in enumerate(WORDS)}))
    truth = slopes(fit(numbers, "pain ~ x", model="ordinal"))
    for order in ({"pain": WORDS}, ORDER, [ORDER]):
        np.testing.assert_array_equal(slopes(fit(table, "pain ~ x", order=order)), truth)
    categories = table.assign(pain=pd.Categorical(table.pain, WORDS, ordered=True))
    np.testing.assert_array_equal(slopes(fit(categories, "pain ~ x", model="ordinal")), truth)
    turned = fit(categories, "pain ~ x", order={"pain": WORDS[::-1]})  # what is typed counts
    np.testing.assert_allclose(slopes(turned), -truth[[0, 2, 1]], atol=0.05)
    other = slopes(fit(table, "pain ~ x", order={"pain": ["mild", "none", "moderate"]}))
    assert np.abs(other - truth).max() > 0.3  # the control: the order counts


@pytest.mark.thorough(but="rank")
@pytest.mark.parametrize(
    ("target", "order"),
    [
        ("pain", ORDER),
        ("rank", "rank=30,10,20"),
        ("grade", "grade=1 none,2 mild,10 bad"),
        ("pain", ORDER + ",worst"),
    ],
)
def test_a_command_a_scan_and_predictions_have_the_order(target, order, table, capsys):
    pytest.importorskip("pyarrow")
    Path("many").mkdir()
    for k, rows in enumerate(np.array_split(np.arange(N), 3)):
        table.iloc[rows].to_parquet(f"many/{k}.parquet", row_group_size=60)
    truth = slopes(fit(table, "pain ~ x", order=ORDER))
    for given, name in (("mine.csv", "mine"), ("many", "many")):
        assert main(["fit", given, f"{target} ~ x", "--order", order]) == 0
        assert "ordinal regression" in capsys.readouterr().out
        found = load(f"results/runs/{name}")
        np.testing.assert_allclose(slopes(found), truth, atol=0.03)
        assert main(["predict", name, "mine.csv"]) == 0
        levels = re.findall(r"mean\[(.*?)\]", capsys.readouterr().out)
        assert levels == order.partition("=")[2].removesuffix(",worst").split(",")
        chances = found.predict(table.assign(x=[-3.0] * N).head(1)).filter(like="mean").to_numpy()[0]
        assert chances.argmax() == 0


def test_an_arm_has_the_order(table):
    words = ["dataset=table", "dataset.path=mine.csv", "dataset.target=pain", "model=ordinal", "sampler=hmc"]
    words += ["dataset.features=[x]", "dataset.order=['pain=none,mild,moderate']"]
    read = data.load(compose_job(words).arms[0].dataset)
    assert read.info["layout"]["target"]["levels"] == WORDS
    assert read.task == "ordered"


def test_a_feature_has_its_first_level_for_reference(table):
    words = ("mine.csv", "--target", "x", "--features", "dose", "--order", "dose=mid,low,high")
    assert loaded(*words).feature_names == ("dose[low]", "dose[high]", "intercept")
    again = loaded(*words, "--reference", "dose=low")
    assert again.feature_names == ("dose[mid]", "dose[high]", "intercept")
    names = loaded("mine.csv", "x ~ C(dose):rank", "--order", "dose=mid,low,high").feature_names
    assert names[0] == "C(dose)[mid]:rank"


def test_two_classes_have_the_order_too(table):
    two = table[table.pain != "mild"]
    assert (
        fit(two, "pain ~ x").summary().loc["x", "mean"]
        < 0
        < fit(two, "pain ~ x", order=ORDER).summary().loc["x", "mean"]
    )


@pytest.mark.thorough(but="pian")
@pytest.mark.parametrize(
    ("target", "order", "said"),
    [
        ("pain", None, "whose order the file.* not tell; write them lowest first"),
        ("grade", None, "lowest first"),
        ("pain", "pain=none,mlid,moderate", "holds 'mild', which --order does not name"),
        ("pain", "pain=none,mild", "holds 'moderate', which --order does not name"),
        ("pain", "pian=none,mild,moderate", "did you mean pain"),
        ("pain", "pain=none", "must be a column and its levels"),
        ("pain", "pain", "must be a column and its levels"),
    ],
)
def test_what_an_order_cannot_be_is_refused_with_what_can_be_typed(target, order, said, table, capsys):
    pytest.importorskip("pyarrow")
    Path("many").mkdir()
    table.to_parquet("many/0.parquet")
    for given in ("mine.csv", "many"):
        words = ["fit", given, f"{target} ~ x", "--model", "ordinal"]
        error = refused(capsys, *words, *(["--order", order] if order else []))
        assert re.search(said, error), error
        if "--order" in said or order is None:
            remedy = re.search(r"--order (\"[^\"]*\"|\S+?)(?=,? |$)", error.partition(" name; ")[2] or error)[
                1
            ]
            assert main([*words, "--order", *shlex.split(remedy), "--quiet"]) == 0
    if order is None and target == "grade":
        assert "1 none,2 mild,10 bad" in error


def test_what_disagrees_is_refused(table):
    with pytest.raises(ConfigError, match="is in numeric too"):
        fit(table, "rank ~ x", order="rank=30,10,20", numeric="rank")
    with pytest.raises(DataError, match="no such column is fitted"):
        fit(table, "pain ~ x", order=[ORDER, "dose=low,mid,high"])


@pytest.mark.parametrize(
    "words", [("--drop", "dose"), ("--features", "x"), ("formula",)], ids=["dropped", "not named", "formula"]
)
def test_an_order_of_a_column_that_is_not_fitted_is_refused_by_every_door(words, table, capsys):
    """A scan took it without a word, and a misspelt one of `--numeric` too."""
    pytest.importorskip("pyarrow")
    Path("many").mkdir()
    table.to_parquet("many/0.parquet")
    for given in ("mine.csv", "many"):
        asked = (
            ["fit", given, "rank ~ x"]
            if words == ("formula",)
            else ["fit", given, "--target", "rank", *words]
        )
        error = refused(capsys, *asked, "--model", "ordinal", "--order", "dose=low,mid,high")
        assert "--order: dose=low,mid,high: no such column is fitted; leave it out" in error
    error = refused(capsys, "fit", "many", "--target", "rank", "--numeric", "rnak")
    assert "--numeric rnak: no such column (did you mean rank?)" in error
