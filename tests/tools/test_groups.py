"""Fits with groups that are timed: a case ends in a row of figures, and the page tells them."""

import pandas as pd
import pytest

from tools.groups import chains
from tools.groups.__main__ import Case, _draws_of, measured, page
from tools.results.published import MEASURED, keep, read_kept


@pytest.mark.thorough
def test_a_case_is_fitted_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr("flyrun.fitting.second_process.report", lambda folder: None)
    monkeypatch.setattr("flyrun.ground.page.document.show", lambda *words: None)
    row = measured(Case("few", "gaussian", 300, 8, 1.0, slope=True), tmp_path)
    assert row["draws"] > row["effective"] > 1_000
    assert row["draws_s"] > 0
    assert row["effects_s"] > 0
    assert "| few | 300 | 8 |" in (said := page(pd.DataFrame([row, row | {"case": "other", "nodes": 25}])))
    assert said.count("closed form") == 1
    assert "| 25 |" in said


def test_draws_are_read_from_what_a_fit_says():
    assert _draws_of("5,000 weighted draws, 4,108 effective, k̂ -0.47; all") == (5_000, 4_108)
    assert _draws_of("4,000 independent draws in closed form") == (4_000, 4_000)
    with pytest.raises(ValueError, match="chains"):
        _draws_of("4 chains of 500 draws")


def test_slopes_are_drawn_where_they_are_asked_for():
    def slopes(case):
        frame = case.frame()
        return frame.groupby("g")[["x0", "y"]].apply(lambda own: own["x0"].cov(own["y"])).std()

    flat, steep = (Case("", "gaussian", 20_000, 20, 1.0, slope) for slope in (False, True))
    assert slopes(flat) < 0.1 < 0.3 < slopes(steep)


@pytest.mark.thorough
def test_chains_of_a_case_are_measured_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr(chains, "_EFFECTIVE", 50)
    case = chains.Case("small", "gaussian", 60, ((3, 0), (6, 1)))
    row = chains.measured(case, tmp_path, "")
    assert row["seconds"] > row["warm_s"] > 0
    assert row["worst"] >= 50
    assert row["effects"] == 3 + 12
    assert case.formula == "y ~ x0 + (1 | g0) + (1 + x0 | g1)"
    assert "| small | 60 | 15 |" in chains.page(pd.DataFrame([row]))


def test_a_commit_of_digits_alone_stays_a_word(tmp_path):
    """0075688107 was read as a number, which ended the page."""
    table = read_kept(MEASURED / "group_terms.csv").assign(commit="0075688107")
    keep(tmp_path / "t.csv", table, chains.page)
    assert "| 0075688107 |" in (tmp_path / "t.md").read_text("utf-8")
    assert read_kept(tmp_path / "t.csv")["commit"].tolist() == ["0075688107"] * len(table)
