"""How far draws are from a posterior, each distance in a posterior's own units."""

import numpy as np


def w1(draws: np.ndarray, truth: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Wasserstein-1 distance of each coordinate's draws (M, D), weighted or not, to (L, D), in sds of these:
    (D,). NaN where weights are below 0: then it is not defined.
    """
    if weight is not None and (weight < 0).any():
        return np.full(draws.shape[1], np.nan)
    from scipy.stats import wasserstein_distance  # late: as long as all other imports of a report

    columns = zip(draws.T, truth.T, strict=True)
    return np.array([wasserstein_distance(a, b, weight) / b.std() for a, b in columns])


def ks(draws: np.ndarray, truth: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Kolmogorov-Smirnov distance of each coordinate's draws (M, D), weighted or not, to (L, D): (D,)."""
    share = np.full(len(draws), 1.0 / len(draws)) if weight is None else weight / weight.sum()
    distances = np.empty(draws.shape[1])
    for d, (column, right) in enumerate(zip(draws.T, np.sort(truth, axis=0).T, strict=True)):
        order = np.argsort(column)
        below = np.append(0.0, np.cumsum(share[order]))
        at = np.concatenate([column, right])
        ours = below[np.searchsorted(column[order], at, side="right")]
        distances[d] = np.abs(ours - np.searchsorted(right, at, side="right") / len(right)).max()
    return distances


def quantiles(
    draws: np.ndarray, probabilities: tuple[float, ...], weight: np.ndarray | None = None
) -> np.ndarray:
    """(Q, D), of draws (M, D), weighted or not; between draws by straight lines.

    Weights may be below 0, as of signed draws: the distribution function is then the least that never falls.
    """
    share = np.full(len(draws), 1.0 / len(draws)) if weight is None else weight / weight.sum()
    values = np.empty((len(probabilities), draws.shape[1]))
    for d, column in enumerate(draws.T):
        order = np.argsort(column)
        below = np.maximum.accumulate(np.cumsum(share[order]) - 0.5 * share[order])
        values[:, d] = np.interp(probabilities, below, column[order])
    return values


def coverage(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Share of the posterior's draws (L, D) between low and high, (D,) each."""
    return ((truth >= low) & (truth <= high)).mean(axis=0)


def ksd(draws: np.ndarray, scores: np.ndarray, root: np.ndarray) -> float:
    """Kernel Stein discrepancy, squared, of draws (M, D), by its U-statistic; about 0 for exact ones.

    scores: ∇ log p at the draws, (M, D).  root: R with R Rᵀ the posterior's precision, which whitens both.
    Kernel (1 + r²)^-½ (Gorham & Mackey 2017).  The V-statistic adds the diagonal, |score|² + D, which is
    nearly all of it and is smaller for draws that are too narrow: it ranks them above exact ones.
    """
    terms, n = stein_terms(draws, scores, root), len(draws)
    return float((terms.sum() - np.trace(terms)) / (n * (n - 1)))


def stein_terms(draws: np.ndarray, scores: np.ndarray, root: np.ndarray) -> np.ndarray:
    """The Stein kernel of every pair of draws, (M, M): means of it over pairs are the statistics above."""
    (n, size), beta = draws.shape, -0.5
    y, s = draws @ root, np.linalg.solve(root, scores.T).T
    terms = np.empty((n, n))
    for i in range(n):
        away, slope = y[i] - y, s[i] - s
        square = (away**2).sum(axis=1)
        b = 1.0 + square
        terms[i] = (s @ s[i]) * b**beta - 2 * beta * (slope * away).sum(axis=1) * b ** (beta - 1)
        terms[i] -= 2 * beta * size * b ** (beta - 1) + 4 * beta * (beta - 1) * square * b ** (beta - 2)
    return terms


def stein_test(terms: np.ndarray, seed: int = 0, times: int = 1_000) -> float:
    """P value of independent draws being the posterior's, by the pairs' kernel, (M, M): the share of random
    signs of the draws whose U-statistic is as large (Liu, Lee & Jordan 2016; Chwialkowski et al. 2016).
    """
    pairs = terms - np.diag(np.diag(terms))
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (times, len(pairs)))
    drawn = np.einsum("kn,kn->k", signs @ pairs, signs)
    return float((1 + (drawn >= pairs.sum()).sum()) / (1 + times))
