"""Exact chains of the samplers that keep an estimate of the energy: MIN-Gibbs and DoubleMIN-Gibbs.

A state is (x, number of its estimate ε), the states' estimates one after another; which values an estimate
has, and how likely each is, is given. Of equation (2)'s, which have no upper limit, so many are listed that
the tail is below spectral_gap.TAIL.

A gap in the sense of Theorems 2 and 6 have those chains alone whose |ε − ζ| is at most δ always. With
equation (2) the larger the estimate that is kept, the longer it is kept, so the gap of the whole chain is 0
(as of any pseudo-marginal chain whose weights are unbounded): there the gap is measured as functions of x
feel it.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from tools.theorems.spectral_gap import SmallGraph, poisson, poisson_vectors, softmax

Laws = Sequence[tuple[np.ndarray, np.ndarray]]
"""Of every state the probabilities of its estimates, and their values."""


def two_points(graph: SmallGraph, delta: float) -> Laws:
    """Estimates ζ + log(1 ± a), both as likely, with E e^ε = e^ζ and |ε − ζ| ≤ delta."""
    far = -math.expm1(-delta)
    return [(np.array([0.5, 0.5]), energy + np.log([1.0 - far, 1.0 + far])) for energy in graph.energy]


def poisson_sums(graph: SmallGraph, batch: float) -> Laws:
    """Equation (2)'s where every factor is 0 or its largest: log(1 + Ψ/λ)·Poisson(λζ/Ψ)."""
    chances = [np.array(poisson(batch * energy / graph.total)) for energy in graph.energy]
    step = math.log1p(graph.total / batch)
    return [(one, step * np.arange(len(one))) for one in chances]


def joint(laws: Laws) -> np.ndarray:
    """Theorems 1 and 5: the law of (x, ε), ∝ p(ε|x)·e^ε."""
    weights = np.concatenate([chances * np.exp(values) for chances, values in laws])
    return weights / weights.sum()


def of_positions(law: np.ndarray, laws: Laws) -> np.ndarray:
    """The law of x alone, from one of (x, ε)."""
    return np.bincount(_owners(laws), law)


def min_gibbs(graph: SmallGraph, laws: Laws) -> np.ndarray:
    """Transition matrix of MIN-Gibbs over (x, ε)."""
    starts, matrix = _empty(laws)
    for _, numbers, _ in graph.lines():
        for here in numbers:
            others = [one for one in numbers if one != here]
            own = laws[here][1]
            stay = starts[here] + np.arange(len(own))
            for picks in itertools.product(*(range(len(laws[one][0])) for one in others)):
                pairs = list(zip(others, picks, strict=True))
                chance = math.prod(laws[one][0][k] for one, k in pairs)
                weights = np.column_stack([own, *(np.full(len(own), laws[one][1][k]) for one, k in pairs)])
                picked = np.exp(weights - weights.max(axis=1, keepdims=True))
                picked *= chance / graph.n / picked.sum(axis=1, keepdims=True)
                matrix[stay, stay] += picked[:, 0]
                for (one, k), share in zip(pairs, picked.T[1:], strict=True):
                    matrix[stay, starts[one] + k] += share
    return matrix


def double_min(graph: SmallGraph, batch: float, laws: Laws) -> np.ndarray:
    """The same of DoubleMIN-Gibbs whose first mean batch is λ₁ = batch."""
    starts, matrix = _empty(laws)
    rate = batch / graph.largest_local
    for i, numbers, values in graph.lines():
        masses = graph.masses[graph.rows[i]]
        for probability, counts in poisson_vectors(rate * masses):
            estimates = (values / (rate * masses)) @ counts
            proposal = probability * softmax(estimates) / graph.n
            for here, there in itertools.product(range(graph.n_values), repeat=2):
                own, (chances, new) = laws[numbers[here]][1], laws[numbers[there]]
                gain = new[None, :] - own[:, None] + estimates[here] - estimates[there]
                rows = slice(starts[numbers[here]], starts[numbers[here]] + len(own))
                columns = slice(starts[numbers[there]], starts[numbers[there]] + len(new))
                matrix[rows, columns] += proposal[there] * chances * np.exp(np.minimum(0.0, gain))
    return matrix + np.diag(1.0 - matrix.sum(axis=1))


def gap_for_positions(matrix: np.ndarray, laws: Laws) -> float:
    """Smallest ⟨f, f⟩/⟨f, (I − P)⁻¹ f⟩ over functions f of x of mean 0, for a P reversible for joint(laws).

    On a chain over x alone it is 1 − second largest eigenvalue.
    """
    law = joint(laws)
    used = law > 1e-14
    root = np.sqrt(law[used])
    symmetric = root[:, None] * matrix[np.ix_(used, used)] / root[None, :]
    symmetric = 0.5 * (symmetric + symmetric.T)
    positions = (_owners(laws)[used, None] == np.arange(len(laws))) * root[:, None]
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


def _owners(laws: Laws) -> np.ndarray:
    """The number of the state that each estimate is of."""
    return np.repeat(np.arange(len(laws)), [len(chances) for chances, _ in laws])


def _empty(laws: Laws) -> tuple[np.ndarray, np.ndarray]:
    """Where each state's estimates begin, and a matrix of all."""
    size = len(_owners(laws))
    return np.searchsorted(_owners(laws), np.arange(len(laws))), np.zeros((size, size))
