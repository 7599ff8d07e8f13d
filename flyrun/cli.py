"""The `flyrun` command: verbs are dispatched here, all else goes to Hydra. Imports nothing heavy.

Exit codes: 0; 1 when a cell failed; 2 for what a person can mend, told in one line; 130 after Ctrl-C.
FLYRUN_DEBUG=1 shows tracebacks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from flyrun import __version__
from flyrun.errors import ConfigError, FlyrunError
from flyrun.schema import did_you_mean, listing


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        tell("interrupted; what was finished is kept")
        return 130
    except BrokenPipeError:  # the reader went away, as in `flyrun list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        return explain(error)


def explain(error: Exception) -> int:
    """Say an error in one line on stderr and return the exit code that it means."""
    if os.environ.get("FLYRUN_DEBUG") == "1":
        raise error
    if isinstance(error, FlyrunError):
        tell(f"error: {error}")
        return 2
    if isinstance(error, OSError) and error.filename:  # a name too long, a folder closed to us
        tell(f"error: {error.filename}: {error.strerror}; name another place")
        return 2
    if isinstance(error, RuntimeError) and "home directory" in str(error):  # Path.expanduser's
        tell("error: a path begins with ~ and the name of nobody here; write the folder in full")
        return 2
    tell(f"error: unexpected {type(error).__name__}: {error}; FLYRUN_DEBUG=1 shows where it came from")
    return 1


def tell(text: str) -> None:
    """Print one line on stderr, whatever the text holds."""
    line = "".join(one for one in " ".join(text.split()) if one.isprintable())
    print(f"flyrun: {line}", file=sys.stderr, flush=True)


def _dispatch(words: list[str]) -> int:
    asks = {"-h", "--help"} & set(words) or words[:1] in ([], ["help"])
    if asks:
        return _help([word for word in words if word not in ("-h", "--help")])
    if "--version" in words:
        print(f"flyrun {__version__}")
        return 0
    first, rest = words[0], words[1:]
    if first in VERBS:
        return VERBS[first](rest)
    if not first.startswith(("-", "~", "+")) and "=" not in first:
        raise ConfigError(_no_such_verb(first, rest))
    from flyrun.command import run

    return run(words)


def _help(words: list[str]) -> int:
    """Print the help of the verb that the words name, or that of the command."""
    verb = next((word for word in words if word != "help"), "")
    if verb == "fit":
        from flyrun.fit.arguments import HELP

        print(HELP)
    elif verb in VERBS:
        from flyrun import usage

        print(usage.HELP[verb])
    elif verb and words[0] == "help":
        raise ConfigError(_no_such_verb(verb, []))
    else:
        from flyrun.catalogue import help_text

        print(help_text())
    return 0


def _no_such_verb(word: str, rest: list[str]) -> str:
    from flyrun.catalogue import SHOWN, options, plural

    if word in SHOWN:
        value = next((one for one in rest if "=" not in one and not one.startswith("-")), "NAME")
        return f"{word}: is a key; did you mean `flyrun {word}={value}`, or `flyrun list {word}`?"
    for group in SHOWN:
        if word == plural(group):
            return f"{word}: is no command; did you mean `flyrun list {word}`?"
        if word in options(group):
            run = (
                f"run it with `flyrun experiment={word}`"
                if group == "experiment"
                else f"chosen by {group}={word}"
            )
            return f"{word}: is one of the {plural(group)}; {run}; see `flyrun info {word}`"
    close = did_you_mean(word, [*VERBS, "help", "--version"])
    if not close and (guess := did_you_mean(word, options("experiment"))):
        close = guess.replace("mean ", "mean experiment=")
    there = f"there are {listing(VERBS)}, or KEY=VALUE as in experiment=NAME"
    return f"{word or repr(word)}: no such command{close}; {there}"


def _take(verb: str, words: list[str], known: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
    """Part words into plain ones and options, KEY=VALUE, --KEY VALUE or --KEY=VALUE with a `known` key."""
    plain, given, queue = [], {}, list(words)
    while queue:
        word = queue.pop(0)
        name, equals, value = word.partition("=")
        if not equals and not word.startswith("-"):
            plain.append(word)
            continue
        key = "config_dir" if name == "-cd" else name.removeprefix("--").replace("-", "_")
        if key not in known:
            allowed = f"it takes {listing(f'{one}=…' for one in known)}" if known else "it takes none"
            close = did_you_mean(key, known)
            raise ConfigError(
                f"{word}: no such option of `flyrun {verb}`{close}; {allowed}; "
                f"see `flyrun {verb.split()[0]} --help`"
            )
        if not equals and queue and not queue[0].startswith("--"):
            value = queue.pop(0)
        if not value:
            raise ConfigError(f"{word}: a value is missing; see `flyrun {verb.split()[0]} --help`")
        given[key] = value
    return plain, given


def _one_name(verb: str, words: list[str], example: str) -> str:
    if len(words) != 1:
        what = f"{words[1]}: one name is enough" if words else "a name is missing"
        raise ConfigError(f"{verb}: {what}; as in `flyrun {verb} {example}`")
    return words[0]


def _list(words: list[str]) -> int:
    from flyrun import catalogue

    plain, given = _take("list", words, ("config_dir",))
    kind = _one_name("list", plain, "experiments") if plain else None
    print(catalogue.list_text(kind, _own_folders(given)))
    return 0


def _info(words: list[str]) -> int:
    from flyrun import catalogue

    plain, given = _take("info", words, ("config_dir",))
    print(catalogue.info_text(_one_name("info", plain, "mnist_logreg"), _own_folders(given)))
    return 0


def _own_folders(given: dict[str, str]) -> list[str]:
    from pathlib import Path

    folders = [given["config_dir"]] if "config_dir" in given else []
    for folder in folders:
        if not Path(folder).is_dir():
            raise ConfigError(f"--config-dir {folder}: no such folder")
    return folders


def _report(words: list[str]) -> int:
    from flyrun.catalogue import find_run

    plain, given = _take("report", words, ("results_dir", "name"))
    wanted = _one_name("report", [*plain, *([given["name"]] if "name" in given else [])], "mnist_logreg")
    folder = find_run(wanted, given.get("results_dir", "results"))
    from rich.console import Console

    from flyrun.report import build

    build(folder, Console(highlight=False))
    return 0


def _fit(words: list[str]) -> int:
    from flyrun.fit import arguments

    if not words:
        print(arguments.HELP)
        return 2
    from flyrun import outputs

    output, words = outputs.take(words)
    screen = outputs.screen(output)
    try:
        request = arguments.parse(words)
        from flyrun.fit.rounds import fit

        code = fit(request, screen)
    except Exception as error:
        code = explain(error)
        screen.error(error)
    screen.ended(code)
    return code


def _table(words: list[str]) -> int:
    from pathlib import Path

    from flyrun.report import together

    plain, given = _take("table", words, ("results_dir", "out"))
    name = _one_name("table", plain, "firefly_table1")
    from rich.console import Console

    out = Path(given["out"]).expanduser() if given.get("out") else None
    folder = Path(given.get("results_dir", "results")).expanduser()
    together.build(name, folder, out, Console(highlight=False))
    return 0


def _publish(words: list[str]) -> int:
    from pathlib import Path

    from flyrun.catalogue import find_run
    from flyrun.report.publish import publish

    plain, given = _take("publish", words, ("results_dir", "out"))
    if not plain:
        raise ConfigError("publish: a name is missing; as in `flyrun publish mnist_logreg`")
    out = Path(given.get("out", "results/measured")).expanduser()
    for name in plain:
        written = publish(find_run(name, given.get("results_dir", "results")), out)
        print(f"{name}: {len(written)} files in {written[0].parent}")
    return 0


def _compare(words: list[str]) -> int:
    from pathlib import Path

    from flyrun.report.compare import LEVEL, MARGIN, compare

    plain, given = _take("compare", words, ("results_dir", "out", "level", "margin"))
    if len(plain) != 2:
        raise ConfigError("compare: takes two runs, tables or commits; as in `flyrun compare first second`")
    level = _fraction("level", given.get("level", str(LEVEL)))
    margin = _fraction("margin", given.get("margin", str(MARGIN)))
    from rich.console import Console

    out = Path(given["out"]).expanduser() if given.get("out") else None
    results_dir = given.get("results_dir", "results")
    compare(plain[0], plain[1], results_dir, level, margin, out, Console(highlight=False))
    return 0


def _fraction(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise ConfigError(f"{key}={text}: must be a number between 0 and 1, such as 0.05")
    return value


def _check(words: list[str]) -> int:
    from pathlib import Path

    update = "--update" in words
    plain, given = _take("check", [word for word in words if word != "--update"], ("values", "workers"))
    workers = given.get("workers")
    if workers is not None and (not workers.isdecimal() or int(workers) < 1):
        raise ConfigError(f"workers={workers}: must be a whole number at least 1")
    from rich.console import Console

    from flyrun.check import run
    from flyrun.runner.environment import cores

    folder = Path(given["values"]).expanduser() if given.get("values") else run.default_folder()
    return run.check(plain, folder, update, int(workers or cores()), Console(highlight=False))


def _data(words: list[str]) -> int:
    from flyrun import catalogue
    from flyrun.data import registry

    actions = ("list", "info", "verify", "build")
    action = words[0] if words else "list"
    if action not in actions:
        raise ConfigError(
            f"data {action}: no such command{did_you_mean(action, actions)}; there are {listing(actions)}"
        )
    plain, given = _take(f"data {action}", words[1:], ("out",) if action == "build" else ())
    if action == "list":
        _take_none(plain)
        print(catalogue.data_text())
    elif action == "info":
        print(catalogue.info_text(_one_name("data info", plain, "mnist_7v9"), (), ("dataset",)))
    elif action == "verify":
        for name in plain or registry.names():
            print(f"{name}: {registry.verify(name)}")
    else:
        registry.build(_one_name("data build", plain, "mnist_7v9"), out=given.get("out"), echo=print)
    return 0


def _take_none(words: list[str]) -> None:
    if words:
        raise ConfigError(f"{words[0]}: `flyrun data list` takes nothing more")


VERBS: dict[str, Callable[[list[str]], Any]] = {
    "list": _list,
    "info": _info,
    "fit": _fit,
    "report": _report,
    "table": _table,
    "publish": _publish,
    "compare": _compare,
    "check": _check,
    "data": _data,
}
