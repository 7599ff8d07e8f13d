"""The table that `flyrun fit` is shown on is what its source says, value by value."""

import csv

import yaml
from sklearn.datasets import load_breast_cancer

from flyrun.ground.paths import datasets_dir


def test_the_table_of_tumours_is_scikit_learns():
    told = yaml.safe_load((datasets_dir() / "sources.yaml").read_text("utf-8"))["breast_cancer_table"]
    assert told["licence"]
    rows = list(csv.DictReader((datasets_dir() / told["file"]).open()))
    source = load_breast_cancer()
    assert [row.pop("diagnosis") for row in rows] == [source.target_names[k] for k in source.target]
    for name in rows[0]:
        column = source.data[:, list(source.feature_names).index(f"mean {name.replace('_', ' ')}")]
        assert [float(row[name]) for row in rows] == column.tolist(), name
