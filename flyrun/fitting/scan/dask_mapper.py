"""Workers of a Dask cluster that look at groups of row groups: by futures, without state or shared folder.

What a worker or a scheduler takes with it is asked for again; a scheduler that is gone is sought for a while.
"""

import contextlib
import logging
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import dask
import distributed

from flyrun.fitting.scan.joined_groups import Block
from flyrun.fitting.scan.kept_sums import Looked
from flyrun.fitting.scan.mappers import REDONE, Look, Run, run_group, too_little_memory
from flyrun.ground import addresses, children, slurm
from flyrun.ground.dask_cluster import local_cluster, refuse_unfit
from flyrun.ground.errors import FlyrunError
from flyrun.ground.executor import Dask

_PATIENCE_S = 60.0  # without a scheduler, or with one that has no worker
_LOOK_EVERY_S = 1.0
_SAY_EVERY_S = 30.0
_LOST = (OSError, TimeoutError, distributed.CancelledError)


@contextlib.contextmanager
def on_dask(settings: Dask, workers: int | None, say: Callable[[str], None]) -> Iterator[Run]:
    """On a cluster that runs, on jobs of SLURM, or on `workers` processes of this machine.

    Raises ConfigError for a cluster that cannot be had, FlyrunError where its scheduler stays away.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    jobs = slurm.Jobs(settings.slurm)
    with contextlib.ExitStack() as stack:
        if settings.address is not None:
            address = settings.address
            if warning := settings.open_to_all:
                say(warning)
        else:
            with children.sigint_blocked():
                cluster = stack.enter_context(_cluster(settings, workers, jobs))
            address = str(cluster.scheduler_address)
        session = _Session(address, jobs if settings.slurm.jobs is not None else None, say)
        stack.callback(session.close)
        yield session.run


def _cluster(settings: Dask, workers: int | None, jobs: slurm.Jobs) -> Any:
    """One of this command's own."""
    if settings.slurm.jobs is not None:
        slurm.check(settings.slurm)
        cluster = jobs.cluster()
        cluster.scale(jobs=settings.slurm.jobs)
        return cluster
    return local_cluster(settings.workers or workers or children.cores())


def _everywhere(group: list[Block]) -> list[Block]:
    """The group by paths that mean the same whatever a worker's current folder is."""
    return [block.with_files(lambda file: file._replace(path=addresses.full(file.path))) for block in group]


def _itself(look: Look) -> Look:
    """What workers share."""
    return look


class _Session:
    """A client of one address, which connects again where the scheduler is lost."""

    def __init__(self, address: str, jobs: slurm.Jobs | None, say: Callable[[str], None]):
        self.address, self.jobs, self.say = address, jobs, say
        self.client: distributed.Client | None = None
        self._told = 0.0

    def close(self) -> None:
        """Leave the cluster."""
        if self.client is not None:
            with contextlib.suppress(Exception):
                self.client.close(timeout=1)
        self.client = None

    def run(self, look: Look, groups: list[list[Block]]) -> Iterator[tuple[int, Looked]]:
        """As each group ends. Groups whose worker or scheduler died are sent again."""
        left, deaths = set(range(len(groups))), Counter[int]()
        while left:
            try:
                yield from self._sent(self._connect(), look, groups, left, deaths)
            except _LOST as error:
                self.say(f"the scheduler is lost ({type(error).__name__}); connecting again")
                self.close()

    def _sent(
        self, client: Any, look: Look, groups: list[list[Block]], left: set[int], deaths: Counter[int]
    ) -> Iterator[tuple[int, Looked]]:
        """Send what is left once; what ends well leaves `left`."""
        ended, stamp = queue.SimpleQueue[Any](), time.time_ns()
        asked, modules = set[str](), {run_group.__module__, type(look).__module__}
        refuse_unfit(client, modules, asked)
        # A task, not client.scatter, which never returns where a worker dies meanwhile (dask.distributed
        # replicates until the dead one has it); and the scheduler makes a task's result again.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            shared = client.submit(_itself, look, key=f"look-{stamp}", pure=False)
        waiting = {}
        for k in sorted(left):
            future = client.submit(
                run_group, shared, _everywhere(groups[k]), key=f"scan-{stamp}-{k}", pure=False, retries=2
            )
            waiting[future.key] = k, future
            future.add_done_callback(ended.put)
        while waiting:
            try:
                future = ended.get(timeout=_LOOK_EVERY_S)
            except queue.Empty:
                refuse_unfit(client, modules, asked)
                self._look(client)
                continue
            k, _ = waiting.pop(future.key)
            if future.status == "finished":
                looked = future.result(timeout=30)
                future.release()  # now: while it is wanted, a worker's death has its group read again
                left.discard(k)
                yield k, looked
            else:
                self._failed(future, groups[k][0].file.path, deaths, k)

    def _failed(self, future: distributed.Future, path: str, deaths: Counter[int], k: int) -> None:
        """Raise what speaks against sending it again, OSError where the scheduler is gone."""
        error = future.exception() if future.status == "error" else None
        if isinstance(error, FlyrunError):
            raise error
        if error is None:
            raise OSError("cancelled")
        if not isinstance(error, (distributed.KilledWorker, OSError, MemoryError)):
            failure = f"{type(error).__name__}: {error}"
            raise FlyrunError(
                f"executor=dask: a worker failed ({failure}); install the same flyrun there as here"
            ) from error
        deaths[k] += 1
        if deaths[k] > REDONE or isinstance(error, MemoryError):
            raise too_little_memory(path, deaths[k], "start fewer a machine")

    def _connect(self) -> Any:
        """The client, once there is a scheduler with a worker."""
        begun = time.monotonic()
        while self.client is None:
            try:
                with children.sigint_blocked():
                    self.client = distributed.Client(self.address, timeout=5)
                while not self.client.scheduler_info()["workers"]:
                    self._look(self.client)
                    if self.jobs is None and time.monotonic() - begun > _PATIENCE_S:
                        raise TimeoutError("no worker")
                    time.sleep(0.2)
            except (*_LOST, ValueError, ImportError) as error:
                self.close()
                if isinstance(error, (ValueError, ImportError)) or time.monotonic() - begun > _PATIENCE_S:
                    raise FlyrunError(
                        f"executor.address={self.address}: no Dask scheduler with a worker answers; what is "
                        "done is kept, and the same command goes on"
                    ) from error
                time.sleep(0.5)
        return self.client

    def _look(self, client: distributed.Client) -> None:
        """Say, now and then, that no worker is there. ConfigError where SLURM refused the jobs."""
        if self.jobs is not None:
            self.jobs.raise_refusal()
        if client.status != "running" or client.scheduler_info()["workers"]:
            return
        if (now := time.monotonic()) - self._told > _SAY_EVERY_S:
            self._told = now
            start = f"the cluster has no worker; start some with `dask worker {self.address} --nthreads 1`"
            self.say(f"waiting: {self.jobs.waiting() if self.jobs else start}")
