"""The words after a command: plain ones, and options as KEY=VALUE, --KEY VALUE or --KEY=VALUE."""

from collections.abc import Callable, Sequence
from pathlib import Path

from flyrun.config.schema import did_you_mean, listing
from flyrun.errors import ConfigError


def take(
    verb: str,
    words: Sequence[str],
    known: Sequence[str] = (),
    flags: Sequence[str] = (),
    lists: Sequence[str] = (),
    plain_too: Callable[[str], bool] = lambda word: False,
) -> tuple[list[str], dict[str, str]]:
    """Part words into plain ones and options with a `known` key; ConfigError naming word and remedy.

    flags: options without a value, "" where given.  lists: those that, given again, grow (a,b).
    plain_too: of words KEY=VALUE those that count as plain ones.
    """
    plain: list[str] = []
    given: dict[str, str] = {}
    queue, first = list(words), verb.split()[0]
    while queue:
        word = queue.pop(0)
        name, equals, value = word.partition("=")
        if (not equals and not word.startswith("-")) or plain_too(word):
            plain.append(word)
            continue
        key = "config_dir" if name == "-cd" else name.removeprefix("--").replace("-", "_")
        if key in flags and not equals:
            given[key] = ""
            continue
        if key not in known:
            options = [f"--{one.replace('_', '-')}" for one in (*known, *flags)]
            allowed = f"it takes {listing(options)}" if options else "it takes none"
            close = did_you_mean(f"--{name.lstrip('-')}", options)
            raise ConfigError(
                f"{word}: no such option of `flyrun {verb}`{close}; {allowed}; see `flyrun {first} --help`"
            )
        if not equals and queue and not queue[0].startswith("--"):
            value = queue.pop(0)
        if not value:
            raise ConfigError(f"{word}: a value is missing; see `flyrun {first} --help`")
        if key in given and key not in lists:
            raise ConfigError(f"{name}: is given twice; keep one of them")
        given[key] = f"{given[key]},{value}" if key in given else value
    return plain, given


def one_name(verb: str, words: Sequence[str], example: str) -> str:
    """The one plain word that a command takes."""
    if len(words) != 1:
        what = f"{words[1]}: one name is enough" if words else "a name is missing"
        raise ConfigError(f"{verb}: {what}; as in `flyrun {verb} {example}`")
    return words[0]


def number(key: str, text: str, holds: Callable[[float], bool], must_be: str) -> float:
    """A number for which this holds."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not holds(value):
        raise ConfigError(f"{key}={text}: must be {must_be}")
    return value


def file_or_none(given: dict[str, str], key: str = "out") -> Path | None:
    """Where a file goes that is asked for."""
    return Path(given[key]).expanduser() if key in given else None
