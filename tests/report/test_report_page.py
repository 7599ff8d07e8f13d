"""The page and the Markdown: self-contained, escaped, readable; the terminal's tables within 100 columns."""

import io
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from flyrun.experiments.report.build import build
from flyrun.experiments.report.metrics import table
from flyrun.experiments.runner import progress
from flyrun.ground.page import document, render, words
from flyrun.ground.page.document import Document
from flyrun.ground.page.metrics import Metric
from flyrun.ground.page.render import View
from tests.stored import write_cell, write_run, write_three_arms

pytestmark = pytest.mark.figures

NASTY = '<script>alert("x")</script> $a_b$ | `c` & <img src=http://example.org/x.png>'


class _Page(HTMLParser):
    """Tags, attributes that fetch something, and whether tags are closed in order."""

    VOID = ("meta", "img", "br", "link", "input", "hr", "wbr")

    def __init__(self, text):
        super().__init__()
        self.tags, self.fetched, self.open, self.ids = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.fetched += [
            value for key, value in attrs if key in ("src", "href", "xlink:href", "srcset", "data")
        ]
        self.ids += [value for key, value in attrs if key == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = write_three_arms(tmp_path_factory.mktemp("page"), seeds=2)
    build(root)
    return root


def test_deltas_are_coloured_by_whether_they_lie_within_the_uncertainty():
    rows = [
        {"arm": "a", "ess": 1.0, "ess_sd": 0.1, "paper_ess": 1.1},
        {"arm": "b", "ess": 1.0, "ess_sd": 0.1, "paper_ess": 2.0},
        {"arm": "c", "ess": 12214.0, "ess_sd": 0.0, "paper_ess": 12214.0},
        {"arm": "d", "ess": 1.0, "ess_sd": 0.1, "paper_ess": float("nan")},
    ]
    columns = [
        Metric("paper_ess", "paper", delta=render.delta_from_paper("ess")),
    ]
    view = table("t", columns, rows)
    assert view.deltas == {(0, 1): ("−9 %", True), (1, 1): ("−50 %", False), (2, 1): ("+0 %", True)}
    text = document.as_html(Document("t", [], [], [view], [], {}, "", {}, {}, ""))
    assert '<span class="near">−9 %</span>' in text
    assert '<span class="far">−50 %</span>' in text


def test_page_asks_for_nothing(run):
    text = (run / "report.html").read_text()
    page = _Page(text)
    assert all(value.startswith(("#", "data:")) for value in page.fetched)
    assert not page.open
    assert "script" not in page.tags
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    assert page.tags.count("svg") == 3
    assert len(page.ids) == len(set(page.ids))
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text


def test_svg_references_point_at_ids_of_the_page(run):
    text = (run / "report.html").read_text()
    ids = set(_Page(text).ids)
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    assert used
    assert used <= ids


@pytest.mark.thorough
def test_text_from_outside_is_escaped(tmp_path):
    root = write_run(tmp_path, {"regular": [0]}, title=NASTY, paper=NASTY, command=f"flyrun name='{NASTY}'")
    write_cell(root, "regular", 0, environment={"cpu": NASTY}, facts={"update": NASTY})
    console = Console(file=io.StringIO(), width=120)
    build(root, console)
    text = (root / "report.html").read_text()
    page = _Page(text)
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert "&lt;script&gt;" in text
    markdown = (root / "report.md").read_text()
    assert "<script>" not in re.sub(r"```.*?```", "", markdown, flags=re.DOTALL)


def test_report_says_how_to_run_it_again(run):
    for name in ("report.html", "report.md"):
        text = (run / name).read_text()
        assert "flyrun experiment=mnist_logreg" in text
        assert "A processor" in text
        assert "Maclaurin" in text


@pytest.mark.thorough
def test_figures_are_written_twice_alike(run):
    names = sorted(path.name for path in (run / "figures").iterdir())
    kinds = ("png", "svg")
    assert names == sorted(f"{f}.{k}" for f in ("convergence", "autocorrelation", "ess_time") for k in kinds)
    before = (run / "figures" / "convergence.svg").read_bytes()
    build(run)
    assert (run / "figures" / "convergence.svg").read_bytes() == before


@pytest.mark.thorough
def test_terminal_tables_fit_100_columns(run):
    out = io.StringIO()
    build(run, Console(file=out, width=80))
    text = out.getvalue()
    tables = text[: text.index("! ")] if "! " in text else text
    lines = tables.splitlines()
    assert max(map(len, lines[:25])) <= 100
    assert "…" not in text
    assert re.search(r"regular +12,214 ± 0 +12,214", text)
    for head in ("speedup", "R-hat", "µs/iter", "ESS/s", "set-up", "paper", "seeds"):
        assert head in text


@pytest.mark.parametrize(
    ("value", "sd", "text"),
    [
        (178.3333, 2.13, "178.3 ± 2.1"),
        (12214, 0, "12,214 ± 0"),
        (0.8123, 0.117, "0.81 ± 0.12"),
        (22.34, 3.3, "22.3 ± 3.3"),
        (6252.4, 123.4, "6,252 ± 123"),
        (3.7, float("nan"), "3.70"),
        (float("nan"), float("nan"), "-"),
        (0.0, 0.0, "0 ± 0"),
        (206.9812, 0.02, "206.98 ± 0.02"),
    ],
)
def test_plus_minus(value, sd, text):
    assert render.plus_minus(value, sd) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (123456.7, "123,457"),
        (1.23456, "1.23"),
        (float("inf"), "inf"),
        (3e-7, "3.0e-07"),
    ],
)
def test_number(value, text):
    assert render.number(value) == text


