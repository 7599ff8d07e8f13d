"""flyrun table: a published table as a whole, ours beside."""

import argparse

from flyrun.cli.verb import Verb, path
from flyrun.ground.paths import references


def run(given: argparse.Namespace) -> int:
    """Print a published table, ours beside."""
    from flyrun.experiments.compare import published  # late
    from flyrun.ground.page.render import screen  # late, as below: help and Tab need neither

    published.build(given.reference, given.results_dir, given.out, screen())
    return 0


VERB = Verb(
    "table",
    "print a published table as a whole, our values beside",
    run,
    about="""Prints a published table as a whole: every arm of the paper's and of your runs of its
    experiments, our values beside the paper's. Arms that were not run are rows too, with the command that
    runs them.""",
    examples=("flyrun table firefly_table1", "flyrun table firefly_table1 --out table1"),
)
VERB.takes(
    "reference",
    metavar="REFERENCE",
    offers=lambda _: references(),
    help="a published table, such as firefly_table1",
)
VERB.takes_results_dir()
VERB.takes("--out", metavar="FILE", type=path, help="write FILE.md and FILE.csv as well")
