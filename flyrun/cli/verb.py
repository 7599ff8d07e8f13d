"""A verb, declared once: its usage, help, errors and what Tab offers all come from the declaration."""

import argparse
import shutil
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import did_you_mean, listing

_SCREEN = 40  # lines that help takes at most, if it can
_HOW = "Type an option as --KEY VALUE, --KEY=VALUE or KEY=VALUE."
_INDENT = 23
#: stands for a value of two dashes, which argparse would drop
_DASHES = "\0--"


class Verb(argparse.ArgumentParser):
    """The words after `flyrun NAME`.

    run: does the work, given the words as read, and returns the exit code; None where one of `actions` does.
    raw: whether `run` is given the words as typed, in `words` alone.
    settings: which of the other words KEY=VALUE are settings of an arm, read into `settings`.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        run: Callable[[argparse.Namespace], int] | None,
        *,
        about: str = "",
        notes: str = "",
        examples: Sequence[str] = (),
        raw: bool = False,
        usage: str = "",
        settings: Callable[[str], bool] = lambda word: False,
        too_many: str = "",
    ) -> None:
        super().__init__(prog=f"flyrun {name}", add_help=False, allow_abbrev=False)
        self.name, self.summary, self.run, self.raw, self.settings = name, summary, run, raw, settings
        self.about, self.notes, self.examples, self.words = about, notes, tuple(examples), usage
        self.actions: dict[str, Verb] = {}
        self.help_of_settings, self.too_many = "", too_many
        self.options: dict[str, argparse.Action] = {}
        self._refused: dict[str, argparse.Action] = {}
        self.positionals: list[argparse.Action] = []
        self._offers: dict[str, Callable[[list[str]], Iterable[str]]] = {}

    def takes(
        self,
        *names: str,
        offers: Callable[[list[str]], Iterable[str]] | None = None,
        choices: Collection[str] = (),
        **settings: Any,
    ) -> argparse.Action:
        """Declare a word or an option, as `add_argument` does.

        offers: what Tab offers for it, given the words before.  choices: the same, and nothing else will do.
        """
        if settings.get("action") != "store_true":
            settings.setdefault("type", one_of(choices) if choices else self._usual(names))
        action = self.add_argument(*names, **settings)
        if names[0].startswith("-"):
            self.options |= dict.fromkeys(names, action)
        else:
            self.positionals.append(action)
        if choices or offers:
            self._offers[action.dest] = offers or (lambda _: choices)
        return action

    def _usual(self, names: Sequence[str]) -> Callable[[str], str]:
        """What reads a value of a word or an option."""
        return text if names[0].startswith("-") else self._plain

    def refuses(self, flag: str, refusal: Callable[[str], NoReturn]) -> None:
        """Declare an option that neither help nor Tab shows, and whose value is given to `refusal`."""
        self._refused[flag] = self.add_argument(flag, type=refusal)

    def takes_run(self, *names: str, **settings: Any) -> None:
        """Declare a run that is stored; Tab offers those of the usual folder."""

        def stored(arguments: list[str]) -> Iterable[str]:
            from flyrun.experiments.runner.store import runs  # late: verbs of no run need not wait

            return runs("results")

        def run(word: str) -> str:
            if "://" not in word:
                return self._usual(names)(word)
            from flyrun.ground import sent_runs  # late: few runs are at an address

            return sent_runs.fetched(word)

        self.takes(*names, **{"metavar": "RUN", "offers": stored, "type": run, **settings})

    def takes_results_dir(self) -> None:
        """Declare where results are."""
        self.takes(
            "--results-dir",
            metavar="FOLDER",
            type=_results,
            default="results",
            help="where results are: runs are in its runs/",
        )

    def takes_figures(self) -> None:
        """Declare in which further format figures are written."""
        what = "write figures as pdf, too: vectors, for LaTeX"
        self.takes("--figures", metavar="FORMAT", choices=("pdf",), help=what)

    def takes_own_options(self) -> None:
        """Declare a folder with options of a person's own."""
        what = "options of your own too (FOLDER/experiment/mine.yaml)"
        self.takes("--config-dir", "-cd", metavar="FOLDER", help=what)

    def takes_settings(self, what: str) -> None:
        """Say in the help what the settings KEY=VALUE are, which `settings` lets through."""
        self.help_of_settings = what

    def misses(self, name: str) -> NoReturn:
        """Raise ConfigError for a word that is missing."""
        self._fail(f"{name} {'are' if ', ' in name else 'is'} missing")

    def action(self, name: str, run: Callable[[argparse.Namespace], int], example: str) -> "Verb":
        """Declare an action, a verb of its own after this one's name."""
        action = Verb(f"{self.name} {name}", self.summary, run, examples=(f"flyrun {self.name} {example}",))
        self.actions[name] = action
        return action

    def call(self, arguments: list[str]) -> int:
        """Do what the words say and return the exit code. Raises ConfigError naming word and remedy."""
        if arguments and arguments[0] in self.actions:
            return self.actions[arguments[0]].call(arguments[1:])
        if self.run is None:
            if arguments:
                close = did_you_mean(arguments[0], self.actions)
                known = listing(self.actions)
                raise ConfigError(f"{self.name} {arguments[0]}: no such action{close}; there are {known}")
            return next(iter(self.actions.values())).call([])
        return self.run(argparse.Namespace(words=arguments) if self.raw else self.read(arguments))

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The words as they are declared. Raises ConfigError naming word and remedy."""
        dashed, settings = self._dashed(arguments)
        given, unknown = self.parse_known_intermixed_args(dashed)
        if unknown:
            self._refuse(unknown[0])
        given.words, given.settings = list(arguments), settings
        return given

    def _dashed(self, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """The words with every option as --KEY=VALUE, and apart from them the settings of an arm."""
        queue, seen = list(arguments), set()
        dashed: list[str] = []
        settings: list[str] = []
        while queue:
            word = queue.pop(0)
            name, equals, value = word.partition("=")
            is_long = name.startswith("--") or (equals and not name.startswith("-"))
            flag = f"--{name.removeprefix('--').replace('_', '-')}" if is_long else name
            action = self.options.get(flag) or self._refused.get(flag)
            if action is None:
                (settings if self.settings(word) else dashed).append(word)
                continue
            if action.nargs == 0:
                if equals:
                    raise ConfigError(f"{word}: {flag} takes no value; drop it")
            elif not equals and queue and not queue[0].startswith("--"):
                equals, value = "=", queue.pop(0)
            if flag in seen and not isinstance(action.default, list):
                raise ConfigError(f"{name}: is given twice; keep one of them")
            seen.add(flag)
            dashed.append(f"{flag}{equals}{_DASHES if value == '--' else value}")
        return dashed, settings

    def _plain(self, word: str) -> str:
        """A word that is no option: a name, as of a run."""
        if "=" in word:
            self._refuse(word)
        return word

    def _refuse(self, word: str) -> NoReturn:
        """Raise ConfigError for a word that this verb does not take."""
        if not word.startswith("-") and "=" not in word:
            self._fail(f"{word} is one word too many{self.too_many}")
        flags = [flag for flag in self.options if flag.startswith("--")]
        takes = f"it takes {listing(flags)}" if flags else "it takes none"
        close = did_you_mean(f"--{word.partition('=')[0].lstrip('-')}", flags)
        help_of = f"`flyrun {self.name.split()[0]} --help`"
        raise ConfigError(f"{word}: no such option of `{self.prog}`{close}; {takes}; see {help_of}")

    def _fail(self, what: str) -> NoReturn:
        raise ConfigError(f"{self.name}: {what}; as in `{self.examples[0]}`")

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError for what argparse complains of."""
        name, _, complaint = message.removeprefix("argument ").partition(": ")
        if name.startswith("the following arguments are required"):
            self.misses(complaint)
        if complaint.startswith("expected"):
            raise ConfigError(f"{name}: a value is missing; see `flyrun {self.name.split()[0]} --help`")
        raise ConfigError(f"{self.name} {name.partition('/')[0]} {complaint}")

    def format_usage(self) -> str:
        """The words it takes, in a line for each action."""
        mine = [] if self.run is None else [f"{self.prog} {self.words or self._signature()}".rstrip()]
        return "\n".join([*mine, *(action.format_usage() for action in self.actions.values())])

    @property
    def in_brief(self) -> str:
        """Its name and the words that it cannot do without, or its actions."""
        usage = self.words.partition(" [")[0] or self._signature().partition(" [OPTION")[0]
        return f"{self.name} {usage if self.run else '|'.join(self.actions)}".rstrip()

    def _signature(self) -> str:
        shown = {None: "{}", "?": "[{}]", "*": "[{} ...]", "+": "{} ..."}
        plain = [shown[positional.nargs].format(positional.metavar) for positional in self.positionals]  # type: ignore[index]
        return " ".join([*plain, "[OPTION ...]"] if self.options else plain)

    def format_help(self) -> str:
        """The text of `flyrun NAME --help`."""
        width = max(60, min(shutil.get_terminal_size().columns, 100))
        each = [self, *self.actions.values()]
        taken = [part for verb in each for part in dict.fromkeys([*verb.positionals, *verb.options.values()])]
        rows = [_row(*_told(part), width) for part in taken]
        if self.help_of_settings:
            rows.append(_row("KEY=VALUE", self.help_of_settings, width))
        how = _HOW if any(verb.options for verb in each) else ""
        examples = "\n".join(["Examples", *(f"  {line}" for line in self.examples)])
        about = _filled(f"{self.about} {how}".strip(), width)
        usage = self.format_usage()
        if "\n" not in usage + about:  # which are one block, so that a long list of options has more room
            usage, about = "\n".join(filter(None, [usage, about])), ""
        blocks = [about, "\n".join(dict.fromkeys(rows)), _filled(self.notes, width)]
        text = "\n\n".join([usage, *filter(None, blocks)]) + "\n" + examples  # a heading, which needs no room
        return text if text.count("\n") < _SCREEN else text.replace("\n\n", "\n", 1)

    def offers(self, arguments: list[str], last: str) -> list[str]:
        """What Tab offers after these words, of which the one that is being typed is `last`."""
        if arguments and arguments[0] in self.actions:
            return self.actions[arguments[0]].offers(arguments[1:], last)
        key, equals, _ = last.partition("=")
        if equals and key in self.options:
            return [f"{key}={value}" for value in self._names(self.options[key], arguments)]
        if arguments and arguments[-1] in self.options and self.options[arguments[-1]].nargs != 0:
            return self._names(self.options[arguments[-1]], arguments)
        typed = sum(not word.startswith("-") for word in self._dashed(arguments)[0])
        actions = [] if arguments else list(self.actions)
        place = self.positionals[typed : typed + 1] or [
            p for p in self.positionals[-1:] if p.nargs in ("*", "+")
        ]
        if place and not last.startswith("-"):
            return actions + self._names(place[0], arguments)
        given = {word.partition("=")[0] for word in arguments}
        return actions + [flag for flag in self.options if flag.startswith("--") and flag not in given]

    def _names(self, action: argparse.Action, arguments: list[str]) -> list[str]:
        offers = self._offers.get(action.dest)
        return list(offers(arguments)) if offers else []


