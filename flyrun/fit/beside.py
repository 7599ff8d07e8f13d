"""A second process of a fit: it loads what judges draws and makes reports while this one reads the table.

ArviZ and matplotlib take a second to import; in another thread of this process, a second from the reading.
"""

from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from typing import Any, TypeVar

from flyrun.children import Pool, cores

T = TypeVar("T")


class Beside(ExitStack):
    """Work is done there; here where there is no second core, or where that process died.

    It is a function of a module; what it takes and gives can be pickled.
    """

    def __init__(self) -> None:
        super().__init__()
        self._pool: Pool | None = None

    def __enter__(self) -> "Beside":
        """Start it."""
        if cores() > 1:
            self._pool = Pool(1)
            self.callback(self._pool.end)
            self.begin(_load)
        return super().__enter__()

    def begin(self, work: Callable, *args: Any) -> None:
        """work(*args), which nobody waits for, before all that comes after it."""
        if self._pool is not None:
            try:
                self._pool.submit(work, *args)
            except BrokenProcessPool:  # out of memory, most likely
                self._pool = None
        if self._pool is None:
            work(*args)

    def ask(self, work: Callable[..., T], *args: Any) -> T:
        """work(*args)."""
        if self._pool is not None:
            try:
                return self._pool.submit(work, *args).result()
            except BrokenProcessPool:
                self._pool = None
        return work(*args)


def _load() -> None:
    import arviz_stats.base  # noqa: F401  # late: it is what this function is for
    import matplotlib.backends.backend_agg  # late: as above
    import matplotlib.backends.backend_svg  # noqa: F401  # late: as above

    import flyrun.fit.coefficients  # late: as above
    import flyrun.report.build  # noqa: F401  # late: as above
