"""Who looks at groups of row groups: processes of this machine, or workers of a Dask cluster.

Groups are fixed and each one's parts are added in a fixed order, so that the bits do not depend on who works.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from flyrun.fitting.scan.joined_groups import Block
from flyrun.fitting.scan.kept_sums import Kept, Looked, digest
from flyrun.fitting.scan.row_groups import tree
from flyrun.fitting.weighted_draws import never
from flyrun.ground import children, environment
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.progress import duration

REDONE = 4  # times that workers of a group of row groups may die
OF_MEMORY = 8  # the part of it that rows of a stage may take
_HERE = 20_000_000  # numbers up to which this process is as quick as others that must start first

#: what is seen of one row group
Look = Callable[[Block], Any]
#: yields a group's place and what was seen of it, as each ends: (look, groups) → (place, Looked)
Run = Callable[[Look, list[list[Block]]], Iterator[tuple[int, Looked]]]
#: shows how many of so many row groups are done: (text, total) → a context of (done, detail)
Show = Callable[[str, int], AbstractContextManager[Callable[[int, str], None]]]


def run_group(look: Look, group: list[Block]) -> Looked:
    """What a look gives of a group."""
    began = time.thread_time()
    result = tree(look(block) for block in group)
    return Looked(result, time.thread_time() - began, environment.blas_kernels())


@contextlib.contextmanager
def unseen(text: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """Show nothing."""
    yield lambda done, detail: None


class Mapper:
    """Look at groups of blocks; results in their order.

    done: groups that were looked at; seconds, moved: CPU seconds and bytes of all that came; kernels: BLAS
    kernels that summed it. row_bytes: of a row in its file; spent: whether the time is up.
    """

    def __init__(
        self,
        run: Run,
        kept: Kept,
        say: Callable[[str], None],
        show: Show = unseen,
        row_bytes: float = 0.0,
        spent: Callable[[], bool] = never,
    ):
        self._spent = spent
        self._run, self._kept, self._say, self._show, self._row_bytes = run, kept, say, show, row_bytes
        self.done, self.seconds, self.moved, self.kernels = 0, 0.0, 0, set[str]()

    def __call__(self, look: Look, groups: list[list[Block]], text: str) -> list[Any]:
        """Of each group, from what is kept or by a look.

        Raises what a look raises, and ConfigError where the time is up.
        """
        about = digest(look)
        keys = [f"{about}-{digest(group)}" for group in groups]
        results = {k: looked for k, key in enumerate(keys) if (looked := self._kept.get(key)) is not None}
        missing = [k for k in range(len(groups)) if k not in results]
        if results:
            self._say(f"{text}: {len(results)} of {len(groups)} groups of row groups are there from before")
        before = self.moved
        self.moved += sum(self._kept.size(keys[k]) for k in results)
        rows, seen, blocks = sum(block.rows for k in missing for block in groups[k]), 0, 0
        begun = time.monotonic()
        with self._show(text, sum(len(groups[k]) for k in missing) or 1) as tell:
            for place, looked in self._run(look, [groups[k] for k in missing]):
                k = missing[place]
                results[k] = looked
                self.done += 1
                self.moved += self._kept.put(keys[k], looked)
                self._refuse_more(self.moved - before, text)
                if self._spent():
                    raise ConfigError(
                        f"--budget: ended in {text}, after {self.done:,} groups of row groups, which are "
                        "kept; the same command with a longer --budget, or without, goes on"
                    )
                blocks, seen = blocks + len(groups[k]), seen + sum(block.rows for block in groups[k])
                pace = seen / (time.monotonic() - begun)
                speed = f"{pace:,.0f} rows/s, {pace * self._row_bytes / 1e9:.2g} GB/s"
                tell(blocks, f"{speed}, {duration((rows - seen) / pace)} left")
        self.seconds += sum(looked.seconds for looked in results.values())
        self.kernels |= {looked.kernel for looked in results.values()}
        return [results[k].result for k in range(len(groups))]

    def _refuse_more(self, came: int, text: str) -> None:
        """ConfigError where more has come than this process can work with."""
        if came > (most := memory() / OF_MEMORY):
            raise ConfigError(
                f"{text}: {came / 1e9:.3g} GB of rows have come here, and {most / 1e9:.3g} GB are a "
                f"{OF_MEMORY}th of the memory; leave out columns of outliers or rare levels with --drop, or "
                "give the command where there is more memory"
            )


def memory() -> int:
    """Bytes that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def processes(workers: int | None, numbers: int) -> int:
    """How many look at a table of so many numbers; 1 is this process."""
    return workers or (1 if numbers <= _HERE else children.cores())


@contextlib.contextmanager
def local(count: int) -> Iterator[Run]:
    """In so many processes; one is this."""
    if count == 1:
        yield in_turn
        return
    from concurrent.futures import as_completed  # late, as below: not every scan has workers
    from concurrent.futures.process import BrokenProcessPool  # late

    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(children.Pool(count))

        def run(look: Look, groups: list[list[Block]]) -> Iterator[tuple[int, Looked]]:
            nonlocal pool
            left, deaths = set(range(len(groups))), 0
            while left:
                try:
                    futures = {pool.submit(run_group, look, groups[k]): k for k in sorted(left)}
                    for future in as_completed(futures):
                        looked = future.result()
                        left.discard(futures[future])
                        yield futures[future], looked
                except (BrokenProcessPool, MemoryError) as error:
                    deaths += 1
                    if deaths > REDONE or isinstance(error, MemoryError):
                        path = groups[min(left)][0].file.path
                        raise too_little_memory(path, deaths, "take fewer, by --workers 1") from error
                    pool = stack.enter_context(children.Pool(count))

        yield run


def too_little_memory(path: str, deaths: int, instead: str) -> DataError:
    """Of groups of which so many workers died, or one had no memory; a file is the first of them."""
    why = f"{deaths} died, most likely for want of memory" if deaths > REDONE else "one is out of memory"
    return DataError(
        f"{path}: workers cannot read it ({why}); what is done is kept; give them more memory, {instead}, or "
        "write smaller row groups"
    )


def in_turn(look: Look, groups: list[list[Block]]) -> Iterator[tuple[int, Looked]]:
    """In this process."""
    for k, group in enumerate(groups):
        yield k, run_group(look, group)
