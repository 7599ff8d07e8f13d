"""Which nodes of the tree the workers are sent to: by how likely the chain comes there.

divided      all to the next node, each with its share of the rows (survey, §4.1.1): none is evaluated ahead

The others are one search for the nodes likeliest reached, and differ in what they take an outcome's chance to
be:

naive        ½ each: all paths to a depth (Brockwell 2006)
rejections   0: along rejections alone (Byrd et al. 2008, "speculative moves")
static       the share accepted so far (Strid 2010)
predictive   by partial sums, block by block, wherever a worker is most of use (Angelino et al. 2014)
foretold     0 or 1, as a quadratic at the MAP foretells it: one path (ours; Strid's remark)
delayed      1 of what passes the quadratic's own test, which rejects the rest at once: likelihoods of two
             speeds, and the slow one taken to accept (Byrd et al. 2010, "speculative chains"); another chain
"""

import heapq
import itertools
import math
from abc import abstractmethod
from typing import NamedTuple

from flyrun.experiments.samplers.parallel.foresight import Memory, Quadratic
from flyrun.experiments.samplers.parallel.tree import Node, Point, Tree

_LEAST = 1e-12  # chance of being reached, below which nobody looks


class Task(NamedTuple):
    """A worker's work: blocks first … last − 1 of a point."""

    point: Point
    first: int
    last: int


class Scheme:
    """Derive from it: `chance`."""

    def __init__(self, workers: int, memory: Memory, quadratic: Quadratic | None = None):
        self.workers, self.memory, self.quadratic = workers, memory, quadratic

    @abstractmethod
    def chance(self, tree: Tree, node: Node) -> float:
        """That a node's proposal is accepted, as far as this one knows."""

    def tasks(self, tree: Tree, idle: int) -> list[Task]:
        """What `idle` workers begin now: a round, whole evaluations, once all of them are idle."""
        if idle < self.workers:
            return []
        return [Task(point, len(point.sums), tree.n_blocks) for point in self.likeliest(tree, idle)]

    def likeliest(self, tree: Tree, count: int) -> list[Point]:
        """Up to `count` proposals that are neither known nor worked on, the likeliest reached first."""
        proposals: list[Point] = []
        order = itertools.count()
        waiting = [(-1.0, next(order), tree.root)]
        while waiting and len(proposals) < count:
            reached, _, node = heapq.heappop(waiting)
            if node.passes and not (node.proposal.taken or tree.known(node.proposal)):
                proposals.append(node.proposal)
            outcome = tree.outcome(node)
            accept = self.chance(tree, node) if outcome is None else float(outcome)
            for bit, chance in ((False, 1.0 - accept), (True, accept)):
                if reached * chance < -_LEAST:
                    heapq.heappush(waiting, (reached * chance, next(order), tree.child(node, bit)))
        return proposals


class Naive(Scheme):
    """All paths; workers beyond the last whole level have nothing to do."""

    def chance(self, tree: Tree, node: Node) -> float:
        return 0.5

    def likeliest(self, tree: Tree, count: int) -> list[Point]:
        return super().likeliest(tree, 2 ** depth(count) - 1)


class Rejections(Scheme):
    """One path, of rejections."""

    def chance(self, tree: Tree, node: Node) -> float:
        return 0.0


class Static(Scheme):
    """A tree of one shape, but that the share accepted is learnt."""

    def chance(self, tree: Tree, node: Node) -> float:
        return self.memory.rate if self.memory.tests else 0.5


class Predictive(Scheme):
    """A worker takes one block, then asks again: the next of the likeliest node that nobody is at."""

    def chance(self, tree: Tree, node: Node) -> float:
        return self.memory.chance(node, tree.n_blocks)

    def tasks(self, tree: Tree, idle: int) -> list[Task]:
        """Who is idle begins at once."""
        points = self.likeliest(tree, idle)
        return [Task(point, len(point.sums), len(point.sums) + 1) for point in points]


class Foretold(Scheme):
    """One path, each outcome foretold."""

    def chance(self, tree: Tree, node: Node) -> float:
        return float(node.log_u < self.quadratic.log_ratio(node.proposal, node.current))  # type: ignore[union-attr]


class Delayed(Scheme):
    """One path, of acceptances where a proposal passes."""

    def chance(self, tree: Tree, node: Node) -> float:
        return float(node.passes)


class Divided(Scheme):
    """Parallel evaluation of one density: each worker has its share of the root's proposal."""

    def chance(self, tree: Tree, node: Node) -> float:
        """Nothing is foreseen."""
        return 0.5

    def tasks(self, tree: Tree, idle: int) -> list[Task]:
        """Once all are idle, as in the base class."""
        share, point = math.ceil(tree.n_blocks / self.workers), tree.root.proposal
        firsts = range(0, tree.n_blocks, share) if idle == self.workers else ()
        return [Task(point, first, min(first + share, tree.n_blocks)) for first in firsts]


SCHEMES: dict[str, type[Scheme]] = {
    "naive": Naive,
    "rejections": Rejections,
    "static": Static,
    "predictive": Predictive,
    "foretold": Foretold,
    "delayed": Delayed,
    "divided": Divided,
}


def depth(workers: int) -> int:
    """Levels of a whole binary tree of at most so many nodes: log₂(J + 1)."""
    return int(math.log2(workers + 1))


def expected_steps(scheme: str, workers: int, rate: float, wrong: float) -> float:
    """Steps a round in theory, the sum over the nodes evaluated of the chance to reach them; NaN: not known.

    rate: share accepted.  wrong: share of outcomes foretold wrongly; by delayed these pass and are rejected.
    """
    if scheme == "naive":
        return float(depth(workers))
    if scheme == "rejections":
        return _run(workers, rate)
    if scheme == "foretold":
        return _run(workers, wrong)
    if scheme == "delayed" and (passed := rate + wrong):
        return _run(workers, wrong / passed) / passed
    if scheme == "static":
        reached, total = [-1.0], 0.0
        for _ in range(workers):
            chance = -heapq.heappop(reached)
            total += chance
            heapq.heappush(reached, -chance * rate)
            heapq.heappush(reached, -chance * (1.0 - rate))
        return total
    return math.nan


def _run(length: int, ends: float) -> float:
    """Expected length of a run that each step ends with this chance: (1 − (1 − p)^J)/p."""
    return float(length) if ends == 0 else (1.0 - (1.0 - ends) ** length) / ends
