"""Spectral gaps of samplers on graphs small enough to list every state, beside the bounds known for them.

Transition matrices are exact but for Poisson numbers cut off where their tail is below TAIL. They are worked
out from the algorithms' definitions, apart from the samplers' code. All chains are reversible, so the gap is
1 − (second largest eigenvalue).

**The bound for MGPMH.** Write ζ_w for the energy of variable i's factors at value w, ε_w for its minibatch
estimate, a_w = ε_w − ζ_w, p_w for the Gibbs conditional, and t = L²/λ. For states x ≠ y that differ at i,

    T(x, y)/G(x, y) = E[ min(e^{a_x}, e^{a_y}) / Σ_w p_w e^{a_w} ] ≥ 1/E[Y],
    Y = Σ_w p_w e^{a_w} · max(e^{−a_x}, e^{−a_y}),

with T MGPMH's and G Gibbs' transitions; the inequality is Jensen's for 1/Y. A difference a_w − a_x is
Σ (L/(λM))·d·s_φ − d over Poisson s_φ of mean λM/L, with |d| ≤ M, so for k = 1, 2 and z = kLd/(λM), of size
at most kL/λ ≤ 1:

    E e^{k(a_w − a_x)} = exp Σ (λM/L)(e^z − 1 − z) ≤ exp Σ (λM/L) z² ≤ e^{k² t}     (λ ≥ 2L).

(1) max ≤ sum gives E[Y] ≤ 2e^t. (2) max(u, v) = (u + v)/2 + |u − v|/2 gives, with P = Σ p_w e^{a_w − a_x} and
Q the same for y, E[Y] ≤ e^t + ½E|P − Q|. Here E(P − Q)² = E P² + E Q² − 2 E PQ ≤ 2e^{4t} − 2: P² and Q² by
the line above with k = 2 and Jensen over w, and E PQ ≥ 1 since each of its exponents has mean 0. Hence

    T ≥ c·G off the diagonal,  c = max( ½e^{−t}, 1/(e^t + √((e^{4t} − 1)/2)) ),

and as both chains have the same π, gap(MGPMH) ≥ c·gap(Gibbs), by comparing Dirichlet forms.

The bound recalled for Theorem 4, e^{−t}, does not hold: with two binary variables and one factor 1[x₁ = x₂]
the ratio of gaps is 0.905 at λ = 16 where e^{−t} is 0.939. Rejection costs to first order in the noise, there
about √(t/(2π)).
"""

from __future__ import annotations

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
    return _matrix(graph, lambda _, values: np.tile(_softmax(values.sum(axis=1)), (len(values), 1)))


def mgpmh(graph: SmallGraph, batch: float) -> np.ndarray:
    """Transition matrix of MGPMH with mean batch λ = batch."""
    rate = batch / graph.largest_local

    def line(i: int, values: np.ndarray) -> np.ndarray:
        masses = graph.masses[graph.rows[i]]
        exact, moves = values.sum(axis=1), np.zeros((len(values), len(values)))
        for probability, counts in poisson_vectors(rate * masses):
            estimates = (values / (rate * masses)) @ counts
            proposal = _softmax(estimates)
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
                moves[before] += probability * _softmax(np.log1p(values / (rate * masses)) @ counts)
        return moves

    return _matrix(graph, line)


def gap(matrix: np.ndarray, stationary: np.ndarray) -> float:
    """1 − second largest eigenvalue of a chain that is reversible for `stationary`."""
    root = np.sqrt(stationary)
    symmetric = root[:, None] * matrix / root[None, :]
    return float(1.0 - np.linalg.eigvalsh(0.5 * (symmetric + symmetric.T))[-2])


def mgpmh_bound(largest_local: float, batch: float) -> float:
    """c of this file's derivation: gap(MGPMH) ≥ c·gap(Gibbs) for batch ≥ 2L; 0 below, as nothing is shown."""
    if batch < 2.0 * largest_local:
        return 0.0
    t = largest_local**2 / batch
    return max(0.5 * math.exp(-t), 1.0 / (math.exp(t) + math.sqrt(0.5 * math.expm1(4.0 * t))))


def recalled_mgpmh_bound(largest_local: float, batch: float) -> float:
    """e^{−L²/λ}, Theorem 4 as it is recalled. It does not hold."""
    return math.exp(-(largest_local**2) / batch)


def poisson_vectors(means: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Independent Poisson counts with their probabilities, all but a tail of TAIL in each."""
    ranges = [_poisson(float(mean)) for mean in means]
    for counts in itertools.product(*(range(len(one)) for one in ranges)):
        probability = math.prod(one[k] for one, k in zip(ranges, counts, strict=True))
        if probability > 0.01 * TAIL:
            yield probability, np.array(counts, float)


def _poisson(mean: float) -> list[float]:
    """Probabilities of 0, 1, … until what is left is below TAIL."""
    found, rest, k = [], 1.0, 0
    while rest > TAIL and k < mean + 60.0 + 20.0 * math.sqrt(mean):
        found.append(
            math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) if mean > 0.0 else float(k == 0)
        )
        rest -= found[-1]
        k += 1
    return found


def _softmax(values: np.ndarray) -> np.ndarray:
    weights = np.exp(values - values.max())
    return weights / weights.sum()


def _matrix(graph: SmallGraph, line: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
    """Transition matrix from each line's moves, (D, D) given the variable."""
    matrix = np.zeros((len(graph.states), len(graph.states)))
    for i, numbers, values in graph.lines():
        matrix[np.ix_(numbers, numbers)] += line(i, values) / graph.n
    return matrix
