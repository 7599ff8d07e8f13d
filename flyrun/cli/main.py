"""The `flyrun` command: verbs are dispatched here, all else goes to Hydra. Imports nothing heavy.

FLYRUN_DEBUG=1 shows tracebacks.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

from flyrun.cli import json_log, stdout
from flyrun.cli.messages import explain, print_error
from flyrun.cli.overview import overview
from flyrun.cli.verbs import VERBS, verb
from flyrun.experiments.config.catalogue import SHOWN, options, plural
from flyrun.ground.errors import ConfigError
from flyrun.ground.exit_codes import DONE, FAILED, INTERRUPTED, REFUSED, TERMINATED
from flyrun.ground.schema import did_you_mean, listing


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not os.environ.get("COLUMNS", "1").strip("0"):
        del os.environ["COLUMNS"]  # rich takes 0 at its word and shows nothing
    if "protocol=smoke" in arguments:  # short chains: compiling takes longer than all their steps
        os.environ.setdefault("FLYRUN_COMPILE", "quick")
    with stdout.kept() as out:
        try:
            as_events, arguments = json_log.take(arguments)
        except ConfigError as error:
            return explain(error)
        with json_log.events() if as_events else contextlib.nullcontext():
            code = _code(arguments)
            json_log.tell("ended", exit_code=code)
    if out.lost is None:
        return code
    if isinstance(out.lost, BrokenPipeError):  # the reader went away, as in `flyrun list | head -1`
        return code or FAILED
    print_error(f"error: stdout: {out.lost.strerror}; what was run is kept; send the output elsewhere")
    return code or REFUSED


def _code(arguments: list[str]) -> int:
    """Run the words, and say on stderr what ended them; their exit code."""
    try:
        with _terminable():
            return _dispatch(arguments)
    except Terminated:
        print_error("terminated; what was finished is kept")
        return TERMINATED
    except KeyboardInterrupt:
        print_error("interrupted; what was finished is kept")
        return INTERRUPTED
    except Exception as error:
        return explain(error)


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does."""


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM, where nobody else minds it, end this process as Ctrl-C does; copies of it end at once."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    process = os.getpid()

    def end(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if os.getpid() != process:
            os.kill(os.getpid(), number)
        raise Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _dispatch(arguments: list[str]) -> int:
    asks = {"-h", "--help"} & set(arguments) or arguments[:1] in ([], ["help"])
    if asks:
        return _help([word for word in arguments if word not in ("-h", "--help")])
    if "--version" in arguments:
        from flyrun.cli.version import text  # late: asks git, and loads numpy for its BLAS

        print(text())
        return DONE
    first, rest = arguments[0], arguments[1:]
    if first in VERBS:
        return verb(first).call(rest)
    if not first.startswith(("-", "~", "+")) and "=" not in first:
        raise ConfigError(_no_such_verb(first, rest))
    from flyrun.cli import sweep  # late: Hydra takes a third of a second

    return sweep.run(arguments)


def _help(arguments: list[str]) -> int:
    """Print the help of the verb that the words name, or that of the command."""
    name = next((word for word in arguments if word != "help"), "")
    if name in VERBS:
        print(verb(name).format_help())
    elif name and arguments[0] == "help":
        raise ConfigError(_no_such_verb(name, []))
    else:
        print(overview())
    return DONE


def _no_such_verb(word: str, rest: list[str]) -> str:
    if word in SHOWN:
        value = next((word for word in rest if "=" not in word and not word.startswith("-")), "NAME")
        return f"{word}: is a key; did you mean `flyrun {word}={value}`, or `flyrun list {word}`?"
    for group in SHOWN:
        if word == plural(group):
            return f"{word}: is no command; did you mean `flyrun list {word}`?"
        if word in options(group):
            chosen = f"{group}={word}"
            how = f"run it with `flyrun {chosen}`" if group == "experiment" else f"chosen by {chosen}"
            return f"{word}: is one of the {plural(group)}; {how}; see `flyrun info {word}`"
    close = did_you_mean(word, [*VERBS, "help", "--version"])
    if not close and (guess := did_you_mean(word, options("experiment"))):
        close = guess.replace("mean ", "mean experiment=")
    there = f"there are {listing(VERBS)}, or KEY=VALUE as in experiment=NAME"
    return f"{word or repr(word)}: no such command{close}; {there}"
