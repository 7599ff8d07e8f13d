"""A second process of a fit: it loads what judges draws and makes reports while this one reads the table.

ArviZ and matplotlib take a second to import; in another thread of this process, a second from the reading.
"""

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flyrun.children import Pool, cores

if TYPE_CHECKING:
    from flyrun.report.document import Document

S = TypeVar("S")
T = TypeVar("T")


class SecondProcess(ExitStack):
    """Work is done there; here where there is no second core, or where that process died.

    It is a function of a module; what it takes and gives can be pickled.
    """

    def __init__(self) -> None:
        super().__init__()
        self._pool: Pool | None = None

    def __enter__(self) -> "SecondProcess":
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


def summarise(folder: Path) -> None:
    """Leave the summary of a cell beside its draws."""
    import flyrun.report.build  # late: pandas, which this process may do without

    flyrun.report.build.summarise(folder, fit=True)


def report(folder: Path) -> "Document":
    """Write the report of a run; what it says."""
    import flyrun.report.build  # late: as above

    return flyrun.report.build.build(folder, each=_on_two).text


@contextmanager
def reporting(beside: bool) -> Iterator[Callable[[Path], "Document"]]:
    """`report`; where that is asked for by a copy of this process, which loads its libraries meanwhile."""
    if not beside or sys.platform != "linux" or cores() < 2:
        yield report
        return
    import pandas  # noqa: F401  # late: both need it, and a copy has it

    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def copy() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends when the pipe does
        here.close()
        with suppress(Exception):  # the other one then makes the report, and tells what is wrong
            _load_reports()
            there.send(report(there.recv()))

    process = context.Process(target=copy)
    process.start()
    there.close()

    def ask(folder: Path) -> "Document":
        with suppress(EOFError, OSError):
            here.send(folder)
            return here.recv()
        return report(folder)

    try:
        yield ask
    finally:
        here.close()
        process.kill()  # where nothing was asked, as after an error
        process.join()


def _on_two(work: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """As `map`, every second item by a copy of this process where the system makes one safely."""
    here = list(items)
    if sys.platform != "linux" or cores() < 2 or len(here) < 2:
        return list(map(work, here))
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)

    def copy() -> None:
        writer.send([work(item) for item in here[1::2]])

    process = context.Process(target=copy)
    process.start()
    writer.close()
    done: list[Any] = [work(item) for item in here[::2]]
    try:
        others = reader.recv()
    except EOFError:  # it died, out of memory most likely
        others = [work(item) for item in here[1::2]]
    process.join()
    return [(done if k % 2 == 0 else others)[k // 2] for k in range(len(here))]


def _load() -> None:
    """Import what the others need; of ArviZ the functions of arrays, which come without xarray sooner."""
    sys.modules.setdefault("xarray", None)  # type: ignore[arg-type]
    with suppress(ImportError):  # where they do not come alone, they come when they are asked for
        import arviz_stats.base  # noqa: F401  # late: it is what this function is for
    if sys.modules["xarray"] is None:
        del sys.modules["xarray"]

    import flyrun.fitting.coefficients  # noqa: F401  # late: as above

    _load_reports()


def _load_reports() -> None:
    """Import what a report needs, and draw a first figure."""
    import flyrun.report.build  # noqa: F401  # late: as above
    from flyrun.report.figures import axes, saved  # late: as above

    figure, (panel,) = axes(1, "first")  # finds fonts and what else a first figure looks for
    panel.set(xscale="log", xlim=(1, 100))
    saved(figure)
