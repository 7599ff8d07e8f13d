"""Cells on the workers of a Dask cluster: one made here, one that runs, or one that SLURM starts.

A worker process runs one cell at a time and keeps what it has prepared, as those of the local pool do; data
are read, or mapped, once in each. Draws and checkpoints go to the results folder, which all must see; only
tasks, events and outcomes travel. A cell whose worker dies goes on elsewhere from its last checkpoint.
"""

import contextlib
import logging
import multiprocessing
import os
import queue
import signal
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import dask
import distributed

from flyrun.experiments.runner import store
from flyrun.experiments.runner.cell import Task, cell_key
from flyrun.experiments.runner.chunks import run_cell
from flyrun.experiments.runner.events import Display
from flyrun.experiments.runner.outcomes import RESTARTS, Executor, Outcome, died, failed, gave_up
from flyrun.experiments.runner.work_left import finished
from flyrun.experiments.runner.worker_pool import WorkerPool, kind_of
from flyrun.ground import children, slurm
from flyrun.ground.children import cores
from flyrun.ground.dask_cluster import WORKER_COMMAND, WORKER_SETTINGS, local_cluster, refuse_unfit
from flyrun.ground.errors import ConfigError, FlyrunError, StoreError
from flyrun.ground.executor import Dask
from flyrun.ground.schema import listing
from flyrun.ground.threads import one_blas_thread

_SETTINGS = {"distributed.scheduler.allowed-failures": RESTARTS, **WORKER_SETTINGS}
_LOGGERS = ("asyncio", "distributed", "tornado")
_PATIENCE_S = 30.0
_REPEAT_S, _CLOSE_S = 1.0, 5.0
_LOOK_EVERY_S = 1.0
_SAY_AFTER_S, _SAY_EVERY_S = 3.0, 30.0


