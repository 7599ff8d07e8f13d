"""flyrun list: what there is to choose from."""

import argparse

from flyrun.cli import listing
from flyrun.cli.verb import Verb
from flyrun.experiments.config.catalogue import SHOWN, plural


def run(given: argparse.Namespace) -> int:
    """Print what there is to choose from."""
    print(listing.list_text(given.kind, listing.own_folders(given.config_dir)))
    return 0


VERB = Verb(
    "list",
    "list what there is to choose from: experiments, datasets, models, …",
    run,
    about="Lists what there is to choose from, a line each: all kinds, or one.",
    examples=("flyrun list", "flyrun list samplers", "flyrun list protocols"),
)
VERB.takes(
    "kind",
    metavar="KIND",
    nargs="?",
    offers=lambda _: map(plural, SHOWN),
    help=f"one of {', '.join(map(plural, SHOWN))}",
)
VERB.takes_own_options()
