"""Workers of a Dask cluster on this machine, and whether workers can take our work."""

import logging
import pkgutil
from collections.abc import Collection
from typing import Any

import dask
import distributed

from flyrun.ground.errors import ConfigError

WORKER_SETTINGS = {
    # A nanny would put MALLOC_TRIM_THRESHOLD_ into its workers' and this process's own environment and leave
    # it there: large arrays then take half as long again, a scan of Parquet 2.4 times. Threads are limited.
    "distributed.nanny.pre-spawn-environ": {},
    # Looks at the workers' stacks a hundred times a second, for a dashboard that nobody has asked for.
    "distributed.worker.profile.enabled": False,
    # A daemon may not start processes, in which cells run whose libraries have switches of a whole process.
    "distributed.worker.daemon": False,
}
WORKER_COMMAND = "dask worker {} --nthreads 1"


def local_cluster(workers: int, scratch: str | None = None) -> Any:
    """So many processes of this machine; they write to the folder scratch, else to one of Dask's choice."""
    with dask.config.set(WORKER_SETTINGS):
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,  # as in the local pool: the kernel decides
            dashboard_address=None,
            local_directory=scratch,
            silence_logs=logging.CRITICAL,
        )


def refuse_unfit(client: distributed.Client, modules: Collection[str], asked: set[str]) -> None:
    """Raise ConfigError for a worker that cannot import modules of the work. asked: those that can.

    A task that a worker cannot read would end the worker, and the next, until none is left to wait for.
    Workers are asked by a function of Python's own, for they may not have ours.
    """
    new = [address for address in client.scheduler_info()["workers"] if address not in asked]
    asked.update(new)
    for module in sorted(modules):
        if not new:
            return
        told = client.run(pkgutil.resolve_name, f"{module}:__name__", workers=new, on_error="return")
        # Dask seeks a worker that is gone for half a minute, each time that it is asked.
        new = [address for address in new if not isinstance(told[address], OSError)]
        for address in new:
            if isinstance(error := told[address], Exception):
                raise ConfigError(
                    f"executor=dask: the worker {address} cannot take this work ({type(error).__name__}: "
                    f"{error}); install the same flyrun and packages there as here, or end that worker"
                )
