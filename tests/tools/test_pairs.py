"""`flyrun fit` of real tables gives the means and sds of NumPyro's NUTS under the same priors."""

import csv

import pytest

from tools.pairs import __main__ as pairs
from tools.pairs.reference import stored
from tools.pairs.tables import PAIRS, pair

BUNDLED = ["diabetes gaussian", "diabetes gamma", "breast_cancer logistic"]


@pytest.fixture(scope="module")
def reference():
    return stored()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", BUNDLED)
def test_a_fit_of_a_real_table_is_that_of_another_package(name, reference, tmp_path):
    fit = pairs.fitted(pair(name), tmp_path)
    assert fit.agreed
    assert pairs.held(*pairs.apart(fit, reference[name]))
    # a reference that is a fifth of an sd, or a tenth of one, elsewhere
    other = reference[name]
    moved = {term: mean + 0.2 * other["sd"][term] for term, mean in other["mean"].items()}
    wider = {term: 1.1 * sd for term, sd in other["sd"].items()}
    assert not pairs.held(*pairs.apart(fit, other | {"mean": moved}))
    assert not pairs.held(*pairs.apart(fit, other | {"sd": wider}))
    with pytest.raises(ValueError, match="other terms"):
        pairs.apart(fit, other | {"mean": {"nothing": 0.0}})


def test_the_page_is_of_the_pairs_that_there_are(reference):
    rows = list(csv.DictReader((pairs.MEASURED / "fit_pairs.csv").open(encoding="utf-8")))
    names = [f"{row['table']} {row['family']}" for row in rows]
    assert names == [one.name for one in PAIRS]
    compared = {name for name, row in zip(names, rows, strict=True) if row["off"]}
    assert compared == reference.keys()
    told = pairs._chance({"effective": 1_125.0, "reference_ess": 7_826.0, "parameters": 28})
    assert "Of 28 sds at these ESS, one in 20 times the farthest is 7 % off by chance." in told
    page = (pairs.MEASURED / "fit_pairs.md").read_text("utf-8")
    for row in rows:
        if row["off"] and not pairs.held(float(row["off"]), float(row["sd_ratio"])):
            ess = {key: float(row[key]) for key in ("effective", "reference_ess")}
            assert pairs._chance(ess | {"parameters": int(row["parameters"])}) in page
    assert sum(pairs.held(float(row["off"]), float(row["sd_ratio"])) for row in rows if row["off"]) >= 12
