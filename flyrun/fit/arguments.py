"""The words after `flyrun fit`, and its help. Imports nothing heavy."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flyrun import outputs
from flyrun.config import GROUPS, Table
from flyrun.errors import ConfigError
from flyrun.schema import did_you_mean, listing, quoted

MODELS = ("logistic", "softmax", "student_t")
_LISTS = ("features", "drop", "categorical")
CHOICES = {"model": MODELS, "missing": ("refuse", "drop"), "decimal": (".", ",")}

HELP = """\
flyrun fit FILE --target COLUMN [OPTION ...] [KEY=VALUE ...]

Fits a regression to a table of your own, exactly: draws from the posterior by Hamiltonian Monte Carlo, on
tall tables by Firefly-HMC, which looks at few rows an iteration. Goes on until the chains agree (rank R-hat
below 1.01 and a bulk ESS of 400 in every coefficient) or the budget ends; then prints the coefficients on
the columns' own scales and writes, to results/runs/<name of the file>:
  posterior.nc     the draws, for ArviZ or xarray.open_datatree
  table.csv        the coefficients: mean, sd, 94 % interval, ESS, R-hat
  report.html      the same with figures, on one page; report.md

FILE                   .csv, .tsv, .csv.gz, .npz, or .parquet (with flyrun[parquet]), of any length
--target COLUMN        what is to be explained. Two values: logistic regression; words, or at most 10 whole
                       numbers: softmax; other numbers: regression with Student-t noise