def _told(action: argparse.Action) -> tuple[str, str]:
    """How an argument is typed, and what it is."""
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    label, usual = " ".join([*action.option_strings[:1], metavar]).strip(), action.default
    return label, f"{action.help} (default: {usual})" if usual else str(action.help)


def _row(label: str, what: str, width: int) -> str:
    """Label and text in two columns."""
    lines = textwrap.wrap(what, width - _INDENT, break_on_hyphens=False)
    first = f"{label:<{_INDENT}}" if len(label) < _INDENT else f"{label}\n{'':{_INDENT}}"
    return first + f"\n{'':{_INDENT}}".join(lines)


def _filled(text: str, width: int) -> str:
    """Paragraphs wrapped; lines that are indented stay as they are."""
    parts = text.strip("\n").split("\n\n")
    return "\n\n".join(
        p if p.startswith("  ") and p[2] != " " else textwrap.fill(" ".join(p.split()), width) for p in parts
    )


def text(word: str) -> str:
    """A value that is not empty."""
    if not word:
        raise argparse.ArgumentTypeError("expected one argument")
    return "--" if word == _DASHES else word


def path(word: str) -> Path:
    """A file or folder."""
    return Path(text(word)).expanduser()


def _results(word: str) -> Path:
    """A folder of results."""
    if "://" in word:
        raise argparse.ArgumentTypeError(
            f"{word}: is an address, of which a run is named whole, as {word.rstrip('/')}/runs/NAME; name a "
            "folder of this machine here"
        )
    return path(word)


def number(holds: Callable[[float], bool], must_be: str) -> Callable[[str], float]:
    """A number for which this holds."""

    def read(word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            value = float("nan")
        if not holds(value):
            raise argparse.ArgumentTypeError(f"{word}: must be {must_be}")
        return value

    return read


def whole(least: int) -> Callable[[str], int]:
    """A whole number at least this."""
    read = number(lambda n: n >= least and n == n // 1, f"a whole number at least {least}")
    return lambda word: int(read(word))


def one_of(names: Collection[str]) -> Callable[[str], str]:
    """One of these names."""

    def read(word: str) -> str:
        if word not in names:
            close = did_you_mean(word, names)
            raise argparse.ArgumentTypeError(f"{word}: must be {listing(names, 'or')}{close}")
        return word

    return read
