"""flyrun fit: a table of one's own to a posterior."""

import argparse
import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flyrun.cli.messages import explain
from flyrun.cli.verb import Verb, number, whole
from flyrun.config.arm import GROUPS
from flyrun.config.dataset import ROLES
from flyrun.config.model import for_tables
from flyrun.config.schema import listing, quoted
from flyrun.errors import ConfigError, FlyrunError
from flyrun.fit.request import LISTS, UNITS, Budget, Clock, Request
from flyrun.paths import datasets_dir

if TYPE_CHECKING:
    from flyrun.cli.screen import Screen


def run(given: argparse.Namespace) -> int:
    """Fit a table."""
    from flyrun.cli import screen as screens  # late: rich, for which help and Tab need not wait

    output, words = screens.take(given.words)
    screen = screens.Screen(output)
    try:
        request = parse(words)
        if request.check:
            return _check(request, screen)
        clock = Clock()
        from flyrun.fit.answer import fit  # late: errors in the words come at once

        code = fit(request, clock, screen)
    except Exception as error:
        code = explain(error)
        screen.tell("error", text=" ".join(str(error).split()))
    screen.tell("ended", exit_code=code)
    return code


def _check(request: Request, screen: "Screen") -> int:
    """Say what the columns are taken for, and fit nothing."""
    from flyrun.fit.read_table import look  # late: NumPy
    from flyrun.runner import progress  # late: rich

    for line in look(request):
        progress.display(screen.console, 0).say(line)
    screen.tell("ended", exit_code=0)
    return 0


def parse(words: Sequence[str]) -> Request:
    """Read the words after `fit`. Raises ConfigError naming word and remedy."""
    given = VERB.read(words)
    if given.target is None:
        target = quoted((columns(given.file) or ["COLUMN"])[-1])
        raise ConfigError(
            f"fit: name the column to explain, as in `flyrun fit {quoted(given.file)} --target {target}`"
        )
    table = {key: _names(",".join(named)) for key in LISTS if (named := getattr(given, key))}
    once = (*ROLES, "missing", "decimal", "encoding")
    table |= {key: value for key in once if (value := getattr(given, key))}
    if given.rows is not None:
        table["limit"] = given.rows
    same = (
        "file",
        "target",
        "model",
        "prior_scale",
        "budget",
        "name",
        "results_dir",
        "workers",
        "fresh",
        "check",
    )
    return Request(
        **{key: getattr(given, key) for key in same},
        table=table,
        overrides=tuple(given.settings),
        words=tuple(word for word in words if word != "--fresh"),
    )


def _names(text: str) -> tuple[str, ...]:
    """The names in a list with commas; those that hold a comma stand in quotes."""
    found = re.findall(r'\s*"((?:[^"]|"")+)"\s*(?:,|$)|([^,]+)', text)
    names = (whole.replace('""', '"') or plain.strip() for whole, plain in found)
    return tuple(name for name in dict.fromkeys(names) if name)


def columns(file: str) -> list[str]:
    """Columns of a file; none where it cannot be read, which is told later."""
    from flyrun.data.table import pieces  # late: pandas takes half a second, and Tab comes here

    try:
        return pieces.names(Path(file).expanduser())
    except FlyrunError:
        return []


def _budget(text: str) -> Budget:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip().lower())
    value = float(found[1]) if found else 0.0
    if found is None or value <= 0 or (not found[2] and value != int(value)):
        raise argparse.ArgumentTypeError(
            f"{text}: must be a time, as 90s, 10m or 2h, or a number of iterations, as 20000"
        )
    return Budget(value * UNITS[found[2]]) if found[2] else Budget(iterations=int(value))


def _columns(words: list[str]) -> list[str]:
    return columns(next((word for word in words if not word.startswith("-")), ""))


def _sample() -> str:
    """The shipped table, as it is typed from the folder that flyrun was started in."""
    here = "datasets/tables/breast_cancer.csv"
    return here if Path(here).is_file() else shlex.quote(str(datasets_dir() / "tables" / "breast_cancer.csv"))


