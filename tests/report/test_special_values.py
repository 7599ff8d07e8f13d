"""Infinite, nought, tiny or the largest float: each reaches every formatter as what it is, in few letters."""

import importlib
import math
import pkgutil
import re
import sys

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.report import sections
from flyrun.experiments.runner import progress
from flyrun.ground.page import render, words
from flyrun.ground.page.metrics import Metric

LARGEST = sys.float_info.max
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, LARGEST, -LARGEST, 5e-324, 1e15, 999.9996]
COLUMNS = {
    "decimals": render.decimals("a", 2),
    "bounded": render.bounded("a"),
    "measured": render.measured("a"),
    "plain": render.plain("a"),
    "paper": render.plain("paper_a"),
}


@pytest.mark.thorough(but=25)
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


class _Row(dict):
    """A row that holds one number in every column."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def __missing__(self, key):
        return self.value

    def get(self, key, default=None):
        return self[key]


def _metrics():
    for found in pkgutil.iter_modules(sections.__path__):
        module = importlib.import_module(f"{sections.__name__}.{found.name}")
        for listed in vars(module).values():
            if isinstance(listed, Metric):
                yield found.name, listed
            elif isinstance(listed, list | tuple):
                yield from ((found.name, one) for one in listed if isinstance(one, Metric))


METRICS = sorted({f"{of}.{one.name or one.head}": one for of, one in _metrics() if one.head}.items())


@pytest.mark.thorough(but=57)
@pytest.mark.parametrize(("name", "metric"), METRICS, ids=[name for name, _ in METRICS])
def test_every_column_of_a_report_has_a_widest_form(name, metric):
    for value in [*SPECIAL, 1e20, 1e8]:
        try:
            text = metric.show(_Row(value))
        except (TypeError, ValueError, AttributeError, IndexError):  # of text, or a count of something
            continue
        assert not re.search(r"[\d,]{30}", text), text


def test_numbers_in_sentences_have_a_widest_form():
    assert render.spec(1.23456, ".3f") == "1.235"
    assert render.spec(12_345, ",") == "12,345"
    for value in (LARGEST, -LARGEST, np.float64(1e20), math.inf, math.nan, 10**300):
        for form in (".2f", ",.0f", ".3g"):
            assert len(render.spec(value, form)) < 30
    assert words.lines("R-hat is {{ x | spec('.2f') }}.", x=math.inf) == ["R-hat is inf."]


@pytest.mark.thorough
def test_a_run_whose_chains_never_move_has_a_report(tmp_path):
    options = ["dataset=toy_2d", "model=logistic", "bound=none", "brightness=none", "sampler=random_walk"]
    options += ["sampler.step=1e12", "protocol.init=prior", "protocol.iterations=60", "protocol.burn_in=10"]
    options += ["protocol.seeds=2", f"results_dir={tmp_path}", "name=stuck", "--quiet"]
    assert main(options) == 0
    for page in ("report.md", "report.html", "table.csv"):
        text = (tmp_path / "runs" / "stuck" / page).read_text("utf-8")
        assert not re.search(r"\d{40}", text)
    assert "R-hat is inf for" in (tmp_path / "runs" / "stuck" / "report.md").read_text("utf-8")
