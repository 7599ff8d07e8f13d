"""Verdicts follow from records of what is published; a record that leaves out, or types one, is refused."""

import copy
import re

import pytest
import yaml

from tools.results import published
from tools.results.claims import estimates, judge
from tools.results.claims.records import HOME, Record, faults, records
from tools.results.published import Row

TABLES = sorted(path.stem for path in HOME.glob("*.yaml"))


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_a_verdict_a_claim(table):
    for record in records(table):
        assert re.match(r"holds$|\*\*does not\*\*$|in part: |not decided: ", record.verdict), record.id
        assert record.evidence
        assert record.links


@pytest.mark.parametrize("table", TABLES)
def test_no_verdict_hangs_on_what_cannot_carry_it(table):
    """Few seeds, what moves, a rival that was not searched: none decides, unless a record says why."""
    for record in records(table):
        for one in (check for check in record.checks if isinstance(check, judge.Comparison)):
            rivals = judge.select(one.experiment, one.against)
            for outcome in (outcome for outcome in one.outcomes() if outcome.holds is not None):
                names = outcome.name.split(" against ")
                against = names[1:] or [name for name in rivals if name != names[0]]
                for row in (published.arm(one.experiment, name) for name in {names[0], *against}):
                    assert row.seeds >= 3 or one.few_seeds, (record.id, row["arm"])
                    settled = not published.moves(row) or one.value in estimates.BOUNDED
                    assert settled or one.unsettled, (record.id, row["arm"])


def test_no_template_types_a_verdict():
    folder = HOME.parents[2] / "tools/results/tables"
    typed = re.compile(r"(?<!\.)\bholds\b|does not\*\*|\bin part\b")
    assert not [path.name for path in folder.glob("*.j2") if typed.search(path.read_text("utf-8"))]


#: two methods of one experiment; `rate` of the rival is searched in another
SETTINGS = {
    "runs": {
        "ours": {"sampler.name": "pmd", "sampler.width": 0.1},
        "ours_wide": {"sampler.name": "pmd", "sampler.width": 0.2},
        "rival": {"sampler.name": "npv", "sampler.rate": 0.03},
    },
    "search": {
        **{f"pmd_{width}": {"sampler.name": "pmd", "sampler.width": width} for width in (0.05, 0.1, 0.2)},
        **{f"npv_{rate}": {"sampler.name": "npv", "sampler.rate": rate} for rate in (0.01, 0.03, 0.1)},
    },
}
TABLE = {
    "runs": {"ours": 0.2, "ours_wide": 0.25, "rival": 0.5},
    "search": {
        "pmd_0.05": 0.3,
        "pmd_0.1": 0.2,
        "pmd_0.2": 0.25,
        "npv_0.01": 0.8,
        "npv_0.03": 0.5,
        "npv_0.1": 0.6,
    },
}
RECORD = {
    "id": "better",
    "claim": "PMD is nearer than NPV",
    "where": "§6",
    "checks": [
        {
            "experiment": "runs",
            "arms": {"sampler.name": "pmd"},
            "against": {"sampler.name": "npv"},
            "value": "tv",
            "rule": "ratio < 1",
            "search": {
                "ours*": {
                    "experiment": "search",
                    "tries": {"arm": "pmd*"},
                    "by": "tv",
                    "vary": ["sampler.width"],
                },
                "rival": {
                    "experiment": "search",
                    "tries": {"arm": "npv*"},
                    "by": "tv",
                    "vary": ["sampler.rate"],
                },
            },
        }
    ],
}


@pytest.fixture
def world(monkeypatch):
    """Published arms of this test's own, as it changes them."""
    settings, tables = copy.deepcopy(SETTINGS), {}
    for run, values in TABLE.items():
        tables[run] = {
            name: Row({"arm": name, "tv": tv, "tv_sd": 0.02, "seeds": 5.0, "rhat_max": 1.0}, name)
            for name, tv in values.items()
        }
        for name, own in settings[run].items():
            own["arm"] = name
    monkeypatch.setattr(judge, "settings", lambda run: settings[run])
    monkeypatch.setattr(published, "arm", lambda run, name: tables[run][name])
    settings["runs"]["ours_wide"]["sampler.width"] = 0.1  # the search's best, as of `ours`
    return settings, tables


def judged(told=RECORD):
    assert faults([told]) == []
    return Record(**{**told, "checks": [judge.check(one) for one in told["checks"]]}).verdict


def test_all_arms_of_both_sides_decide(world):
    assert judged() == "holds"
    world[1]["runs"]["ours_wide"]["tv"] = 0.9
    assert judged() == "in part: holds for `ours`; does not for `ours_wide`"
    world[1]["runs"]["ours"]["tv"] = 0.9
    assert judged() == "**does not**"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tv": 0.22}, "too near to tell"),
        ({"seeds": 2.0}, "`rival` has 2 seeds"),
        ({"rhat_max": 1.3}, "`rival` had not settled"),
        ({"settled": False}, "`rival` had not settled"),
        ({"regime": "still falling"}, "`rival` had not settled"),
    ],
)
def test_what_cannot_carry_a_verdict_leaves_it_undecided(world, change, why):
    if "tv" in change:
        del world[0]["runs"]["ours_wide"]
    world[1]["runs"]["rival"].update(change)
    assert judged() == f"not decided: {why}"


def test_a_rival_at_the_edge_of_its_search_decides_nothing(world):
    world[1]["search"]["npv_0.1"]["tv"] = 0.4
    assert judged() == "not decided: `rival`: its best sampler.rate is at the edge of what was tried"


