"""Stdout as it may be: closed, full, of few characters. None of that ends a run; it is told at the end."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

#: what is written for characters that an encoding lacks
_PLAIN = str.maketrans({"±": "+-", "≤": "<=", "≥": ">=", "…": "...", "×": "x", "–": "-", "—": "-", "−": "-"})


class Stdout:
    """A text stream; lost: the first error of writing to it, after which nothing is written."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self.lost: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        """All else is the stream's."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, in plain characters where the stream has no others."""
        with self._keeping():
            try:
                self._stream.write(text)
            except UnicodeEncodeError as error:
                plain = text.translate(_PLAIN).encode(error.encoding, "backslashreplace")
                self._stream.write(plain.decode(error.encoding))
        return len(text)

    def flush(self) -> None:
        """Write what is held back."""
        with self._keeping():
            self._stream.flush()

    @contextlib.contextmanager
    def _keeping(self) -> Iterator[None]:
        if self.lost is None:
            try:
                yield
            except OSError as error:
                self.lost = error
        else:
            with contextlib.suppress(OSError):
                yield


@contextlib.contextmanager
def kept() -> Iterator[Stdout]:
    """Stdout's stand-in while a command runs; a closed one is as /dev/null."""
    before = sys.stdout
    with contextlib.ExitStack() as stack:
        stream = before or stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
        stdout: Any = Stdout(stream)
        sys.stdout = stdout
        try:
            yield stdout
        finally:
            stdout.flush()
            if stdout.lost is not None:  # what is held back would fail again as Python ends
                with contextlib.suppress(OSError, ValueError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
                    stream.flush()
            sys.stdout = before
