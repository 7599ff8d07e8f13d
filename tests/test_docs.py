"""The documentation: generated pages are current, links lead somewhere, README is short and has a map."""

from __future__ import annotations

import re
import runpy

import pytest

from flyrun.paths import conf_dir

ROOT = conf_dir().parent
README = (ROOT / "README.md").read_text("utf-8")
PAGES = sorted([*(ROOT / "docs").glob("**/*.md"), *ROOT.glob("*.md")])
#: what speaks of pages by their place in the checkout
SPEAKING = [
    *[ROOT / name for name in ("Makefile", "CHANGELOG.md", "pyproject.toml")],
    *[path for folder in ("flyrun", "conf", "tests", "tools") for path in sorted((ROOT / folder).rglob("*"))],
]
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#([^)\s]+))?\)")


def test_configuration_reference_is_current():
    page = runpy.run_path(str(ROOT / "docs" / "configuration.py"))["page"]()
    assert (ROOT / "docs" / "configuration.md").read_text("utf-8") == page, "run `make docs`"


def anchors(path):
    """What a heading of a page is called in a link."""
    headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target, anchor in _LINK.findall(path.read_text("utf-8")):
        page = path.parent / target
        assert page.exists(), target
        assert not anchor or anchor in anchors(page), f"{target}#{anchor}"


def test_pages_that_code_speaks_of_exist():
    for path in SPEAKING:
        if path.suffix in (".py", ".yaml", ".toml", ".md", ".txt", ".j2", "") and path.is_file():
            for page in re.findall(r"\bdocs/[\w-]+\.md", path.read_text("utf-8")):
                assert (ROOT / page).exists(), f"{path}: {page}"


def test_the_index_has_every_page():
    index = (ROOT / "docs/README.md").read_text("utf-8")
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name == "README.md" or f"({path.name})" in index, path.name


def test_readme_is_read_in_five_minutes():
    assert len(README.split()) <= 900


def test_readme_maps_every_package():
    packages = {path.parent.name for path in (ROOT / "flyrun").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `flyrun/(\w+)/` \|", README, re.MULTILINE)) == packages
