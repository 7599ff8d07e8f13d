"""flyrun cite: BibTeX of all that a run rests on."""

import argparse

from flyrun.cli.verb import Verb
from flyrun.experiments.runner.store import find_run, read_chains


def run(given: argparse.Namespace) -> int:
    """Print BibTeX."""
    from flyrun.experiments.report.cite import bibtex  # late: help and Tab need no registry of data

    print(bibtex(read_chains(find_run(given.name_of_run, given.results_dir))), end="")
    return 0


VERB = Verb(
    "cite",
    "print BibTeX of every method, model and data set that a run uses",
    run,
    about="""Prints BibTeX: flyrun, and the works that the run's experiment, samplers, bounds, models and data
    sets are from, each entry once, after a comment that says who names it. What a package of your own names
    and flyrun has no entry for is a comment at the end.""",
    examples=("flyrun cite mnist_logreg", "flyrun cite results/runs/mnist_logreg"),
)
VERB.takes_run("name_of_run", help="a run's name or folder")
VERB.takes_results_dir()
