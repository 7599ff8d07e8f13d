"""README's figures are those of the published reports: what no report holds is of another run, or of none."""

import bisect
import functools
import re

import pandas as pd

from flyrun.paths import conf_dir

ROOT = conf_dir().parent
_NUMBER = re.compile(r"(?<![\w.^])\d[\d,]*(?:\.\d+)?(?:e\d+)?(?![\w%])")
_LINK = re.compile(r"\]\(([^)#]+)")


def number(word):
    return float(word.replace(",", ""))


@functools.cache
def of_file(path):
    found = re.findall(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", path.read_text("utf-8"))
    return frozenset(number(word) for word in found)


def linked(text, folder):
    """Files of results/measured that a text links to, tables with their pages, and so its links to docs."""
    for target in _LINK.findall(text):
        path = (folder / target).resolve()
        if "measured" in path.parts and path.suffix == ".md":
            yield from (
                path,
                *path.parent.glob("table.csv" if path.name == "report.md" else f"{path.stem}.csv"),
            )
        elif path.parent == ROOT / "docs" and folder != path.parent:
            yield from linked(path.read_text("utf-8"), path.parent)


def half_a_unit(word):
    """Of the last digit that is written; zeros at the end of a whole number are none."""
    mantissa, _, exponent = word.replace(",", "").partition("e")
    whole, point, after = mantissa.partition(".")
    place = -len(after) if point else len(whole) - len(whole.rstrip("0"))
    return 0.5001 * 10.0 ** (place + int(exponent or 0))


def stands(value, half, values):
    place = bisect.bisect_left(values, value - half)
    return place < len(values) and values[place] <= value + half


@functools.cache
def figures():
    """(line, number as written, numbers of what its section links to), of three digits or more: fewer stand
    anywhere.
    """
    text = (ROOT / "README.md").read_text("utf-8")
    part = text[text.index("## What it found") : text.index("## Use")]
    found = []
    for section in re.split(r"^(?=\*\*[A-Z])", part, flags=re.MULTILINE):
        values = sorted(set().union(*(of_file(path) for path in set(linked(section, ROOT)))))
        for line in re.sub(r"\]\([^)]*\)|`[^`]*`", "]", section).splitlines():
            for word in _NUMBER.findall(line):
                digits = re.sub(r"\D", "", word.partition("e")[0]).strip("0")
                if len(digits) > 2 and not 1900 < number(word) < 2030:
                    found.append((line, word, values))
    return found


def test_the_figures_of_readme_stand_in_the_reports_that_it_links_to():
    passes = f"{1_300_000 / 12_214:.0f}"  # of stochastic variational inference: queries over rows
    worked_out = {f"{first_draws(5):,}", passes}
    missing = [
        (word, line)
        for line, word, values in figures()
        if word not in worked_out and not stands(number(word), half_a_unit(word), values)
    ]
    assert len(figures()) > 100
    assert not missing


def test_figures_of_other_runs_are_found():
    """The negative control: of numbers a fifteenth off more than half stand nowhere."""
    off = [stands(number(word) * 16 / 15, half_a_unit(word), values) for _, word, values in figures()]
    assert sum(off) < 0.5 * len(off)


def tall(rows):
    """Queries of set-up, and of an effective draw, of Firefly-HMC with local bounds on 10^rows rows."""
    table = pd.read_csv(ROOT / "results/measured/subsampling_tall/table.csv").set_index("arm")
    row = table.loc["firefly_hmc_local" + ("" if rows == 4 else f"_n_1e{rows}")]
    return row["setup_queries"], row["queries_per_draw"]


def first_draws(rows):
    """Effective draws that take as much as set-up does, to three digits."""
    setup, each = tall(rows)
    return int(float(f"{setup / each:.3g}"))


def test_what_set_up_costs_is_said_beside_what_falls():
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    (setup, each), (more, less) = tall(4), tall(5)
    crossing = f"{float(f'{(more - setup) / (each - less):.2g}'):,.0f}"
    assert f"up to {first_draws(4):,} draws of 10⁴ rows and {first_draws(5):,} of 10⁵" in text
    assert f"10⁵ rows are cheaper than 10⁴ from {crossing} draws on" in text
