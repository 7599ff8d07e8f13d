"""flyrun list [KIND] [config_dir=FOLDER]

Names what there is to choose from, with a line on each: of one kind, or of all. Kinds: experiments,
datasets, models, priors, bounds, brightness, samplers, protocols, executors.

config_dir=FOLDER      options of your own too (FOLDER/experiment/mine.yaml)

Examples
  flyrun list
  flyrun list samplers
  flyrun list protocols --config-dir FOLDER
"""

from __future__ import annotations

from flyrun.cli import listing
from flyrun.cli.options import one_name, take


def run(words: list[str]) -> int:
    """Print what there is to choose from."""
    plain, given = take("list", words, ("config_dir",))
    kind = one_name("list", plain, "experiments") if plain else None
    print(listing.list_text(kind, listing.own_folders(given)))
    return 0
