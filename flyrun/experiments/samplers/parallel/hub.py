"""Who gives out work on the tree, takes what comes back, and counts.

Angelino, Johnson & Adams (2016), Algorithm 9, mended: after a result every node that is then known is tested,
children too, against the nearest accepted ancestor; sums of an unfinished node stay with it; results for a
branch that is gone are counted, and thrown away.
"""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.samplers.parallel.blocks import Blocks, rows
from flyrun.experiments.samplers.parallel.schemes import Scheme, Task
from flyrun.experiments.samplers.parallel.team import Team
from flyrun.experiments.samplers.parallel.tree import Point, Tree

COUNTS = ("queries", "span", "rounds", "bytes")
_NUMBER = 8  # bytes


class _Given(NamedTuple):
    """Work that is out, and the length of the longest path to it, in queries."""

    task: Task
    begun: float


class Hub:
    """counts: of all so far, as COUNTS has them: queries, wasted ones too; span: queries on the longest path;
    rounds: how often work was given out that somebody then waits for; bytes: positions down, sums up."""

    def __init__(self, tree: Tree, scheme: Scheme, team: Team, blocks: Blocks, counts: np.ndarray):
        self.tree, self.scheme, self.team, self.blocks = tree, scheme, team, blocks
        self.queries, self.span, self.rounds, self.bytes = counts.tolist()
        self._out: dict[int, _Given] = {}
        self._next = 0

    def counts(self) -> np.ndarray:
        """Queries, span, rounds and bytes, (4,)."""
        return np.array([self.queries, self.span, self.rounds, self.bytes])

    def know(self, point: Point) -> None:
        """Have a point evaluated before all else, as a chain's first."""
        if not self.tree.known(point):
            self._give([Task(point, len(point.sums), self.tree.n_blocks)])
            self.drain()

    def decide(self) -> bool:
        """The outcome of the root's test."""
        while (outcome := self.tree.outcome(self.tree.root)) is None:
            self._give(self.scheme.tasks(self.tree, self.team.workers - len(self._out)))
            self._take()
        return outcome

    def drain(self) -> None:
        """Wait for all that is out."""
        while self._out:
            self._take()

    def _give(self, tasks: list[Task]) -> None:
        for task in tasks:
            task.point.taken = True
            self._out[self._next] = _Given(task, self.span)
            self.team.submit(self._next, task.point.theta, task.first, task.last)
            self._next += 1
        self.rounds += bool(tasks)

    def _take(self) -> None:
        for number, sums in self.team.finished():
            task, begun = self._out.pop(number)
            task.point.take(task.first, sums)
            asked = rows(self.blocks, task.first, task.last)
            self.queries += asked
            self.span = max(self.span, begun + asked)
            self.bytes += _NUMBER * (len(task.point.theta) + len(sums))
