"""The contract of a factor graph, whatever form its factors are stored in.

n variables x_i in {0 … size_i − 1}; factors 0 ≤ φ ≤ M_φ; π(x) ∝ exp ζ(x), ζ = Σ φ. The factors that depend
on variable i are its row, numbered r = 0 … degree − 1; all factors together are numbered f = 0 … F − 1. A
factor's *share* is φ/M_φ in [0, 1], so that factors too weak for a float's exponent stay well defined.

A graph is a NamedTuple with a field `bounds`. Positions are int32 arrays: numba's arithmetic on narrower or
unsigned integers wraps without a word.
"""

from typing import NamedTuple, Protocol

import numpy as np

from flyrun.ground.numerics.compiled import inlined, jit


class Bounds(NamedTuple):
    """Sizes and maximum energies of a graph."""

    sizes: np.ndarray  # (n,) int32: values of each variable
    degree: np.ndarray  # (n,) int64: factors of each variable
    local: np.ndarray  # (n,): L_i, the sum of M_φ over the factors of variable i
    largest_local: float  # L = max_i L_i
    total: float  # Ψ, the sum of M_φ over all factors
    two_valued: bool  # whether every factor takes only the values 0 and M_φ
    exclusive: bool  # whether besides each factor of i is above 0 for at most one value of x_i

    @property
    def n_values(self) -> int:
        """D, the most values any variable has."""
        return int(self.sizes.max(initial=1))

    @property
    def largest_degree(self) -> int:
        """Δ, the most factors any variable has."""
        return int(self.degree.max(initial=0))


class Graph(Protocol):
    """A factor graph, however its factors are stored."""

    @property
    def bounds(self) -> Bounds:
        """Sizes and maximum energies."""


def make_bounds(sizes, degree, local, total: float, two_valued: bool, exclusive: bool) -> Bounds:
    """Bounds from per-variable arrays."""
    local = np.ascontiguousarray(local, np.float64)
    counts = np.ascontiguousarray(sizes, np.int32), np.ascontiguousarray(degree, np.int64)
    largest = float(local.max(initial=0.0))
    return Bounds(*counts, local, largest, float(total), bool(two_valued), bool(exclusive))


@jit
def other_end(i, r):
    """The other variable of variable i's factor r where every pair has a factor."""
    return r if r < i else r + 1


@inlined
def local_energies(graph, i, x, energies):
    """energies[u] = Σ φ(x with x_i = u) over the factors of variable i, for every u < size_i."""


@inlined
def energy_change(graph, i, x, u):
    """ζ(x with x_i = u) − ζ(x), from the factors of variable i."""


@inlined
def total_energy(graph, x):
    """ζ(x), from all factors."""


@inlined
def expect_factor(graph, f):
    """Begin to fetch what factor_share will read of factor f, where it lies far away. Changes nothing."""


@inlined
def factor_share(graph, f, x, i, u):
    """φ/M of factor f at x with x_i = u (i = −1: at x itself)."""


@inlined
def current_share(graph, i, r, x):
    """φ/M of variable i's factor r at x."""


@inlined
def add_share(graph, i, r, x, amount, energies):
    """energies[u] += amount·φ/M of variable i's factor r at x with x_i = u, for every u < size_i.

    Up to a number that is the same for every u: only differences of energies decide anything.
    """


@inlined
def add_log_share(graph, i, r, x, boost, top, energies):
    """energies[u] += log(1 + boost·φ/M) of variable i's factor r at x with x_i = u, for every u < size_i.

    Up to a number that is the same for every u. top: log(1 + boost), what a factor at its maximum adds.
    """


@inlined
def visits(graph, i):
    """Factor values that one factor of variable i costs when all values of x_i are asked for.

    size_i in general; 1 where the values are known from one look (agreement of two variables).
    """


@inlined
def rows(graph):
    """(n + 1,) where each variable's row begins, and M of its factors in the order of r. Python only."""


@inlined
def factor_masses(graph):
    """(F,): M_f of all factors. Python only."""
