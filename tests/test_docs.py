"""The documentation: the generated page is current, links lead somewhere, printed commands are taken."""

from __future__ import annotations

import re
import runpy
import shlex

import pytest

from flyrun.cli.verbs import VERBS
from flyrun.cli.verbs import fit as arguments
from flyrun.config.catalogue import files
from flyrun.config.compose import compose_job
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


def commands():
    """Every flyrun or make command that a page prints, in a block or between backticks.

    But a plug-in's, and one of files that the page has the reader write.
    """
    for path in PAGES:
        text = path.read_text("utf-8").replace("\\\n", " ")
        blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        lines = [line for block in blocks for line in block.splitlines()]
        lines += re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
        for line in lines:
            if re.search("barker|--config-dir", line):
                continue
            if re.match(r"\s*(\.venv/bin/)?(flyrun|make) ", line):
                yield shlex.join(shlex.split(line, comments=True))


@pytest.mark.parametrize("command", dict.fromkeys(commands()))
def test_printed_commands_are_taken(command):
    program, first, *_ = words = shlex.split(command)
    rest = words[1:]
    if program == "make":
        assert re.search(rf"^{first}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    elif first == "fit" and len(words) > 2 and "--help" not in words:
        arguments.parse(rest[1:])
    elif first == "info":
        assert any(words[2] in files(group) for group in ("experiment", "dataset", "sampler"))
    elif "=" in "".join(rest[:2]) and first not in VERBS:
        swept = "-m" in rest  # of what is swept the first value
        keys = [word for word in rest if "=" in word and not word.startswith("hydra")]
        job = compose_job([word.split(",")[0] if swept and "[" not in word else word for word in keys])
        assert job.arms
    else:
        assert first in VERBS or first.startswith("-")
