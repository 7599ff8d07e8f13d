"""Writes docs/configuration.md from the schemas and the YAML files (`make docs`)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import yaml

from flyrun.config.axes import axes
from flyrun.config.catalogue import SHOWN, files, plural
from flyrun.config.schema import SCHEMAS, describe, flat, show, typed_fields
from flyrun.paths import conf_dir

PAGE = Path(__file__).with_name("configuration.md")
_KEYS = ["| key | default | takes | what |", "|---|---|---|---|"]
_COMMENT = re.compile(r"^\s*([A-Za-z_]\w*):\s*[^#]*#\s*(.+)$")

HEAD = """\
# Configuration reference

Made by `make docs` from the schemas in `flyrun/config/` and the comments in `conf/`; a test keeps it
current.

A key is typed as `group.key=value` (`brightness.q=0.02`), an option as `group=option` (`sampler=mala`), one
arm's key as `arms.ARM.group.key=value`. Lists are written `[a,b]`, nothing is `null`. A value that does not
fit is refused in one line, before anything runs.
"""


def page() -> str:
    """The whole page."""
    blocks = [HEAD, "## Keys of the whole run\n", _whole_run()]
    for group in SHOWN:
        blocks.append(f"## {plural(group).capitalize()}: `{group}=…`\n")
        blocks += _SPECIAL.get(group, _options)(group)
    return "\n".join(blocks)


def _whole_run() -> str:
    path = conf_dir() / "config.yaml"
    values, comments = yaml.safe_load(path.read_text("utf-8")), _comments(path)
    rows = [
        f"| `{key}` | `{show(values[key])}` | {comments[key]} |"
        for key in comments
        if key in values and key != "hydra"
    ]
    return "\n".join(["| key | default | what |", "|---|---|---|", *rows, ""])


def _experiments(_: str) -> list[str]:
    rows = []
    for name, path in files("experiment").items():
        values = yaml.safe_load(path.read_text("utf-8"))
        given, sweep = values.get("arms", {}), values.get("sweep", {})
        named = [[arm] for arm in given if arm or not sweep]
        named += [[name for name, _, _ in axis.expanded()] for axis in axes(sweep, given)]
        arms = ", ".join(" … ".join(f"`{one}`" for one in dict.fromkeys([n[0], n[-1]])) for n in named)
        rows.append(f"| `{name}` | {values['description'] or values['title']} | {arms} |")
    return ["| experiment | what | arms |", "|---|---|---|", *rows, ""]


def _protocols(group: str) -> list[str]:
    """All protocols have the same keys: a column each, and what they mean beside the default's."""
    every = {name: yaml.safe_load(path.read_text("utf-8")) for name, path in files(group).items()}
    comments = _comments(files(group)["default"])
    rows = []
    for item in fields(SCHEMAS[group]["*"]):
        if item.name != "name":
            shown = " | ".join(f"`{show(values.get(item.name))}`" for values in every.values())
            rows.append(f"| `{group}.{item.name}` | {shown} | {comments.get(item.name, '')} |")
    head = f"| key | {' | '.join(every)} | what |"
    return [head, "|---" * (len(every) + 2) + "|", *rows, ""]


def _options(group: str) -> list[str]:
    blocks = []
    for name, path in files(group).items():
        schema = SCHEMAS[group].get(name) or SCHEMAS[group].get("*")
        if schema is None:
            continue
        defaults, comments = yaml.safe_load(path.read_text("utf-8")), _comments(path)
        first = path.read_text("utf-8").splitlines()[0].lstrip("# ")
        blocks += [f"### `{group}={name}`\n", f"{first}.\n" if first[-1] not in ".!?" else f"{first}\n"]
        about = inspect.getdoc(schema)
        if about and name in SCHEMAS[group]:
            blocks.append(f"{about.splitlines()[0]}\n")
        rows = _rows(schema, comments, flat(defaults), {"name", *schema.shared})
        if rows:
            blocks += [*_KEYS, *rows, ""]
    shared = [cls for cls in SCHEMAS[group].values() if cls.shared]
    if shared:
        names = ", ".join(f"`{cls.name}`" for cls in shared)
        other = {key for key, _, _ in typed_fields(shared[0])} - shared[0].shared.keys()
        blocks += [f"### Shared by {names}\n", *_KEYS, *_rows(shared[0], shared[0].shared, {}, other), ""]
    return blocks


def _rows(schema: Any, comments: Mapping[str, str], stored: dict[str, Any], without: set[str]) -> list[str]:
    """A line for each of an option's keys, but for those."""
    rows = []
    for key, hint, item in typed_fields(schema):
        if key in without:
            continue
        default = stored.get(key, None if item.default is MISSING else item.default)
        takes = describe(hint, item.metadata.get("range")).replace("|", "\\|")
        what = comments.get(item.name, "")
        rows.append(f"| `{schema.group}.{key}` | `{show(default)}` | {takes} | {what} |")
    return rows


_SPECIAL = {"experiment": _experiments, "protocol": _protocols}


def _comments(path: Path) -> dict[str, str]:
    """Key -> the comment at the end of its line."""
    found = (_COMMENT.match(line) for line in path.read_text("utf-8").splitlines())
    return {match[1]: match[2].strip().replace("|", "\\|") for match in found if match}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
