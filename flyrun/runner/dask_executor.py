"""Cells on the workers of a Dask cluster: one made here, one that runs, or one that SLURM starts.

A worker process runs one cell at a time and keeps what it has prepared, as those of the local pool do; data
are read, or mapped, once in each. Draws and checkpoints go to the results folder, which all must see; only
tasks, events and outcomes travel. A cell whose worker dies goes on elsewhere from its last checkpoint.
"""

import contextlib
import logging
import os
import signal
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dask
import distributed
import threadpoolctl

from flyrun import children
from flyrun.children import cores
from flyrun.errors import ConfigError, StoreError
from flyrun.runner import store
from flyrun.runner.cell import Outcome, Task, cell_key
from flyrun.runner.chunks import failed, run_cell
from flyrun.runner.environment import ONE_THREAD
from flyrun.runner.executors import RESTARTS, Report, died, gave_up

_SETTINGS = {
    "distributed.scheduler.allowed-failures": RESTARTS,
    # A nanny would put MALLOC_TRIM_THRESHOLD_ into this process's own environment and leave it there: all
    # that makes large arrays after it takes half as long again. Threads are limited already.
    "distributed.nanny.pre-spawn-environ": {},
    # Looks at the workers' stacks a hundred times a second, for a dashboard that nobody has asked for.
    "distributed.worker.profile.enabled": False,
}
_PATIENCE_S = 30.0
_REPEAT_S = 1.0


class DaskPool:
    """The workers of one Dask cluster, for one run."""

    def __init__(self, settings: Any, cells: int, report: Report):
        self.settings, self.cells, self.report = settings, cells, report
        self._run = f"flyrun-{uuid.uuid4().hex[:12]}"
        self._stopped, self._ended = threading.Event(), threading.Event()
        self._begun: Counter[tuple[str, int]] = Counter()
        self._cluster: Any = None

    def outcomes(self, tasks: list[Task]) -> Iterator[Outcome]:
        """Run the tasks, in order of their start."""
        with contextlib.ExitStack() as stack:
            client = self._connect(stack)
            stack.callback(self._ended.set)
            client.subscribe_topic(self._run, self._heard)
            threading.Thread(target=self._pass_on_stop, args=(client,), daemon=True).start()
            futures, deaths = {}, Counter[str]()

            def submit(i: int, task: Task) -> Any:
                key = f"{self._run}-{i}-{deaths[str(task.cell)]}"
                future = client.submit(_work, _absolute(task), self._run, key=key, priority=-i, pure=False)
                futures[future] = i, task
                return future

            running = distributed.as_completed([submit(i, task) for i, task in enumerate(tasks)])
            for future in running:
                i, task = futures.pop(future)
                if future.status == "error" and isinstance(future.exception(), distributed.KilledWorker):
                    # Dask blames all that waited for the dead worker; only what it had begun is to blame.
                    deaths[str(task.cell)] += 1
                    begun = self._begun[task.cell.arm.name, task.cell.seed]
                    if max(begun, deaths[str(task.cell)]) <= RESTARTS:
                        running.add(submit(i, task))
                        continue
                yield _outcome(future, task)

    def stop(self) -> None:
        """End cells at their next chunk border; start no other."""
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
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # we tell ourselves when a worker dies
        stack.enter_context(dask.config.set(_SETTINGS))
        with children.sigint_blocked():
            if settings.address is not None:
                return stack.enter_context(_client_at(settings.address))
            if settings.slurm.jobs is not None:
                self._cluster = stack.enter_context(slurm_cluster(settings.slurm))
                self._cluster.scale(jobs=settings.slurm.jobs)
            else:
                scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="flyrun-dask-"))
                workers = min(settings.workers or cores(), self.cells)
                self._cluster = stack.enter_context(_local_cluster(workers, scratch))
            return stack.enter_context(distributed.Client(self._cluster))

    def _heard(self, event: tuple[float, dict]) -> None:
        """Show an event of a worker. A cell that begins twice has lost its worker."""
        message = event[1]
        # A fault in showing must not end the client's loop.
        with contextlib.suppress(Exception):
            cell = message["arm"], message["seed"]
            if message["kind"] == "start":
                self._begun[cell] += 1
                if self._begun[cell] > 1:
                    self.report(died(*cell))
            self.report(message)

    def _pass_on_stop(self, client: Any) -> None:
        """Tell the workers to stop once this run is to; again and again, for some may have come since."""
        while not self._ended.wait(0.1):
            if self._stopped.is_set():
                with contextlib.suppress(Exception):
                    client.run(_stop, self._run, on_error="ignore")
                self._ended.wait(_REPEAT_S)


def slurm_cluster(slurm: Any) -> Any:
    """Cluster whose workers are jobs of SLURM: processes of one thread each, this Python's."""
    from dask_jobqueue import SLURMCluster  # late: only SLURM needs it

    one_thread = [f"export {name}={value}" for name, value in ONE_THREAD.items()]
    alike = ("cores", "memory", "walltime", "queue", "account", "interface")
    return SLURMCluster(
        job_name="flyrun",
        processes=slurm.cores,
        log_directory=slurm.logs,
        job_extra_directives=list(slurm.directives),
        job_script_prologue=[*one_thread, *slurm.prologue],
        **{key: getattr(slurm, key) for key in alike},
    )


def _local_cluster(workers: int, scratch: str) -> Any:
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=0,  # as in the local pool: the kernel decides
        dashboard_address=None,
        local_directory=scratch,
        silence_logs=logging.CRITICAL,
    )


def _client_at(address: str) -> Any:
    """Client of a cluster that runs. Raises ConfigError when nobody answers, or it has no worker."""
    try:
        client = distributed.Client(address, timeout=_PATIENCE_S)
    except (OSError, ValueError, ImportError) as error:
        raise ConfigError(
            f"executor.address={address}: no Dask scheduler answers there ({error}); start one with "
            "`dask scheduler` and its workers with `dask worker ADDRESS --nthreads 1`"
        ) from error
    try:
        client.wait_for_workers(1, timeout=_PATIENCE_S)
    except TimeoutError as error:
        client.close()
        raise ConfigError(
            f"executor.address={address}: the scheduler has no worker; start some with "
            f"`dask worker {address} --nthreads 1`"
        ) from error
    return client


def _absolute(task: Task) -> Task:
    """The task with folders that mean the same whatever a worker's current one is."""
    cell = replace(task.cell, folder=task.cell.folder.absolute())
    return replace(task, cell=cell, setup_folder=task.setup_folder.absolute())


def _outcome(future: Any, task: Task) -> Outcome:
    """How a task ended, in terms of this machine's folders."""
    try:
        outcome = replace(future.result(), cell=task.cell)
    except distributed.KilledWorker:
        return gave_up(task.cell)
    except distributed.CancelledError:
        return Outcome(task.cell, "stopped", "with its cluster")
    except Exception as error:
        return failed(task.cell, error)
    if outcome.state == "done" and not (task.cell.folder / store.DONE).exists():
        hidden = f"{task.cell.folder}: is not where the workers wrote to; results_dir must be a folder that"
        return failed(task.cell, StoreError(f"{hidden} they and this machine share"))
    return outcome


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

    with _one_at_a_time, threadpoolctl.threadpool_limits(1):
        if stop():
            return Outcome(task.cell, "stopped", "before its end")
        if cell_key(task.cell.arm) != task.cell.key:
            text = "the worker's flyrun is another than the one that asks; install the same on both"
            return failed(task.cell, ConfigError(f"executor=dask: {text}"))
        return run_cell(task, lambda event: worker.log_event(run, event), stop, _programs)
