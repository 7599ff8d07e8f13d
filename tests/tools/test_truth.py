"""Families give the means and sds of a second implementation; what is a fifth of an sd elsewhere is seen."""

import csv

import pytest

from flyrun.families.family import names
from tools.pairs.__main__ import MEASURED, apart, held
from tools.truth import __main__ as truth
from tools.truth.reference import stored
from tools.truth.tables import TABLES, table

#: those that tools.pairs holds on real tables
ON_REAL_TABLES = {"gamma", "gaussian", "logistic", "negative_binomial", "ordinal", "poisson", "probit"}
ON_REAL_TABLES |= {"binomial", "softmax", "student_t"}
QUICK = ["weibull small", "hurdle_poisson hard: many zeros", "exponential hard: one event"]


def test_every_family_has_tables_that_are_small_hard_and_long():
    kinds = {(one.family, one.kind.partition(":")[0]) for one in TABLES}
    families = set(names()) - ON_REAL_TABLES
    assert kinds == {(name, kind) for name in families for kind in ("small", "hard", "long")}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", QUICK)
def test_a_fit_is_that_of_the_second_implementation(name):
    fit, reference = truth.fitted(table(name)), stored()[name]
    assert fit.agreed
    assert held(*apart(fit, reference))
    moved = {term: mean + 0.2 * reference["sd"][term] for term, mean in reference["mean"].items()}
    wider = {term: 1.1 * sd for term, sd in reference["sd"].items()}
    assert not held(*apart(fit, reference | {"mean": moved}))
    assert not held(*apart(fit, reference | {"sd": wider}))


def test_the_page_is_of_tables_that_have_a_reference_and_names_those_that_are_off():
    rows = list(csv.DictReader((MEASURED / "families.csv").open(encoding="utf-8")))
    page = (MEASURED / "families.md").read_text("utf-8")
    for row in rows:
        assert f"{row['family']} {row['table']}" in stored()
        off = not held(float(row["off"]), float(row["sd_ratio"]))
        assert (f"- Off: {row['table']} {row['family']}," in page) == off
