"""flyrun check: short chains against stored ones."""

from rich.console import Console

from flyrun.check.run import check, check_against
from flyrun.children import cores
from flyrun.cli.options import file_or_none, number, take
from flyrun.errors import ConfigError
from flyrun.paths import in_checkout, reference_dir


def run(words: list[str]) -> int:
    """Compare short chains with stored ones, or store them."""
    plain, given = take("check", words, ("values", "workers", "against"), flags=("update",))
    whole = "a whole number at least 1"
    workers = number("workers", given.get("workers", str(cores())), lambda n: n >= 1 and n == int(n), whole)
    console = Console(highlight=False)
    if "against" in given:
        if other := {"update", "values"} & given.keys():
            raise ConfigError(f"check: --against and {other.pop()} do not go together; drop one")
        return check_against(given["against"], plain, int(workers), console)
    if "update" in given and "values" not in given and not in_checkout():
        raise ConfigError("check --update: stores into a checkout, and this is none; add values=FOLDER")
    folder = file_or_none(given, "values") or reference_dir() / "check"
    return check(plain, folder, "update" in given, int(workers), console)
