"""flyrun check [EXPERIMENT ...] [--update] [workers=N] [values=FOLDER]

Runs short chains of every arm at fixed seeds and compares them with what is stored: exactly where
machine and libraries are the same, by tests elsewhere. Exit code 1 where an arm differs. Takes minutes
for all experiments.

EXPERIMENT             which ones; default: all
--update               store what is measured, and print how it differs from what was stored
workers=N              processes; default: one per core
values=FOLDER          where the values are stored; default: results/reference/check

An option is written KEY=VALUE, --KEY VALUE or --KEY=VALUE: out=FILE, --out FILE, --results-dir FOLDER.

Examples
  flyrun check toy_flymc
  flyrun check --update toy_flymc --values FOLDER
"""

from __future__ import annotations

from rich.console import Console

from flyrun.check.run import check
from flyrun.children import cores
from flyrun.cli.options import file_or_none, number, take
from flyrun.paths import reference_dir


def run(words: list[str]) -> int:
    """Compare short chains with stored ones, or store them."""
    plain, given = take("check", words, ("values", "workers"), flags=("update",))
    whole = "a whole number at least 1"
    workers = number("workers", given.get("workers", str(cores())), lambda n: n >= 1 and n == int(n), whole)
    folder = file_or_none(given, "values") or reference_dir() / "check"
    return check(plain, folder, "update" in given, int(workers), Console(highlight=False))