def test_names_of_arms_break_between_their_parts_alone():
    breaks = words.TEMPLATES.filters["breaks"]
    assert breaks("map_tuned+w<2>_x") == "map_<wbr>tuned+<wbr>w&lt;2&gt;_<wbr>x"
    assert breaks("") == ""
    assert "anywhere" not in (Path(words.__file__).parent / "templates/report.html.j2").read_text("utf-8")


WIDE = View(
    "Coefficients of a:b:c [bold]x[/bold]",
    ("coefficient", "mean", "sd", "3 %", "97 %", "effect", "ESS", "prior"),
    (
        ("a:b:c", "1,234.567", "0.045", "-0.040", "0.128", "-", "15,958", "normal(0,10)"),
        (
            "long_name[a level of words]",
            "0.1234 ± 0.0041",
            "0.1",
            "1.2e-05",
            "1",
            "0.3",
            "1",
            "normal(0,2.5)",
        ),
        ("x", "-3.4028235e+38", "0", "0", "0", "0", "0", "0"),
    ),
)


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 100, 200])
def test_no_terminal_is_too_narrow_for_numbers(width):
    out = io.StringIO()
    render.print_views(Console(file=out, width=width, force_terminal=True, no_color=True), [WIDE])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    cells = [cell for row in (WIDE.header, *WIDE.rows) for cell in row]
    for cell in cells if width >= 40 else []:  # each word and each number on a line of its own, unbroken
        if not cell.startswith("long_name"):
            assert any(cell in line for line in lines), cell
    letters = Counter("".join("".join(lines).split()))
    assert not Counter("".join(cells).replace(" ", "")) - letters


def test_names_are_no_emoji_and_no_markup_on_any_screen():
    for terminal in (True, False):
        out = io.StringIO()
        console = Console(file=out, width=120, force_terminal=terminal, no_color=True)
        render.print_views(console, [WIDE])
        render.print_page(console, "a:b:c [red]t[/red]", [], ["a:b:c"])
        progress.Lines(console, 1).say("a:b:c [red]t[/red]")
        shown = out.getvalue()
        assert shown.count("a:b:c") == 5
        assert "[bold]x[/bold]" in shown
        assert shown.count("[red]t[/red]") == 2
        assert "\N{NEGATIVE SQUARED LATIN CAPITAL LETTER B}" not in shown
    control = io.StringIO()
    Console(file=control, width=120).print("a:b:c")  # what rich makes of it by itself
    assert "\N{NEGATIVE SQUARED LATIN CAPITAL LETTER B}" in control.getvalue()


def test_screens_are_made_in_one_place():
    root = Path(words.__file__).parents[2]
    made = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"(?<!\w)Console\(", path.read_text("utf-8"))
    }
    assert made == {"ground/page/render.py"}
