"""Who works on many files, by what is typed: this process, processes of this machine, or a Dask cluster."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flyrun.fitting.scan import mappers
from flyrun.fitting.scan.mappers import Run
from flyrun.ground.errors import ConfigError
from flyrun.ground.executor import Dask
from flyrun.ground.schema import build


def dask(typed: Mapping[str, Any]) -> Dask | None:
    """The cluster that settings, by key, ask for."""
    values = {key: override.value for key, override in typed.items()}
    if values.get("executor", "dask" if values.get("executor.address") else None) != "dask":
        return None
    settings: dict[str, Any] = {}
    for key, value in values.items():
        if key.startswith("executor.slurm."):
            settings.setdefault("slurm", {})[key.removeprefix("executor.slurm.")] = value
        elif key.startswith("executor."):
            settings[key.removeprefix("executor.")] = value
    return build("executor", {"name": "dask", **settings})  # type: ignore[return-value]


@contextlib.contextmanager
def at_work(
    typed: Mapping[str, Any], workers: int | None, numbers: int, say: Callable[[str], None]
) -> Iterator[Run]:
    """A cluster where one is asked for, else `workers` processes, by default as many as pay for a table of so
    many numbers. Raises ConfigError for a cluster that cannot be had.
    """
    if (cluster := dask(typed)) is None:
        with mappers.local(mappers.processes(workers, numbers)) as run:
            yield run
        return
    try:
        from flyrun.fitting.scan import dask_mapper  # late: an extra
    except ImportError as error:
        raise ConfigError(
            "executor=dask: needs distributed; install it with `pip install 'flyrun[dask]'`"
        ) from error
    with dask_mapper.on_dask(cluster, workers, say) as run:
        yield run
