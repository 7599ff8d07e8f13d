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


def compose(run: Run, tables: list[View], caveats: list[str], figures: dict) -> Document:
    """Put a report together."""
    name = str(run.info.get("name") or run.info.get("experiment") or "run")
    return Document(
        title=str(run.info.get("title") or name),
        lead=run.kind.lead(run),
        caveats=caveats,
        views=tables,
        legend=run.kind.legend(run),
        figures=figures,
        command=_command(run.info.get("command"), name),
        environment=environment(run),
        settings={arm.name: arm.infos[0].get("settings", {}) for arm in run.arms if arm.done},
        footer=f"Again, without sampling: flyrun report {name}",
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
    found = {}
    for key in (*_VERSIONS, *_MACHINE):
        values = dict.fromkeys(str(info[key]) for info in infos if info.get(key) is not None)
        if values:
            found[key.replace("_", " ")] = ", ".join(values)
    finished = sorted(str(info["finished"]) for arm in run.arms for info in arm.infos if info.get("finished"))
    if finished:
        found["finished"] = finished[-1]
    return found


def lead(run: Run) -> list[str]:
    """Paper, data and lengths, a line each."""
    lines = []
    if run.info.get("paper"):
        lines.append(str(run.info["paper"]))
    done = [arm for arm in run.arms if arm.done]
    if done:
        arm, info = done[0], done[0].infos[0]
        data, model, update = arm.setting("dataset", "name"), arm.setting("model", "name"), arm.fact("update")
        size = ""
        if arm.fact("n_data") and arm.fact("n_params"):
            sizes = sorted({one.fact("n_data") for one in done})
            count = " to ".join(f"{n:,}" for n in dict.fromkeys((sizes[0], sizes[-1])))
            size = f" ({count} data, {arm.fact('n_params'):,} parameters)"
        parts = [f"{data}{size}", str(model), str(update)]
        lines.append(", ".join(part for part in parts if part != "None") + ".")
        iterations, burn_in = info.get("iterations"), info.get("burn_in")
        if iterations is not None and burn_in is not None:
            lines.append(f"{iterations:,} iterations, the first {burn_in:,} of them burn-in and left out.")
    return lines


def legend(run: Run) -> list[str]:
    """What the tables' columns mean."""
    lines = [
        "queries/iter: likelihoods evaluated per iteration after burn-in; set-up work is in its own column. "
        "ESS/1000 iter: R-CODA's effective samples per 1,000 iterations, mean over coordinates. "
        "speedup: ESS per query relative to the regular arm; its sd takes both arms' spreads over seeds, "
        "speedup · sqrt(cv² + cv_regular²).",
        "bulk, tail and square ESS: ArviZ's, of all chains together; square is the ESS of (θ - mean)², which "
        "antithetic chains cannot flatter. "
        "ESS/s and wall speedup: R-CODA's ESS by the time of sampling after burn-in, compiling and set-up "
        "left out.",
    ]
    if len({arm.fact("n_data") for arm in run.arms if arm.done}) > 1:
        lines.append(
            "queries/ESS: likelihood queries per effective sample, set-up left out. set-up s: MAP, bounds and"
            " rates. peak MB: the most resident memory, pages of mapped files included, that a process held "
            "while setting up or sampling."
        )
    if any(arm.fact("gauge") for arm in run.arms):
        lines.append(
            "gauge-free: of Θ minus its mean over classes. The likelihood ignores that mean: there the "
            "posterior is the prior."
        )
    if any(arm.fact("gauge") or arm.fact("gradients") for arm in run.arms):
        lines.append(
            "square ESS: R-CODA's of (θ - mean)², mean over coordinates, gauge-free where there is a gauge; "
            "worse: the smaller of means' and squares'."
        )
    if run.source:
        lines.append(f"paper: {run.source}.")
    return lines


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
