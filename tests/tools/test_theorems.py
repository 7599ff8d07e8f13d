"""The published theorems are those that enumeration gives, and a figure that was altered is seen."""

import csv
import math

import pytest

from tools.theorems.__main__ import TABLE, rows


@pytest.fixture(scope="module")
def found():
    return {row["claim"]: row for row in rows()}


def differing(table, found):
    """Claims whose figures or verdicts are others; rounding errors differ between machines."""
    names = [
        row["claim"]
        for row in table
        if not math.isclose(float(row["value"]), found[row["claim"]]["value"], rel_tol=2e-3, abs_tol=1e-11)
        or row["holds"] != str(found[row["claim"]]["holds"])
    ]
    return names + sorted({row["claim"] for row in table} ^ found.keys())


def test_what_is_published_is_what_enumeration_gives(found):
    table = list(csv.DictReader(TABLE.open()))
    assert differing(table, found) == []
    altered = [{**row, "value": 1.01 * float(row["value"])} for row in table if row["claim"] == "theorem_2"]
    rest = [row for row in table if row["claim"] != "theorem_2"]
    assert differing(rest + altered, found) == ["theorem_2"]


def test_which_of_them_hold(found):
    assert [name for name, row in found.items() if not row["holds"]] == [
        "theorem_1_bias", "firefly_bright", "level_of_t_test", "theorem_4"
    ]  # fmt: skip
    assert found["theorem_1_bias"]["value"] > 0.1  # a biased estimator is seen to tilt what is sampled
