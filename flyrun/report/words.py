"""The words of reports lie in templates/: whole pages, lines above and below tables, captions."""

from __future__ import annotations

import functools
import json
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from flyrun.report.render import escape_markdown, markdown

_HERE = Path(__file__).parent
#: only a page of HTML escapes what is put into it; the others escape Markdown where they say so
TEMPLATES = Environment(
    loader=PackageLoader("flyrun.report"),
    autoescape=lambda name: str(name).endswith(".html.j2"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {
    "as_json": partial(json.dumps, indent=2, ensure_ascii=False),
    "as_text": escape_markdown,
    "as_table": markdown,
    "spec": format,
}


def fill(template: str, /, **values: Any) -> str:
    """A template with these values."""
    return TEMPLATES.get_template(f"{template}.j2").render(values)


def lines(template: str, /, **values: Any) -> list[str]:
    """The paragraphs of a template with these values, a line each."""
    return [" ".join(part.split()) for part in fill(template, **values).split("\n\n") if part.strip()]


@functools.cache
def captions() -> dict[str, str]:
    """Figure -> what stands beneath it."""
    return yaml.safe_load((_HERE / "templates/captions.yaml").read_text(encoding="utf-8"))


@functools.cache
def columns() -> dict[str, list[str]]:
    """Section -> its columns of table.csv, in their order."""
    return yaml.safe_load((_HERE / "columns.yaml").read_text(encoding="utf-8"))
