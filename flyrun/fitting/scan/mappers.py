"""Who looks at groups of row groups: processes of this machine, or workers of a Dask cluster.

Groups are fixed and each one's parts are added in a fixed order, so that the bits do not depend on who works.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from flyrun import children
from flyrun.errors import ConfigError, DataError, FlyrunError
from flyrun.fitting.scan.block_sums import tree
from flyrun.fitting.scan.kept_sums import Kept, digest
from flyrun.fitting.scan.row_groups import Block

_SAY_EVERY_S = 10.0
_HERE = 20_000_000  # numbers up to which this process is as quick as others that must start first
_PATIENCE_S = 60.0  # without a scheduler
_REDONE = 4  # times that a group's worker may die


def run_group(look: Callable[[Block], Any], group: list[Block]) -> Any:
    """What a look gives of a group."""
    return tree([look(block) for block in group])


class Mapper:
    """Look at groups of blocks; results in their order. run: yields (index, result) of groups as they end."""

    def __init__(self, run: Callable[..., Iterator[tuple[int, Any]]], kept: Kept, say: Callable[[str], None]):
        self._run, self._kept, self._say = run, kept, say
        self.moved = self.done = 0

    def __call__(self, look: Any, groups: list[list[Block]], words: str) -> list[Any]:
        """Of each group, from what is kept or by a look. Raises what a look raises."""
        about = digest(look)
        keys = [f"{about}-{digest(group)}" for group in groups]
        found = {k: one for k, key in enumerate(keys) if (one := self._kept.get(key)) is not None}
        missing = [k for k in range(len(groups)) if k not in found]
        if found:
            self._say(f"{words}: {len(found)} of {len(groups)} groups of row groups are there from before")
        begun = told = time.monotonic()
        rows, seen = sum(block.rows for k in missing for block in groups[k]), 0
        for place, result in self._run(look, [groups[k] for k in missing]):
            k = missing[place]
            found[k] = result
            self.done += 1
            self._kept.put(keys[k], result)
            seen += sum(block.rows for block in groups[k])
            if (now := time.monotonic()) - told > _SAY_EVERY_S:
                told, pace = now, seen / (now - begun)
                left = f"{pace:,.0f} rows/s, {(rows - seen) / pace:,.0f} s left"
                self._say(f"{words}: {len(found)} of {len(groups)} groups, {left}")
        return [found[k] for k in range(len(groups))]


@contextlib.contextmanager
def local(workers: int | None, numbers: int) -> Iterator[Callable[..., Iterator[tuple[int, Any]]]]:
    """In this process where there are few numbers in the table or one worker is wanted, else in others."""
    wanted = workers or (1 if numbers <= _HERE else children.cores())
    if wanted == 1:
        yield _in_turn
        return
    with children.Pool(wanted) as pool:

        def run(look: Any, groups: list[list[Block]]) -> Iterator[tuple[int, Any]]:
            from concurrent.futures import as_completed  # late: not every scan has workers

            futures = {pool.submit(run_group, look, group): k for k, group in enumerate(groups)}
            for future in as_completed(futures):
                yield futures[future], future.result()

        yield run


def _in_turn(look: Any, groups: list[list[Block]]) -> Iterator[tuple[int, Any]]:
    for k, group in enumerate(groups):
        yield k, run_group(look, group)


@contextlib.contextmanager
def on_dask(
    address: str | None, workers: int | None, say: Callable[[str], None]
) -> Iterator[Callable[..., Iterator[tuple[int, Any]]]]:
    """On a cluster that runs, or on one of this machine's processes. A lost scheduler is sought again."""
    try:
        import distributed  # late: an extra
    except ImportError as error:
        raise ConfigError(
            "executor=dask: needs distributed; install it with `pip install 'flyrun[dask]'`"
        ) from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        if address is None:
            cluster = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=workers or children.cores(),
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            )
            address = str(cluster.scheduler_address)
        session = _Session(address, say)
        stack.callback(session.close)
        yield session.run


class _Session:
    """A client of one address, which connects again where the scheduler is lost."""

    def __init__(self, address: str, say: Callable[[str], None]):
        self.address, self.say = address, say
        self.client: Any = None

    def close(self) -> None:
        """Leave the cluster."""
        if self.client is not None:
            with contextlib.suppress(Exception):
                self.client.close(timeout=1)
        self.client = None

    def _connect(self) -> Any:
        import distributed  # late: an extra

        begun = time.monotonic()
        while self.client is None:
            try:
                self.client = distributed.Client(self.address, timeout=5)
                self.client.wait_for_workers(1, timeout=10)
            except (OSError, TimeoutError, ValueError) as error:
                self.close()
                if isinstance(error, ValueError) or time.monotonic() - begun > _PATIENCE_S:
                    raise FlyrunError(
                        f"executor.address={self.address}: no Dask scheduler with a worker answers; what is "
                        "done is kept, and the same command goes on"
                    ) from error
                time.sleep(0.5)
        return self.client

    def run(self, look: Any, groups: list[list[Block]]) -> Iterator[tuple[int, Any]]:
        """As each group ends. Groups whose worker or scheduler died are sent again."""
        import distributed  # late: an extra

        left, deaths = set(range(len(groups))), dict[int, int]()
        while left:
            client = self._connect()
            try:
                shared = client.scatter(look, broadcast=True, hash=False)
                stamp = time.time_ns()
                futures = {
                    client.submit(
                        run_group, shared, groups[k], key=f"scan-{stamp}-{k}", pure=False, retries=2
                    ): k
                    for k in sorted(left)
                }
                for future in distributed.as_completed(list(futures)):
                    k = futures[future]
                    if future.status == "finished":
                        result = future.result(timeout=30)
                        future.release()
                        left.discard(k)
                        yield k, result
                        continue
                    error = future.exception() if future.status == "error" else None
                    if isinstance(error, FlyrunError):
                        raise error
                    if error is not None and not isinstance(error, (distributed.KilledWorker, OSError)):
                        raise FlyrunError(
                            f"executor=dask: a worker failed ({type(error).__name__}: {error}); install the "
                            "same flyrun there as here"
                        ) from error
                    deaths[k] = deaths.get(k, 0) + 1
                    if deaths[k] > _REDONE:
                        raise DataError(
                            f"{groups[k][0].file.path}: its workers died {deaths[k]} times, most "
                            "likely for want of memory; give them more, or write smaller row groups"
                        )
                    if error is None:
                        raise OSError("cancelled")
            except (OSError, TimeoutError, distributed.CancelledError) as error:
                self.say(f"the scheduler is lost ({type(error).__name__}); connecting again")
                self.close()
