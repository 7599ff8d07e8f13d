"""table.json of every kind of fit is as docs/reference/table.schema.json says, and of its version."""

import copy
import json

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.fitting import page
from flyrun.ground.page import document
from flyrun.ground.paths import conf_dir

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads((conf_dir().parent / "docs/reference/table.schema.json").read_text("utf-8"))
FITS = {
    "exact sums": ["height ~ age + land"],
    "weighted draws, with ratios": ["ill ~ age + land", "--exp"],
    "a prior that is not normal": ["ill ~ age", "--prior", "age: laplace(0, 1)"],
    "classes": ["land ~ age"],
    "ordered classes": ["grade ~ age", "--model", "ordinal", "--order", "grade=low,middle,high"],
    "groups": ["height ~ age + (1 | land)"],
    "groups without normal noise": ["visits ~ age + (1 | land)", "--model", "poisson"],
    "a smooth curve, by chains": ["height ~ s(age)"],
    "a formula for the noise": ["height ~ age", "sigma ~ age"],
    "zeros": ["visits ~ age", "--model", "zero_inflated_poisson"],
    "censored times": ["time ~ age", "--model", "weibull"],
    "a column that tells the classes apart": ["ill ~ age + apart"],
}
CASES = [
    pytest.param(kind, marks=[] if kind.startswith("weighted") else pytest.mark.thorough) for kind in FITS
]


def table(rng, n=150):
    """Columns of every kind."""
    age = rng.normal(40.0, 10.0, n)
    ill = rng.random(n) < 1.0 / (1.0 + np.exp(-0.1 * (age - 40.0)))
    return pd.DataFrame(
        {
            "age": age,
            "land": rng.choice(["a", "b", "c"], n),
            "height": 150.0 + 0.2 * age + rng.normal(0.0, 5.0, n),
            "ill": ill.astype(int),
            "grade": np.array(["low", "middle", "high"])[
                np.digitize(age + rng.normal(0, 5, n), [35.0, 45.0])
            ],
            "visits": rng.poisson(np.exp(0.02 * age)) * (rng.random(n) < 0.7),
            "time": rng.weibull(2.0, n) * age,
            "apart": ill + 0.0,
        }
    )


def written(folder):
    """Its table.json, which holds to the schema."""
    made = json.loads((folder / "table.json").read_text("utf-8"))
    jsonschema.validate(made, SCHEMA, jsonschema.Draft202012Validator)
    return made


@pytest.mark.parametrize("kind", CASES)
def test_the_table_of_a_fit_is_as_the_schema_says(tmp_path, monkeypatch, no_figures, kind):
    monkeypatch.chdir(tmp_path)
    table(np.random.default_rng(0)).to_csv("people.csv", index=False)
    assert main(["fit", "people.csv", *FITS[kind], "--name", "fit", "--quiet"]) in (0, 3)
    made = written(tmp_path / "results/runs/fit")
    assert (made["rows"][0]["rhat"] is not None) == ("chains" in kind)
    assert bool(made["meta"]["warnings"]) == ("classes apart" in kind)


@pytest.mark.thorough
def test_the_table_of_a_scan_is_as_the_schema_says(tmp_path, monkeypatch, no_figures):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people").mkdir()
    for k in range(2):
        table(np.random.default_rng(k)).to_parquet(tmp_path / f"people/{k}.parquet", index=False)
    assert main(["fit", "people", "ill ~ age + land", "--name", "fit", "--quiet"]) == 0
    written(tmp_path / "results/runs/fit")


def test_a_table_that_is_not_so_is_refused_as_a_negative_control():
    row = {"class": "", "coefficient": "age", "mean": 0.1, "sd": 0.1, "q03": 0.0, "q97": "inf"}
    meta = {"name": "fit", "command": "flyrun", "started": "now", "environment": {}, "warnings": []}
    whole = {"version": 1, "rows": [row], "meta": meta}
    jsonschema.validate(whole, SCHEMA)
    for change in (
        lambda made: made.pop("version"),
        lambda made: made.update(version=2),
        lambda made: made["rows"][0].update(mean=None),
        lambda made: made["rows"][0].update(mean="0.1"),
        lambda made: made["rows"][0].update(new_column=1),
        lambda made: made["meta"].pop("warnings"),
    ):
        wrong = copy.deepcopy(whole)
        change(wrong)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_the_schema_knows_the_columns_and_the_version_that_are_written():
    row = SCHEMA["$defs"]["row"]
    assert {*row["properties"]} == {metric.name for metric in page.METRICS}
    (ratios,) = row["patternProperties"]
    assert all(f"{metric.name}" in ratios for metric in page._RATIOS)
    assert SCHEMA["properties"]["version"]["const"] == document.VERSION
