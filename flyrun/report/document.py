"""What a report says, before it is a page or a Markdown file."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from flyrun.report.arms import Run
from flyrun.report.render import View, escape_markdown, markdown

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


def compose(
    run: Run,
    lead: list[str],
    views: list[View],
    caveats: list[str],
    legend: list[str],
    figures: dict[str, tuple[str, str]],
) -> Document:
    """Put a report together."""
    name = str(run.info.get("name") or run.info.get("experiment") or "run")
    return Document(
        title=str(run.info.get("title") or name),
        lead=lead,
        caveats=caveats,
        views=views,
        legend=legend,
        figures=figures,
        command=_command(run.info.get("command"), name),
        environment=environment(run),
        settings={arm.name: arm.infos[0].get("settings", {}) for arm in run.done},
        footer=f"Again, without sampling: {run.info.get('again') or f'flyrun report {name}'}",
    )


def as_markdown(document: Document) -> str:
    """The report as Markdown, with its figures as files in figures/."""
    lines = [f"# {escape_markdown(document.title)}", ""]
    lines += [f"{escape_markdown(line)}\n" for line in document.lead]
    if document.caveats:
        lines += ["Before trusting these numbers:", ""]
        lines += [f"- {escape_markdown(text)}" for text in document.caveats] + [""]
    lines += [markdown(view) for view in document.views]
    lines += [f"{escape_markdown(line)}\n" for line in document.legend]
    for name, (caption, _) in document.figures.items():
        lines += [f"![{name}](figures/{name}.png)", "", f"*{escape_markdown(caption)}*", ""]
    lines += ["## Run it again", "", _fenced(document.command), ""]
    lines += ["## Environment", "", "| | |", "|---|---|"]
    lines += [f"| {key} | {escape_markdown(value)} |" for key, value in document.environment.items()]
    return "\n".join([*lines, "", escape_markdown(document.footer), ""])


def environment(run: Run) -> dict[str, str]:
    """Versions and machine; values that differ between cells are all listed."""
    infos = [info.get("environment", {}) for arm in run.arms for info in arm.infos]
    pairs = {}
    for key in (*_VERSIONS, *_MACHINE):
        values = dict.fromkeys(str(info[key]) for info in infos if info.get(key) is not None)
        if values:
            pairs[key.replace("_", " ")] = ", ".join(values)
    finished = sorted(str(info["finished"]) for arm in run.arms for info in arm.infos if info.get("finished"))
    if finished:
        pairs["finished"] = finished[-1]
    return pairs


def _command(command: Any, name: str) -> str:
    if isinstance(command, list | tuple):
        return shlex.join(map(str, command))
    return str(command) if command else f"flyrun experiment={name}"


def _fenced(text: str) -> str:
    """A code block that its own text cannot end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
