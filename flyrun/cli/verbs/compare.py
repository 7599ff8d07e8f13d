"""flyrun compare: what differs between two runs, tables or commits."""

import argparse
import shlex
from pathlib import Path

from flyrun.cli.verb import Verb, number, path, text, whole
from flyrun.experiments.compare import LEVEL, MARGIN, VERDICTS
from flyrun.experiments.runner.store import find_run
from flyrun.ground.children import cores
from flyrun.ground.errors import ConfigError
from flyrun.ground.run_files import RUN, read_run
from flyrun.ground.schema import listing

MOVED = "moved"  # of two fits' coefficients
_VERDICTS = {verdict.replace(" ", "_"): verdict for verdict in VERDICTS} | {MOVED: MOVED}


def run(given: argparse.Namespace) -> int:
    """Print what differs between runs, tables, commits or arms; 1 where a verdict is as --fail-on says.

    Of two fits of the same rows print how well each predicts these, and the difference; of others what
    changed.
    """
    _refuse_both(given)
    if fits := _fits(given):
        return _of_fits(given, *fits)
    if given.fail_on and MOVED in given.fail_on:
        raise ConfigError(f"compare: --fail-on {MOVED} is for two fits; name two, or another verdict")
    if given.by is not None:
        raise ConfigError("compare: --by is for two fits; name two, or drop --by")
    from flyrun.experiments.compare.compare import compare  # late
    from flyrun.experiments.compare.sides import Side, at_commit, read  # late
    from flyrun.ground.page.render import screen  # late, as below: help and Tab need no pandas

    console, arms = screen(), None

    def verdicts(sides: tuple[Side, Side]) -> int:
        command = shlex.join(["flyrun", "compare", *given.words])
        differences = compare(sides, given.level, given.margin, given.out, given.all, console, arms, command)
        return int(any(difference.verdict in (given.fail_on or ()) for difference in differences))

    if given.against is not None:
        folder = find_run(given.a, given.results_dir)
        workers = given.workers or cores()
        console.print(f"running {folder.name} with commit {given.against}", soft_wrap=True, style="dim")
        with at_commit(folder, given.against, given.package, workers) as sides:
            return verdicts(sides)
    first = read(given.a, given.results_dir)
    if given.b is not None:
        return verdicts((first, read(given.b, given.results_dir)))
    arms = given.arms or []
    return verdicts((first, first))


def _of_fits(given: argparse.Namespace, a: Path, b: Path) -> int:
    """Print what two fits say of each other; 1 where coefficients moved and --fail-on asks for that."""
    from flyrun.fitting import changes  # late: NumPy

    if given.fail_on and given.fail_on != {MOVED}:
        raise ConfigError(f"compare: --fail-on of two fits is {MOVED} alone; write --fail-on {MOVED}")
    if not changes.of_other_rows(a, b):
        for name in ("out", "fail_on"):
            if getattr(given, name):
                raise ConfigError(
                    f"compare: --{name.replace('_', '-')} is for runs, and for fits of other rows; both "
                    "fits are of one file: leave it out"
                )
        from flyrun.fitting.loo import compare as compare_fits  # late: as above

        for name, line in zip((given.a, given.b, ""), compare_fits(a, b, given.by), strict=True):
            print(f"{name}: {line}" if name else line)
        return 0
    if given.by is not None:
        raise ConfigError("compare: --by leaves out rows of one file, and these fits are of others; drop it")
    from flyrun.ground.page import document, render  # late: as above

    document.refuse_ending(given.out, (".md", ".html", ".csv", ".json"))
    differ, console = changes.of(a, b, given.level), render.screen()
    views = differ.views(given.all)
    lines = [f"{side}: {place}" for side, place in zip("AB", differ.sides, strict=True)]
    for line in lines:
        console.print(line, soft_wrap=True)
    render.print_views(console, views)
    for note in differ.notes:
        console.print(f"! {note}", soft_wrap=True)
    if given.out is not None:
        command = shlex.join(["flyrun", "compare", *given.words])
        page = document.of_comparison(lines, views, [], differ.notes, command, {})
        document.save(given.out, page, {".csv": differ.csv(), ".json": differ.json()})
        console.print(f"wrote {given.out}", soft_wrap=True)
    return int(bool(given.fail_on) and differ.moved)


