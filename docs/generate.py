"""Writes conf/GROUP/*.yaml and docs/reference/ from the classes in flyrun/experiments/config (`make docs`).

Kept by hand are the files of experiments and protocols, and conf/config.yaml.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import yaml

from flyrun.experiments.config.arm import GROUPS
from flyrun.experiments.config.axes import axes
from flyrun.experiments.config.catalogue import SHOWN, files, paragraphs, plural
from flyrun.ground.exit_codes import MEANINGS
from flyrun.ground.paths import conf_dir
from flyrun.ground.schema import (
    SCHEMAS,
    Choice,
    Section,
    describe,
    show,
    typed_fields,
)

CONF = conf_dir()
REFERENCE = CONF.parent / "docs" / "reference"
GENERATED = [group for group in GROUPS if group not in ("experiment", "protocol")]
_KEYS = ["| key | default | takes | what |", "|---|---|---|---|"]
_COMMENT = re.compile(r"^([A-Za-z_]\w*):\s*[^#]*#\s*(.+)$", re.MULTILINE)

INDEX = """\
# Reference

Every option and key, a page for each group. `make docs` writes these pages, and the YAML files in `conf/`
with the same defaults, from the classes in `flyrun/experiments/config/`; a test keeps them current.

Type a key as `group.key=value` (`brightness.q=0.02`), an option as `group=option` (`sampler=mala`), and one
arm's key as `arms.ARM.group.key=value`. Write lists as `[a,b]`, and nothing as `null`. flyrun refuses a value
that does not fit, in one line and before anything runs.
"""


def everything() -> dict[Path, str]:
    """Path -> text of all that is generated."""
    texts = {CONF / group / f"{name}.yaml": _yaml(cls) for group in GENERATED for name, cls in _own(group)}
    links = ["[Keys of the whole run](run.md)"]
    texts[REFERENCE / "run.md"] = "\n".join(["# Keys of the whole run\n", *_whole_run()])
    for group in SHOWN:
        page = plural(group)
        links.append(f"[{page.capitalize()}]({page}.md): `{group}=…`")
        blocks = _SPECIAL[group]() if group in _SPECIAL else _options(group)
        texts[REFERENCE / f"{page}.md"] = "\n".join([f"# {page.capitalize()}: `{group}=…`\n", *blocks])
    texts[REFERENCE / "exit_codes.md"] = "\n".join(["# Exit codes\n", *_exit_codes(), ""])
    links.append("[Exit codes](exit_codes.md) of every command")
    texts[REFERENCE / "README.md"] = "\n".join([INDEX, *(f"- {link}" for link in links), ""])
    return texts


def left_over(texts: dict[Path, str]) -> list[Path]:
    """Files in the generated folders that nothing makes any more."""
    found = [*REFERENCE.glob("*.md"), *(path for g in GENERATED for path in (CONF / g).glob("*.yaml"))]
    return sorted({*found} - texts.keys())


def _own(group: str) -> list[tuple[str, type[Choice]]]:
    """flyrun's own options of a group, not those of plug-ins, by name."""
    own = SCHEMAS[group].items()
    return sorted((name, cls) for name, cls in own if cls.__module__.startswith("flyrun."))


def _yaml(cls: type[Choice]) -> str:
    head = paragraphs(cls)[0].removesuffix(".")
    return "\n".join([f"# {head}", f"name: {cls.name}", *_yaml_lines(cls, ""), ""])


def _yaml_lines(cls: type[Section], indent: str) -> Iterator[str]:
    for item in fields(cls):
        if item.name == "name" or item.metadata["shared"]:
            continue
        comment = f" # {item.metadata['doc']}"
        if item.default is MISSING:  # a section within
            yield f"{indent}{item.name}:{comment}"
            yield from _yaml_lines(type(item.default_factory()), indent + "  ")  # type: ignore[misc]
        else:
            yield f"{indent}{item.name}: {_value(item.default)}{comment}"


def _value(value: Any) -> str:
    """A value as YAML reads it back: 1.0e-05, since it takes 1e-5 for text."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str) and not (value.isidentifier() and yaml.safe_load(value) == value):
        return json.dumps(value)
    return yaml.safe_dump(value, allow_unicode=True).partition("\n")[0]


def _whole_run() -> list[str]:
    text = (CONF / "config.yaml").read_text("utf-8")
    values, comments = yaml.safe_load(text), {key: _cell(what) for key, what in _COMMENT.findall(text)}
    rows = [
        f"| `{key}` | `{show(values[key])}` | {what} |" for key, what in comments.items() if key != "hydra"
    ]
    return ["| key | default | what |", "|---|---|---|", *rows, ""]


def _exit_codes() -> list[str]:
    return ["| code | |", "|---|---|", *(f"| {code} | {what} |" for code, what in MEANINGS.items())]


def _experiments() -> list[str]:
    rows = []
    for name, path in files("experiment").items():
        values = yaml.safe_load(path.read_text("utf-8"))
        given, sweep = values.get("arms", {}), values.get("sweep", {})
        named = [[arm] for arm in given if arm or not sweep]
        named += [[name for name, _, _ in axis.expanded()] for axis in axes(sweep, given)]
        arms = ", ".join(" … ".join(f"`{one}`" for one in dict.fromkeys([n[0], n[-1]])) for n in named)
        rows.append(f"| `{name}` | {values['description'] or values['title']} | {arms} |")
    return ["| experiment | what | arms |", "|---|---|---|", *rows, ""]


def _protocols() -> list[str]:
    """All protocols have the same keys: a column for each protocol, and what the keys mean."""
    every = {name: yaml.safe_load(path.read_text("utf-8")) for name, path in files("protocol").items()}
    rows = []
    for item in fields(SCHEMAS["protocol"]["*"]):
        if item.name != "name":
            shown = " | ".join(f"`{show(values.get(item.name))}`" for values in every.values())
            rows.append(f"| `protocol.{item.name}` | {shown} | {_cell(item.metadata['doc'])} |")
    return [f"| key | {' | '.join(every)} | what |", "|---" * (len(every) + 2) + "|", *rows, ""]


def _options(group: str) -> list[str]:
    blocks = []
    shared: dict[type, list[str]] = {}
    for name, cls in _own(group):
        blocks += [f"## `{group}={name}`\n", *(f"{text}\n" for text in paragraphs(cls))]
        blocks += _table(cls, shared=False)
        if any(item.metadata.get("shared") for item in fields(cls)):
            shared.setdefault(cls, []).append(name)
    if shared:
        first = next(iter(shared))
        names = ", ".join(f"`{name}`" for each in shared.values() for name in each)
        blocks += [f"## Shared by {names}\n", *_table(first, shared=True)]
    return blocks


def _table(cls: type[Choice], shared: bool) -> list[str]:
    """A line for each of an option's own keys, or for each that it shares with others."""
    rows = []
    for key, hint, item in typed_fields(cls):
        if key != "name" and item.metadata["shared"] == shared:
            takes = _cell(describe(hint, item.metadata["range"]))
            rows.append(
                f"| `{cls.group}.{key}` | `{show(item.default)}` | {takes} | {_cell(item.metadata['doc'])} |"
            )
    return [*_KEYS, *rows, ""] if rows else []


def _cell(text: str) -> str:
    return text.strip().replace("|", "\\|")


_SPECIAL = {"experiment": _experiments, "protocol": _protocols}


if __name__ == "__main__":
    made = everything()
    for old in left_over(made):
        old.unlink()
    for path, text in made.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"wrote {len(made)} files in {CONF} and {REFERENCE}")
