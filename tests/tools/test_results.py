"""`make results`: pages are current, a bound stays one when rounded, and what no file holds is an error."""

import re

import pytest
import yaml

import flyrun_peers
from flyrun.ground.errors import ConfigError, StoreError
from tools.results import gallery, pages, published
from tools.results.older import changes


@pytest.mark.thorough
def test_tables_are_current():
    wrong = [path.name for path, text in pages.current().items() if path.read_text("utf-8") != text]
    assert not wrong, f"run `make results`: {wrong}"


def test_a_changed_figure_is_noticed():
    """The negative control: a digit of a table, edited by hand."""
    path = pages.ROOT / "README.md"
    text = path.read_text("utf-8")
    start = text.index("<!-- results: found -->")
    digit = re.compile(r"\d").search(text, start + 40)
    edited = text[: digit.start()] + str((int(digit[0]) + 1) % 10) + text[digit.end() :]
    assert edited != text == pages.filled(edited, path)


@pytest.mark.parametrize(
    ("value", "digits", "bound", "text"),
    [
        (5_607_812.3, 2, "≥", "≥ 5,600,000"),
        (5_687_812.3, 2, "≥", "≥ 5,600,000"),
        (5_607_812.3, 2, "≤", "≤ 5,700,000"),
        (311.26, 2, "~", "~ 310"),
        (0.0416, 2, "", "0.042"),
        (0.0416, 2, "≥", "≥ 0.041"),
        (12_214, 5, "", "12,214"),
        (10_708_358, 2, "", "1.1e7"),
        (9.996, 3, "", "10.0"),
        (100.0, 3, "≥", "≥ 100"),
        (0, 3, "", "0"),
    ],
)
def test_numbers_are_rounded_to_the_safe_side(value, digits, bound, text):
    assert published.sig(value, digits, bound) == text


def test_what_no_file_holds_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="did you mean map_tuned"):
        published.arm("mnist_logreg", "map_tund")
    with pytest.raises(StoreError, match="did you mean speedup"):
        _ = published.arm("mnist_logreg", "map_tuned").speedpu
    with pytest.raises(StoreError, match="nothing in column"):
        _ = published.arm("mnist_logreg", "firefly_hmc").paper_speedup
    with pytest.raises(ConfigError, match="there is no"):
        pages.filled("<!-- results: nothing -->\n<!-- end -->", tmp_path)
    with pytest.raises(ConfigError, match="ends with"):
        pages.filled("<!-- results: found -->\n", tmp_path)


@pytest.mark.thorough
def test_published_arms_are_not_older_than_their_experiment(monkeypatch):
    monkeypatch.setattr(flyrun_peers, "find_spec", lambda library: True)  # composing needs none of them
    found = {path.parent.name: changes(path.parent) for path in published.MEASURED.glob("*/report.md")}
    older = {name: said and said[:3] for name, said in found.items() if said != []}
    told = {entry.name for entry in pages.entries() if entry.older}
    assert older.keys() == told, f"publish again, or say so, or no longer, in experiments.yaml: {older}"


def test_a_changed_setting_is_named(tmp_path):
    text = (published.MEASURED / "toy_flymc" / "settings.json").read_text("utf-8")
    changed = text.replace('"brightness.q": 0.1', '"brightness.q": 0.2', 1)
    (tmp_path / "settings.json").write_text(changed)
    assert changes(tmp_path) == ["untuned: brightness.q=0.2, now 0.1"]
    (tmp_path / "settings.json").write_text(text.replace('"untuned"', '"before"'))
    assert changes(tmp_path) == ["before: no longer an arm", "untuned: not published"]


def test_no_published_error_leaves_out_what_seeds_differ_by():
    """Each split by itself: ± is the sd over splits by the root of their number."""
    for path in published.MEASURED.glob("*/table.csv"):
        for one in published.rows(path):
            if one.get("judged") == "each split" and one["seeds"] > 1:
                assert one.off_error == pytest.approx(one.off_sd / one["seeds"] ** 0.5), one.where
                assert one.off_worst > 0, one.where


def test_an_error_from_effective_draws_alone_makes_a_report_an_old_one(tmp_path):
    text = (published.MEASURED / "toy_flymc" / "settings.json").read_text("utf-8")
    (tmp_path / "settings.json").write_text(text)
    (tmp_path / "table.csv").write_text("arm,shards_off_se\nfull,0.01\n")
    assert changes(tmp_path) == ["shards_off_se: leaves out what seeds differ by"]


_NAMED = re.compile(r"\ba(?:\.(\w+)|\['([^']+)'\])(?:\.(\w+))?")


def unsettled(found, rows):
    """Arms that a verdict names though they had not settled, where it does not say so."""
    if re.search(r"settle|converge|still", found):
        return []
    # steps a round of workers ahead, and burn-in, are no estimate of the posterior
    uses = [(one or other, column) for one, other, column in _NAMED.findall(found)]
    named = {arm for arm, column in uses if not column.startswith(("prefetch_", "burn_in_"))}
    return [one["arm"] for one in rows if one.get("arm") in named and published.moves(one)]


def test_no_verdict_rests_on_an_arm_that_had_not_settled():
    for name, own in yaml.safe_load(gallery.SENTENCES.read_text("utf-8")).items():
        path = published.MEASURED / name / "table.csv"
        if path.exists():
            assert not unsettled(own["found"], published.rows(path)), name


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"settled": False}, ["advi"]),
        ({"regime": "still falling when it ended"}, ["advi"]),
        ({"rhat_max": 1.3}, ["advi"]),
        ({"settled": True, "regime": "variance", "rhat_max": 1.01}, []),
        ({"rhat_max": 1.3, "judged": "each split"}, []),
    ],
)
def test_a_verdict_on_what_still_moves_is_noticed(row, told):
    rows = [{"arm": "advi", **row}, {"arm": "ep", "settled": False}]
    assert unsettled("ADVI is {{ a.advi.off|sig }} off.", rows) == told
    assert unsettled("ADVI, which had not settled, is {{ a.advi.off|sig }} off.", rows) == []


_RIGHT = re.compile(r"^\|(?:.*\|)?[ ]*-+:[ ]*\|.*$", re.MULTILINE)


def by_hand(text):
    """Tables with columns of figures, which are right-aligned, that no template writes."""
    return _RIGHT.findall(re.sub(r"<!-- results: .*?<!-- end -->", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("path", [pages.ROOT / "README.md", *(pages.ROOT / "docs").glob("*.md")], ids=str)
def test_no_table_of_figures_is_kept_by_hand(path):
    assert path == pages.RESULTS or by_hand(path.read_text("utf-8")) == []


def test_a_table_kept_by_hand_is_found():
    table = "| a | b |\n|---|---:|\n| x | 1 |\n"
    assert by_hand(table) == ["|---|---:|"]
    assert by_hand(f"<!-- results: found -->\n{table}<!-- end -->\n| a |\n|---|\n") == []


def test_a_column_that_was_renamed_is_found_under_its_name_of_before():
    row = published.Row({"sd_ratio_least": 0.2}, "now")
    assert row.sd_least == 0.2
    assert published.Row({"sd_ratio_least": 0.2, "sd_least": 0.1}, "before").sd_least == 0.1
