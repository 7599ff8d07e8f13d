"""flyrun info: what is known of an option."""

import argparse

from flyrun.cli import listing
from flyrun.cli.verb import Verb
from flyrun.experiments.config.catalogue import SHOWN, options


def run(given: argparse.Namespace) -> int:
    """Print what is known of an option."""
    print(listing.info_text(given.name, listing.own_folders(given.config_dir)))
    return 0


VERB = Verb(
    "info",
    "describe an option: paper, keys, data size, expected time",
    run,
    about="""Describes an option of any kind. An experiment: its paper, what it reproduces, its arms, data
    and expected time. Any other option: its paper, and its keys with their defaults and meanings.""",
    examples=("flyrun info mnist_logreg", "flyrun info random_walk"),
)
VERB.takes(
    "name",
    metavar="NAME",
    offers=lambda _: [name for group in SHOWN for name in options(group)],
    help="any name that `flyrun list` prints",
)
VERB.takes_own_options()