--model MODEL          logistic, softmax or student_t, where the target's own look misleads
--features A,B         the columns that explain it (default: all others)
--drop A,B             columns to leave out, as names and row numbers
--categorical A,B      columns of numbers that are names, as postcodes; text is taken so anyhow
                       (a column's name that holds a comma goes in quotes: --drop '"a, b",c')
--missing refuse|drop  rows that lack a value: an error naming the first (default), or left out, counted
--decimal ,            the decimal sign of a CSV file, where it is a comma
--rows N               only the first N rows
--prior-scale 2.5      sd of the normal prior on a coefficient per sd of its column
--budget 10m           when to stop if the chains do not agree: seconds (90s), minutes, hours (2h), or
                       iterations a chain (20000)
--name NAME            folder under results/runs (default: the file's name)
--results-dir results  where that is
--workers N            processes (default: as many as pay)
--quiet | --json       print the table's path only, or events for machines, one JSON object a line
--fresh                begin again; without it chains go on from where they are, as after Ctrl-C
KEY=VALUE              anything else that an arm takes, as sampler.n_steps=8, protocol.seeds=8 or
                       dataset.standardize=false

Numbers are standardised for sampling; a category of L levels has L-1 coefficients, against its first level.

Examples
  flyrun fit patients.csv --target survived
  flyrun fit houses.parquet --target price --drop id,address --missing drop --budget 1h
  flyrun fit patients.csv --target survived --budget 2h      the same chains, longer"""

_FLAGS = {
    "--target": "target",
    "--model": "model",
    "--features": "features",
    "--drop": "drop",
    "--categorical": "categorical",
    "--missing": "missing",
    "--decimal": "decimal",
    "--rows": "limit",
    "--prior-scale": "prior_scale",
    "--budget": "budget",
    "--name": "name",
    "--results-dir": "results_dir",
    "--workers": "workers",
}
FLAGS = (*_FLAGS, "--fresh", *outputs.FLAGS)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Budget:
    """When to stop: seconds, or iterations a chain."""

    seconds: float = math.inf
    iterations: int | None = None

    def __str__(self) -> str:
        """As a person would say it."""
        if self.iterations is not None:
            return f"{self.iterations:,} iterations a chain"
        unit = "h" if self.seconds >= 7200 else "m" if self.seconds >= 120 else "s"
        words = {"s": "seconds", "m": "minutes", "h": "hours"}
        return f"{self.seconds / _UNITS[unit]:g} {words[unit]}"


@dataclass(frozen=True)
class Request:
    """One command line. words: as typed, without --fresh and the output, for the command that goes on."""

    file: str
    target: str
    model: str | None = None
    table: dict[str, Any] = field(default_factory=dict)
    prior_scale: float = 2.5
    budget: Budget = Budget(600.0)
    name: str | None = None
    results_dir: str = "results"
    workers: int | None = None
    fresh: bool = False
    overrides: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def parse(words: Sequence[str]) -> Request:
    """Read the words after `fit`, those on the output taken. Raises ConfigError naming word and remedy."""
    plain, overrides, fresh = [], [], False
    given: dict[str, str] = {}
    queue = list(words)
    while queue:
        word = queue.pop(0)
        flag, equals, value = word.partition("=")
        if word == "--fresh":
            fresh = True
        elif flag in _FLAGS:
            if not equals and not queue:
                raise ConfigError(f"fit: {flag} must be followed by a value; see `flyrun fit --help`")
            key, value = _FLAGS[flag], value if equals else queue.pop(0)
            if key in given and key not in _LISTS:
                raise ConfigError(f"fit {flag}: is given twice; keep one of them")
            given[key] = f"{given[key]},{value}" if key in given else value
        elif word.startswith("-"):
            close = did_you_mean(flag, FLAGS)
            raise ConfigError(f"fit {flag}: no such option{close}; see `flyrun fit --help`")
        elif equals and flag.partition(".")[0] in GROUPS:
            overrides.append(word)
        else:
            plain.append(word)
    if len(plain) != 1:
        what = f"{plain[1]}: one file is enough" if plain else "a file is missing"
        raise ConfigError(f"fit: {what}; as in `flyrun fit mine.csv --target COLUMN`")
    if "target" not in given:
        raise ConfigError(
            "fit: name the column to explain, as in "
            f"`flyrun fit {quoted(plain[0])} --target {quoted((columns(plain[0]) or ['COLUMN'])[-1])}`"
        )
    for key, known in CHOICES.items():
        if given.get(key) not in (None, *known):
            close = did_you_mean(given[key], known)
            raise ConfigError(f"fit --{key} {given[key]}: must be {listing(known, 'or')}{close}")
    table: dict[str, Any] = {key: _names(given[key]) for key in _LISTS if key in given}
    table |= {key: given[key] for key in ("missing", "decimal") if key in given}
    if "limit" in given:
        table["limit"] = _whole("--rows", given["limit"])
    return Request(
        file=plain[0],
        target=given["target"],
        model=given.get("model"),
        table=table,
        prior_scale=_positive("--prior-scale", given.get("prior_scale", "2.5")),
        budget=_budget(given.get("budget", "10m")),
        name=given.get("name"),
        results_dir=given.get("results_dir", "results"),
        workers=_whole("--workers", given["workers"]) if "workers" in given else None,
        fresh=fresh,
        overrides=tuple(overrides),
        words=tuple(word for word in words if word != "--fresh"),
    )


class TypedTable(Table):
    """The table of `flyrun fit`, whose errors name this command's options."""

    def say(self, key: str, value: str | None = None) -> str:
        """An option as it is typed; a column's name joins those of a list."""
        flag = next((flag for flag, known in _FLAGS.items() if known == key), "")
        if value is not None and isinstance(there := getattr(self, key, None), tuple):
            value = ",".join(map(_listed, [*there, value]))
        return " ".join(word for word in (flag, value and quoted(value)) if word)


def _names(text: str) -> tuple[str, ...]:
    """The names in a list with commas; those that hold a comma stand in quotes."""
    found = re.findall(r'\s*"((?:[^"]|"")+)"\s*(?:,|$)|([^,]+)', text)
    names = (whole.replace('""', '"') or plain.strip() for whole, plain in found)
    return tuple(name for name in dict.fromkeys(names) if name)


def _listed(name: str) -> str:
    if name == name.strip() and "," not in name and not name.startswith('"'):
        return name
    return '"' + name.replace('"', '""') + '"'


def columns(file: str) -> list[str]:
    """Columns of a file; none where it cannot be read, which is told later."""
    from pathlib import Path

    from flyrun.data import table_files
    from flyrun.errors import FlyrunError

    try:
        return table_files.names(Path(file).expanduser())
    except FlyrunError:
        return []


def _budget(text: str) -> Budget:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip().lower())
    value = float(found[1]) if found else 0.0
    if found is None or value <= 0 or (not found[2] and value != int(value)):
        raise ConfigError(
            f"fit --budget {text}: must be a time, as 90s, 10m or 2h, or a number of iterations, as 20000"
        )
    return Budget(value * _UNITS[found[2]]) if found[2] else Budget(iterations=int(value))


def _whole(flag: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"fit {flag} {text}: must be a whole number at least 1")
    return int(text)


def _positive(flag: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ConfigError(f"fit {flag} {text}: must be a number above 0")
    return value
