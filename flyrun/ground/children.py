"""Processes of our own: none hears Ctrl-C, which reaches the whole group, and none outlives its parent."""

import contextlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any, TypeVar


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


T = TypeVar("T")
_LOOK_EVERY_S = 0.5  # for processes that have ended
_JAX64 = "JAX_ENABLE_X64"
_SAFE, _safe_path = "PYTHONSAFEPATH", threading.Lock()


def starting() -> Any:
    """The context of multiprocessing that starts a process soonest.

    As a copy of one that has imported what cells need, where the system makes such copies safely; `as_here`
    gives it the environment of now.
    """
    if sys.platform == "linux":
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["flyrun.experiments.runner.worker_pool"])
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


def jax64() -> bool:
    """Whether JAX computes in double precision in this process, or will once it is imported."""
    if jax := sys.modules.get("jax"):
        return bool(jax.config.jax_enable_x64)
    return os.environ.get(_JAX64, "").lower() in ("1", "true", "t", "yes", "y", "on")


def switch_jax(double: bool) -> None:
    """Have JAX compute in double precision or not, in this process."""
    if jax := sys.modules.get("jax"):
        jax.config.update("jax_enable_x64", double)
    else:
        os.environ[_JAX64] = str(int(double))


class Apart(contextlib.ExitStack):
    """Calls functions in a process for each kind of worker but the usual one, which ends with the `with`."""

    def __init__(self) -> None:
        super().__init__()
        self._pools: dict[str, Pool] = {}

    def call(self, kind: str, function: Callable[..., T], *arguments: object) -> T:
        """function(*arguments), which for a kind of worker must be importable and go through a pipe."""
        if not kind:
            return function(*arguments)
        if kind not in self._pools:
            self._pools[kind] = self.enter_context(Pool(1))
        return self._pools[kind].submit(function, *arguments).result()


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
        self._results = self._result_queue._writer  # type: ignore[attr-defined]
        threading.Thread(target=self._watch, daemon=True).start()

    def submit(self, *args: Any, **kwargs: Any) -> Future:
        """As of the base class. Raises BrokenProcessPool where a process has died."""
        try:
            with sigint_blocked():
                return super().submit(*args, **kwargs)
        except OSError as error:
            if self._results.closed:
                raise BrokenProcessPool("a process died") from error
            raise

    def _watch(self) -> None:
        """End all once one has died: Python waits for ever for the rest of a result that it was sending."""
        while (processes := self._processes) is not None:
            sentinels = [process.sentinel for process in list(processes.values())]
            if multiprocessing.connection.wait(sentinels, timeout=_LOOK_EVERY_S):
                self.end()
                return
            if not sentinels:
                time.sleep(_LOOK_EVERY_S)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        """Wait for what was submitted; after an error, end it."""
        if kind is not None:
            self.end()
        return super().__exit__(kind, error, trace)

    def end(self) -> None:
        """End the processes at once; what they were doing is lost."""
        self._open.close()
        self._results.close()  # who reads half a result then meets its end


def _end_with(reader: Connection, environment: dict[str, str]) -> None:
    as_here(environment)

    def wait() -> None:
        with contextlib.suppress(EOFError, OSError):
            reader.recv()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
