"""`make bench_answers`: the rows are of their model, a script's answer is judged, what is missing is told."""

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tools.answers import __main__ as answers
from tools.answers import tables

SCRIPTS = Path(answers.__file__).parent


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", ["logistic", "poisson", "gaussian"])
def test_a_script_answers_with_what_the_rows_were_drawn_from(model, tmp_path, monkeypatch):
    file, out = tmp_path / "rows.csv", tmp_path / "answer.json"
    tables.write(file, model, 4_000)
    monkeypatch.setattr(sys, "argv", ["scikit_learn.py", str(file), str(out), model])
    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.delitem(sys.modules, "asked", raising=False)
    runpy.run_path(str(SCRIPTS / "scikit_learn.py"))
    found = json.loads(out.read_text())
    truth = tables.TRUTHS[model]
    beta = [truth.intercept, *np.random.default_rng(4_000).normal(0.0, truth.spread, tables.COLUMNS)]
    held = {"mean": beta, "sd": np.full(len(beta), 0.05)}
    assert answers._apart(found, held)["off"] < 3.5
    assert answers._apart({"mean": beta[::-1]}, held)["off"] > 5.0


def test_counts_are_few_and_the_negative_binomial_spreads_more(tmp_path):
    spread = {}
    for model in ("poisson", "negative_binomial"):
        tables.write(tmp_path / "rows.csv", model, 4_000)
        y = pd.read_csv(tmp_path / "rows.csv")["y"]
        assert y.dtype == int
        assert 1.0 < y.mean() < 3.0
        spread[model] = y.var() / y.mean()
    assert spread["negative_binomial"] > 1.5 * spread["poisson"]


def test_a_process_that_fails_or_lasts_is_a_row_that_says_so(tmp_path):
    def timed(words, limit=20.0):
        return answers._timed([sys.executable, "-c", words], tmp_path / "rows.csv", limit)

    seconds, why = timed("pass")
    assert 0.0 < seconds < 20.0
    assert not why
    seconds, why = timed("import sys; print('long ' * 99_999, file=sys.stderr); raise KeyError('this')")
    assert why == "failed (1): KeyError: 'this'"
    assert np.isnan(seconds)
    assert timed("import time; time.sleep(30)", 0.1) == (0.1, answers.PAST)


def test_a_page_names_what_times_are_divided_by_and_what_failed(tmp_path, monkeypatch):
    said = {"scikit_learn": 2.0, "statsmodels": 4.0, "glum": 3.0, "bambi": 60.0}

    def answer(tool, model, file, limit):
        if tool == "bambi, nutpie":
            return answers.Answer(np.nan, None, "failed (1): no nutpie")
        why = answers.PAST if tool == "bambi" else ""
        found = None if why else {"mean": [0.0, 1.0], "sd": [1.0, 2.0 if tool == "glum" else 1.0]}
        return answers.Answer(said.get(tool, 6.0), found, why)

    monkeypatch.setattr(answers, "_answer", answer)
    asked = {"rows": [200], "repeats": 2, "limit": 60.0, "only": None, "out": tmp_path / "page"}
    for models in (["logistic"], ["negative_binomial"]):
        now = SimpleNamespace(**asked, models=models, keep=models != ["logistic"])
        monkeypatch.setattr(answers, "_arguments", lambda now=now: now)
        answers.main()
    page = (tmp_path / "page.md").read_text()
    logistic, other = page.split("## Negative")
    assert "× scikit\\_learn" in logistic
    assert "| flyrun fit | 6.00 | 3.00 |" in logistic
    assert "| bambi | \\> 60.0 | \\> 30.0 |" in logistic
    assert "- bambi, nutpie: failed (1): no nutpie" in logistic
    assert "× glum" in other
    assert "| glum | 3.00 | 1.00 | - | 0 | 2.00 |" in other
    assert "| flyrun fit | 6.00 | 2.00 |" in other
    assert "- bambi: not asked, past the limit at as many rows above" in other
    assert "scikit_learn" not in set(pd.read_csv(tmp_path / "page.csv").query("model != 'logistic'")["tool"])


def test_times_are_mostly_censored_and_each_package_is_asked_for_what_it_has(tmp_path):
    file = tmp_path / "rows.csv"
    tables.write(file, "weibull", 4_000)
    rows = pd.read_csv(file)
    assert 0.25 < rows["event"].mean() < 0.35
    assert (rows["y"] > 0.0).all()
    tables.write(file, "tweedie", 4_000)
    assert 0.05 < (pd.read_csv(file)["y"] == 0.0).mean() < 0.5
    asked = {
        model: [name for name, one in answers.TOOLS.items() if model in one.models] for model in tables.TRUTHS
    }
    assert asked["weibull"] == ["lifelines"]
    assert asked["tweedie"] == ["statsmodels", "glum"]
    assert "glum" not in asked["zero_inflated_poisson"]


def test_a_power_is_given_to_all_or_sampled(tmp_path, monkeypatch):
    said = {}
    monkeypatch.setattr(
        answers, "_timed", lambda words, file, limit: said.update({len(said): words}) or (1.0, "no")
    )
    asked = SimpleNamespace(only=["glum"], repeats=1, limit=60.0)
    for model, given in (("tweedie", True), ("poisson", False)):
        (tmp_path / "rows.csv").write_text("y")
        rows = answers._rows(tmp_path / "rows.csv", model, 200, asked, [])
        assert (answers.GIVEN in [row["tool"] for row in rows]) == given
    typed = [words for words in said.values() if "--prior" in words]
    assert [words[-1] for words in typed] == [f"power: constant({tables.POWER})"]
