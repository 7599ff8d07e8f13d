"""Two tiers of tests: what `thorough` moves into the second, what stays; the minutes by folder."""

import re
from types import SimpleNamespace

import pytest

from flyrun.ground.paths import conf_dir
from tests.conftest import pytest_collection_modifyitems
from tools.minutes import main

ROOT = conf_dir().parent
WHOLE = SimpleNamespace(args=["tests"])


def thorough(nodeid, **arguments):
    mark = pytest.mark.thorough(**arguments).mark
    markers = [mark]
    return SimpleNamespace(
        nodeid=nodeid,
        name=nodeid.rpartition("::")[2],
        own_markers=markers,
        get_closest_marker=lambda name: next((one for one in markers if one.name == name), None),
    )


@pytest.mark.parametrize(
    ("but", "kept"),
    [
        ({}, []),
        ({"but": 2}, ["a", "b"]),
        ({"but": "c"}, ["c"]),
        ({"but": ("b", 1)}, ["a", "b"]),
    ],
)
def test_cases_that_but_names_stay_in_the_first_tier(but, kept):
    items = [thorough(f"tests/test_x.py::test_y[{case}]", **but) for case in "abc"]
    pytest_collection_modifyitems(WHOLE, items)
    assert [item.name[-2] for item in items if not item.own_markers] == kept


@pytest.mark.parametrize(
    "name",
    [
        "tests/exactness/test_enumeration.py::test_pi",
        "tests/x/test_y.py::test_negative_control_without_weights",
        "tests/x/test_y.py::test_a_killed_run_resumes",
    ],
)
def test_what_proves_exactness_keeps_a_case_in_the_first_tier(name):
    items = [thorough(f"{name}[{case}]", but="b") for case in "abc"]
    pytest_collection_modifyitems(WHOLE, items)
    assert [item.name[-2] for item in items if not item.own_markers] == ["b"]
    for case, but in (("", {}), ("[a]", {"but": "b"}), ("[a]", {"but": 0})):
        with pytest.raises(pytest.UsageError, match=f"{name}: a test of this kind keeps a case"):
            pytest_collection_modifyitems(WHOLE, [thorough(name + case, **but)])
    # one case that is asked for by its name says nothing of the others
    pytest_collection_modifyitems(SimpleNamespace(args=[f"{name}[a]"]), [thorough(f"{name}[a]", but="b")])


def test_ci_runs_the_first_tier_and_then_the_rest_once():
    ci, make = ((ROOT / name).read_text("utf-8") for name in (".ci/run", "Makefile"))
    assert [line for line in ci.splitlines() if line.startswith("make test")] == [
        "make test",
        "make test-rest",
    ]
    chosen = dict(
        re.findall(r"^(test[a-z-]*):[^#\n]* ##[^\n]*\n\t\$\(call tests,([^)]*)\)", make, re.MULTILINE)
    )
    assert chosen == {
        "test": "not slow and not thorough",
        "test-rest": "thorough and not slow",
        "test-slow": "slow",
    }
    assert re.search(r"^test-all: test test-rest ##", make, re.MULTILINE)


def test_minutes_are_summed_by_folder(tmp_path, capsys):
    cases = [("tests.fit.test_scan", 60), ("tests.fit.test_loo", 30.0), ("tests.test_docs", 6.0)]
    lines = "".join(f'<testcase classname="{name}" name="test_x" time="{time}" />' for name, time in cases)
    path = tmp_path / "junit.xml"
    path.write_text(f"<testsuites><testsuite>{lines}</testsuite></testsuites>", "utf-8")
    main([str(path)])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["minutes", "tests", "folder"],
        ["1.50", "2", "tests/fit"],
        ["0.10", "1", "tests"],
        ["1.60", "3", "all"],
    ]
