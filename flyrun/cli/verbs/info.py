"""flyrun info NAME [config_dir=FOLDER]

Tells what is known of an option of any kind: of an experiment its paper, what it reproduces, its arms,
data and expected time; of others their paper, and their keys with the values that they have when
nothing is said.

config_dir=FOLDER      options of your own too (FOLDER/experiment/mine.yaml)

Examples
  flyrun info mnist_logreg
  flyrun info random_walk
"""

from __future__ import annotations

from flyrun.cli import listing
from flyrun.cli.options import one_name, take


def run(words: list[str]) -> int:
    """Print what is known of an option."""
    plain, given = take("info", words, ("config_dir",))
    print(listing.info_text(one_name("info", plain, "mnist_logreg"), listing.own_folders(given)))
    return 0
