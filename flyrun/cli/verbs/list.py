"""flyrun list: what there is to choose from."""

from flyrun.cli import listing
from flyrun.cli.options import one_name, take


def run(words: list[str]) -> int:
    """Print what there is to choose from."""
    plain, given = take("list", words, ("config_dir",))
    kind = one_name("list", plain, "experiments") if plain else None
    print(listing.list_text(kind, listing.own_folders(given)))
    return 0
