"""flyrun check: short chains against stored ones."""

import argparse

from flyrun.cli.listing import own_folders
from flyrun.cli.verb import Verb, path, whole
from flyrun.experiments.config.catalogue import options
from flyrun.ground.children import cores
from flyrun.ground.errors import ConfigError


def run(given: argparse.Namespace) -> int:
    """Compare short chains with stored ones, or store them."""
    from flyrun.experiments.check.run import check, check_against  # late
    from flyrun.ground.page.render import screen  # late, as below: help and Tab need no samplers

    console, workers = screen(), given.workers or cores()
    if given.against is not None:
        if other := "--update" if given.update else "--values" if given.values else "":
            raise ConfigError(f"check: --against and {other} do not go together; drop one")
        return check_against(given.against, given.experiments, workers, console)
    folders = own_folders(given.config_dir)
    return check(given.experiments, given.values, given.update, workers, console, folders=folders)


VERB = Verb(
    "check",
    "compare short chains with stored ones",
    run,
    about="""Runs short chains of every arm at fixed seeds and compares them with stored ones: exactly
    where machine and libraries are the same, by tests elsewhere, which print the difference that they
    would have seen. Where bits cannot be compared, it also holds long chains of a random walk and of
    Firefly Monte Carlo against quadrature. All experiments take minutes.""",
    notes="Exit code 0; 1 where anything differs.",
    examples=(
        "flyrun check toy_flymc",
        "flyrun check toy_flymc --against HEAD~1",
        "flyrun check --update toy_flymc --values mine",
        "flyrun check mine --config-dir conf --update",
    ),
)
VERB.takes(
    "experiments",
    metavar="EXPERIMENT",
    nargs="*",
    offers=lambda _: options("experiment"),
    help="which ones (default: all, or those of --config-dir)",
)
VERB.takes(
    "--update", action="store_true", help="store what is measured, and print how it differs from before"
)
VERB.takes(
    "--against",
    metavar="REV",
    help="compare with what a commit's code does on this machine, not with what is stored",
)
VERB.takes("--workers", metavar="N", type=whole(1), help="processes (default: one per core)")
VERB.takes(
    "--values",
    metavar="FOLDER",
    type=path,
    help="where values are stored (default: results/reference/check; of a package's experiments and of those "
    "in --config-dir: the folder check beside experiment)",
)
VERB.takes_own_options()
