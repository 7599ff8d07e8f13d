"""A cell's log.txt: when it began, went on, stopped, ended or failed, and how fast it was meanwhile."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path

from flyrun.runner import store

_EVERY_S = 30.0


class CellLog:
    """Lines appended to the log of the cell in `folder`. A full disk costs the line, never the cell."""

    def __init__(self, folder: Path):
        self._path, self._last = folder / store.LOG, time.monotonic()

    def write(self, text: str) -> None:
        """Append `text` with the time before it."""
        with contextlib.suppress(OSError), open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{store.now()} {text}\n")

    def begin(self, cell: str, iteration: int, total: int) -> None:
        """Say who begins, and where."""
        where = f"begins at iteration {iteration:,} of {total:,}"
        self.write(f"{cell}: process {os.getpid()} on {socket.gethostname()} {where}")

    def pace(self, iteration: int, total: int, rate: float) -> None:
        """Say how far it is, now and then."""
        if time.monotonic() - self._last >= _EVERY_S:
            self._last = time.monotonic()
            self.write(f"iteration {iteration:,} of {total:,}, {rate:,.0f} it/s")
