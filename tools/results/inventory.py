"""What the four works have, and where it is here: papers.yaml, held against code and published results."""

from collections import Counter
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from flyrun.experiments.config.arm import Arm  # noqa: F401  (that it is imported registers the options)
from flyrun.ground.errors import ConfigError
from flyrun.ground.paths import conf_dir
from flyrun.ground.schema import SCHEMAS, listing
from tools.results.published import MEASURED

TABLE = Path(__file__).with_name("papers.yaml")
_PUBLISHED = Path(__file__).with_name("experiments.yaml")
_ROOT = conf_dir().parent
#: why a row is not here
REASONS = ("not built", "data", "proof", "statement")

#: what a data set here is to that of the paper
DATA = ("authors' own", "public stand-in", "generated")


@dataclass(frozen=True)
class Row:
    """What a work has, as papers.yaml says. data: of a data set, one of DATA."""

    what: str
    title: str
    where: str = ""
    option: str = ""
    file: str = ""
    experiment: str = ""
    result: str = ""
    figure: str = ""
    differs: str = ""
    missing: str = ""
    data: str = ""

    @property
    def place(self) -> str:
        """Where it stands in the text."""
        return f"{self.what}, {self.where}" if self.where else self.what

    @property
    def reason(self) -> str:
        """One of REASONS, or "" where it is here."""
        return self.missing.partition(":")[0]

    @property
    def note(self) -> str:
        """How ours differs, or what stands in the way: a sentence."""
        said = self.missing.partition(":")[2].strip()
        return said[:1].upper() + said[1:] or self.differs

    @property
    def here(self) -> str:
        """A link to its file by the option that chooses it, or the reason why there is none."""
        name = f"`{self.option}`" if self.option else self.file.rpartition("/")[2]
        return f"[{name}](../{self.file})" if self.file else f"*{self.reason}*"

    @property
    def measured(self) -> str:
        """Links to what is published of it; the command where its report is an older one, or none."""
        runs = [self.result] if self.result else []
        if self.experiment and _report(self.experiment) and self.experiment not in older():
            runs.insert(0, self.experiment)
        links = [f"[{name}](../results/measured/{_report(name)})" for name in runs]
        if self.figure:
            links.insert(0, f"[figure](../results/measured/{_figure(self.figure)})")
        return ", ".join(links) or (f"`flyrun experiment={self.experiment}`" if self.experiment else "")


@dataclass(frozen=True)
class Section:
    """A work, or a chapter of one. page: of docs, the one about its methods."""

    work: str
    title: str
    source: str
    page: str
    rows: list[Row]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows; how many are here, and published as they are now; how many are not, by reason."""
        reports = sum("](" in row.measured for row in self.rows)
        why = Counter(row.reason for row in self.rows)
        known = {"rows": len(self.rows), "here": why[""], "reports": reports}
        return known | {reason: why[reason] for reason in REASONS}


@cache
def sections() -> list[Section]:
    """All of papers.yaml; ConfigError where it says what is not so."""
    told = yaml.safe_load(TABLE.read_text("utf-8"))
    if wrong := faults(told):
        raise ConfigError(f"{TABLE}: {'; '.join(wrong)}")
    return [Section(**{**one, "rows": [Row(**row) for row in one["rows"]]}) for one in told]


def faults(told: list[dict[str, Any]]) -> list[str]:
    """What is wrong, a line each."""
    known = {field.name for field in fields(Row)}
    every = [(one["work"], row) for one in told for row in one["rows"]]
    named = Counter((work, row.get("what"), row.get("title")) for work, row in every)
    found = [f"{' '.join(map(str, name))}: {count} rows" for name, count in named.items() if count > 1]
    for work, row in every:
        more = sorted(row.keys() - known)
        said = [f"no key {listing(more)}"] if more else _faults(Row(**row))
        found += [f"{work}, {row.get('what')}, {row.get('title')}: {text}" for text in said]
    return found


def _faults(row: Row) -> list[str]:
    group, _, name = row.option.partition("=")
    runs = [run for run in (row.result, row.figure.partition("/")[0]) if run]
    wrong = {
        "either a file or a reason why it is missing": bool(row.file) == bool(row.missing),
        f"missing: {row.reason}: no reason; one of {listing(REASONS)}": row.missing
        and row.reason not in REASONS,
        f"data: {row.data!r}: must be one of {listing(DATA)}": (row.what == "Data") != (row.data in DATA),
        f"no file {row.file}": row.file and not (_ROOT / row.file).is_file(),
        f"no option {row.option}": row.option and name not in SCHEMAS.get(group, {}),
        f"no experiment {row.experiment}": row.experiment
        and not (conf_dir() / f"experiment/{row.experiment}.yaml").exists(),
        f"no figure {row.figure}": row.figure and not (MEASURED / _figure(row.figure)).exists(),
    }
    return (
        [text for text, so in wrong.items() if so]
        + [f"{run} is not published" for run in runs if not _report(run)]
        + [f"{run} is older than its experiment" for run in runs if run in older()]
    )


@cache
def older() -> set[str]:
    """Published runs that are not of their experiment as it is now."""
    return {name for name, own in yaml.safe_load(_PUBLISHED.read_text("utf-8")).items() if own.get("older")}


def _figure(name: str) -> str:
    run, _, figure = name.partition("/")
    return f"{run}/figures/{figure}.png"


def _report(name: str) -> str:
    """A published run or table, below results/measured; "" where there is none."""
    paths = (f"{name}/report.md", f"{name}.md", f"{name}.csv")
    return next((path for path in paths if (MEASURED / path).exists()), "")
