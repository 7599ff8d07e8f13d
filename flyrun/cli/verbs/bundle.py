"""flyrun bundle: a run as one archive."""

import argparse
from pathlib import Path

from flyrun.cli.verb import Verb, path
from flyrun.experiments.runner.store import find_run


def run(given: argparse.Namespace) -> int:
    """Pack a run."""
    from flyrun.experiments.compare.bundle import pack  # late: help and Tab need no pandas

    folder = find_run(given.name_of_run, given.results_dir)
    out = pack(folder, given.out or Path(f"{folder.name}.zip"), given.draws)
    print(f"wrote {out} ({out.stat().st_size:,} bytes); to run it again anywhere: flyrun run {out}")
    return 0


VERB = Verb(
    "bundle",
    "pack a finished run as one archive, for a paper's supplement",
    run,
    about="""Packs a finished run as one .zip: config.yaml (every arm with all its settings), run.json, the
    table, the report, references.bib as `flyrun cite` prints it, and bundle.json: the command, versions of
    flyrun, libraries and packages, the machine, and for each arm a digest of its draws with what they cost.
    `flyrun run` makes the draws again and says what differs. A bundle holds no code and no data set: a table
    of your own travels beside it.""",
    examples=("flyrun bundle mnist_logreg", "flyrun bundle mnist_logreg --draws --out supplement.zip"),
)
VERB.takes_run("name_of_run", help="a run's name or folder; every cell of it must be finished")
VERB.takes_results_dir()
VERB.takes("--draws", action="store_true", help="pack the draws as well (draws/ARM/seed=S.nc)")
VERB.takes("--out", metavar="FILE", type=path, help="where the archive goes (default: RUN.zip)")
