"""Processes of our own: none hears Ctrl-C, which reaches the whole group, and none outlives its parent."""

import contextlib
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.connection import Connection
from typing import Any


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start_tracker() -> None:
    """Start Python's tracker of shared resources; what a sudden end leaves it clears without a word."""
    rules = list(sys.warnoptions)  # which it is given
    sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
    try:
        multiprocessing.resource_tracker.ensure_running()
    finally:
        sys.warnoptions[:] = rules


_SAFE, _safe_path = "PYTHONSAFEPATH", threading.Lock()


def starting() -> Any:
    """The context of multiprocessing that starts a process soonest.

    As a copy of one that has imported what cells need, where the system makes such copies safely; `as_here`
    gives it the environment of now.
    """
    if sys.platform == "linux":
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["flyrun.experiments.runner.executors"])
        # copies are asked for by a socket among temporary files, where some have none, or too long a path
        with _safe_path, sigint_blocked(), contextlib.suppress(OSError):
            # else what it imports would be files of these names in the folder where a person stands
            before = os.environ.get(_SAFE)
            os.environ[_SAFE] = "1"
            try:
                multiprocessing.forkserver.ensure_running()
            finally:
                del os.environ[_SAFE]
                os.environ |= {} if before is None else {_SAFE: before}
            return context
    return multiprocessing.get_context("spawn")


def as_here(environment: dict[str, str]) -> None:
    """Take over the environment of the process that asked for this one; first thing in it."""
    os.environ.clear()
    os.environ.update(environment)


@contextlib.contextmanager
def sigint_blocked() -> Iterator[None]:
    """Threads and processes started inside never see Ctrl-C."""
    _start_tracker()  # that unblocks SIGINT, so it must be there before
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Pool(ProcessPoolExecutor):
    """Processes that end at once when this one does, or an error or Ctrl-C leaves the `with`."""

    def __init__(self, workers: int):
        _start_tracker()  # before the first lock does
        context = starting()
        reader, self._open = context.Pipe(duplex=False)
        super().__init__(workers, context, _end_with, (reader, dict(os.environ)))

    def submit(self, *args: Any, **kwargs: Any) -> Future:
        with sigint_blocked():
            return super().submit(*args, **kwargs)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        """Wait for what was submitted; after an error, end it."""
        if kind is not None:
            self.end()
        return super().__exit__(kind, error, trace)

    def end(self) -> None:
        """End the processes at once; what they were doing is lost."""
        self._open.close()


def _end_with(reader: Connection, environment: dict[str, str]) -> None:
    as_here(environment)

    def wait() -> None:
        with contextlib.suppress(EOFError, OSError):
            reader.recv()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
