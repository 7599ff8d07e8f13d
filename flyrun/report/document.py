"""What a report says, before it is a page or a Markdown file."""

import shlex
from dataclasses import dataclass
from typing import Any

from flyrun.report import words
from flyrun.report.arms import Run
from flyrun.report.render import View

_VERSIONS = ("flyrun", "commit", "python", "numpy", "scipy", "numba", "scikit-learn", "arviz-stats")
_MACHINE = ("cpu", "cores", "platform", "blas", "blas_threads")


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
    settings: dict[str, dict]
    footer: str


def compose(run: Run, **parts: Any) -> Document:
    """Put a report together; parts: its lead, caveats, views, legend and figures."""
    name = str(run.info.get("name") or run.info.get("experiment") or "run")
    command = run.info.get("command") or f"flyrun experiment={name}"
    return Document(
        title=str(run.info.get("title") or name),
        command=command if isinstance(command, str) else shlex.join(map(str, command)),
        environment=environment(run),
        settings={arm.name: arm.infos[0].get("settings", {}) for arm in run.done},
        footer=f"Again, without sampling: {run.info.get('again') or f'flyrun report {name}'}",
        **parts,
    )


def as_markdown(document: Document) -> str:
    """The report as Markdown, with its figures as files in figures/."""
    fence = "```"
    while fence in document.command:  # which cannot end its own block
        fence += "`"
    return words.fill("report.md", fence=fence, **vars(document)) + "\n"


def environment(run: Run) -> dict[str, str]:
    """Versions and machine; values that differ between cells are all listed."""
    infos = [info.get("environment", {}) for arm in run.arms for info in arm.infos]
    pairs = {}
    for key in (*_VERSIONS, *_MACHINE):
        values = dict.fromkeys(str(info[key]) for info in infos if info.get(key) is not None)
        if values:
            pairs[key.replace("_", " ")] = ", ".join(values)
    finished = [str(info["finished"]) for arm in run.arms for info in arm.infos if info.get("finished")]
    return pairs | ({"finished": max(finished)} if finished else {})
