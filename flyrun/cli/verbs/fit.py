"""flyrun fit: a table of one's own to a posterior."""

import argparse
import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyrun.cli.verb import Verb, number, one_of, whole
from flyrun.experiments.config.arm import GROUPS
from flyrun.families.options import for_tables
from flyrun.fitting import piped
from flyrun.fitting.bars import Bar
from flyrun.fitting.formula_sides import merged, parameters
from flyrun.fitting.priors import typed
from flyrun.fitting.request import LISTS, UNITS, Budget, Clock, Request, refuse_sampling_weights
from flyrun.fitting.smooths import Smooth
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.ground.paths import datasets_dir
from flyrun.ground.schema import closest, did_you_mean, quoted
from flyrun.tables.options import ROLES, names_of
from flyrun.tables.quoting import masked
from flyrun.tables.quoting import quoted as in_formula

if TYPE_CHECKING:
    from flyrun.cli.screen import Screen


def run(given: argparse.Namespace) -> int:
    """Fit a table."""
    from flyrun.cli import screen as screens  # late: rich, for which help and Tab need not wait

    output, arguments = screens.take(given.words)
    screen, request = screens.Screen(output), parse(arguments)
    if request.check:
        return _check(request, screen)
    clock = Clock()
    from flyrun.fitting.command import fit  # late: errors in the words come at once

    return fit(request, clock, screen)


def _check(request: Request, screen: "Screen") -> int:
    """Say what the columns are taken for, and fit nothing."""
    from flyrun.fitting import question  # late: NumPy
    from flyrun.fitting.scan import many_files  # late: as above
    from flyrun.ground import progress  # late: rich

    look = many_files.look if many_files.wanted(request) else question.look
    for line in look(request):
        progress.speaker(screen.console).say(line)
    return 0


def parse(arguments: Sequence[str]) -> Request:
    """Read the words after `fit`. Raises ConfigError naming word and remedy."""
    try:
        given = VERB.read(arguments)
    except ConfigError as error:
        if not str(error).startswith("--target: a value is missing"):
            raise
        file = next((word for word in arguments if not word.startswith("-")), "FILE")
        raise ConfigError(f"--target: a value is missing; {_with_target(file, '')}") from error
    given.formula, *further = given.formulas or [None]
    if plain := next((word for word in further if "~" not in masked(word)), None):
        raise ConfigError(f"fit: {plain} is one word too many{VERB.too_many}; see `flyrun fit --help`")
    if given.formula is not None and not Path(given.file).exists() and Path(given.formula).is_file():
        raise ConfigError(f"fit: {given.file} is no file; {_turned(given.formula, given.file)}")
    if given.file == piped.STDIN:
        given.file = str(piped.kept(Path(given.file)))
    if given.formula is not None and "~" not in given.formula and given.target is not None:
        raise ConfigError(
            f"fit: {given.formula} is one word too many{VERB.too_many}; see `flyrun fit --help`"
        )
    if given.formula is not None and given.target is not None:
        raise ConfigError(f"--target {quoted(given.target)}: the formula names it; leave this out")
    if given.formula is None and given.target is None:
        raise ConfigError(f"fit: {_with_target(given.file, '')}")
    if given.formula is not None and "~" not in masked(given.formula):
        raise ConfigError(
            f"formula {given.formula!r} has no ~ between the target and what explains it; "
            f"{_as_formula(given.file, given.formula)}"
        )
    table = {key: names_of(",".join(named)) for key in LISTS if (named := getattr(given, key))}
    once = (*ROLES, "missing", "decimal", "encoding", "where")
    if given.order:
        table["order"] = tuple(given.order)
    table |= {key: value for key in once if (value := getattr(given, key, None))}
    if given.rows is not None:
        table["limit"] = given.rows
    target = given.target
    groups: tuple[Bar | Smooth, ...] = ()
    if given.formula is not None:
        target, table, groups = merged(given.formula, table)
    formulas, of_others = parameters(further, target)
    if given.by is not None and given.check:
        raise ConfigError("--by: --check looks at all rows together; leave one of the two out")
    same = (
        "file",
        "model",
        "link",
        "prior_scale",
        "budget",
        "name",
        "results_dir",
        "workers",
        "fresh",
        "check",
        "exp",
        "by",
        "folds",
    )
    return Request(
        **{key: getattr(given, key) for key in same},
        target=target,
        table=table,
        priors=tuple(given.prior),
        typed=settings(given.settings),
        groups=(*groups, *of_others),
        formulas=formulas,
        words=tuple(word for word in arguments if word != "--fresh"),
    )


