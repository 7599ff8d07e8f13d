"""flyrun table REFERENCE [results_dir=FOLDER] [out=FILE]

Prints a published table as a whole: every arm of the paper's and of your runs of its experiments, ours
beside the paper's. Arms that were not run are rows too, with the command that runs them.

REFERENCE              a published table, such as firefly_table1
results_dir=results    where results are: its runs/ holds the runs
out=FILE               write FILE.md and FILE.csv as well

An option is written KEY=VALUE, --KEY VALUE or --KEY=VALUE: out=FILE, --out FILE, --results-dir FOLDER.

Examples
  flyrun table firefly_table1
  flyrun table firefly_table1 --out table1
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from flyrun.cli.options import file_or_none, one_name, take
from flyrun.compare import published


def run(words: list[str]) -> int:
    """Print a published table, ours beside."""
    plain, given = take("table", words, ("results_dir", "out"))
    name = one_name("table", plain, "firefly_table1")
    folder = Path(given.get("results_dir", "results")).expanduser()
    published.build(name, folder, file_or_none(given), Console(highlight=False))
    return 0
