"""Workers who evaluate blocks of a log likelihood: logical ones, or a pool's.

What they are changes when results come, and no bit of them.
"""

import time
import weakref
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.samplers.parallel.blocks import Blocks, problem_of
from flyrun.ground.threads import one_blas_thread

Sums = Callable[[np.ndarray, int, int], list[float]]


class Team:
    """`workers` of them. Derive from it: `submit`, `finished`."""

    def __init__(self, workers: int):
        self.workers = workers

    @abstractmethod
    def submit(self, number: int, theta: np.ndarray, first: int, last: int) -> None:
        """Have blocks first … last − 1 evaluated at θ, (P,), under this number."""

    @abstractmethod
    def finished(self) -> list[tuple[int, list[float]]]:
        """(number, sums) of what is done; waits until something is."""


class Simulated(Team):
    """Logical workers and their clock, in evaluations of the whole likelihood.

    Blocks take alike, and a message its latency; so workers who begin together end together.
    """

    def __init__(self, workers: int, sums: Sums, n_blocks: int, latency: float, clock: float):
        super().__init__(workers)
        self.sums, self.n_blocks, self.latency, self.clock = sums, n_blocks, latency, clock
        self._given: list[tuple[int, np.ndarray, int, int]] = []

    def submit(self, number: int, theta: np.ndarray, first: int, last: int) -> None:
        self._given.append((number, theta, first, last))

    def finished(self) -> list[tuple[int, list[float]]]:
        """All that began together end together."""
        given, self._given = self._given, []
        longest = max(last - first for _, _, first, last in given)
        self.clock += longest / self.n_blocks + (self.latency if self.workers > 1 else 0.0)
        return [(number, self.sums(theta, first, last)) for number, theta, first, last in given]


class Real(Team):
    """The workers of a pool, who call `sums`."""

    def __init__(self, workers: int, pool: Executor, sums: Sums):
        super().__init__(workers)
        self._pool, self.sums = pool, sums
        self._numbers: dict[Future, int] = {}
        weakref.finalize(self, pool.shutdown, wait=False)

    def submit(self, number: int, theta: np.ndarray, first: int, last: int) -> None:
        self._numbers[self._pool.submit(self.sums, theta, first, last)] = number

    def finished(self) -> list[tuple[int, list[float]]]:
        done = wait(self._numbers, return_when=FIRST_COMPLETED).done
        return [(self._numbers.pop(future), future.result()) for future in done]

    def message_s(self, theta: np.ndarray, times: int = 7) -> float:
        """Seconds of a round at θ, (P,), in which nobody has work, a median; the first starts them."""
        taken = []
        for _ in range(times + 1):
            began = time.perf_counter()
            for number in range(self.workers):
                self.submit(number, theta, 0, 0)
            while self._numbers:
                self.finished()
            taken.append(time.perf_counter() - began)
        return float(np.median(taken[1:]))


_blocks: dict[str, Blocks] = {}


def sums_of(arm: Arm, folder: Path, theta: np.ndarray, first: int, last: int) -> list[float]:
    """In a worker process: the blocks' sums at θ, (P,); the data are bound at the first call."""
    key = f"{arm.settings()}{folder}"
    if key not in _blocks:
        _blocks.clear()
        _blocks[key] = Blocks(problem_of(arm, folder), arm.sampler.batches, arm.sampler.pause)
    with one_blas_thread():
        return _blocks[key].sums(theta, first, last)
