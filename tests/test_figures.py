"""Figures in the prose of README and docs are those of the published reports; tables are cut from them."""

import bisect
import functools
import re

from flyrun.ground.paths import conf_dir

ROOT = conf_dir().parent
PAGES = [ROOT / "README.md", *(ROOT / f"docs/{name}.md" for name in ("chains", "gibbs", "particles"))]
PAGES += [ROOT / f"docs/{name}.md" for name in ("approximations", "parallel", "measuring")]
#: sizes of data, constants of a problem, and two figures of tests: published in no report
KNOWN = ["101", "134", "191", "266.5", "273", "276", "395", "569", "1.32", "3,072", "4,258", "7,531"]
_NUMBER = re.compile(r"(?<![\w.^])\d[\d,]*(?:\.\d+)?(?:e\d+)?(?![\w%])")
_LINK = re.compile(r"\]\(([^)#]+)")


def number(word):
    return float(word.replace(",", ""))


@functools.cache
def of_file(path):
    found = re.findall(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", path.read_text("utf-8"))
    return frozenset(number(word) for word in found)


def linked(page):
    """Files of results/measured that a page links to, tables with their pages."""
    for target in _LINK.findall(page.read_text("utf-8")):
        path = (page.parent / target).resolve()
        if "measured" in path.parts and path.suffix == ".md":
            yield from (
                path,
                *path.parent.glob("table.csv" if path.name == "report.md" else f"{path.stem}.csv"),
            )


def half_a_unit(word):
    """Of the last digit that is written; zeros at the end of a whole number are none."""
    mantissa, _, exponent = word.replace(",", "").partition("e")
    whole, point, after = mantissa.partition(".")
    place = -len(after) if point else len(whole) - len(whole.rstrip("0"))
    return 0.5001 * 10.0 ** (place + int(exponent or 0))


def stands(value, half, values):
    place = bisect.bisect_left(values, value - half)
    return place < len(values) and values[place] <= value + half


def prose(text):
    """A page without generated tables, code and addresses."""
    text = re.sub(r"<!-- results: .*?<!-- end -->|^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\]\([^)]*\)|`[^`]*`", "]", text)


@functools.cache
def figures():
    """(number as written, line, numbers of what its page links to), of three digits or more."""
    found = []
    for page in PAGES:
        values = sorted(set().union(*map(of_file, set(linked(page)))))
        for line in prose(page.read_text("utf-8")).splitlines():
            for word in _NUMBER.findall(line):
                digits = re.sub(r"\D", "", word.partition("e")[0]).strip("0")
                if len(digits) > 2 and not 1900 < number(word) < 2030:
                    found.append((word, f"{page.name}: {line}", values))
    return found


def test_figures_in_prose_stand_in_the_reports_that_the_page_links_to():
    missing = [one[:2] for one in figures() if not stands(number(one[0]), half_a_unit(one[0]), one[2])]
    assert [one for one in missing if one[0] not in KNOWN] == []


def test_figures_of_other_runs_are_found():
    """The negative control: of numbers a fifteenth off more than half stand nowhere."""
    off = [stands(number(word) * 16 / 15, half_a_unit(word), values) for word, _, values in figures()]
    assert 10 < len(off) > 2 * sum(off)
