"""flyrun run: a bundle's arms again, and what differs."""

import argparse
from pathlib import Path

from flyrun.cli.verb import Verb, path, whole


def run(given: argparse.Namespace) -> int:
    """Run a bundle's arms; 1 where one of them is another than the bundle's."""
    from flyrun.experiments.compare.rerun import rerun  # late: help and Tab need no pandas
    from flyrun.ground.page.render import screen  # late

    return rerun(
        given.bundle, given.name, given.data, given.results_dir, given.workers, given.fresh, screen()
    )


VERB = Verb(
    "run",
    "run a bundle again, and say what differs",
    run,
    about="""Runs the arms of a bundle that `flyrun bundle` made and says of each whether its draws are the
    same bit for bit. Where processor, libraries or code are others it compares costs, moves and mean log
    density over the seeds, as `flyrun check` does, says by how many standard errors they differ, and shows
    what differs in the table. A bundle is read as data: nothing in it is run, and its settings are checked
    as if you had typed them. A package that it needs must be installed; the line that says so names it.""",
    notes="""Exit code 0 where every arm is the same or alike; 1 where one differs. The run is kept: the same
    command goes on where it stopped, and does not sample twice.""",
    examples=("flyrun run mnist_logreg.zip", "flyrun run supplement.zip --data mine.csv --name again"),
)
VERB.takes(
    "bundle",
    metavar="BUNDLE",
    type=path,
    offers=lambda _: (str(file) for file in sorted(Path().glob("*.zip"))),
    help="the archive, such as mnist_logreg.zip",
)
VERB.takes_results_dir()
VERB.takes("--name", metavar="RUN", help="what the run is called here (default: the bundle's run and _rerun)")
VERB.takes("--data", metavar="FILE", type=path, help="where the table of your own that the arms read is here")
VERB.takes("--fresh", action="store_true", help="sample again what is finished")
VERB.takes("--workers", metavar="N", type=whole(1), help="processes (default: one per core)")
