"""Workers who evaluate blocks of a log likelihood: logical ones, threads, processes, or Dask's.

What they are changes when results come, and no bit of them.
"""

import contextlib
import logging
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from flyrun import children
from flyrun.config.arm import Arm
from flyrun.errors import ConfigError
from flyrun.samplers.parallel.blocks import Blocks, problem_of

Sums = Callable[[np.ndarray, int, int], list[float]]


class Team:
    """`workers` of them. Derive from it: `submit`, `finished`."""

    def __init__(self, workers: int):
        self.workers = workers

    @abstractmethod
    def submit(self, number: int, theta: np.ndarray, first: int, last: int) -> None:
        """Have blocks first … last − 1 evaluated at θ, under this number."""

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
    """Workers of a pool of futures. Derive from it: `_start`, `_wait`."""

    def __init__(self, workers: int):
        super().__init__(workers)
        self._numbers: dict[Any, int] = {}

    @abstractmethod
    def _start(self, theta: np.ndarray, first: int, last: int) -> Any:
        """A future of the sums."""

    @abstractmethod
    def _wait(self, futures: list[Any]) -> set[Any]:
        """Those that are done, one at least."""

    def submit(self, number: int, theta: np.ndarray, first: int, last: int) -> None:
        self._numbers[self._start(theta, first, last)] = number

    def finished(self) -> list[tuple[int, list[float]]]:
        return [(self._numbers.pop(one), one.result()) for one in self._wait(list(self._numbers))]

    def message_s(self, theta: np.ndarray, times: int = 7) -> float:
        """Seconds of a round in which nobody has anything to do, a median; the first starts them."""
        taken = []
        for _ in range(times + 1):
            began = time.perf_counter()
            for number in range(self.workers):
                self.submit(number, theta, 0, 0)
            while self._numbers:
                self.finished()
            taken.append(time.perf_counter() - began)
        return float(np.median(taken[1:]))


class Threads(Real):
    """Threads of this process: compiled likelihoods hold no lock."""

    def __init__(self, workers: int, sums: Sums):
        super().__init__(workers)
        self.sums, self._pool = sums, ThreadPoolExecutor(workers)
        weakref.finalize(self, self._pool.shutdown, wait=False)

    def _start(self, theta: np.ndarray, first: int, last: int) -> Future:
        return self._pool.submit(self.sums, theta, first, last)

    def _wait(self, futures: list[Any]) -> set[Any]:
        return wait(futures, return_when=FIRST_COMPLETED).done


class Processes(Real):
    """Processes of this machine, which read the data themselves."""

    def __init__(self, workers: int, arm: Arm, folder: Path):
        super().__init__(workers)
        self.given = arm, folder
        self._pool = children.Pool(workers)
        weakref.finalize(self, self._pool.shutdown, wait=False)

    def _start(self, theta: np.ndarray, first: int, last: int) -> Future:
        return self._pool.submit(_sums, *self.given, theta, first, last)

    def _wait(self, futures: list[Any]) -> set[Any]:
        return wait(futures, return_when=FIRST_COMPLETED).done


class Dask(Real):
    """Processes of a Dask cluster on this machine."""

    def __init__(self, workers: int, arm: Arm, folder: Path):
        try:
            import distributed  # late: an extra
        except ImportError as error:
            raise ConfigError(
                "sampler.team=dask: needs distributed; install with `pip install 'flyrun[dask]'`, or choose "
                "sampler.team=processes"
            ) from error
        super().__init__(workers)
        self.given = arm, folder.absolute()
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        with children.sigint_blocked():
            try:
                cluster = distributed.LocalCluster(
                    n_workers=workers, threads_per_worker=1, memory_limit=0, dashboard_address=None
                )
            except (AssertionError, RuntimeError) as error:  # a worker of Dask's may have no children
                raise ConfigError(
                    "sampler.team=dask: no cluster can be started within a worker of executor=dask; "
                    "choose executor=local"
                ) from error
            self._client = distributed.Client(cluster)
        self._distributed = distributed
        weakref.finalize(self, _close, self._client, cluster)

    def _start(self, theta: np.ndarray, first: int, last: int) -> Any:
        return self._client.submit(_sums, *self.given, theta, first, last, pure=False)

    def _wait(self, futures: list[Any]) -> set[Any]:
        return self._distributed.wait(futures, return_when="FIRST_COMPLETED").done


def _close(client: Any, cluster: Any) -> None:
    with contextlib.suppress(Exception):
        client.close()
        cluster.close()


_blocks: dict[str, Blocks] = {}


def _sums(arm: Arm, folder: Path, theta: np.ndarray, first: int, last: int) -> list[float]:
    """In a worker process: the blocks' sums; the data are bound at the first call."""
    key = f"{arm.settings()}{folder}"
    if key not in _blocks:
        _blocks.clear()
        _blocks[key] = Blocks(problem_of(arm, folder), arm.sampler.batches, arm.sampler.pause)
    with threadpool_limits(1):
        return _blocks[key].sums(theta, first, last)
