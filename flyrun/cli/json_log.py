"""`--log json`, or `--json`: all that a command says is events on stdout, one JSON object a line."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from flyrun.ground.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from flyrun.ground.progress import JsonLines


def take(arguments: Sequence[str]) -> tuple[bool, list[str]]:
    """Whether events are asked for, and the other words. Raises ConfigError for a log of another kind."""
    queue, others, asked = list(arguments), list[str](), False
    while queue:
        word = queue.pop(0)
        name, equals, value = word.partition("=")
        if word == "--log" or (equals and name.removeprefix("--") == "log"):
            value = value if equals else (queue.pop(0) if queue else "")
            if value != "json":
                raise ConfigError(f"--log {value}".rstrip() + ": must be json, as in `--log json`")
        elif word != "--json":
            others.append(word)
            continue
        asked = True
    return asked, others


class Notes:
    """Stdout while events are asked for: each line that is printed there is a note.

    stream: where events go; events: what writes them.
    """

    def __init__(self, stream: TextIO):
        from flyrun.ground.progress import JsonLines  # late: rich, which few commands need at once

        self.stream, self.events, self._begun = stream, JsonLines(stream), ""

    def __getattr__(self, name: str) -> Any:
        """All else is the stream's."""
        return getattr(self.stream, name)

    def isatty(self) -> bool:
        """No terminal, whatever the stream is: nothing moves there."""
        return False

    def write(self, text: str) -> int:
        """Write a note for each line that has ended."""
        *lines, self._begun = f"{self._begun}{text}".split("\n")
        for line in filter(str.strip, lines):
            self.events.say(line)
        return len(text)

    def end_line(self) -> None:
        """Write a note of what no line has ended."""
        if self._begun:
            self.write("\n")


def stream() -> TextIO:
    """Where events go."""
    return sys.stdout.stream if isinstance(sys.stdout, Notes) else sys.stdout


def shown(console: "Console") -> "Console | JsonLines":
    """What takes progress: events, where these are asked for, or else this console."""
    return sys.stdout.events if isinstance(sys.stdout, Notes) else console


def asked() -> bool:
    """Whether this command writes events."""
    return isinstance(sys.stdout, Notes)


def tell(event: str, **values: object) -> None:
    """Write an event, where events are asked for; it ends a line that was begun."""
    if isinstance(sys.stdout, Notes):
        sys.stdout.end_line()
        sys.stdout.events.write(event, **values)


@contextmanager
def events() -> Iterator[None]:
    """Let stdout hold nothing but events, warnings of Python among them."""
    before, show = sys.stdout, warnings.showwarning

    def write(message: Warning | str, *where: object) -> None:
        tell("warning", text=str(message))
        show(message, *cast(Any, where))

    notes = Notes(before)
    sys.stdout, warnings.showwarning = cast(TextIO, notes), cast(Any, write)
    try:
        yield
    finally:
        notes.end_line()
        sys.stdout, warnings.showwarning = before, show
