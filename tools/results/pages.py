"""Pages with what the published runs say in them: between marks in README and docs, and whole pages.

<!-- results: NAME -->
…what tools/results/tables/NAME.md.j2 gives…
<!-- end -->
"""

import itertools
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from flyrun.ground.errors import ConfigError
from flyrun.ground.paths import conf_dir
from tools.results import gallery, inventory, published
from tools.results.claims import judge
from tools.results.claims.records import HOME, records

ROOT = conf_dir().parent
_HERE = Path(__file__).parent
_MARKED = re.compile(r"(<!-- results: *(\S+) *-->\n).*?(<!-- end -->)", re.DOTALL)
_MARK = "<!-- results:"
#: before the name of a table of claims, of results/reference/claims
_CLAIMS = "claims_"

_TEMPLATES = Environment(
    loader=FileSystemLoader(_HERE),
    undefined=StrictUndefined,
    autoescape=lambda name: str(name).endswith(".html.j2"),
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals |= {name: getattr(published, name) for name in ("arm", "arms", "row", "table")}
_TEMPLATES.globals["inventory"] = inventory.sections
_TEMPLATES.filters |= {
    "sig": published.sig,
    "ratio": published.ratio,
    "several": published.several,
    "verdict": judge.word,
    "duration": gallery.duration,
}
RESULTS, GALLERY = ROOT / "docs/results.md", published.MEASURED / "index.html"


def current() -> dict[Path, str]:
    """Every page with results in it -> its text as it should be."""
    pages = {
        path: filled(path.read_text("utf-8"), path)
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        if _MARK in path.read_text("utf-8")
    }
    found = entries()
    parts = [(name, list(own)) for name, own in itertools.groupby(found, lambda entry: entry.part)]
    before = GALLERY.read_text("utf-8") if GALLERY.exists() else ""
    values = {"parts": parts, "entries": found}
    pages[RESULTS] = _TEMPLATES.get_template("templates/results.md.j2").render(values)
    pages[GALLERY] = _TEMPLATES.get_template("templates/index.html.j2").render(
        values, thumbnails=gallery.thumbnails(found, before)
    )
    return pages


def entries() -> list[gallery.Entry]:
    """All that is published."""
    return gallery.entries(_TEMPLATES)


def filled(text: str, path: Path) -> str:
    """A page's text with each marked table cut anew; ConfigError for a mark without an end or a table."""
    if text.count(_MARK) != len(_MARKED.findall(text)):
        raise ConfigError(f"{path}: a table begins with <!-- results: NAME --> and ends with <!-- end -->")
    return _MARKED.sub(lambda found: found[1] + table(found[2], path) + found[3], text)


def table(name: str, path: Path) -> str:
    """A table of tools/results/tables."""
    claims = name.removeprefix(_CLAIMS)
    if claims != name and (HOME / f"{claims}.yaml").exists():
        return _TEMPLATES.get_template("templates/claims.md.j2").render(claims=records(claims)).strip() + "\n"
    template = _HERE / "tables" / f"{name}.md.j2"
    if not template.exists():
        raise ConfigError(f"{path}: <!-- results: {name} -->: there is no {template.relative_to(ROOT)}")
    return _TEMPLATES.get_template(f"tables/{name}.md.j2").render().strip() + "\n"
