"""`make bench_certificate`: tables are as they are said to be, long chains settle, wrong answers are told."""

import numpy as np
import pandas as pd
import pytest

from flyrun.families.family import names
from flyrun.fitting import weighted_draws
from tools.certificate import __main__ as certificate
from tools.certificate import efficiency, fresh, long_chains
from tools.certificate.cases import FEWEST, KINDS, MOST, Case, cases


def test_there_are_three_hundred_tables_of_every_family():
    every = list(cases())
    assert len({one.name for one in every}) == len(every) >= 300
    assert {one.family for one in every} == set(names())
    made = [one.posterior() for one in every if one.number == 0 and one.kind in KINDS]
    assert all(FEWEST <= len(one.rows) <= MOST for one in made)
    assert all(np.isfinite(one.log_density(np.zeros((1, one.size)))).all() for one in made)


@pytest.mark.thorough
def test_a_table_is_answered_and_a_wrong_answer_is_told(monkeypatch):
    case = Case("poisson", "few", 1)
    row = certificate.row_of(case)
    assert certificate.usable(row)
    assert not certificate.wrong(row)
    known = long_chains.Settled(np.zeros(9), np.full(9, 0.1), 0.001, 300)
    size = case.posterior().size
    monkeypatch.setattr(
        long_chains, "sample", lambda posterior: known._replace(mean=np.zeros(size), sd=known.sd[:size])
    )
    other = certificate.row_of(case)
    assert certificate.wrong(other)
    page = certificate.page([row, other | {"number": 2}])
    assert "Of 2 that are\naccepted 1 are wrong (50 %; at 95 % the rate is below\n97 %)" in page
    assert f"Wrong: poisson few 2, sd ratio {other['sd_ratio']:.3f}" in page


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["logistic", "ordinal", "softmax"])
def test_what_draws_are_worth_is_measured(name, monkeypatch):
    monkeypatch.setattr(weighted_draws, "_DOUBTFUL", 100_000)
    monkeypatch.setattr(efficiency, "FEW_ROWS", (200, 2_000))
    row, larger = (efficiency.row_of(name, n) for n in (200, 2_000))
    assert 0.0 < row["worth"] <= 1.25
    assert row["kappa"] > larger["kappa"] > 0.0
    assert name in efficiency.page([row, larger])


def test_fresh_tables_count_as_wrong_where_nothing_is_said():
    row = {"seed": 1, "number": 0, "family": "beta", "few": False, "outcome": "right", "marked": False}
    row |= {"off": 0.02, "wide": 0.03}
    off = {"outcome": "wrong", "wide": 0.16}
    marked, wrong = row | off | {"marked": True}, row | off | {"number": 7}
    refused = row | {"outcome": "refused", "off": np.nan, "wide": np.nan}
    good = pd.DataFrame([row, marked, refused])
    assert not len(fresh.wrong(good))
    assert "| beta | 3 | 1 | 1 | 0.030 | 0.020 | 0 |" in fresh.page(good)
    faulty = fresh.page(pd.DataFrame([row, marked, refused, wrong]))  # the control
    assert "| beta | 4 | 1 | 1 | 0.160 | 0.020 | 1 |" in faulty
    assert "- Wrong: beta 7" in faulty


def test_a_number_is_one_table_whichever_families_are_asked_for(tmp_path, monkeypatch):
    asked = []
    row = {"family": "beta", "few": False, "outcome": "right", "marked": False, "off": 0.0, "wide": 0.0}
    monkeypatch.setattr(
        fresh, "row_of", lambda number, seed: asked.append(number) or row | {"seed": seed, "number": number}
    )
    families = [fresh.table(number, 1, names())[0] for number in range(6)]
    words = ["fresh", "--tables", "6", "--out", str(tmp_path / "fresh"), "--only", families[2]]
    monkeypatch.setattr("sys.argv", words)
    fresh.main()
    assert asked == [k for k, name in enumerate(families) if name == families[2]]
    monkeypatch.setattr("sys.argv", [*words, "--resume"])  # nothing again
    fresh.main()
    assert len(asked) == families.count(families[2])
