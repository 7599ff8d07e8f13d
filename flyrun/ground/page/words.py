"""Words with values in them, by Jinja: whole pages, in templates/, and the lines of a section."""

import json
import re
from functools import partial

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from flyrun.ground.page.render import escape_markdown, markdown, spec

#: only a page of HTML escapes what is put into it; the others escape Markdown where they say so
TEMPLATES = Environment(
    loader=PackageLoader("flyrun.ground.page"),
    autoescape=lambda name: str(name).endswith(".html.j2"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {
    "as_json": partial(json.dumps, indent=2, ensure_ascii=False),
    "as_text": escape_markdown,
    "as_table": markdown,
    "spec": spec,
}


def _breaks(name: str) -> Markup:
    """A name that a line may break between its parts, and within none."""
    return Markup("<wbr>").join(re.findall(r"[^_+/:]*[_+/:]+|[^_+/:]+", name))


TEMPLATES.filters["breaks"] = _breaks


def fill(template: str, /, **values: object) -> str:
    """A template with these values."""
    return TEMPLATES.get_template(f"{template}.j2").render(values)


def lines(text: str, /, **values: object) -> list[str]:
    """The paragraphs of a text with these values in it, a line each."""
    filled = TEMPLATES.from_string(text).render(values)
    return [" ".join(part.split()) for part in filled.split("\n\n") if part.strip()]
