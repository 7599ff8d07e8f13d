"""The records of a page's table of claims, and what is wrong with them."""

import re
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

import yaml

from flyrun.ground.errors import ConfigError
from flyrun.ground.paths import reference_dir
from flyrun.ground.schema import listing
from tools.results.claims.judge import Check, check, left_out, matching, verdict

HOME = reference_dir() / "claims"
#: a verdict that is typed, not judged
_TYPED = re.compile(r"\b(holds?|held|does not|do not hold|in part|not decided|not settled)\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Record:
    """A claim. condition: the paper's own, in our words. note: what differs or explains, no verdict.

    apart: arms of the methods compared that the claim does not cover -> the reason; names take * and ?.
    """

    id: str
    claim: str
    where: str
    checks: list[Check]
    condition: str = ""
    note: str = ""
    apart: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The claim, and the condition under which it is made."""
        return f"{self.claim} (*{self.condition}*)" if self.condition else self.claim

    @property
    def verdict(self) -> str:
        """What the checks say, together."""
        return verdict(self.checks)

    @property
    def evidence(self) -> str:
        """What was measured, check by check, and the note."""
        texts, before = [], ""
        for one in self.checks:
            shown = "" if one.shown == before else f"{one.shown}: "
            texts.append(f"{shown}{one.of + ' ' if len(self.checks) > 1 else ''}{one.evidence()}")
            before = one.shown
        return ". ".join(texts + ([self.note] if self.note else []))

    @property
    def links(self) -> str:
        """Reports, their figures and commands, each once."""
        links = list(dict.fromkeys(link for one in self.checks for link in one.links()))
        return ", ".join(link for link in links if not any(other.startswith(f"{link} (") for other in links))


def records(name: str) -> list[Record]:
    """A table's records; ConfigError where one leaves out an arm, names no test, or types a verdict."""
    path = HOME / f"{name}.yaml"
    told = yaml.safe_load(path.read_text("utf-8"))
    if wrong := faults(told):
        raise ConfigError(f"{path}: {'; '.join(wrong)}")
    return [_record(row) for row in told]


def _record(told: dict[str, Any]) -> Record:
    return Record(**{**told, "checks": [check(one) for one in told["checks"]]})


def faults(told: list[dict[str, Any]]) -> list[str]:
    """What is wrong, a line each."""
    known = {one.name for one in fields(Record)}
    wrong = [
        f"{name}: {count} records" for name, count in Counter(r.get("id") for r in told).items() if count > 1
    ]
    for row in told:
        if more := sorted(row.keys() - known):
            wrong.append(f"{row.get('id')}: no key {listing(more)}")
            continue
        wrong += [f"{row.get('id')}: {text}" for text in _faults(row)]
    return wrong


def _faults(row: dict[str, Any]) -> list[str]:
    try:
        record = _record(row)
    except ConfigError as error:
        return [str(error)]
    typed = [key for key in ("note", "condition") if _TYPED.search(row.get(key, ""))]
    wrong = [f"{key} types a verdict" for key in typed]
    wrong += ["a check's `shown` types a verdict" for one in record.checks if _TYPED.search(one.shown)]
    if len(record.checks) > 1 and not all(one.of for one in record.checks):
        wrong.append("of several checks each says what it is `of`")
    wrong += [text for one in record.checks for text in one.faults()]
    return wrong or [
        f"{name} of {experiment} is of a method compared: cover it, or say under `apart` why not"
        for experiment, name in left_out(record.checks)
        if not matching(name, record.apart)
    ]
