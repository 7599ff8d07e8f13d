"""The works that a run rests on, as BibTeX: of its experiment, its methods, models and data.

What options and experiments say in `paper`, and the registry of data in `source`, is read as people write it:
"Neal 2003; Roberts et al. 1997", "R. Bardenet, A. Doucet and C. Holmes, On …, 2014 and 2017". An entry of
bibliography.bib belongs to a year in it where its authors stand before that year.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyrun import __version__
from flyrun.experiments.config.arm import ARM_GROUPS
from flyrun.experiments.data import registry
from flyrun.ground.schema import SCHEMAS, listing

_ENTRY = re.compile(r"^@\w+\{(\w+),\n.*?^\}$", re.MULTILINE | re.DOTALL)
_YEAR = re.compile(r"(?<![\d,.])(?:1[6-9]|20)\d\d(?![\d]|[,.]\d)")
_INITIALS = re.compile(r"\b(?:[^\W\d_]\.[ -]?)+ ?")


@dataclass(frozen=True)
class Work:
    """An entry of the bibliography. names: its authors' surnames, in order."""

    key: str
    names: tuple[str, ...]
    year: str
    bibtex: str

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Its authors in a text without initials and "and": all of them, or the first with others."""
        whole = re.escape(", ".join(self.names))
        few = rf"|{re.escape(self.names[0])}(?: et al|, others)" if len(self.names) > 2 else ""
        return re.compile(rf"(?<![\w-])(?:{whole}{few})(?![\w-])")


@functools.cache
def bibliography() -> dict[str, Work]:
    """Every entry by its key."""
    text = Path(__file__).with_name("bibliography.bib").read_text(encoding="utf-8")
    works = {}
    for entry in _ENTRY.finditer(text):
        authors = re.search(r"^  author = \{(.*)\},$", entry[0], re.MULTILINE)
        year = re.search(r"^  year = \{(\d+)\},$", entry[0], re.MULTILINE)
        names = authors[1].split(" and ") if authors else []
        surnames = tuple(name.partition(",")[0] for name in names)
        works[entry[1]] = Work(entry[1], surnames, year[1] if year else "", entry[0])
    return works


def cited(text: str) -> Iterator[tuple[str, list[Work]]]:
    """(a year of the text with what stands before it, the works that these name): one, where all is well."""
    names, place = "", 0
    for year in _YEAR.finditer(text):
        before, place = text[place : year.start()], year.end()
        plain = re.sub(r" (?:and|&) ", ", ", _INITIALS.sub("", before))
        names = plain if re.search(r"[^\W\d_]{2}", plain.replace("and", "")) else names  # "2014 and 2017"
        matching = [w for w in bibliography().values() if w.year == year[0] and w.pattern.search(names)]
        most = max((len(work.names) for work in matching), default=0)
        yield (before + year[0]).strip(" ;,"), [work for work in matching if len(work.names) == most]


def sources(info: dict[str, Any]) -> dict[str, list[str]]:
    """What a run's experiment and its arms' options say that they are from: text -> who says it."""
    who_says: dict[str, list[str]] = {}
    if info.get("paper"):
        who_says[str(info["paper"])] = [f"experiment={info.get('experiment')}"]
    for arm in info["arms"]:
        for group in ARM_GROUPS:
            name = (arm.get("settings", {}).get(group) or {}).get("name")
            text = source(group, str(name))
            who = f"{group}={name}"
            if text and who not in who_says.setdefault(text, []):
                who_says[text].append(who)
    return who_says


def source(group: str, name: str) -> str:
    """What an option says that it is from; "" where it says nothing, or there is none of the name."""
    entry = registry.entry(name) if group == "dataset" and name in registry.names() else {}
    return str(entry.get("source") or getattr(SCHEMAS[group].get(name), "paper", ""))


def _silent(info: dict[str, Any]) -> Iterator[str]:
    """A line for each option of a package that is not installed, and for each sampler that names no work."""
    chosen = {
        (group, str((arm.get("settings", {}).get(group) or {}).get("name")))
        for arm in info["arms"]
        for group in ARM_GROUPS
        if arm.get("settings", {}).get(group)
    }
    for group, name in sorted(chosen):
        cls = SCHEMAS[group].get(name) or SCHEMAS[group].get("*")
        if cls is None or hasattr(cls, "reason"):  # why it cannot be used
            yield f"% {group}={name}: is no choice here; install its package to cite what it is from"
        elif group == "sampler" and not source(group, name):
            yield f"% {group}={name}: names no work that it is from"


def bibtex(info: dict[str, Any]) -> str:
    """BibTeX of all that a run rests on, each entry once, after who names it. info: its run.json.

    A `paper` that is BibTeX itself is taken as it stands. What has no entry is a line that says so.
    """
    entries, missing = {bibliography()["flyrun"].bibtex: [f"flyrun {__version__}"]}, list(_silent(info))
    for text, who in sources(info).items():
        if text.lstrip().startswith("@"):
            entries[text.strip()] = who
            continue
        for citation, works in cited(text):
            if len(works) == 1:
                entries.setdefault(works[0].bibtex, []).extend(who)
            else:
                missing.append(f"% {listing(who)}: no entry for {' '.join(citation.split())}; add it by hand")
    blocks = [f"% {listing(dict.fromkeys(who))}\n{entry}" for entry, who in entries.items()]
    return "\n\n".join([*blocks, *missing]) + "\n"
