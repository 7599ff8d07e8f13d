"""Work that threads do side by side, its results taken in order; and the threads of BLAS."""

import functools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from threadpoolctl import ThreadpoolController

S = TypeVar("S")
T = TypeVar("T")


def in_order(work: Callable[[S], T], items: Iterable[S], threads: int) -> Iterator[T]:
    """work(item) of every item, in order, some of them at once."""
    if threads < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        # a bounded number under way: what is done and not yet taken must not fill the memory
        waiting: deque[Future[T]] = deque()
        for item in items:
            if len(waiting) == 4 * threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work, item))
        while waiting:
            yield waiting.popleft().result()


def ahead(pieces: Iterator[T]) -> Iterator[T]:
    """The pieces, none of them None, the next made by another thread while one is looked at."""
    with ThreadPoolExecutor(1) as maker:
        coming = maker.submit(next, pieces, None)
        while (piece := coming.result()) is not None:
            coming = maker.submit(next, pieces, None)
            yield piece


def one_blas_thread() -> AbstractContextManager[object]:
    """BLAS on one thread, inside: the last bits of sums and products depend on how many threads add."""
    return _libraries(len(sys.modules)).limit(limits=1)


@functools.lru_cache(1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """What this process has loaded. To look takes milliseconds: only once something more was imported."""
    return ThreadpoolController()
