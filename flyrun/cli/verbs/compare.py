"""flyrun compare A B [results_dir=FOLDER] [out=FILE] [level=0.05] [margin=0.05]

Tells for each arm and each figure of merit whether B is better than A, worse, the same, or whether too few
seeds leave it undecided, by tests over seeds that allow for the number of comparisons.

A, B                   a run (name or folder); a table (table.csv, table.json, a folder with one, a name in
                       results/measured); or a commit, for all tables in results/measured as of then, or
                       COMMIT:NAME for one of them
results_dir=results    where results are: its runs/ holds the runs
out=FILE               write the comparison there as well: .md or .csv
level=0.05             probability of finding any difference where there is none
margin=0.05            what counts as the same: within this share of A

An option is written KEY=VALUE, --KEY VALUE or --KEY=VALUE: out=FILE, --out FILE, --results-dir FOLDER.

Examples
  flyrun compare mnist_logreg small_q
  flyrun compare HEAD~1 HEAD --out changes.md
"""

from __future__ import annotations

from rich.console import Console

from flyrun.cli.options import file_or_none, number, take
from flyrun.compare.compare import LEVEL, MARGIN, compare
from flyrun.errors import ConfigError


def run(words: list[str]) -> int:
    """Print what differs between two runs, tables or commits."""
    plain, given = take("compare", words, ("results_dir", "out", "level", "margin"))
    if len(plain) != 2:
        raise ConfigError("compare: takes two runs, tables or commits; as in `flyrun compare first second`")
    level, margin = (_share(key, given.get(key, str(usual))) for key, usual in _USUAL)
    results_dir = given.get("results_dir", "results")
    compare(plain[0], plain[1], results_dir, level, margin, file_or_none(given), Console(highlight=False))
    return 0


_USUAL = (("level", LEVEL), ("margin", MARGIN))


def _share(key: str, text: str) -> float:
    return number(key, text, lambda value: 0 < value < 1, "a number between 0 and 1, such as 0.05")
