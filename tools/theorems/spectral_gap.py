"""Spectral gaps of samplers on graphs small enough to list every state.

Transition matrices are exact but for Poisson numbers cut off where their tail is below TAIL. They are worked
out from the algorithms' definitions, apart from the samplers' code. All chains are reversible, so the gap is
1 − (second largest eigenvalue).
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

TAIL = 1e-12

Factor = tuple[tuple[int, ...], np.ndarray]
"""Scope, and table of energies φ ≥ 0 with one axis per variable of the scope."""


class SmallGraph:
    """Factors over n variables of D values; every state listed."""

    def __init__(self, n: int, n_values: int, factors: Sequence[Factor]):
        self.n, self.n_values = n, n_values
        factors = [(scope, table) for scope, table in factors if np.max(table) > 0.0]
        self.scopes = [scope for scope, _ in factors]
        self.tables = [np.asarray(table, float) for _, table in factors]
        self.masses = np.array([table.max() for table in self.tables])
        self.rows = [[f for f, scope in enumerate(self.scopes) if i in scope] for i in range(n)]
        self.states = list(itertools.product(range(n_values), repeat=n))
        self.number = {state: k for k, state in enumerate(self.states)}
        self.energy = np.array([sum(self.values(state, range(len(self.tables)))) for state in self.states])
        weights = np.exp(self.energy - self.energy.max())
        self.stationary = weights / weights.sum()

    @property
    def total(self) -> float:
        """Ψ."""
        return float(self.masses.sum())

    @property
    def largest_local(self) -> float:
        """L."""
        return max(float(self.masses[row].sum()) for row in self.rows)

    def values(self, state: Sequence[int], factors) -> list[float]:
        """φ of the factors at a state."""
        return [self.tables[f][tuple(state[j] for j in self.scopes[f])] for f in factors]

    def lines(self) -> Iterator[tuple[int, list[int], np.ndarray]]:
        """(i, numbers of the states that differ at i only, φ of i's factors there (D, factors))."""
        for i in range(self.n):
            for rest in itertools.product(range(self.n_values), repeat=self.n - 1):
                states = [(*rest[:i], u, *rest[i:]) for u in range(self.n_values)]
                values = np.array([self.values(state, self.rows[i]) for state in states])
                yield i, [self.number[state] for state in states], values.reshape(self.n_values, -1)


def gibbs(graph: SmallGraph) -> np.ndarray:
    """Transition matrix of plain Gibbs, a variable drawn evenly."""
    return _matrix(graph, lambda _, values: np.tile(softmax(values.sum(axis=1)), (len(values), 1)))


def mgpmh(graph: SmallGraph, batch: float) -> np.ndarray:
    """Transition matrix of MGPMH with mean batch λ = batch."""
    rate = batch / graph.largest_local

    def line(i: int, values: np.ndarray) -> np.ndarray:
        masses = graph.masses[graph.rows[i]]
        exact, moves = values.sum(axis=1), np.zeros((len(values), len(values)))
        for probability, counts in poisson_vectors(rate * masses):
            estimates = (values / (rate * masses)) @ counts
            proposal = softmax(estimates)
            gain = exact - estimates
            accept = np.exp(np.minimum(0.0, gain[None, :] - gain[:, None]))
            moves += probability * proposal[None, :] * accept
        np.fill_diagonal(moves, 0.0)
        return moves + np.diag(1.0 - moves.sum(axis=1))

    return _matrix(graph, line)


def poisson_gibbs(graph: SmallGraph, batch: float) -> np.ndarray:
    """Transition matrix of Poisson-Gibbs with λ = batch."""
    rate = batch / graph.largest_local

    def line(i: int, values: np.ndarray) -> np.ndarray:
        masses = graph.masses[graph.rows[i]]
        moves = np.zeros((len(values), len(values)))
        for before, own in enumerate(values):
            for probability, counts in poisson_vectors(rate * masses + own):
                moves[before] += probability * softmax(np.log1p(values / (rate * masses)) @ counts)
        return moves

    return _matrix(graph, line)


def gap(matrix: np.ndarray, stationary: np.ndarray) -> float:
    """1 − second largest eigenvalue of a chain that is reversible for `stationary`."""
    root = np.sqrt(stationary)
    symmetric = root[:, None] * matrix / root[None, :]
    return float(1.0 - np.linalg.eigvalsh(0.5 * (symmetric + symmetric.T))[-2])


def poisson_vectors(means: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Independent Poisson counts with their probabilities, all but a tail of TAIL in each."""
    ranges = [poisson(float(mean)) for mean in means]
    for counts in itertools.product(*(range(len(one)) for one in ranges)):
        probability = math.prod(one[k] for one, k in zip(ranges, counts, strict=True))
        if probability > 0.01 * TAIL:
            yield probability, np.array(counts, float)


def poisson(mean: float) -> list[float]:
    """Probabilities of 0, 1, … until what is left is below TAIL."""
    found, rest, k = [], 1.0, 0
    while rest > TAIL and k < mean + 60.0 + 20.0 * math.sqrt(mean):
        found.append(
            math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) if mean > 0.0 else float(k == 0)
        )
        rest -= found[-1]
        k += 1
    return found


def softmax(values: np.ndarray) -> np.ndarray:
    """Shares ∝ e^value."""
    weights = np.exp(values - values.max())
    return weights / weights.sum()


def _matrix(graph: SmallGraph, line: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
    """Transition matrix from each line's moves, (D, D) given the variable."""
    matrix = np.zeros((len(graph.states), len(graph.states)))
    for i, numbers, values in graph.lines():
        matrix[np.ix_(numbers, numbers)] += line(i, values) / graph.n
    return matrix
