"""The documentation: the generated page is current, links lead somewhere."""

from __future__ import annotations

import re
import runpy

import pytest

from flyrun.paths import conf_dir

ROOT = conf_dir().parent
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def test_configuration_reference_is_current():
    page = runpy.run_path(str(ROOT / "docs" / "configuration.py"))["page"]()
    assert (ROOT / "docs" / "configuration.md").read_text("utf-8") == page, "run `make docs`"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in _LINK.findall(path.read_text("utf-8")):
        assert (path.parent / target).exists(), target
