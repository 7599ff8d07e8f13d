"""Work that threads do side by side, its results taken in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

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
