"""What a report says, before it is a page or a Markdown file."""

import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape
from rich.console import Console
from rich.text import Text

from flyrun.ground import files
from flyrun.ground.errors import ConfigError
from flyrun.ground.page import render, words
from flyrun.ground.page.colours import BLACK, BLUE
from flyrun.ground.page.figures import INK
from flyrun.ground.page.render import View, escape_markdown
from flyrun.ground.schema import listing

if TYPE_CHECKING:
    import pandas as pd

_VERSIONS = ("flyrun", "commit", "python", "numpy", "scipy", "numba", "scikit-learn", "arviz-stats")
_MACHINE = ("cpu", "cores", "platform", "blas", "blas_threads")
_FOOTER = (("flyrun", "commit", "python", "numpy", "numba"), ("cpu", "cores", "blas", "blas threads"))
_BARE = ("cpu", "blas")  # whose values name them
VERSION = 1  # of table.json: one more where a key goes or means something else
NO_SETTINGS = View("Settings", (), ())


@dataclass(frozen=True)
class Document:
    """The parts of a report, as plain text. figures: name -> (caption, SVG)."""

    title: str
    lead: list[str]
    caveats: list[str]
    views: list[View]
    legend: list[str]
    figures: dict[str, tuple[str, str]]
    command: str
    environment: dict[str, str]
    footer: str
    settings: dict[str, dict] = field(default_factory=dict)
    table_of_settings: View = NO_SETTINGS


def compose(info: Mapping[str, Any], infos: Iterable[Mapping[str, Any]], **parts: Any) -> Document:
    """Put a report together. info: run.json. infos: what says in which environment its numbers came about.

    parts: its lead, caveats, views, legend and figures, and its settings where it has some.
    """
    name = str(info.get("name") or info.get("experiment") or "run")
    command = info.get("command") or f"flyrun experiment={name}"
    return Document(
        title=str(info.get("title") or name),
        command=command if isinstance(command, str) else shlex.join(map(str, command)),
        environment=environment(infos),
        footer=f"Again, without sampling: {info.get('again') or f'flyrun report {name}'}",
        **parts,
    )


def as_markdown(document: Document) -> str:
    """The report as Markdown, with its figures as files in figures/."""
    fence = "```"
    while fence in document.command:  # which cannot end its own block
        fence += "`"
    return words.fill("report.md", fence=fence, **vars(document)) + "\n"


def environment(infos: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Versions and machine, of {"environment": …, "finished": …}; where these differ, all values."""
    infos = list(infos)
    machines = [info.get("environment", {}) for info in infos]
    pairs = {}
    for key in (*_VERSIONS, *_MACHINE):
        values = dict.fromkeys(str(machine[key]) for machine in machines if machine.get(key) is not None)
        if values:
            pairs[key.replace("_", " ")] = ", ".join(values)
    used = [f"{name} {version}" for each in machines for name, version in each.get("packages", {}).items()]
    if used:
        pairs["packages"] = ", ".join(dict.fromkeys(used))
    finished = [str(info["finished"]) for info in infos if info.get("finished")]
    return pairs | ({"finished": max(finished)} if finished else {})


def show(text: Document, folder: Path, console: Console) -> None:
    """Print the tables of a report in this folder, and where it is."""
    render.print_page(console, text.title, text.views, text.caveats)
    for line in _footer(text.environment):
        console.print(Text(line, style="dim"), soft_wrap=not console.is_terminal)
    console.print(Text(f"report: {folder / 'report.html'}"), soft_wrap=True)


def _footer(environment: dict[str, Any]) -> list[str]:
    """The environment in two lines: what ran, and on what."""
    short = {**environment, "commit": environment.get("commit", "")[:10]}
    lines = [
        ", ".join(short[key] if key in _BARE else f"{key} {short[key]}" for key in keys if key in environment)
        for keys in _FOOTER
    ]
    return [line for line in lines if line]


def as_html(document: Document) -> str:
    """The report as one page that needs no other file, light and dark, on any width.

    The template escapes every text that came from a config, a file or a message.
    """
    return words.fill("report.html", **vars(document), inline_svg=inline_svg)


def write(
    text: Document, folder: Path, info: Mapping[str, Any], whole: "pd.DataFrame", **arms: Any
) -> list[Path]:
    """Write a report and its table into a folder; arms: what as_json has of them. Returns the files."""
    texts = {
        "table.csv": whole.to_csv(index=False),
        "table.json": as_json(info, whole, text, **arms),
        "report.md": as_markdown(text),
        "report.html": as_html(text),
    }
    for name, content in texts.items():
        files.write_text(folder / name, content)
    return [folder / name for name in texts]


def of_comparison(
    lines: list[str],
    views: list[View],
    legend: list[str],
    caveats: list[str],
    command: str,
    environment: dict[str, str],
) -> Document:
    """What differs between two sides, as a page. lines: which these are."""
    about = {"lead": lines, "caveats": caveats, "views": views, "legend": legend, "command": command}
    title = "What differs between A and B"
    return Document(title, figures={}, environment=environment, footer="", **about)  # type: ignore[arg-type]


def refuse_ending(out: Path | None, endings: Sequence[str]) -> None:
    """ConfigError for a file of another ending, before anything is computed."""
    if out is not None and out.suffix not in endings:
        raise ConfigError(f"out={out}: must end in {listing(endings, 'or')}")


def save(out: Path, text: Document, others: Mapping[str, str]) -> None:
    """Write a comparison to a file: .md, .html, or what others have by ending. StoreError where it cannot."""
    listed = [f"- {escape_markdown(line)}" for line in (*text.lead, *text.legend, *text.caveats)]
    first = len(text.lead)
    short = "\n".join([*listed[:first], "", *map(render.markdown, text.views), *listed[first:], ""])
    with files.writing(f"out={out}", "name another file"):
        files.make_folder(out.parent)
        texts = {".md": short, ".html": as_html(text) if out.suffix == ".html" else "", **others}
        files.write_text(out, texts[out.suffix])


def as_json(
    info: Mapping[str, Any],
    whole: "pd.DataFrame",
    text: Document,
    source: str = "",
    states: Mapping[str, Any] | None = None,
    messages: Mapping[str, Any] | None = None,
) -> str:
    """The table of a report, and what its numbers come from, as JSON; states and messages are of arms."""
    rows = [{key: plain(value) for key, value in row.items()} for row in whole.to_dict("records")]
    keys = ("name", "experiment", "title", "paper", "reference", "reference_name", "command", "started")
    meta = {
        **{key: info.get(key) for key in keys},
        "source": source,
        "environment": text.environment,
        "warnings": text.caveats,
        "states": states or {},
        "messages": messages or {},
    }
    whole_table = {"version": VERSION, "rows": rows, "meta": meta}
    return json.dumps(whole_table, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: object) -> Any:
    """A table's value for JSON, which knows neither NaN nor infinity."""
    if value is None or str(value) == "<NA>":
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return value.item() if hasattr(value, "item") else value


def inline_svg(svg: str, name: str, label: str) -> Markup:
    """A stand-alone SVG made part of a page: own ids, the page's ink, no header, metadata or addresses."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace('href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    svg = re.sub(f"{re.escape(INK)}|{re.escape(BLACK)}", "currentColor", svg, flags=re.IGNORECASE)
    # The paper's blue is hard to see on black; a dark page has its own.
    svg = re.sub(re.escape(BLUE), "var(--blue)", svg, flags=re.IGNORECASE)
    # The size comes from the page; the viewBox keeps the shape.
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1))
