"""flyrun table: a published table as a whole, ours beside."""

from pathlib import Path

from rich.console import Console

from flyrun.cli.options import file_or_none, one_name, take
from flyrun.compare import published


def run(words: list[str]) -> int:
    """Print a published table, ours beside."""
    plain, given = take("table", words, ("results_dir", "out"))
    name = one_name("table", plain, "firefly_table1")
    folder = Path(given.get("results_dir", "results")).expanduser()
    published.build(name, folder, file_or_none(given), Console(highlight=False))
    return 0
