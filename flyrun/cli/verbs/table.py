"""flyrun table: a run's tables, or a published table as a whole, ours beside; as LaTeX where asked for."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from flyrun.cli.verb import Verb, path
from flyrun.experiments.runner.store import find_run, runs
from flyrun.ground.errors import StoreError
from flyrun.ground.paths import references
from flyrun.ground.schema import did_you_mean, listing


def run(given: argparse.Namespace) -> int:
    """Print a run's tables, or a published one."""
    from flyrun.experiments.compare import published  # late
    from flyrun.ground.page.render import screen  # late, as below: help and Tab need neither

    if given.table in references():
        published.build(given.table, given.results_dir, given.out, screen(), given.latex)
    else:
        published.of_run(_run(given), given.out, screen(), given.latex)
    return 0


def _run(given: argparse.Namespace) -> Path:
    """The folder of a run. Raises StoreError, naming the published tables too."""
    try:
        return find_run(given.table, given.results_dir)
    except StoreError as error:
        close = did_you_mean(given.table, references())
        raise StoreError(f"{error}; published tables: {listing(references())}{close}") from None


def _known(_: list[str]) -> Iterable[str]:
    return [*runs("results"), *references()]


VERB = Verb(
    "table",
    "print a run's tables, or a published one with ours beside; LaTeX",
    run,
    about="""Prints the tables of a run, without building its report; or a published table as a whole: every
    arm of the paper's and of your runs of its experiments, our values beside the paper's. Arms that were not
    run are rows too, with the command that runs them.

    With --latex it prints LaTeX for a paper: a table for each of the page's, with booktabs, numbers and ± by
    siunitx as the page has them, and what to know before trusting a row as comments on top.""",
    examples=(
        "flyrun table firefly_table1 --out table1",
        "flyrun table mnist_logreg --latex --out tables",
    ),
)
VERB.takes(
    "table", metavar="TABLE", offers=_known, help="a run, or a published table, such as firefly_table1"
)
VERB.takes_results_dir()
VERB.takes("--latex", action="store_true", help="print LaTeX")
VERB.takes(
    "--out", metavar="FILE", type=path, help="write FILE.md and FILE.csv as well, with --latex FILE.tex"
)
