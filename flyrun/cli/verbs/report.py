"""flyrun report: runs' reports anew, or one of several runs."""

import argparse

from flyrun.cli.verb import Verb, path
from flyrun.experiments.runner.store import find_run
from flyrun.ground.errors import ConfigError


def run(given: argparse.Namespace) -> int:
    """Build and show a run's report, or one of several runs together."""
    from flyrun.experiments.report.merge import build_of_several  # late
    from flyrun.fitting import stored  # late
    from flyrun.ground.page.render import screen  # late, as below: help and Tab need no pandas

    names = [*given.runs, *([given.name] if given.name else [])]
    if not names:
        VERB.misses("RUN")
    if given.out and len(names) == 1:
        raise ConfigError(
            "report: --out is for the report of several runs; a run's own report is in its folder"
        )
    folders, console = [find_run(name, given.results_dir) for name in names], screen()
    pdf = given.figures is not None
    if len(folders) > 1:
        default = given.results_dir / "runs" / "+".join(folder.name for folder in folders)
        build_of_several(folders, given.out or default, console, pdf=pdf)
    elif stored.is_fit(folders[0]):
        from flyrun.fitting import page  # late

        page.build(folders[0], console, pdf=pdf)
    else:
        from flyrun.experiments.report import build  # late

        build.build(folders[0], console, pdf=pdf)
    return 0


VERB = Verb(
    "report",
    "build and show a run's report again, or one report of several runs",
    run,
    usage="RUN ... [OPTION ...]",
    about="""Builds a run's report anew from what is stored, without sampling, and prints its tables. It
    writes report.html, report.md, table.csv, table.json and figures/ to the run's folder, and marks
    unfinished cells.

    Of several runs with the same dataset, model and prior it makes one report with all their arms, in the
    folder RUN+RUN+... beside theirs; arms of the same name become RUN/ARM.""",
    examples=(
        "flyrun report mnist_logreg",
        "flyrun report mnist_logreg --figures pdf",
        "flyrun report results/runs/mnist_logreg",
        "flyrun report mnist_logreg small_q other_q",
    ),
)
VERB.takes_run("runs", nargs="*", help="a run's name, by default its experiment's, or its folder")
VERB.takes_results_dir()
VERB.takes("--name", metavar="RUN", help="the same as RUN")
VERB.takes_figures()
VERB.takes("--out", metavar="FOLDER", type=path, help="where the report of several runs goes")
