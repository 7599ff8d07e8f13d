"""A copy of a fit's process: it loads what makes reports while this one reads the table.

pandas and matplotlib take a second to import; in another thread of this process, a second from the reading.
"""

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flyrun.ground.children import cores

if TYPE_CHECKING:
    from flyrun.ground.page.document import Document

S = TypeVar("S")
T = TypeVar("T")


def report(folder: Path) -> "Document":
    """Write the page of a fit; what it says."""
    from flyrun.fitting import page  # late: pandas, which this process may do without

    return page.build(folder, each=_on_two)


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


def _load_reports() -> None:
    """Import what a report needs, and draw a first figure."""
    import flyrun.fitting.page  # noqa: F401  # late: as above
    from flyrun.ground.page.figures import axes, saved  # late: as above

    figure, (panel,) = axes(1, "first")  # finds fonts and what else a first figure looks for
    panel.set(xscale="log", xlim=(1, 100))
    saved(figure)
