"""Where cells run: in this process, in worker processes of this machine, or on a Dask cluster."""

import importlib.util
from collections.abc import Iterator
from typing import Any

from flyrun.experiments.runner.cell import Task
from flyrun.experiments.runner.chunks import run_cell
from flyrun.experiments.runner.events import Display
from flyrun.experiments.runner.outcomes import Executor, Outcome
from flyrun.experiments.runner.worker_pool import Report, WorkerPool, kind_of
from flyrun.ground import slurm
from flyrun.ground.children import cores
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import listing


def check(settings: Any) -> None:
    """Raise ConfigError where the executor that the configuration names is not there."""
    needed = ["distributed"] if settings.name == "dask" else []
    if needed and settings.slurm.jobs is not None:
        needed.append("dask_jobqueue")
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise ConfigError(
            f"executor={settings.name}: needs {listing(missing)}; "
            f"install with `pip install 'flyrun[{settings.name}]'`"
        )
    if settings.name == "dask":
        slurm.check(settings.slurm)


def executor(settings: Any, tasks: list[Task], display: Display) -> Executor:
    """Make the executor that the configuration names, for these tasks, which tells the display."""
    cells = len(tasks)
    if settings.name == "dask":
        from flyrun.experiments.runner.dask_executor import DaskPool  # late: an extra

        return DaskPool(settings, cells, display)
    workers = min(settings.workers or cores(), cells)
    alone = workers <= 1 and not any(kind_of(task) for task in tasks)
    return InProcess(display.event) if alone else WorkerPool(workers, display.event)


class InProcess(Executor):
    """One cell after another, here."""

    workers = 1

    def __init__(self, report: Report):
        self.report, self._stopped = report, False

    def outcomes(self, tasks: list[Task]) -> Iterator[Outcome]:
        programs: dict[str, Any] = {}
        for task in tasks:
            if self._stopped:
                return
            yield run_cell(task, self.report, lambda: self._stopped, programs)

    def stop(self) -> None:
        self._stopped = True

    kill = stop  # the caller's KeyboardInterrupt ends it at once
