"""Workers who call functions: threads, processes, or Dask's; each a pool of concurrent.futures."""

import contextlib
import logging
import weakref
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from flyrun.ground import children
from flyrun.ground.errors import ConfigError


def pool(team: str, workers: int) -> Executor:
    """Of `workers` threads, processes or dask of this machine, which end with it.

    ConfigError where Dask is not installed or may start none.
    """
    if team == "threads":
        return ThreadPoolExecutor(workers)
    return children.Pool(workers) if team == "processes" else _dask(workers)


def _dask(workers: int) -> Executor:
    try:
        import distributed  # late: an extra
    except ImportError as error:
        raise ConfigError(
            "sampler.team=dask: needs distributed; install with `pip install 'flyrun[dask]'`, or choose "
            "sampler.team=processes"
        ) from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with children.sigint_blocked():
        try:
            cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, memory_limit=0, dashboard_address=None
            )
        except (AssertionError, RuntimeError) as error:  # a worker of Dask's may have no children
            raise ConfigError(
                "sampler.team=dask: no cluster can be started within a worker of executor=dask; "
                "choose executor=local"
            ) from error
        client = distributed.Client(cluster)
    executor: Executor = client.get_executor(pure=False)
    weakref.finalize(executor, _close, client, cluster)
    return executor


def _close(client: Any, cluster: Any) -> None:
    with contextlib.suppress(Exception):
        client.close()
        cluster.close()
