"""Published tables as a revision of a checkout holds them, for `flyrun compare`; git is asked, read-only."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from flyrun.ground import git
from flyrun.ground.errors import StoreError


@dataclass(frozen=True)
class Committed:
    """The tables of one revision. name: for people.  tables: path in the checkout -> its text."""

    name: str
    tables: dict[str, str]


class NoRevisionError(StoreError):
    """The word names no revision of a checkout; the text says why, to go into a longer one."""


def read(wanted: str, measured: Path) -> Committed:
    """Tables under `measured` (a folder of the checkout, there or not) as of a revision, REV or REV:RESULT.

    Raises NoRevisionError where the word is none, StoreError where the revision holds no table.
    """
    try:
        return _read(wanted, measured)
    except git.NoAnswer as error:
        raise NoRevisionError(f"nor can it be looked up as a commit: {error}") from error


def _read(wanted: str, measured: Path) -> Committed:
    revision, _, result = wanted.partition(":")
    around = next(folder for folder in (measured.resolve(), *measured.resolve().parents) if folder.is_dir())
    answer = git.ask(around, "rev-parse", "--show-toplevel")
    if answer.returncode:
        raise NoRevisionError(f"nor a commit: {around} lies in no git checkout")
    root = Path(answer.stdout.removesuffix("\n"))
    answer = git.ask(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if answer.returncode or not revision:
        raise NoRevisionError(f"nor a commit of the git checkout {root}")
    commit = answer.stdout.strip()
    folder = PurePosixPath(measured.resolve().relative_to(root), result).as_posix()
    listed = git.ask(root, "ls-tree", "-r", "-z", "--name-only", commit, "--", f"{folder}/")
    tables = {}
    for path in _tables(listed.stdout.split("\0")):
        shown = git.ask(root, "cat-file", "blob", f"{commit}:{path}")
        if shown.returncode:
            raise StoreError(f"{revision}:{path}: cannot be read ({shown.stderr.strip()}); see `git fsck`")
        tables[path] = shown.stdout
    if not tables:
        raise StoreError(
            f"compare {wanted}: commit {commit[:10]} holds no table.csv or table.json under {folder}; "
            "name one that holds results, as `git log -- " + folder + "` lists them"
        )
    return Committed(f"{folder} as of {revision} ({commit[:10]})", tables)


def _tables(paths: list[str]) -> list[str]:
    """One table of each folder: table.json where there is one, else table.csv."""
    chosen: dict[PurePosixPath, str] = {}
    for path in sorted(paths):  # .csv before .json
        if PurePosixPath(path).name in ("table.csv", "table.json"):
            chosen[PurePosixPath(path).parent] = path
    return list(chosen.values())
