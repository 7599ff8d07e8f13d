"""What `flyrun list`, `info` and `data` print."""

import itertools
import shutil
import textwrap
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from flyrun.experiments.config import plugins
from flyrun.experiments.config.axes import Axis, axes, expand
from flyrun.experiments.config.catalogue import (
    SHOWN,
    described,
    files,
    first_comment,
    load,
    options,
    paragraphs,
    plural,
)
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import SCHEMAS, did_you_mean, flat, listing, show, typed_fields


def list_text(kind: str | None = None, folders: Sequence[str | Path] = ()) -> str:
    """All options of one kind (singular or plural) or of all, a line each. ConfigError for no such kind."""
    kinds = {plural(group): group for group in SHOWN} | {group: group for group in SHOWN}
    if kind is not None and kind not in kinds:
        known = [plural(group) for group in SHOWN]
        raise ConfigError(f"list {kind}: no such kind{did_you_mean(kind, kinds)}; there are {listing(known)}")
    blocks = []
    for group in SHOWN if kind is None else [kinds[kind]]:
        texts = described(group, folders)
        width = _width(texts)
        lines = [f"  {name:<{width}}{text}".rstrip() for name, text in texts.items()]
        blocks.append("\n".join([plural(group), *lines]))
    return "\n\n".join(blocks)


def info_text(name: str, folders: Sequence[str | Path] = (), groups: Sequence[str] = SHOWN) -> str:
    """What is known of every option called `name`. Raises ConfigError where there is none."""
    known = {group: options(group, folders) for group in groups}
    having = [group for group in groups if name in known[group]]
    if not having:
        close = did_you_mean(name, itertools.chain(*known.values()))
        where = "`flyrun list`" if groups is SHOWN else f"`flyrun list {groups[0]}`"
        raise ConfigError(f"info {name}: nothing has this name{close}; see {where}")
    return "\n\n".join(_describe(group, name, files(group, folders).get(name)) for group in having)


def data_text() -> str:
    """One line for each dataset: name, state of its file, description."""
    from flyrun.experiments.data import registry  # late: numpy takes a tenth of a second

    comments, states = described("dataset"), {name: registry.state(name) for name in registry.names()}
    first, second = _width(states), _width(states.values())
    lines = (f"{name:<{first}}{at:<{second}}{comments.get(name, '')}" for name, at in states.items())
    return "\n".join(line.rstrip() for line in lines)


def _width(names: Iterable[str]) -> int:
    """Of a column of these words, two blanks after the longest."""
    return max(map(len, names), default=0) + 2


def _describe(group: str, name: str, path: Path | None) -> str:
    """An option's rows; a plug-in's, which has no file, from its class."""
    values = load(path) if path else plugins.defaults(group, name)
    rows = [("what", first_comment(path) if path else paragraphs(SCHEMAS[group][name])[0])]
    if group == "experiment":
        rows += _experiment_rows(name, values)
    else:
        known = SCHEMAS[group]
        cls = known.get(str(values.get("name"))) or known.get("*")
        if cls is not None:
            usual, more = flat(values), paragraphs(cls)[1:]
            settings = [
                f"{group}.{key}={show(usual[key])}  {item.metadata.get('doc', '')}"
                for key, _, item in typed_fields(cls)
                if key != "name" and key in usual
            ]
            rows += [("", text) for text in more]
            rows += [("paper", getattr(cls, "paper", "")), ("keys", "\n".join(settings))]
        if group == "dataset":
            rows += _data_rows(name)
        rows.append(("choose with", f"{group}={name}"))
    return "\n".join([f"{group} {name}", *_aligned(rows)])


def _experiment_rows(name: str, values: dict[str, Any]) -> list[tuple[str, str]]:
    chosen = {
        key.split("/")[-1]: str(option)
        for entry in values.get("defaults") or []
        if isinstance(entry, dict)
        for key, option in entry.items()
    }
    data = files("dataset").get(chosen.get("dataset", ""))
    arms, sweep = values.get("arms") or {}, values.get("sweep") or {}
    lines = [f"{arm or '(at the points alone)'}: {_words(arguments)}" for arm, arguments in arms.items()]
    along = [_axis_text(axis, arms) for axis in axes(sweep, arms)]
    if sweep:
        every = list(expand(arms, sweep))
        along.append(f"{len(every)} arms in all, from {every[0]} to {every[-1]}" if every else "no arms")
    return [
        ("title", str(values.get("title", ""))),
        ("paper", str(values.get("paper", ""))),
        ("reproduces", str(values.get("description", ""))),
        ("data", first_comment(data) if data else chosen.get("dataset", "")),
        ("choices", ", ".join(f"{group}={option}" for group, option in chosen.items())),
        ("arms", "\n".join(lines)),
        ("sweep", "\n".join(along)),
        ("takes", str(values.get("expected_time", ""))),
        ("run with", f"flyrun experiment={name}"),
    ]


def _axis_text(axis: Axis, arms: Collection[str]) -> str:
    """An axis in a line: its points, the arms it takes where not all, and the exceptions."""
    points = [_words(given) if at is None else f"{at} ({_words(given)})" for at, given in axis.points.items()]
    parts = [", ".join(points)] + ([f"of {_words(axis.arms)}"] if len(axis.arms) < len(arms) else [])
    special = [f"{arm} ({_words(given)})" for arm, given in axis.exceptions.items()]
    return f"{axis.name}: {'; '.join(parts + ([f'besides {_words(special)}'] if special else []))}"


def _words(parts: Iterable[Any]) -> str:
    return ", ".join(map(str, parts))


def _data_rows(name: str) -> list[tuple[str, str]]:
    from flyrun.experiments.data import registry  # late: numpy takes a tenth of a second

    if name not in registry.names():
        return []
    facts = registry.describe(name)
    return [
        (key.replace("_", " "), "\n".join(map(str, value)) if isinstance(value, list) else str(value))
        for key, value in facts.items()
        if key != "name" and not isinstance(value, dict)
    ]


def _aligned(rows: list[tuple[str, str]]) -> list[str]:
    """Lay out label and text in two columns, wrapped to the terminal; empty texts are left out."""
    width = max(40, min(shutil.get_terminal_size().columns, 100))
    lines, blank = [], " " * 15
    for label, text in rows:
        indent = f"  {label:<13}"
        for part in filter(None, text.splitlines()):
            lines += textwrap.wrap(part, width, initial_indent=indent, subsequent_indent=blank)
            indent = blank
    return lines


def own_folders(folder: str | None) -> list[str]:
    """Folders with options of a person's own; ConfigError where there is no such folder."""
    if folder is not None and not Path(folder).is_dir():
        raise ConfigError(f"--config-dir {folder}: no such folder")
    return [] if folder is None else [folder]