class DaskPool(Executor):
    """The workers of one Dask cluster, for one run."""

    def __init__(self, settings: Dask, cells: int, display: Display):
        self.settings, self.cells, self.display = settings, cells, display
        self._run = f"flyrun-{uuid.uuid4().hex[:12]}"
        self._stopped, self._ended = threading.Event(), threading.Event()
        self._begun: Counter[tuple[str, int]] = Counter()
        self._cluster: Any = None
        self._jobs = slurm.Jobs(settings.slurm)
        self._idle_since, self._told = 0.0, 0.0
        self._why_lost = "its Dask scheduler is gone"
        self._logged: list[str] = []
        self._modules = {_work.__module__}  # that workers must have
        self._fit: set[str] = set()  # workers that do

    def outcomes(self, tasks: list[Task]) -> Iterator[Outcome]:
        """Run the tasks, in order of their start. Raises ConfigError where SLURM refuses a job."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(_logged_by_libraries(self._logged))
            client = self._connect(stack)
            stack.callback(self._ended.set)
            for task in tasks:
                self._modules |= {type(one).__module__ for one in task.cell.arm.choices().values()}
            running: dict[str, tuple[Any, int, Task]] = {}
            while self._awaits_jobs(client):  # a worker that lacks a package ends as it receives a task
                self._look(client, running)
                time.sleep(_LOOK_EVERY_S)
            refuse_unfit(client, self._modules, self._fit)
            client.subscribe_topic(self._run, self._heard)
            deaths, ended = Counter[str](), queue.SimpleQueue[Any]()

            def submit(i: int, task: Task) -> None:
                key = f"{self._run}-{i}-{deaths[str(task.cell)]}"
                future = client.submit(_work, _absolute(task), self._run, key=key, priority=-i, pure=False)
                running[key] = future, i, task
                future.add_done_callback(ended.put)

            for i, task in enumerate(tasks):
                submit(i, task)
            threading.Thread(target=self._pass_on_stop, args=(client, running), daemon=True).start()
            while running:
                try:
                    future = ended.get(timeout=_LOOK_EVERY_S)
                except queue.Empty:
                    self._look(client, running)
                    continue
                _, i, task = running.pop(future.key)
                if future.status == "error" and isinstance(future.exception(), distributed.KilledWorker):
                    # Dask blames all that waited for the dead worker; only what it had begun is to blame.
                    deaths[str(task.cell)] += 1
                    begun = self._begun[task.cell.arm.name, task.cell.seed]
                    if max(begun, deaths[str(task.cell)]) <= RESTARTS:
                        submit(i, task)
                        continue
                yield self._outcome(future, task)

    def _awaits_jobs(self, client: distributed.Client) -> bool:
        """Whether SLURM's first worker may still come."""
        by_slurm = self.settings.slurm.jobs is not None and client.status == "running"
        over = self._stopped.is_set() or (by_slurm and self._jobs.ended())
        return by_slurm and not over and not client.scheduler_info()["workers"]

    def _look(self, client: Any, running: dict[str, tuple[Any, int, Task]]) -> None:
        """While no cell ends: say what is waited for where no worker is there; end what can never come."""
        self._jobs.raise_refusal()
        if self._stopped.is_set() or client.status != "running" or client.scheduler_info()["workers"]:
            self._idle_since = 0.0
            refuse_unfit(client, self._modules, self._fit)
            return
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        by_slurm = self.settings.slurm.jobs is not None
        if by_slurm and self._jobs.ended():
            logs = self.settings.slurm.logs or "slurm-JOB.out here"
            self._why_lost = f"SLURM has ended all jobs ({listing(self._jobs.sent)}); their output: {logs}"
            client.cancel([future for future, _, _ in running.values()], force=True)
        elif now - self._idle_since > _PATIENCE_S and self._logged:
            raise FlyrunError(
                f"executor=dask: no worker comes ({self._logged[0]}); run the same command again"
            )
        elif now - max(self._idle_since, self._told) > (_SAY_EVERY_S if self._told else _SAY_AFTER_S):
            self._told = now
            command = WORKER_COMMAND.format(self.settings.address or client.scheduler.address)
            what = (
                self._jobs.waiting()
                if by_slurm
                else f"the cluster has no worker; start some with `{command}`"
            )
            self.display.say(f"waiting: {what}")

    def stop(self) -> None:
        self._stopped.set()

    def kill(self) -> None:
        """End the workers on this machine at once; those elsewhere end at a chunk border."""
        self.stop()
        for nanny in list(getattr(self._cluster, "workers", {}).values()):
            nanny.auto_restart = False
            with contextlib.suppress(ProcessLookupError, TypeError, AttributeError):
                os.kill(nanny.pid, signal.SIGKILL)

    def _connect(self, stack: contextlib.ExitStack) -> Any:
        """Client of the cluster that the settings name; the stack closes both."""
        settings = self.settings
        stack.enter_context(dask.config.set(_SETTINGS))
        with children.sigint_blocked():
            if settings.address is not None:
                if warning := settings.open_to_all:
                    self.display.say(warning, "yellow")
                return _closed_by(stack, _client_at(settings.address))
            if settings.slurm.jobs is not None:
                self._cluster = stack.enter_context(self._jobs.cluster())
                self._cluster.scale(jobs=settings.slurm.jobs)
            else:
                scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="flyrun-dask-"))
                workers = min(settings.workers or cores(), self.cells)
                self._cluster = stack.enter_context(local_cluster(workers, scratch))
            return _closed_by(stack, distributed.Client(self._cluster))

    def _outcome(self, future: distributed.Future, task: Task) -> Outcome:
        """How a task ended, in terms of this machine's folders."""
        try:
            outcome = replace(future.result(), cell=task.cell)
        except distributed.KilledWorker:
            return gave_up(task.cell)
        except distributed.CancelledError:
            if (info := finished(task.cell)) is not None:
                return Outcome(task.cell, "done", info=info)
            asked = self._stopped.is_set()
            return Outcome(task.cell, *("stopped", "before its end") if asked else ("lost", self._why_lost))
        except Exception as error:
            return failed(task.cell, error)
        if outcome.state == "done" and not (task.cell.folder / store.DONE).exists():
            hidden = f"{task.cell.folder}: is not where the workers wrote to"
            shared = "results_dir must be a folder that they and this machine share"
            return failed(task.cell, StoreError(f"{hidden}; {shared}"))
        return outcome

    def _heard(self, event: tuple[float, dict]) -> None:
        """Show an event of a worker. A cell that begins twice has lost its worker."""
        message = event[1]
        # A fault in showing must not end the client's loop.
        with contextlib.suppress(Exception):
            cell = message["arm"], message["seed"]
            if message["kind"] == "start":
                self._begun[cell] += 1
                if self._begun[cell] > 1:
                    self.display.event(died(*cell))
            self.display.event(message)

    def _pass_on_stop(self, client: distributed.Client, running: dict[str, tuple[Any, int, Task]]) -> None:
        """Tell the workers to stop once this run is to; again and again, for some may have come since.

        What no worker has may wait for ever, so it is called off.
        """
        while not self._ended.wait(0.1):
            if self._stopped.is_set():
                with contextlib.suppress(Exception):
                    at_work = {key for keys in client.processing().values() for key in keys}
                    client.cancel([one[0] for key, one in list(running.items()) if key not in at_work])
                    client.run(_stop, self._run, on_error="ignore")
                self._ended.wait(_REPEAT_S)