def _refuse_both(given: argparse.Namespace) -> None:
    """Raise ConfigError where one side is said in two ways, or a word has nothing to belong to."""
    ways = {"B": given.b, "--against": given.against, "--arms": given.arms}
    typed = [name for name, value in ways.items() if value]
    if len(typed) > 1:
        raise ConfigError(f"compare: {typed[0]} and {typed[1]} do not go together; drop one")
    for name in ("--package", "--workers"):
        if getattr(given, name[2:]) is not None and given.against is None:
            raise ConfigError(f"compare: {name} goes with --against COMMIT; add it or drop {name}")


def _fits(given: argparse.Namespace) -> list[Path]:
    """The folders of both sides, where both are fits; none where neither is. Raises ConfigError for one."""
    from flyrun.fitting.stored import is_fit  # late: NumPy

    if given.b is None:
        return []
    sides, runs_dir = (given.a, given.b), Path(given.results_dir) / "runs"
    # a folder of data may have a fit's name
    folders = [Path(side) if is_fit(Path(side)) else runs_dir / side for side in sides]
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


def _arms(word: str) -> list[str]:
    """Names of arms in a list with commas."""
    return [name for name in text(word).split(",") if name]


def _arms_of(arguments: list[str]) -> list[str]:
    """What Tab offers: the arms of the run that is named before."""
    runs = (Path("results/runs") / word for word in arguments)
    return [arm["name"] for folder in runs if (folder / RUN).is_file() for arm in read_run(folder)["arms"]]


VERB = Verb(
    "compare",
    "compare runs, tables or commits: what is better, worse, the same",
    run,
    about="""Says for each arm and each figure of merit whether B is better than A, worse, the same or
    identical, or whether there are too few seeds to decide. It tests over seeds, in pairs where both sides
    draw the same random numbers, and allows for the number of comparisons. Where data, prior or lengths
    differ it compares nothing. It does not compare seconds where processors differ or are not known, or
    where a side is a single run.

    Of a run alone it compares the arms: the first that --arms names, by default the regular one, with each of
    the others. With --against COMMIT it runs the run's command again with that commit's code, in a folder of
    its own, and compares: A is the commit, B the run.""",
    notes="""Exit code 0; 1 where --fail-on finds its verdict.

    A side is a run (name or folder); a table (table.csv, table.json, a folder with one, or a name in
    results/measured); a commit, for all tables in results/measured as of then, or COMMIT:NAME for one of
    them; two fits; or several runs of the same, as in a,again, whose spread tells how seconds vary.

    Of two fits of one file it says how well each predicts rows left out. Of two of other rows, as of last
    month and of this one, or of scans, it says which coefficients moved, by how many posterior sds of the
    difference, and what changed in the data: rows, levels, ranges, shares. --fail-on moved and --out FILE,
    .json too, are for a job that runs every month.""",
    examples=(
        "flyrun compare mnist_logreg small_q --fail-on worse",
        "flyrun compare HEAD~1 HEAD --out changes.md",
        "flyrun compare mnist_logreg --arms untuned,map_tuned",
        "flyrun compare mnist_logreg --against HEAD~1 --out two_versions.html",
        "flyrun compare claims_may claims_june --fail-on moved --out moved.json",
    ),
)
what = "a run, a table, a commit, or runs of the same, as below"
VERB.takes_run("a", metavar="A", help=what)
VERB.takes_run(
    "b", metavar="B", nargs="?", help="the same; without it A's arms are compared, or with --against"
)
VERB.takes(
    "--arms",
    metavar="A,B,...",
    type=_arms,
    offers=_arms_of,
    help="the run's arms to compare with the first of them",
)
VERB.takes(
    "--against", metavar="COMMIT", help="compare with what a commit's code makes of the run's command, here"
)
VERB.takes(
    "--package",
    metavar="NAME",
    help="whose commit that is (default: the one package that the run's methods are from, else flyrun)",
)
VERB.takes("--by", metavar="COLUMN", help="of two fits leave out a group of rows of this column at a time")
VERB.takes("--workers", metavar="N", type=whole(1), help="processes for --against (default: one per core)")
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
    "--out",
    metavar="FILE",
    type=path,
    help="write it there as well: .md, .html (one page to send), or .csv with every row",
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
