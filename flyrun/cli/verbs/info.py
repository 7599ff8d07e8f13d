"""flyrun info: what is known of an option."""

from flyrun.cli import listing
from flyrun.cli.options import one_name, take


def run(words: list[str]) -> int:
    """Print what is known of an option."""
    plain, given = take("info", words, ("config_dir",))
    print(listing.info_text(one_name("info", plain, "mnist_logreg"), listing.own_folders(given)))
    return 0