def settings(words: Sequence[str]) -> dict[str, Any]:
    """The settings that are typed, by key. Raises ConfigError for one that a fit does not have."""
    if not words:
        return {}
    from flyrun.experiments.config.overrides import read  # late: Hydra, which few fits need

    entries: dict[str, Any] = {}
    for entry in read(words):
        if entry.key in entries:
            raise ConfigError(
                f"{entry.key}: is given twice; keep one of {entries[entry.key].text} and {entry.text}"
            )
        entries[entry.key] = entry
    for entry in entries.values():
        if entry.group not in ("dataset", "executor") and entry.key not in ("model", "executor"):
            raise ConfigError(
                f"{entry.text}: fit draws from the posterior itself and has no such setting; leave it out; "
                "experiments on a table take it, as docs/your-data.md shows"
            )
        if entry.key == "executor" and entry.value != "dask":
            raise ConfigError(
                f"{entry.text}: fit works here, with --workers N processes where files are many, or on "
                "executor=dask; leave it out"
            )
        dask = "executor" in entries or "executor.address" in entries
        if entry.group == "executor" and not dask:
            raise ConfigError(f"{entry.text}: is of executor=dask; add that, or leave this out")
    return entries


def _with_target(file: str, target: str) -> str:
    """How a target is named, by default a column that the file has."""
    target = target or (columns(file) or ["COLUMN"])[-1]
    return f"name the column to explain, as in `flyrun fit {quoted(file)} --target {quoted(target)}`"


def _turned(file: str, other: str) -> str:
    """The command whose file and formula, or target, have changed places."""
    typed = shlex.quote(other) if "~" in other else f"--target {quoted(other)}"
    return f"the file comes first: `flyrun fit {quoted(file)} {typed}`"


def _as_formula(file: str, text: str) -> str:
    """What helps with a formula that has no ~."""
    known, (left, equals, right) = columns(file), text.partition("=")
    column = left.strip().strip("`")
    close = "" if column in known else did_you_mean(column, known)
    column = column if column in known or not known else (closest(column, known) or known[-1])
    others = right.strip() or " + ".join(map(in_formula, [name for name in known if name != column][:2]))
    typed = shlex.quote(f"{in_formula(column)} ~ {others}") if others else _EXAMPLE
    example = f"as in {typed}{close}"
    if equals:
        return example
    return f"{example}; or {_with_target(file, column)}, which explains it by all others"


def columns(file: str) -> list[str]:
    """Columns of a file; none where it cannot be read, which is told later."""
    from flyrun.fitting.scan import table_files  # late: NumPy
    from flyrun.tables import pieces  # late: pandas takes half a second, and Tab comes here

    try:
        if table_files.several(file):
            return list(table_files.find(file).kinds)
        return pieces.names(Path(file).expanduser())
    except FlyrunError:
        return []


def _budget(text: str) -> Budget:
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip().lower())
    value = float(matched[1]) if matched else 0.0
    if matched is None or value <= 0 or (not matched[2] and value != int(value)):
        raise argparse.ArgumentTypeError(
            f"{text}: must be a time, as 90s, 10m or 2h, or a number of iterations, as 20000"
        )
    return Budget(value * UNITS[matched[2]]) if matched[2] else Budget(iterations=int(value))


def _model(word: str) -> str:
    """A model by its name. Other programs' names for it are told."""
    if (ours := _ELSEWHERE.get(word.lower())) is not None:
        raise argparse.ArgumentTypeError(f"{word}: is called {ours} here; type --model {ours}")
    return one_of(for_tables())(word)


def _columns(arguments: list[str]) -> list[str]:
    return columns(next((word for word in arguments if not word.startswith("-")), ""))


def _sample() -> str:
    """The shipped table, as it is typed from the folder that flyrun was started in."""
    here = "datasets/tables/breast_cancer.csv"
    return here if Path(here).is_file() else shlex.quote(str(datasets_dir() / "tables" / "breast_cancer.csv"))


_EXAMPLE = "'died ~ age + C(sex)'"
#: what other programs call a model
_ELSEWHERE = {
    **dict.fromkeys(("binary", "bernoulli", "logit"), "logistic"),
    **dict.fromkeys(("normal", "linear", "ols", "lm"), "gaussian"),
    **dict.fromkeys(("multinomial", "categorical"), "softmax"),
    **dict.fromkeys(("negbin", "nb", "negativebinomial", "neg_binomial_2"), "negative_binomial"),
    **dict.fromkeys(("cumulative", "ordered"), "ordinal"),
    **dict.fromkeys(("student", "t"), "student_t"),
}

