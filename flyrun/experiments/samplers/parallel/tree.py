"""The tree of what a chain may do next (Angelino, Johnson & Adams 2016, Figure 4.2).

A node is the proposal of an iteration at the end of a path of outcomes. Its test is against the *current*
state there, the proposal of the nearest ancestor that the path accepts: a rejection needs no evaluation.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from flyrun.experiments.samplers.parallel.walk import Luck, Step, Walk


class Point:
    """A position, its log prior, and the sums of the first blocks of its log likelihood, as far as known.

    taken: whether a worker is at it.  early: sums by their first block, which wait for those before them.
    """

    __slots__ = ("early", "log_prior", "sums", "taken", "theta")

    def __init__(self, theta: np.ndarray, log_prior: float, sums: list[float] | None = None):
        self.theta, self.log_prior = theta, log_prior
        self.sums: list[float] = [] if sums is None else sums
        self.early: dict[int, list[float]] = {}
        self.taken = False

    def take(self, first: int, sums: list[float]) -> None:
        """The sums of the blocks from `first` on have come, from one of perhaps several workers."""
        self.early[first], self.taken = sums, False
        while (ready := self.early.pop(len(self.sums), None)) is not None:
            self.sums += ready

    def log_density(self) -> float:
        """Prior times likelihood, of a point whose blocks are all known; of one too far for numbers -inf."""
        try:
            return math.fsum([self.log_prior, *self.sums])
        except OverflowError:
            return -math.inf


class Node:
    """The proposal of iteration t.  current: the state that it is tested against.  step: in use there.

    first: logarithm of a cheap density's ratio, by which a proposal is tested before; 0 passes always.
    """

    __slots__ = ("children", "current", "first", "log_u", "passes", "proposal", "step", "t")

    def __init__(self, t: int, current: Point, step: Step, proposal: Point, luck: Luck, first: float = 0.0):
        self.t, self.current, self.step, self.proposal, self.log_u = t, current, step, proposal, luck.log_u
        self.first, self.passes = first, luck.log_v <= first
        self.children: list[Node | None] = [None, None]  # after a rejection, after an acceptance


class Tree:
    """Grown where it is looked at, cut to a branch where an outcome is known.

    log_prior: of a position.  n_blocks: sums that make a point known.  cheap: log ratio of a density that
    proposals, beside where the chain stands, are tested by before; None: of no such density.
    """

    def __init__(
        self,
        walk: Walk,
        log_prior: Callable[[np.ndarray], float],
        n_blocks: int,
        t: int,
        at: Point,
        step: Step,
        cheap: Callable[[Point, Point], float] | None = None,
    ):
        self.walk, self.log_prior, self.n_blocks, self.cheap = walk, log_prior, n_blocks, cheap
        self.root = self._node(t, at, step)

    def _node(self, t: int, current: Point, step: Step) -> Node:
        luck = self.walk.luck(t)
        theta = self.walk.proposal(current.theta, step, luck)
        proposal = Point(theta, self.log_prior(theta))
        first = 0.0 if self.cheap is None else self.cheap(proposal, current)
        return Node(t, current, step, proposal, luck, first)

    def child(self, node: Node, accepted: bool) -> Node:
        """The next iteration's node after this outcome of a node's."""
        if (child := node.children[accepted]) is None:
            current = node.proposal if accepted else node.current
            step = self.walk.tuned(node.step, accepted, node.t)
            child = node.children[accepted] = self._node(node.t + 1, current, step)
        return child

    def known(self, point: Point) -> bool:
        """Whether all of a point's likelihood is."""
        return len(point.sums) == self.n_blocks

    def outcome(self, node: Node) -> bool | None:
        """Whether a node's proposal is accepted; None while it or the state beside it is not known.

        One that does not pass is rejected unseen; the rest are tested by what is left of the ratio: delayed
        acceptance (Christen & Fox 2005).
        """
        if not node.passes:
            return False
        if not (self.known(node.proposal) and self.known(node.current)):
            return None
        return node.log_u < log_ratio(node) - node.first

    def advance(self, accepted: bool) -> None:
        """The root's outcome is known: its branch is the tree, the other one goes."""
        self.root = self.child(self.root, accepted)

    def ahead(self) -> Iterator[tuple[str, Point]]:
        """(path, proposal) of the nodes of which sums are known; a path has 1 for each acceptance."""
        waiting = [("", self.root)]
        while waiting:
            path, node = waiting.pop()
            if node.proposal.sums:
                yield path, node.proposal
            waiting += [
                (f"{path}{bit}", child) for bit, child in enumerate(node.children) if child is not None
            ]

    def at(self, path: str) -> Node:
        """The node at the end of a path."""
        node = self.root
        for bit in path:
            node = self.child(node, bit == "1")
        return node


def log_ratio(node: Node) -> float:
    """Logarithm of the ratio of posterior densities, a node's proposal over its current state, both known."""
    return node.proposal.log_density() - node.current.log_density()
