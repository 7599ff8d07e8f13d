"""A second process compiles a run's last arms while the run itself compiles the first ones."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Self

from flyrun.experiments.runner.cell import Cell
from flyrun.ground import environment
from flyrun.ground.children import Pool, cores
from flyrun.ground.executor import Local
from flyrun.ground.schema import Choice

#: seconds that one arm took to compile, from which on a second process is worth its start
_WORTH_S = 2.0


class CompileAhead:
    """Starts once an arm takes long, and where cells will run in several processes of this machine anyhow."""

    def __init__(self, executor: Choice, cells: Iterable[Cell], prepare: Callable, setup: Path):
        workers = executor.workers if isinstance(executor, Local) else 1
        self._several = min(workers or cores(), cores()) > 1
        self._waiting = {cell.key: cell for cell in cells}
        self._how = prepare, setup
        self._pool: Pool | None = None
        self._theirs: dict[str, Future] = {}

    def __enter__(self) -> Self:
        """Start nothing yet."""
        return self

    def __exit__(self, *error: Any) -> None:
        """End what was started."""
        if self._pool is not None:
            self._pool.__exit__(*error)

    def begin(self, cell: Cell) -> None:
        """Take an arm over from the second process, or wait until it has compiled it."""
        self._waiting.pop(cell.key, None)
        compiling = self._theirs.get(cell.key)
        if compiling is not None and not compiling.cancel():
            wait([compiling])  # whatever went wrong there goes wrong here too, and is told

    def took(self, seconds: float) -> None:
        """Say how long compiling an arm took."""
        if self._pool is None and self._several and seconds > _WORTH_S and len(self._waiting) > 1:
            self._pool = Pool(1)
            for key, cell in reversed(self._waiting.items()):
                self._theirs[key] = self._pool.submit(_compile, cell, *self._how)


def _compile(cell: Cell, prepare: Callable, setup: Path) -> None:
    with environment.one_thread():
        cell.prepared(prepare, setup).warm_up()
