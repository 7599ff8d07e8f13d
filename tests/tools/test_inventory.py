"""papers.yaml: every numbered thing of the four works has a row, and what rows name is there."""

import copy
import re

import pytest
import yaml

from tools.results import inventory

TOLD = yaml.safe_load(inventory.TABLE.read_text("utf-8"))
#: what the works number, but for definitions and equations; the survey has Johnson's (2014) numbers too
NUMBERED = {
    "flymc": {"Algorithm": "1 2", "Table": "1", "Figure": "1 2 3 4a 4b 4c"},
    "gibbs": {
        "Algorithm": "1 2 3 4 5",
        "Table": "1",
        "Figure": "1 2a 2b 2c",
        "Theorem": "1 2 3 4 5 6",
        "Lemma": "1 2",
    },
    "pmd": {
        "Algorithm": "1",
        "Table": "1",
        "Figure": "1 2 3 4 5",
        "Theorem": "2 3 4 5 6 16",
        "Lemma": "1 7 8 9 12 13 14 18 19 20",
        "Corollary": "15 17",
    },
    "survey": {
        "Algorithm": " ".join(map(str, range(1, 23))),
        "Table": "3.1 4.1",
        "Figure": "2.1 2.2 3.1 4.1 4.2 4.3 5.1 6.1 6.2",
        "Theorem": "2.1 3.1 7.6.6",
        "Proposition": "2.1 2.2 2.3 2.4 7.6.1 7.6.8 7.7.2 7.7.3 7.7.4",
    },
}
_KIND = re.compile(r"(Algorithm|Table|Figure|Theorem|Lemma|Proposition|Corollary)s? ")


def numbered(told, work):
    """Kind -> the numbers that rows of a work have."""
    found = {}
    for section in told:
        for row in section["rows"] if section["work"] == work else []:
            if kind := _KIND.match(row["what"]):
                found.setdefault(kind[1], set()).update(re.findall(r"(?<!\()\b[\d.]+[abc]?\b", row["what"]))
    return found


@pytest.mark.parametrize("work", NUMBERED)
def test_everything_numbered_has_a_row_and_no_row_another_number(work):
    assert numbered(TOLD, work) == {kind: set(text.split()) for kind, text in NUMBERED[work].items()}


def test_a_left_out_algorithm_is_seen():
    less = copy.deepcopy(TOLD)
    for section in less:
        section["rows"] = [row for row in section["rows"] if row["what"] != "Algorithm 22"]
    assert numbered(TOLD, "survey")["Algorithm"] - numbered(less, "survey")["Algorithm"] == {"22"}


def test_what_rows_name_is_there():
    assert inventory.faults(TOLD) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"file": "flyrun/experiments/samplers/nowhere.py"},
            "no file flyrun/experiments/samplers/nowhere.py",
        ),
        ({"file": ""}, "either a file or a reason"),
        ({"missing": "not built: too long"}, "either a file or a reason"),
        ({"file": "", "missing": "dull: too long"}, "missing: dull: no reason"),
        ({"option": "sampler=nothing"}, "no option sampler=nothing"),
        ({"experiment": "nothing"}, "no experiment nothing"),
        ({"result": "nothing"}, "nothing is not published"),
        ({"figure": "toy_flymc/nothing"}, "no figure toy_flymc/nothing"),
        ({"result": "an_old_one"}, "an_old_one is older"),
        ({"fil": "x"}, "no key fil"),
        ({"title": TOLD[0]["rows"][1]["title"], "what": TOLD[0]["rows"][1]["what"]}, "2 rows"),
    ],
)
def test_what_is_not_so_is_seen(change, told, monkeypatch):
    """The negative controls: a row that is right, but for one thing."""
    monkeypatch.setattr(inventory, "older", lambda: {"an_old_one"})
    wrong = copy.deepcopy(TOLD)
    wrong[0]["rows"][0] |= change
    found = inventory.faults(wrong)
    assert any(told in text for text in found), found


def test_counts_add_up():
    for one in inventory.sections():
        rows, here, reports, *why = one.counts.values()
        assert rows == here + sum(why) >= reports
