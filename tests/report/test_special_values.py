"""Infinite, nought, tiny or the largest float: each reaches every formatter as what it is, in few letters."""

import math
import sys

import pytest

from flyrun.report import render
from flyrun.runner import progress

LARGEST = sys.float_info.max
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, LARGEST, -LARGEST, 5e-324, 1e15, 999.9996]
COLUMNS = {
    "decimals": render.decimals("a", 2),
    "bounded": render.bounded("a"),
    "measured": render.measured("a"),
    "plain": render.plain("a"),
    "paper": render.plain("paper_a"),
}


@pytest.mark.parametrize("sd", SPECIAL)
@pytest.mark.parametrize("value", SPECIAL)
def test_every_formatter_takes_every_number(value, sd):
    row = {"a": value, "a_sd": abs(sd), "paper_a": sd, "ratio_bound": "≥"}
    texts = [text(row) for text in COLUMNS.values()]
    texts += [render.number(value), render.plus_minus(value, abs(sd)), progress.duration(value)]
    texts.append(progress._figure(value))
    if delta := render.delta_from_paper("a")(row):
        texts.append(delta[0])
        assert "nan" not in delta[0]
    for text in texts:
        assert len(text) < 60, text


@pytest.mark.parametrize(
    ("value", "sd", "text"),
    [
        (math.inf, 1.0, "inf"),
        (1.0, math.inf, "1.00 ± inf"),
        (0.0, 0.0, "0 ± 0"),
        (math.nan, 1.0, "-"),
        (LARGEST, 1.0, "1.80e+308 ± 1.00"),
        (1.0, 5e-324, "1.00 ± 4.9e-324"),
        (178.31, 2.13, "178.3 ± 2.1"),
    ],
)
def test_what_they_read(value, sd, text):
    assert render.plus_minus(value, sd) == text