def test_a_rival_that_is_not_at_its_best_decides_nothing(world):
    world[0]["runs"]["rival"]["sampler.rate"] = 0.02
    assert judged() == "not decided: `rival`: it has sampler.rate=0.02, its best in the search is 0.03"


def test_a_rival_with_fewer_tries_decides_nothing(world):
    world[0]["search"]["pmd_0.07"] = {"arm": "pmd_0.07", "sampler.name": "pmd", "sampler.width": 0.07}
    world[1]["search"]["pmd_0.07"] = world[1]["search"]["pmd_0.05"]
    assert judged() == "not decided: `rival` had 3 tries, `ours` 4, `rival` had 3 tries, `ours_wide` 4"


def test_a_rival_that_nobody_searched_decides_nothing(world):
    told = copy.deepcopy(RECORD)
    del told["checks"][0]["search"]["rival"]
    assert judged(told) == "not decided: the settings of `rival` were not searched"
    told["checks"][0]["fixed"] = {"rival": "it has no settings"}
    assert judged(told) == "holds"


def test_a_search_of_a_methods_own_is_judged_too(world):
    told = copy.deepcopy(RECORD)
    told["checks"][0]["search"] = {}
    rows = world[1]["runs"]
    for row in rows.values():
        row.update({"tries": 60.0, "best_at_edge": ""})
    assert judged(told) == "holds"
    rows["rival"]["best_at_edge"] = "a"
    assert judged(told) == "not decided: `rival`: its best a is at the edge of what was tried"
    rows["rival"].update({"best_at_edge": "", "tries": 9.0})
    del world[0]["runs"]["ours_wide"]
    assert judged(told) == "not decided: `rival` had 9 tries, `ours` 60"


def test_an_arm_that_is_left_out_is_named(world):
    told = copy.deepcopy(RECORD)
    told["checks"][0]["arms"] = {"arm": "ours"}
    assert faults([told]) == [
        "better: ours_wide of runs is of a method compared: cover it, or say under `apart` why not"
    ]
    told["apart"] = {"ours_wide": "its kernels are wider than the paper's"}
    assert faults([told]) == []


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("verdict", "holds", "no key verdict"),
        ("note", "It holds for both.", "note types a verdict"),
        ("condition", "which does not settle", "condition types a verdict"),
    ],
)
def test_a_verdict_that_is_typed_is_refused(world, key, value, fault):
    assert faults([{**RECORD, key: value}]) == [f"better: {fault}"]


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("arms", {"arm": "nobody"}, "arms: no arm of runs has"),
        ("rule", "ratio", "write one such as"),
        ("colour", 1, "unexpected keyword argument 'colour'"),
    ],
)
def test_a_check_that_says_nothing_is_refused(world, key, value, fault):
    told = copy.deepcopy(RECORD)
    told["checks"][0][key] = value
    [said] = faults([told])
    assert fault in said


def test_a_test_that_is_not_there_is_refused(world):
    told = {**RECORD, "checks": [{"test": "tests/tools/test_claims.py::test_nothing_of_the_kind"}]}
    assert faults([told]) == ["better: no test tests/tools/test_claims.py::test_nothing_of_the_kind"]
    told["checks"] = [{"test": "tests/tools/test_claims.py::test_a_test_that_is_not_there_is_refused"}]
    assert judged(told) == "holds"
    told["checks"] = [{"counterexample": told["checks"][0]["test"]}]
    assert judged(told) == "**does not**"


def test_errors_are_those_of_the_formula(world):
    row = Row({"a": 4.0, "a_sd": 0.2, "b": 2.0, "b_se": 0.01, "seeds": 4.0}, "x")
    estimate = estimates.estimated(row, "a / b")
    assert estimate.value == 2.0
    assert estimate.error == pytest.approx(2.0 * (0.025**2 + 0.005**2) ** 0.5, rel=0.01)
    below = estimates.estimated(
        Row({"ks": -0.5, "ks_error": 0.1, "ks_sd": 9.0, "seeds": 4.0}, "x"), "abs(ks)"
    )
    assert (below.value, below.error) == (0.5, pytest.approx(0.1))


def test_an_error_has_the_references_own(world):
    """Two that differ by less than it are not told apart, however little their seeds differ."""
    row = Row({"off": 0.0009, "off_sd": 0.0, "truth_error": 0.0009, "seeds": 5.0}, "x")
    assert estimates.estimated(row, "off").error == pytest.approx(0.0009)
    assert estimates.estimated(Row({**row, "truth_error": ""}, "x"), "off").error == 0.0


def test_a_strict_limit_is_outside_and_abs_is_no_column(world):
    told = copy.deepcopy(RECORD)
    told["checks"][0]["against"] = {"arm": "ours_wide"}
    told["checks"][0]["arms"] = {"arm": "ours"}
    for name in ("ours", "ours_wide"):
        world[1]["runs"][name].update({"tv": -0.25, "tv_sd": 0.0})
    told["checks"][0]["value"] = "abs(tv)"
    told["apart"] = {"rival": "of another method"}
    for rule, verdict in {
        "ratio < 1": "**does not**",
        "ratio <= 1": "holds",
        "ratio > 1": "**does not**",
    }.items():
        told["checks"][0]["rule"] = rule
        assert judged(told) == verdict


def test_a_table_of_the_docs_is_of_a_record(tmp_path):
    """The documents name the tables that are there, and no others."""
    docs = "".join(path.read_text("utf-8") for path in (HOME.parents[2] / "docs").glob("*.md"))
    assert set(re.findall(r"<!-- results: claims_(\w+) -->", docs)) >= set(TABLES)
    assert all(
        isinstance(yaml.safe_load((HOME / f"{name}.yaml").read_text("utf-8")), list) for name in TABLES
    )
