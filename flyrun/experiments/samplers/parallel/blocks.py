"""The log likelihood as sums over fixed blocks of rows, the same bits whoever evaluates them.

Block b of B has rows b, b + B, b + 2B, …, so that each is like the whole however the rows are ordered. A log
density is the rounded exact sum of its blocks' (`math.fsum`): in what order they come does not matter.
"""

import time
from pathlib import Path

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import Problem, bind


class Blocks:
    """count blocks of a problem's rows. Every evaluation of a likelihood while sampling is made here.

    pause: seconds that one of all blocks waits besides, which stand for a slower likelihood.
    """

    def __init__(self, problem: Problem, count: int, pause: float = 0.0):
        self.pause = pause
        self.model, self.features = problem.model, problem.features
        n_data = len(problem.features.rows)
        self.count = count
        self.sizes = [len(range(b, n_data, count)) for b in range(count)]

    def sums(self, theta: np.ndarray, first: int, last: int) -> list[float]:
        """Σ log L_n over each of the blocks first … last − 1 at θ, (P,). A query for each of their rows."""
        if self.pause:
            time.sleep(self.pause * (last - first) / self.count)
        return [self._sum(theta, block) for block in range(first, last)]

    def _sum(self, theta: np.ndarray, block: int) -> float:
        total, n_data, stride = 0.0, len(self.features.rows), self.count * passes.ROWS
        for low in range(block, n_data, stride):
            index = np.arange(low, min(low + stride, n_data), self.count)
            total += float(passes.sums_over(self.model, self.features, index, theta[None])[0])
        return total


def problem_of(arm: Arm, folder: Path) -> Problem:
    """Data and model bound, the MAP fitted or recalled where one is asked for; errors as bind's."""
    return bind(arm, folder, arm.protocol.init == "map" or arm.sampler.at_map)


def rows(blocks: Blocks, first: int, last: int) -> int:
    """Likelihood queries of the blocks first … last − 1."""
    return sum(blocks.sizes[first:last])