VERB = Verb(
    "fit",
    "fit a regression to a table of your own, exactly",
    run,
    raw=True,
    usage="FILE --target COLUMN [OPTION ...] [KEY=VALUE ...]",
    about="""Fits a regression to a table of your own, exactly: it draws from the posterior by Hamiltonian
    Monte Carlo or, on tall tables, by Firefly-HMC, which looks at few rows an iteration. It goes on until
    the chains agree (rank R-hat below 1.01 and a bulk ESS of 400 in every coefficient) or the budget
    ends. Then it prints the coefficients on the columns' own scales and writes, to results/runs/<name of
    the file>:

  posterior.nc           the draws, for ArviZ or xarray.open_datatree
  table.csv              the coefficients: mean, sd, 94 % interval, ESS, R-hat
  report.html            the same with figures, on one page; report.md""",
    notes="""Numbers are standardised for sampling; a column of two values is not, so that 0/1, 1/2,
    True/False and words give one model. A category of L levels has L-1 coefficients, against its first
    level. Where a column can be read but looks wrong, flyrun stops and says what helps. A column's name
    that holds a comma goes in quotes: --drop '"a, b",c'.

    Exit code 0: the chains agree. 3: all is written, but the chains do not agree yet, so do not trust it;
    the same command with a longer --budget goes on. 1: there are hardly any draws, or an error. 2: what
    you can mend.""",
    examples=(
        f"flyrun fit {_sample()} --target diagnosis",
        f"flyrun fit {_sample()} --target diagnosis --budget 2h",
        f"flyrun fit {_sample()} --target diagnosis --features radius,texture --name two",
    ),
    settings=lambda word: not word.startswith("-") and re.split("[.=]", word)[0] in GROUPS and "=" in word,
)
VERB.takes(
    "file",
    metavar="FILE",
    type=str,
    help=".csv, .tsv, .csv.gz, .npz, or .parquet (with flyrun[parquet]), of any length",
)
VERB.takes(
    "--target",
    metavar="COLUMN",
    offers=_columns,
    help="column to explain, required. Two values: logistic regression; words: softmax; numbers: "
    "regression with "
    "Student-t noise",
)
VERB.takes(
    "--model",
    metavar="MODEL",
    choices=for_tables(),
    help=f"{listing(for_tables(), 'or')} (default: as the target asks for; it must be given where whole "
    "numbers may be counts or classes)",
)
for role, what in (
    ("offset", "column that is added to the linear predictor as it is"),
    ("exposure", "column whose log is the offset, as person-years"),
    ("trials", "column of how many trials the target counts the successes"),
    ("weights", "column of how many rows each row stands for"),
):
    VERB.takes(f"--{role}", metavar="COLUMN", offers=_columns, help=what)


def _list(flag: str, metavar: str, what: str) -> None:
    """Declare an option that holds a list with commas, and may be given again."""
    offers = _columns if metavar == "A,B" else None
    VERB.takes(flag, metavar=metavar, action="append", default=[], offers=offers, help=what)


_list("--features", "A,B", "columns that explain it (default: all others)")
_list("--drop", "A,B", "columns to leave out, such as names and row numbers")
_list(
    "--categorical",
    "A,B",
    "numeric columns to treat as categories, such as postcodes (text columns always are)",
)
_list(
    "--numeric", "A,B", "columns that are numbers though they look like codes, row numbers or missing values"
)
_list(
    "--reference",
    "C=LEVEL",
    "level of category C, or class of the target, to compare the others with (default: the first in "
    "order); may be "
    "given again",
)
VERB.takes(
    "--missing",
    metavar="WHAT",
    choices=("refuse", "drop"),
    help="for rows that lack a value. refuse: an error that names the first (default); drop: leave them "
    "out, counted",
)
_list("--na", "WORD", 'a further word for a missing value, as -999 or "?"; may be given again')
VERB.takes(
    "--decimal", metavar="SIGN", choices=(".", ","), help="decimal sign of a CSV file, . or , (default: .)"
)
VERB.takes("--encoding", metavar="NAME", help="encoding of a CSV file, as cp1252 (default: utf-8)")
VERB.takes("--check", action="store_true", help="say what flyrun takes each column for, and stop")
VERB.takes("--rows", metavar="N", type=whole(1), help="use only the first N rows")
VERB.takes(
    "--prior-scale",
    metavar="SD",
    type=number(lambda x: 0 < x < math.inf, "a number above 0"),
    default=Request.prior_scale,
    help="sd of the normal prior on a coefficient per sd of its column; for a column of two values, per "
    "step from "
    "one to the other",
)
VERB.takes(
    "--budget",
    metavar="TIME",
    type=_budget,
    default="10m",
    help="how long you will wait, reading and report included, if the chains do not agree before: seconds "
    "(90s), "
    "minutes, hours (2h); or iterations of a chain (20000)",
)
VERB.takes("--name", metavar="NAME", help="folder under results/runs (default: the file's name)")
VERB.takes("--results-dir", metavar="FOLDER", default=Request.results_dir, help="where that is")
VERB.takes("--workers", metavar="N", type=whole(1), help="processes (default: as many as pay)")
VERB.takes("--quiet", action="store_true", help="print only errors and the table's path")
VERB.takes("--json", action="store_true", help="print events for machines, one JSON object a line")
VERB.takes(
    "--fresh",
    action="store_true",
    help="begin again; without it chains go on from where they are, as after Ctrl-C",
)
VERB.takes_settings(
    "anything else that an arm takes, as sampler.n_steps=8, protocol.seeds=8 or dataset.standardize=false"
)
