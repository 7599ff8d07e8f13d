"""flyrun compare: what differs between two runs, tables or commits."""

from rich.console import Console

from flyrun.cli.options import file_or_none, number, take
from flyrun.compare.compare import LEVEL, MARGIN, VERDICTS, compare
from flyrun.config.schema import listing
from flyrun.errors import ConfigError


def run(words: list[str]) -> int:
    """Print what differs between two runs, tables or commits; 1 where a verdict is as --fail-on says."""
    known = ("results_dir", "out", "level", "margin", "fail_on")
    plain, given = take("compare", words, known, flags=("all",))
    if len(plain) != 2:
        raise ConfigError("compare: takes two runs, tables or commits; as in `flyrun compare first second`")
    usual = {"level": LEVEL, "margin": MARGIN}
    level, margin = (_share(key, given.get(key, str(usual[key]))) for key in usual)
    fatal = [word for word in given.get("fail_on", "").split(",") if word]
    verdicts = {one.replace(" ", "_"): one for one in VERDICTS}
    if unknown := [word for word in fatal if word not in verdicts]:
        raise ConfigError(f"fail_on={unknown[0]}: no such verdict; choose from {listing(verdicts)}")
    results_dir, out, console = (
        given.get("results_dir", "results"),
        file_or_none(given),
        Console(highlight=False),
    )
    found = compare(plain[0], plain[1], results_dir, level, margin, out, "all" in given, console)
    return int(any(one.verdict == verdicts[word] for one in found for word in fatal))


def _share(key: str, text: str) -> float:
    return number(key, text, lambda value: 0 < value < 1, "a number between 0 and 1, such as 0.05")
