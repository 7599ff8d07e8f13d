"""Exact chains of the samplers that keep an estimate of the energy: MIN-Gibbs and DoubleMIN-Gibbs.

Where every factor is 0 or M, an estimate is c·k with c = log(1 + Ψ/λ) and k ~ Poisson(λζ/Ψ), so a state is
(x, k); k is cut off where its tail is below spectral_gap.TAIL.

A gap in the sense of Theorems 2 and 6 these chains have not: k has no upper limit, and the larger the
estimate that is kept, the longer it is kept, so the gap of the whole chain is 0 (as of any pseudo-marginal
chain whose weights are unbounded). The theorems want |ε − ζ| ≤ δ always. What is measured here is the gap as
functions of x feel it.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from tests.diagnostics.spectral_gap import SmallGraph, _poisson, _softmax, poisson_vectors


def min_gibbs(graph: SmallGraph, batch: float) -> tuple[np.ndarray, np.ndarray]:
    """Transition matrix and stationary distribution over (x, k), k fastest; graph of two-valued factors."""
    step, laws = _laws(graph, batch)
    width, values = laws.shape[1], range(graph.n_values)
    matrix = np.zeros((len(graph.states), width, len(graph.states), width))
    for _, numbers, _ in graph.lines():
        for here in values:
            others = [u for u in values if u != here]
            for counts in itertools.product(range(width), repeat=len(others)):
                chance = math.prod(laws[numbers[u], k] for u, k in zip(others, counts, strict=True))
                if chance == 0.0:
                    continue
                weights = np.zeros((width, graph.n_values))
                weights[:, here] = step * np.arange(width)
                weights[:, others] = step * np.array(counts)
                picked = np.exp(weights - weights.max(axis=1, keepdims=True))
                picked *= chance / graph.n / picked.sum(axis=1, keepdims=True)
                stay = np.arange(width)
                matrix[numbers[here], stay, numbers[here], stay] += picked[:, here]
                for u, k in zip(others, counts, strict=True):
                    matrix[numbers[here], :, numbers[u], k] += picked[:, u]
    return _flat(matrix), _joint(laws, step)


def double_min(graph: SmallGraph, first: float, second: float) -> tuple[np.ndarray, np.ndarray]:
    """The same for DoubleMIN-Gibbs with mean batches λ₁ = first and λ₂ = second."""
    step, laws = _laws(graph, second)
    width, rate = laws.shape[1], first / graph.largest_local
    kept = step * np.arange(width)
    matrix = np.zeros((len(graph.states), width, len(graph.states), width))
    for i, numbers, values in graph.lines():
        masses = graph.masses[graph.rows[i]]
        for probability, counts in poisson_vectors(rate * masses):
            estimates = (values / (rate * masses)) @ counts
            proposal = _softmax(estimates)
            for here, there in itertools.product(range(graph.n_values), repeat=2):
                gain = kept[None, :] - kept[:, None] + estimates[here] - estimates[there]
                moved = np.exp(np.minimum(0.0, gain)) * laws[numbers[there]]
                matrix[numbers[here], :, numbers[there], :] += probability * proposal[there] / graph.n * moved
    flat = _flat(matrix)
    return flat + np.diag(1.0 - flat.sum(axis=1)), _joint(laws, step)


def gap_for_positions(matrix: np.ndarray, joint: np.ndarray, n_states: int) -> float:
    """Smallest ⟨f, f⟩/⟨f, (I − P)⁻¹ f⟩ over functions f of x of mean 0, for a reversible P.

    On a chain over x alone it is 1 − second largest eigenvalue. joint: (n_states·K,).
    """
    used = joint > 1e-14
    root = np.sqrt(joint[used])
    symmetric = root[:, None] * matrix[np.ix_(used, used)] / root[None, :]
    symmetric = 0.5 * (symmetric + symmetric.T)
    owner = np.repeat(np.arange(n_states), len(joint) // n_states)[used]
    positions = (owner[:, None] == np.arange(n_states)) * root[:, None]
    positions /= np.linalg.norm(positions, axis=0)
    top = np.outer(root, root) / (root @ root)
    resolvent = np.linalg.solve(np.eye(len(root)) - symmetric + top, positions)
    felt = positions.T @ resolvent - positions.T @ top @ positions
    return float(1.0 / np.linalg.eigvalsh(0.5 * (felt + felt.T))[-1])


def estimate_bound(total: float, batch: float, exponent: float, doubt: float = 0.01) -> float:
    """e^{−exponent·δ}, δ the deviation that Lemma 2 keeps an estimate within, but for probability `doubt`.

    Lemma 2 as recalled: λ ≥ max(8Ψ²/δ²·log(2/doubt), 2Ψ²/δ). exponent 6: Theorem 2, MIN-Gibbs against Gibbs;
    4: Theorem 6, DoubleMIN-Gibbs against MGPMH. Both theorems want |ε − ζ| ≤ δ always: a guide, not a bound.
    """
    delta = max(math.sqrt(8.0 * total**2 * math.log(2.0 / doubt) / batch), 2.0 * total**2 / batch)
    return math.exp(-exponent * delta)


def _laws(graph: SmallGraph, batch: float) -> tuple[float, np.ndarray]:
    """(c, (states, K) probabilities of k at each state)."""
    laws = [_poisson(batch * energy / graph.total) for energy in graph.energy]
    width = max(map(len, laws))
    return math.log1p(graph.total / batch), np.array([law + [0.0] * (width - len(law)) for law in laws])


def _joint(laws: np.ndarray, step: float) -> np.ndarray:
    joint = (laws * np.exp(step * np.arange(laws.shape[1]))).ravel()
    return joint / joint.sum()


def _flat(matrix: np.ndarray) -> np.ndarray:
    size = matrix.shape[0] * matrix.shape[1]
    return matrix.reshape(size, size)
