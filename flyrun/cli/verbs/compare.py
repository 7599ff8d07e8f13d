"""flyrun compare: what differs between two runs, tables or commits."""

import argparse
from pathlib import Path

from flyrun.cli.verb import Verb, number, path, text
from flyrun.experiments.compare import LEVEL, MARGIN, VERDICTS
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import listing

_VERDICTS = {verdict.replace(" ", "_"): verdict for verdict in VERDICTS}


def run(given: argparse.Namespace) -> int:
    """Print what differs between two runs, tables or commits; 1 where a verdict is as --fail-on says.

    Of two fits print how well each foretells rows, and the difference.
    """
    if fits := _fits(given):
        from flyrun.fitting.loo import compare as compare_fits  # late: NumPy

        for name, line in zip((given.a, given.b, ""), compare_fits(*fits), strict=True):
            print(f"{name}: {line}" if name else line)
        return 0
    from flyrun.experiments.compare.compare import compare  # late
    from flyrun.experiments.compare.sides import read  # late
    from flyrun.ground.page.render import screen  # late, as below: help and Tab need no pandas

    console = screen()
    sides = read(given.a, given.results_dir), read(given.b, given.results_dir)
    differences = compare(sides, given.level, given.margin, given.out, given.all, console)
    return int(any(difference.verdict in (given.fail_on or ()) for difference in differences))


def _fits(given: argparse.Namespace) -> list[Path]:
    """The folders of both sides, where both are fits; none where neither is. Raises ConfigError for one."""
    from flyrun.fitting.stored import is_fit  # late: NumPy

    sides, runs_dir = (given.a, given.b), Path(given.results_dir) / "runs"
    folders = [Path(side) if Path(side).is_dir() else runs_dir / side for side in sides]
    fits = [is_fit(folder) for folder in folders]
    if any(fits) and not all(fits):
        other, fit = sides[fits.index(False)], sides[fits.index(True)]
        raise ConfigError(f"{other}: is no fit, as {fit} is; name two fits")
    return folders if all(fits) else []


def _verdicts(word: str) -> set[str]:
    """The verdicts of a list with commas."""
    names = [name for name in text(word).split(",") if name]
    if unknown := [name for name in names if name not in _VERDICTS]:
        known = listing(_VERDICTS)
        raise argparse.ArgumentTypeError(f"{unknown[0]}: no such verdict; choose from {known}")
    return {_VERDICTS[name] for name in names}


_share = number(lambda value: 0 < value < 1, "a number between 0 and 1, such as 0.05")

VERB = Verb(
    "compare",
    "compare runs, tables or commits: what is better, worse, the same",
    run,
    about="""Says for each arm and each figure of merit whether B is better than A, worse, the same or
    identical, or whether there are too few seeds to decide. It tests over seeds and allows for the number
    of comparisons. Where data, prior or lengths differ it compares nothing. It does not compare seconds
    where processors differ or are not known, or where a side is a single run.""",
    notes="""Exit code 0; 1 where --fail-on finds its verdict.

    A side is a run (name or folder); a table (table.csv, table.json, a folder with one, or a name in
    results/measured); a commit, for all tables in results/measured as of then, or COMMIT:NAME for one of
    them; two fits, of which it says how well each foretells rows left out; or several runs of the same, as
    in a,again, whose spread tells how seconds vary.""",
    examples=(
        "flyrun compare mnist_logreg small_q --fail-on worse",
        "flyrun compare HEAD~1 HEAD --out changes.md",
    ),
)
for side in "AB":
    what = "a run, a table, a commit, or runs of the same, as below"
    VERB.takes_run(side.lower(), metavar=side, help=what)
VERB.takes("--all", action="store_true", help="list what is the same or identical, too")
VERB.takes(
    "--fail-on",
    metavar="VERDICT,...",
    type=_verdicts,
    offers=lambda _: _VERDICTS,
    help=f"exit with code 1 where one of these is found: {', '.join(_VERDICTS)}",
)
VERB.takes_results_dir()
VERB.takes(
    "--out", metavar="FILE", type=path, help="write the comparison there as well: .md, or .csv with every row"
)
VERB.takes(
    "--level",
    metavar="LEVEL",
    type=_share,
    default=LEVEL,
    help="probability of finding any difference where there is none",
)
VERB.takes(
    "--margin",
    metavar="SHARE",
    type=_share,
    default=MARGIN,
    help="differences within this share of A count as the same",
)
