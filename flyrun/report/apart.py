"""Summaries of long chains, made in processes of their own: side by side, and this process stays small.

What they compute they leave beside the draws (summaries.cached), where the report then finds it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from flyrun.children import Pool, cores
from flyrun.errors import StoreError
from flyrun.report import kinds, summaries

if TYPE_CHECKING:
    from flyrun.runner.store import StoredCell

#: less than this is sooner read here than processes are started
_WORTH_BYTES = 64 << 20


def summarise(arms: Iterable[list[StoredCell]]) -> None:
    """Leave summaries of the finished cells, and of the arms, where they are many bytes and not there yet.

    Errors are left to whoever asks for the summary again.
    """
    from flyrun.runner import environment

    done = [[cell for cell in cells if cell.state == "done"] for cells in arms]
    missing = [cell for cells in done for cell in cells if not summaries.known(cell)]
    if sum(summaries.size_of(cell) for cell in missing) < _WORTH_BYTES:
        return
    workers = min(cores(), len(missing))
    with (
        environment.one_thread(),
        contextlib.suppress(BrokenProcessPool),
        Pool(workers) as pool,
    ):
        list(pool.map(_summarise, [[cell] for cell in missing]))
        # In two rounds: an arm's diagnostics take all of its chains into one process.
        list(pool.map(_pool, [cells for cells in done if cells]))


def _summarise(cells: list[StoredCell]) -> None:
    with _opened(cells) as chains:
        kinds.of(chains[0]).cell_summary(chains[0])


def _pool(cells: list[StoredCell]) -> None:
    with _opened(cells) as chains:
        kinds.of(chains[0]).arm_summary(chains)


@contextlib.contextmanager
def _opened(cells: list[StoredCell]):
    with contextlib.ExitStack() as stack, contextlib.suppress(StoreError, KeyError, ValueError, OSError):
        chains = [summaries.Draws(cell) for cell in cells]
        for draws in chains:
            stack.callback(draws.close)
        yield chains