VERB = Verb(
    "fit",
    "fit a regression to a table of your own, exactly",
    run,
    raw=True,
    usage="FILE FORMULA ... | FILE --target COLUMN [OPTION ...] [KEY=VALUE ...]",
    about="Draws from a regression's exact posterior.",
    examples=(f"flyrun fit {_sample()} --target diagnosis --features radius,texture",),
    too_many=" (a formula stands in quotes: 'died ~ age + sex')",
    settings=lambda word: not word.startswith("-") and re.split("[.=]", word)[0] in GROUPS and "=" in word,
)


def _takes(flag: str, metavar: str, what: str, **settings: Any) -> None:
    """Declare an option; Tab offers columns where it names some."""
    if metavar in ("COLUMN", "A,B"):
        settings["offers"] = _columns
    VERB.takes(flag, metavar=metavar, help=what, **settings)


def _list(flag: str, metavar: str, what: str, **settings: Any) -> None:
    """Declare an option that holds a list with commas, and may be given again."""
    _takes(flag, metavar, what, action="append", default=[], **settings)


VERB.takes(
    "file",
    metavar="FILE",
    type=str,
    help=".csv, .tsv, .csv.gz, .npz, .parquet, .feather, or - for CSV from stdin",
)
VERB.takes(
    "formulas",
    metavar="FORMULA",
    type=str,
    nargs="*",
    default=[],
    help="as 'died ~ age * C(sex)'; of other parameters, as 'sigma ~ age'",
)
_takes("--target", "COLUMN", "column to explain by all others, or by --features")
_takes(
    "--model",
    "MODEL",
    "as poisson or weibull (default: by the target); --model list names all",
    type=_model,
    offers=lambda _: for_tables(),
)
_takes("--link", "LINK", "of chances: logit (default), probit, cloglog or cauchit")
_takes("--offset", "COLUMN", "column that is added to the linear predictor as it is")
_takes("--exposure", "COLUMN", "column whose log is the offset, as person-years")
_takes("--trials", "COLUMN", "column of how many trials the target counts the successes")
_takes("--weights", "COLUMN", "column of how many rows each row stands for")
_takes("--precision-weights", "W", "column that the variance is divided by, of averages", offers=_columns)
VERB.refuses("--sampling-weights", refuse_sampling_weights)
_list("--features", "A,B", "columns that explain it (default: all others)")
_takes("--by", "COLUMN", "one posterior for the rows of each value of this column")
_takes("--folds", "K", "cross-validation of many files: predict each of K parts from the rest", type=whole(2))
_list("--drop", "A,B", "columns to leave out, such as names and row numbers")
_list("--categorical", "A,B", "numeric columns to treat as categories, as text is")
_list("--numeric", "A,B", "columns that are numbers though they look like codes")
_list("--reference", "C=LEVEL", "level of a category to compare the others with (default: the first)")
_list("--order", "C=A,B,…", "a category's levels, lowest first, as of words for --model ordinal")
_takes("--missing", "WHAT", "rows that lack a value: refuse (default) or drop", choices=("refuse", "drop"))
_list("--na", "WORD", 'a further word for a missing value, as -999 or "?"')
_takes("--decimal", "SIGN", "decimal sign of a CSV file, . or , (default: .)", choices=(".", ","))
_takes("--encoding", "NAME", "encoding of a CSV file, as cp1252 (default: utf-8)")
VERB.takes("--check", action="store_true", help="say what columns are taken for, and priors; fit nothing")
VERB.takes("--exp", action="store_true", help="tell odds or rate ratios, e to the coefficients, beside them")
_takes("--rows", "N", "use only the first N rows", type=whole(1))
_takes("--where", "ROWS", "use only such rows, as 'year >= 2023'")
_list("--prior", "PRIOR", "as 'age: normal(0, 1)', per unit of the column", type=typed)
_takes(
    "--prior-scale",
    "SD",
    "of a coefficient's normal prior, per sd of its column",
    type=number(lambda x: 0 < x < math.inf, "a number above 0"),
    default=Request.prior_scale,
)
_takes(
    "--budget",
    "TIME",
    "90s, 10m or iterations; exit code 3: too short",
    type=_budget,
    default=Request.budget,
)
_takes("--name", "NAME", "folder under results/runs (default: the file's name)")
_takes("--results-dir", "FOLDER", "where that is", default=Request.results_dir)
_takes("--workers", "N", "processes (default: as many as pay)", type=whole(1))
VERB.takes("--quiet", action="store_true", help="print only errors and the table's path")
_takes("--log", "json", "print events, one JSON object a line, as --json does", choices=("json",))
VERB.takes("--fresh", action="store_true", help="replace what another fit left in the folder")
VERB.takes_settings("settings, as dataset.standardize=false or executor=dask")
