"""`flyrun compare`: differences and verdicts of two runs or tables, and what it refuses."""

from __future__ import annotations

import csv
import json
import math
import shutil

import numpy as np
import pytest
from scipy import stats

from flyrun.cli.main import main
from flyrun.experiments.compare.compare import Difference, judged
from flyrun.experiments.report.build import build
from flyrun.ground.diagnostics.difference import equivalence, welch
from tests.stored import write_cell, write_run, write_three_arms


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Runs one (three arms), again (the same), slow (map_tuned asks twice the queries), other (data)."""
    folder = tmp_path_factory.mktemp("results")
    runs = folder / "runs"
    write_three_arms(runs / "one")
    shutil.copytree(runs / "one", runs / "again")
    write_three_arms(runs / "slow")
    write_run(runs / "other", {"regular": [0, 1]})
    write_run(runs / "elsewhere", {"gibbs": [0]})
    for seed in range(3):
        write_cell(runs / "slow", "map_tuned", seed, queries=414, stickiness=0.95, sampling_s=0.2)
    for seed in range(2):
        write_cell(runs / "other", "regular", seed, facts={"n_data": 99})
    write_cell(runs / "elsewhere", "gibbs", 0)
    return folder


def compared(results, out, *words):
    assert main(["compare", *words, f"results_dir={results}", f"out={out}"]) == 0
    return {(row["arm"], row["metric"]): row for row in csv.DictReader(out.open())}


def test_a_run_is_identical_to_itself(results, tmp_path, capsys):
    rows = compared(results, tmp_path / "c.csv", "one", "again")
    assert {row["verdict"] for row in rows.values()} == {"identical"}
    assert {float(row["difference"]) for row in rows.values()} == {0.0}
    printed = capsys.readouterr().out
    assert "B against A" in printed
    assert "level 0.05" in printed


def test_a_worse_arm_is_found_and_the_others_stay_the_same(results, tmp_path):
    rows = compared(results, tmp_path / "c.csv", "one", "slow")
    assert rows["map_tuned", "queries_per_iter"]["verdict"] == "worse"
    assert float(rows["map_tuned", "queries_per_iter"]["difference"]) == pytest.approx(207, abs=1)
    assert rows["map_tuned", "ess_per_1000"]["verdict"] == "identical"
    assert {rows[arm, "queries_per_iter"]["verdict"] for arm in ("regular", "untuned")} == {"identical"}
    back = compared(results, tmp_path / "d.csv", "slow", "one")
    assert back["map_tuned", "queries_per_iter"]["verdict"] == "better"
    # a baseline's ratio to itself says nothing
    assert ("regular", "speedup") not in rows


def test_tables_that_were_published_compare_like_the_runs(results, tmp_path, capsys):
    build(results / "runs" / "one")
    by_run = compared(results, tmp_path / "c.csv", "one", "slow")
    for name in ("table.csv", "table.json"):
        file = tmp_path / name
        shutil.copy(results / "runs" / "one" / name, file)
        by_table = compared(results, tmp_path / "d.csv", str(file), "slow")
        assert {key: row["verdict"] for key, row in by_table.items()} == {
            key: row["verdict"] for key, row in by_run.items()
        }
    folder = results / "measured" / "published"
    folder.mkdir(parents=True)
    shutil.copy(results / "runs" / "one" / "table.csv", folder)
    assert compared(results, tmp_path / "e.csv", "published", "slow").keys() == by_run.keys()
    assert main(["compare", "published", "slow", f"results_dir={results}", f"out={tmp_path / 'c.md'}"]) == 0
    assert "| map\\_tuned | queries/iter |" in (tmp_path / "c.md").read_text()
    assert "A: " in capsys.readouterr().out


def test_welch_is_scipys():
    rng = np.random.default_rng(3)
    one, two = rng.normal(size=5), rng.normal(0.3, 2.0, size=7)
    summary = [(float(x.mean()), float(x.std(ddof=1))) for x in (one, two)]
    se, p = welch(*summary, [5, 7])
    assert p == pytest.approx(stats.ttest_ind(one, two, equal_var=False).pvalue)
    assert se == pytest.approx(math.hypot(one.std(ddof=1) / 5**0.5, two.std(ddof=1) / 7**0.5))
    assert welch((3.0, 0.0), (3.0, 0.0), [2, 2]) == (0.0, 1.0)
    assert welch((3.0, 0.0), (4.0, 0.0), [2, 2]) == (0.0, 0.0)
    assert math.isnan(welch((3.0, math.nan), (4.0, 1.0), [1, 5])[1])


def test_equivalence_is_two_of_scipys_one_sided_tests():
    rng = np.random.default_rng(5)
    one, two = rng.normal(10, 1, size=5), rng.normal(10.3, 2.0, size=7)
    summary = [(float(x.mean()), float(x.std(ddof=1))) for x in (one, two)]
    below = stats.ttest_ind(two, one + 3, equal_var=False, alternative="less").pvalue
    above = stats.ttest_ind(two, one - 3, equal_var=False, alternative="greater").pvalue
    assert equivalence(*summary, [5, 7], 3.0) == pytest.approx(max(below, above))
    assert equivalence((3.0, 1.0), (3.0, 1.0), [2, 2], 0.0) == 0.0
    assert equivalence((3.0, math.nan), (3.0, math.nan), [1, 1], 0.1) == 0.0
    assert equivalence((3.0, 0.0), (4.0, 0.0), [2, 2], 0.1) == 1.0
    assert math.isnan(equivalence((3.0, math.nan), (4.0, 1.0), [1, 5], 2.0))


@pytest.mark.thorough
def test_equal_runs_seldom_get_a_verdict():
    # 400 pairs of equal runs with 12 comparisons each: at level 0.05 at most 5 % of them, 20 ± 4.4
    rng = np.random.default_rng(0)
    found = [simulated(rng, 1.0, 1.0, 1.0) for _ in range(400)]
    assert 2 <= sum(bool({"better", "worse"} & set(verdicts)) for verdicts in found) <= 33
    # of a spread as large as the mean nothing is shown
    assert not any("same" in verdicts for verdicts in found)


def simulated(rng, mean_a, mean_b, sd, metrics=12, seeds=5):
    """Verdicts on so many metrics of two runs, normal over seeds."""
    found = []
    for k in range(metrics):
        draws = rng.normal([[mean_a], [mean_b]], sd, size=(2, seeds))
        a, b = ((float(x.mean()), float(x.std(ddof=1))) for x in draws)
        n = [seeds, seeds]
        found.append(
            Difference("e", f"a{k}", "error", a, b, *welch(a, b, n), equivalence(a, b, n, 0.05 * a[0]))
        )
    return [one.verdict for one in judged(found, 0.05)]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_runs_a_fifth_apart_are_never_the_same(seeds):
    rng = np.random.default_rng(1)
    verdicts = [one for _ in range(200) for one in simulated(rng, 100.0, 120.0, 10.0, seeds=seeds)]
    assert "same" not in verdicts
    # negative control: the rule that called same whatever was not significant did so most of the time
    assert verdicts.count("undecided") > 0.3 * len(verdicts)


@pytest.mark.thorough
def test_runs_just_beyond_the_margin_are_seldom_the_same():
    # at the margin's edge each `same` is wrong with probability at most 0.05: of 2,400 at most 120 ± 11
    rng = np.random.default_rng(2)
    verdicts = [one for _ in range(200) for one in simulated(rng, 100.0, 105.0, 2.0)]
    assert 40 < verdicts.count("same") < 155


def test_equal_runs_of_small_spread_are_the_same():
    rng = np.random.default_rng(4)
    verdicts = [one for _ in range(200) for one in simulated(rng, 100.0, 100.0, 1.0)]
    assert verdicts.count("same") > 0.95 * len(verdicts)


ERRORS = "experiment,arm,n_data,seeds,error,error_sd\n"


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ("5,221,16", "5,97,9", "better"),
        ("2,221,16", "2,97,9", "undecided"),
        ("2,221,16", "2,215,9", "undecided"),
        ("1,221,", "1,97,", "undecided"),
        ("1,221,16", "1,97,9", "undecided"),  # a spread that one seed cannot have
        (",221,16", ",97,9", "undecided"),
        ("5,221,2", "5,222,2", "same"),
        ("5,221,0.1", "5,222,0.1", "worse"),  # little, but surely
        ("2,221,0", "2,221,0", "identical"),
        ("2,221,0", "2,222,0", "worse"),
        ("5,0,0", "5,0,0", "identical"),
        ("5,0,0", "5,0.1,1", "undecided"),
    ],
)
def test_verdicts_on_one_metric(tmp_path, capsys, a, b, verdict):
    for name, row in (("a", a), ("b", b)):
        # with twelve arms that are equal, as Holm's step-down knows them
        others = "".join(f"e,other{k},9,5,10,0\n" for k in range(12))
        (tmp_path / f"{name}.csv").write_text(f"{ERRORS}e,arm,9,{row}\n{others}")
    files = [str(tmp_path / f"{name}.csv") for name in "ab"]
    rows = compared(tmp_path, tmp_path / "c.csv", *files)
    assert rows["arm", "error"]["verdict"] == verdict
    assert rows["other0", "error"]["verdict"] == "identical"
    said = capsys.readouterr().out
    assert ("`undecided`: neither is shown" in said) == (verdict == "undecided")
    assert "less than 5 % of A's value" in said


def test_the_margin_is_a_persons_choice(tmp_path, capsys):
    for name, value in (("a", 100), ("b", 107)):
        (tmp_path / f"{name}.csv").write_text(f"{ERRORS}e,arm,9,3,{value},4\n")
    files = [str(tmp_path / f"{name}.csv") for name in "ab"]
    for words, verdict in ([], "undecided"), (["margin=0.3"], "same"):
        rows = compared(tmp_path, tmp_path / "c.csv", *files, *words)
        assert rows["arm", "error"]["verdict"] == verdict
    assert "less than 30 % of A's value (margin=0.3)" in capsys.readouterr().out


def table(folder, name, **columns):
    """A table of one arm, five seeds; `columns` over those that follow."""
    row = {"experiment": "e", "arm": "arm", "n_data": 9, "seeds": 5, "iterations": 100, "cpu": "A"}
    row |= {"error": 10, "error_sd": 1, "us_per_iter": 20, "us_per_iter_sd": 0.1} | columns
    file = folder / f"{name}.csv"
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, row)
        writer.writeheader()
        writer.writerow(row)
    return str(file)


@pytest.mark.parametrize(
    ("other", "errors", "seconds"),
    [
        ({}, "", "one run a side"),
        ({"iterations": 300}, "iterations 100, 300", "iterations 100, 300"),
        ({"burn_in": 7}, "burn_in 5, 7", "burn_in 5, 7"),
        ({"cpu": "B"}, "", "processors A; B"),
        ({"cpu": ""}, "", "processor unknown"),
    ],
)
def test_no_verdict_where_what_made_the_numbers_differs(tmp_path, capsys, other, errors, seconds):
    """A verdict on numbers that are not comparable: of other lengths, processors or runs; the row says it."""
    a = table(tmp_path, "a", burn_in=5)
    b = table(tmp_path, "b", **{"burn_in": 5, "error": 90, "us_per_iter": 90} | other)
    rows = compared(tmp_path, tmp_path / "c.csv", a, b)
    assert (rows["arm", "error"]["verdict"], rows["arm", "error"]["why"]) == (
        ("not compared", errors) if errors else ("worse", "")
    )
    assert (rows["arm", "us_per_iter"]["verdict"], rows["arm", "us_per_iter"]["why"]) == (
        "not compared",
        seconds,
    )
    assert f"not compared: {seconds}" in capsys.readouterr().out


def test_another_posterior_gets_no_verdict(results, tmp_path):
    """Runs of one arm whose posteriors differ by a setting are not comparable; nor are ratios to it."""
    for name, scale in (("narrow", 0.5), ("wide", 1.0)):
        run = write_three_arms(results / "runs" / name)
        info = json.loads((run / "run.json").read_text())
        for arm in info["arms"]:
            arm["problem"] = {
                "prior": {"name": "gaussian", "scale": scale if arm["name"] == "regular" else 2.0}
            }
        (run / "run.json").write_text(json.dumps(info))
    rows = compared(results, tmp_path / "c.csv", "narrow", "wide")
    assert rows["regular", "queries_per_iter"]["why"] == "prior.scale 0.5, 1"
    assert rows["untuned", "queries_per_iter"]["verdict"] == "identical"
    assert rows["untuned", "speedup"]["why"] == "prior.scale 0.5, 1"  # relative to `regular`


def test_seconds_get_a_verdict_from_their_spread_between_runs(tmp_path):
    """Equal runs called different by the clock: seeds of one run share what else the machine did.

    Eight pairs of sides of four equal runs, seconds that vary by 0.5 % within a run and by 10 % between runs:
    none is worse or better at level 0.01, as each would be by its own seeds; with a factor of 4 all are.
    """
    rng = np.random.default_rng(5)

    def sides(number, factor):
        both = []
        for side, times in (("a", 1.0), ("b", factor)):
            values = times * 20 * np.exp(0.1 * rng.normal(size=4))
            names = [
                table(tmp_path, f"{side}{number}{k}", us_per_iter=v, us_per_iter_sd=0.005 * v)
                for k, v in enumerate(values)
            ]
            both.append(",".join(names))
        return both

    def verdict(number, factor):
        rows = compared(tmp_path, tmp_path / "c.csv", *sides(number, factor), "level=0.01")
        assert rows["arm", "error"]["verdict"] == "identical"
        return rows["arm", "us_per_iter"]["verdict"]

    assert {verdict(number, 1.0) for number in range(8)} == {"undecided"}
    assert {verdict(number, 4.0) for number in range(8, 12)} == {"worse"}
    # a copy of a run is no second one
    one = table(tmp_path, "one", us_per_iter=25)
    rows = compared(tmp_path, tmp_path / "c.csv", f"{one},{one}", f"{table(tmp_path, 'two')},{one}")
    assert rows["arm", "us_per_iter"]["why"] == "one run a side"


def test_what_is_the_same_is_printed_where_asked_for(results, capsys):
    """Pages of rows that say nothing: only what changed is printed, with how many rows did not."""
    words = ["compare", "one", "slow", f"results_dir={results}"]
    assert main(words) == 0
    short = capsys.readouterr().out
    assert "worse" in short
    assert "regular" not in short.split("!")[0]
    assert "17 identical, " in short
    assert "(all: --all)" in short
    assert main([*words, "--all"]) == 0
    assert "regular" in capsys.readouterr().out.split("!")[0]


@pytest.mark.parametrize(
    ("pair", "fail_on", "code"),
    [
        (("one", "slow"), [], 0),
        (("one", "slow"), ["--fail-on", "worse"], 1),
        (("slow", "one"), ["fail_on=worse"], 0),
        (("slow", "one"), ["fail_on=worse,better"], 1),
        (("one", "again"), ["--fail-on", "worse,not_compared"], 0),
        (("one", "slow"), ["--fail-on=undecided"], 1),
    ],
)
def test_a_verdict_can_fail_a_command(results, pair, fail_on, code):
    """A regression that a script cannot see: the exit code says it where asked to."""
    assert main(["compare", *pair, f"results_dir={results}", *fail_on]) == code


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["one", "nowhere"], "in no git checkout; runs there are: again, "),
        (["one", "elsewhere"], "no common arms: "),
        (["one", "other"], "different data: arm regular has n_data 12,214, 99"),
        ([], "compare: A is missing; as in `flyrun compare "),
        (["one", "again", "--arms", "regular,untuned"], "B and --arms do not go together; drop one"),
        (["one", "--arms", "regular,untund"], "has no such arm (did you mean untuned?); it has regular"),
        (["one", "--arms", "regular"], "name two with --arms A,B, another run, or --against COMMIT"),
        (["other"], "one arm of "),
        (["one", "--package", "flyrun"], "--package goes with --against COMMIT; add it or drop --package"),
        (["one", "--against", "nowhere"], "--against nowhere: no such revision; name a commit of "),
        (["one", "--against", "HEAD", "--package", "x"], "--package x: brings no sampler or other choice"),
        (["one", "again", "slow"], "compare: slow is one word too many; as in `flyrun compare "),
        (["one", "again", "level=2"], "--level 2: must be a number between 0 and 1"),
        (["one", "again", "level=high"], "--level high: must"),
        (["one", "again", "margin=5"], "--margin 5: must be a number between 0 and 1"),
        (["one", "again", "out=c.txt"], "must end in .md, .html or .csv"),
        (["one", "again", "out=/proc/nowhere/c.md"], "cannot be written"),
        (["one", "{tmp}/other.csv"], "has no column arm"),
        (["one", "{tmp}/empty.csv"], "has no row"),
        (["one", "{tmp}/broken.json"], "cannot be read as a table of flyrun"),
        (["one", "{tmp}/broken"], "broken/run.json: "),
        (["one", "again", "--fast"], "no such option"),
        (
            ["one", "again", "--fail-on", "wrose"],
            "--fail-on wrose: no such verdict; choose from better, worse",
        ),
    ],
)
def test_what_cannot_be_compared_is_one_line(results, tmp_path, capsys, words, text):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty.csv").write_text("arm,experiment\n")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    words = [word.replace("{tmp}", str(tmp_path)) for word in words]
    assert main(["compare", *words, f"results_dir={results}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("flyrun: error: ")
    assert said.count("\n") == 1
    assert text in said
