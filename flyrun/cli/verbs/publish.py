"""flyrun publish: finished runs' reports, copied."""

import argparse

from flyrun.cli.verb import Verb, path
from flyrun.experiments.runner.store import find_run


def run(given: argparse.Namespace) -> int:
    """Copy finished runs' reports."""
    from flyrun.experiments.compare.publish import publish  # late: help and Tab need no pandas

    for name in given.runs:
        written = publish(find_run(name, given.results_dir), given.out, given.figures is not None)
        print(f"{name}: {len(written)} files in {written[0].parent}")
    return 0


VERB = Verb(
    "publish",
    "copy the reports of finished runs to results/measured",
    run,
    about="""Builds the reports of finished runs anew and copies report.md, table.csv and the figures of
    each to a folder, to keep or to put under version control. settings.json keeps what the arms were set to.
    A run is refused where a figure has an axis without data, lines that look alike or more than ten labelled
    lines.""",
    examples=("flyrun publish mnist_logreg", "flyrun publish mnist_logreg toy_flymc --out kept"),
)
VERB.takes_run("runs", nargs="+", help="a run's name or folder; every cell of it must be finished")
VERB.takes_results_dir()
VERB.takes_figures()
VERB.takes("--out", metavar="FOLDER", type=path, default="results/measured", help="folder to copy to")
