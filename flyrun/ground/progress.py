"""What a person, or a machine, is told while something takes time."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Plain:
    """Says lines on a console; a console of None shows nothing."""

    def __init__(self, console: "Console | None"):
        self._console = console

    def say(self, text: str, style: str | None = None) -> None:
        """Say one line."""
        if self._console is not None:
            self._console.print(text, style=style, markup=False, emoji=False, highlight=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Say what speaks against trusting an answer as it is."""
        self.say(text)

    def part(self, text: str, done: int, total: int, detail: str) -> None:
        """Say how much of a piece of work is done."""
        self.say(f"{text}: {100 * done / total:.0f} %, {detail}")


class JsonLines:
    """Takes the place of a console: what is shown there goes into a stream, one JSON object a line."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._unicode = (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")
        self._lock = threading.RLock()

    def write(self, event: str, **values: object) -> None:
        """Write one event."""
        line = json.dumps(
            {"event": event, "time": now(), **values}, ensure_ascii=not self._unicode, default=str
        )
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()

    def say(self, text: str, style: str | None = None) -> None:
        """Write a note."""
        self.write("note", text=text)

    def warn(self, text: str) -> None:
        """Write a warning."""
        self.write("warning", text=text)

    def part(self, text: str, done: int, total: int, detail: str) -> None:
        """Write how much of a piece of work is done."""
        self.write("part", text=text, done=done, total=total, detail=detail)


def speaker(console: "Console | JsonLines | None") -> Plain | JsonLines:
    """What says lines there."""
    return console if isinstance(console, JsonLines) else Plain(console)


#: what takes longer is announced, so that nobody wonders at the silence
SLOW_S = 1.0


@contextlib.contextmanager
def when_slow(say: Callable[[str], object], text: str) -> Iterator[None]:
    """Say `text` once the body has taken longer than SLOW_S."""
    timer = threading.Timer(SLOW_S, say, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def duration(seconds: float) -> str:
    """Seconds in words: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if not 10 <= seconds < 1e15:
        return f"{seconds:.1f} s" if abs(seconds) < 10 else f"{seconds:.3g} s"
    minutes, whole = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {whole} s" if minutes else f"{whole} s"


PLAIN_EVERY_S = 10.0


def moves(console: "Console | JsonLines | None") -> bool:
    """Whether bars can move on a console. FORCE_COLOR, which services set, makes no terminal of a file."""
    from rich.console import Console  # late: help need not wait for it

    if not isinstance(console, Console) or not console.is_terminal or console.is_dumb_terminal:
        return False
    return "FORCE_COLOR" not in os.environ or console.file.isatty()


def progress_bar(console: "Console") -> Any:
    """Bars that vanish at the end."""
    from rich import progress  # late: only a terminal needs it

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(24),
        progress.TextColumn("{task.percentage:>3.0f}%", markup=False),
        progress.TextColumn("{task.fields[detail]}", markup=False),
        console=console,
        refresh_per_second=2,
        transient=True,
    )


@contextlib.contextmanager
def counted(console: Any, text: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """Show how many of `total` parts are done: a bar on a terminal, elsewhere a line or event now and then.

    Yields what takes the number of parts that are done and a detail in words.
    """
    shown, last = speaker(console), time.monotonic()
    with contextlib.ExitStack() as stack:
        if moves(console):
            bar = stack.enter_context(progress_bar(console))
            task = bar.add_task(text, total=total, detail="")
            yield lambda done, detail: bar.update(task, completed=done, detail=detail)
            return

        def tell(done: int, detail: str) -> None:
            nonlocal last
            if (now := time.monotonic()) - last >= PLAIN_EVERY_S:
                last = now
                shown.part(text, done, total, detail)

        yield tell
