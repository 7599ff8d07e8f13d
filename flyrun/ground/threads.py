"""Work that threads do side by side, its results taken in order; and the threads of BLAS."""

import contextlib
import functools
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import OpenBLASController, ThreadpoolController

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


_lock, _limits, _inside = threading.Lock(), contextlib.ExitStack(), [0]


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on one thread, inside: the last bits of sums and products depend on how many threads add.

    The limit is the process's: of threads inside, the last that leaves gives BLAS its own back. One that did
    so alone would do it under the others.
    """
    with _lock:
        _take_control()
        # each time: libraries that were loaded meanwhile are limited, too
        _limits.enter_context(_libraries(len(sys.modules)).limit(limits=1))
        _inside[0] += 1
    try:
        yield
    finally:
        with _lock:
            _inside[0] -= 1
            if not _inside[0]:
                _take_control()
                _limits.close()


def _take_control() -> None:
    """Let this thread set OpenBLAS's threads: threadpoolctl, from 3.8 on, ignores all but one silently."""
    if free := getattr(OpenBLASController, "clear_controlling_thread", None):
        free(force=True)


@functools.lru_cache(1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """What this process has loaded. To look takes milliseconds: only once something more was imported."""
    return ThreadpoolController()
