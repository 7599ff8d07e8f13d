"""flyrun compare: what differs between two runs, tables or commits."""

from rich.console import Console

from flyrun.cli.options import file_or_none, number, take
from flyrun.compare.compare import LEVEL, MARGIN, compare
from flyrun.errors import ConfigError


def run(words: list[str]) -> int:
    """Print what differs between two runs, tables or commits."""
    plain, given = take("compare", words, ("results_dir", "out", "level", "margin"))
    if len(plain) != 2:
        raise ConfigError("compare: takes two runs, tables or commits; as in `flyrun compare first second`")
    usual = {"level": LEVEL, "margin": MARGIN}
    level, margin = (_share(key, given.get(key, str(usual[key]))) for key in usual)
    results_dir = given.get("results_dir", "results")
    compare(plain[0], plain[1], results_dir, level, margin, file_or_none(given), Console(highlight=False))
    return 0


def _share(key: str, text: str) -> float:
    return number(key, text, lambda value: 0 < value < 1, "a number between 0 and 1, such as 0.05")