class _Keep(logging.Handler):
    """Keeps what is logged, a line each."""

    def __init__(self, lines: list[str]):
        super().__init__(logging.ERROR)
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Take the error that is logged with its traceback, or the text."""
        error = record.exc_info[1] if record.exc_info else None
        text = f"{type(error).__name__}: {error}" if error is not None else record.getMessage()
        self.lines.append(" ".join(text.split()))


@contextlib.contextmanager
def _logged_by_libraries(lines: list[str]) -> Iterator[None]:
    """Keep the errors of what libraries run off our thread, which they would print with tracebacks."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _LOGGERS]
    loggers, keep = [logging.getLogger(name) for name in {*names, *_LOGGERS}], _Keep(lines)
    before = [(logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [keep], False
    try:
        yield
    finally:
        for logger, (handlers, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate


def _client_at(address: str) -> Any:
    """Client of a cluster that runs. Raises ConfigError when nobody answers, or it has no worker."""
    try:
        client = distributed.Client(address, timeout=_PATIENCE_S)
    except (OSError, ValueError, ImportError) as error:
        raise ConfigError(
            f"executor.address={address}: no Dask scheduler answers there ({error}); start one with "
            f"`dask scheduler` and its workers with `{WORKER_COMMAND.format('ADDRESS')}`"
        ) from error
    try:
        client.wait_for_workers(1, timeout=_PATIENCE_S)
    except TimeoutError as error:
        client.close()
        raise ConfigError(
            f"executor.address={address}: the scheduler has no worker; start some with "
            f"`{WORKER_COMMAND.format(address)}`"
        ) from error
    return client


def _closed_by(stack: contextlib.ExitStack, client: distributed.Client) -> Any:
    """The client, which the stack closes; one that seeks a scheduler in vain would take a minute over it."""

    def close() -> None:
        with contextlib.suppress(Exception):
            client.close(timeout=_CLOSE_S)

    stack.callback(close)
    return client


def _absolute(task: Task) -> Task:
    """The task with folders that mean the same whatever a worker's current one is."""
    cell = replace(task.cell, folder=task.cell.folder.absolute())
    return replace(task, cell=cell, setup_folder=task.setup_folder.absolute())


_one_at_a_time = threading.Lock()
_programs: dict[str, Any] = {}
_stopped: set[str] = set()


def _stop(run: str) -> None:
    """In a worker, beside its task: that run is to end."""
    _stopped.add(run)


def _work(task: Task, run: str) -> Outcome:
    """Run a cell in a worker, until it ends, its run is stopped or nobody is there to take the outcome."""
    worker = distributed.get_worker()
    key = worker.get_current_task()

    def stop() -> bool:
        known = worker.state.tasks.get(key)
        return run in _stopped or known is None or known.state == "cancelled"

    with _one_at_a_time, one_blas_thread():
        if stop():
            return Outcome(task.cell, "stopped", "before its end")
        if cell_key(task.cell.arm) != task.cell.key:
            text = "the worker's flyrun is another than the one that asks; install the same on both"
            return failed(task.cell, ConfigError(f"executor=dask: {text}"))

        def report(event: dict) -> None:
            worker.log_event(run, event)

        return _apart(task, report, stop) if kind_of(task) else run_cell(task, report, stop, _programs)


def _apart(task: Task, report: Callable[[dict], None], stop: Callable[[], bool]) -> Outcome:
    """Run a cell of another kind of worker in a process of its own, which ends with it."""
    if multiprocessing.current_process().daemon:
        name = task.cell.arm.sampler.name
        raise ConfigError(
            f"sampler={name}: runs in a process of its own, which workers under a nanny may not start; "
            f"start them with `{WORKER_COMMAND.format('ADDRESS')} --no-nanny`"
        )
    pool, ended = WorkerPool(1, report), threading.Event()

    def watch() -> None:
        while not ended.wait(_REPEAT_S):
            if stop():
                pool.stop()

    threading.Thread(target=watch, daemon=True).start()
    try:
        return next(iter([*pool.outcomes([task])]), Outcome(task.cell, "stopped", "before its end"))
    finally:
        ended.set()
