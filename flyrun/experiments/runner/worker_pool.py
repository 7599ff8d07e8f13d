"""Worker processes of this machine, in which cells run."""

import contextlib
import json
import multiprocessing
import multiprocessing.connection
import multiprocessing.resource_tracker
import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from flyrun.experiments.runner.cell import Task
from flyrun.experiments.runner.chunks import run_cell
from flyrun.experiments.runner.outcomes import RESTARTS, Executor, Outcome, died, failed, gave_up
from flyrun.ground.children import as_here, starting
from flyrun.ground.threads import one_blas_thread

Report = Callable[[dict], None]
# A pipe takes messages up to this size in one piece (POSIX's PIPE_BUF), so writers need no lock,
# and one that is killed leaves neither a lock held nor half a message.
_MESSAGE_BYTES = 4000
# A worker died; or, as one was to be started, the process of which they are copies.
_DIED = (BrokenProcessPool, ConnectionError, EOFError)


def kind_of(task: Task) -> str:
    """The kind of worker that a task asks for."""
    return str(task.cell.arm.sampler.worker)


class WorkerPool(Executor):
    """`workers` slots, each a thread with a worker process of its own.

    A pool of one process each, so that a killed worker takes no other down and it is known whose it was. A
    process that has run a kind of worker ends before another kind's cell begins.
    """

    def __init__(self, workers: int, report: Report):
        context = starting()
        self.workers, self._show = workers, report
        self._reader, self._writer = context.Pipe(duplex=False)
        # Not an Event: a worker killed while it holds an Event's lock would block all others.
        self._flag = context.RawValue("b", 0)
        self._tasks: deque[Task] = deque()
        self._taking = threading.Lock()
        self._ended: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        self._workers: dict[int, int] = {}
        self._killed = False
        # Starting it unblocks SIGINT in the thread that does; here, that is not one that starts workers.
        multiprocessing.resource_tracker.ensure_running()

    def outcomes(self, tasks: list[Task]) -> Iterator[Outcome]:
        self._tasks.extend(tasks)
        listener = threading.Thread(target=self._listen, daemon=True)
        each = range(self.workers)
        slots = [threading.Thread(target=self._slot, args=(slot,), daemon=True) for slot in each]
        for thread in (listener, *slots):
            thread.start()
        try:
            running = len(slots)
            while running:
                if outcome := self._ended.get():
                    yield outcome
                else:
                    running -= 1
        finally:
            if running:
                self.kill()
            for thread in slots:
                thread.join()
            self._writer.send_bytes(b"end")
            listener.join()

    def stop(self) -> None:
        self._flag.value = 1

    def kill(self) -> None:
        self._killed = True
        self.stop()
        for process in list(self._workers.values()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def report(self, event: dict) -> None:
        """Show an event, in order with those of the workers."""
        _send(self._writer, event)

    def _listen(self) -> None:
        while (message := self._reader.recv_bytes()) != b"end":
            event = json.loads(message)
            if event["kind"] == "worker":
                self._workers[event["slot"]] = event["process"]
            else:
                # A fault in showing must not end the reading: workers would block on a full pipe.
                with contextlib.suppress(Exception):
                    self._show(event)

    def _slot(self, slot: int) -> None:
        """Take tasks while there are any; runs in a thread of the parent."""
        # Workers inherit the mask: Ctrl-C reaches the whole group, but only the parent decides.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        pool, kind = None, ""
        try:
            while not self._flag.value:
                if (task := self._next(kind)) is None:
                    return
                if kind_of(task) != kind and pool is not None:
                    pool.shutdown()
                    pool = None
                kind = kind_of(task)
                for _ in range(1 + RESTARTS):
                    try:
                        pool = pool or self._pool(slot)
                        outcome = pool.submit(_work, task).result()
                        break
                    except _DIED:
                        if pool is not None:
                            pool.shutdown()
                        pool = None
                        self._workers.pop(slot, None)
                        outcome = Outcome(task.cell, "stopped", "with its worker process")
                        if self._killed or self._flag.value:
                            break
                        self.report(died(task.cell.arm.name, task.cell.seed))
                        time.sleep(0.1)  # the system may learn later of the end of what workers are copies of
                    except Exception as error:
                        outcome = failed(task.cell, error)
                        break
                else:
                    outcome = gave_up(task.cell)
                self._ended.put(outcome)
        finally:
            if pool is not None:
                pool.shutdown()
            self._ended.put(None)

    def _next(self, kind: str) -> Task | None:
        """The first task of a kind, else the first, taken out; None where none is left."""
        with self._taking:
            if not self._tasks:
                return None
            alike = [place for place, task in enumerate(self._tasks) if kind_of(task) == kind]
            place = alike[0] if alike else 0
            task = self._tasks[place]
            del self._tasks[place]
            return task

    def _pool(self, slot: int) -> ProcessPoolExecutor:
        given = slot, self._writer, self._flag, dict(os.environ)
        return ProcessPoolExecutor(1, mp_context=starting(), initializer=_start, initargs=given)


_worker: dict[str, Any] = {}


def _start(slot: int, writer: Any, flag: Any, environment: dict[str, str]) -> None:
    """Initialise a worker process."""
    as_here(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    limits = contextlib.ExitStack()
    limits.enter_context(one_blas_thread())
    _worker.update(writer=writer, flag=flag, programs={}, limits=limits)
    _send(writer, {"kind": "worker", "slot": slot, "process": os.getpid()})


def _end_with_parent() -> None:
    """Leave when the parent is gone: nobody would read the outcome, and a new run wants the folder."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _work(task: Task) -> Outcome:
    """Run a cell in a worker process."""
    flag, writer = _worker["flag"], _worker["writer"]
    return run_cell(task, lambda event: _send(writer, event), lambda: bool(flag.value), _worker["programs"])


def _send(writer: multiprocessing.connection.Connection, event: dict) -> None:
    if "text" in event:
        event = {**event, "text": event["text"][:500]}
    message = json.dumps(event).encode()
    if len(message) <= _MESSAGE_BYTES:
        with contextlib.suppress(OSError):
            writer.send_bytes(message)
