"""Noisy gradients of the evidence lower bound L = E_q log p̃ + H[q], H[q] = −E_q log q, of Gaussians q.

By scores, from values of log p̃ alone (Ranganath, Gerrish & Blei 2014), or by reparameterisation, from its
slopes (Kucukelbir, Tran, Ranganath, Gelman & Blei 2017). All are means over S draws; all are unbiased but
for `control`.
"""

from typing import Literal

import numpy as np

Baseline = Literal["none", "rao_blackwell", "control", "leave_one_out"]


def by_scores(
    baseline: Baseline, noise: np.ndarray, log_sd: np.ndarray, shared: np.ndarray, separate: np.ndarray
) -> np.ndarray:
    """∇L by mean and log sd of independent coordinates, (2P,), from draws θ = μ + noise·sd.

    noise: (S, P); log_sd: (P,).  shared: Σ log L_n, (S,).  separate: terms of one coordinate alone, (S, P):
    its log prior − log q.  With f = log p̃ − log q and the scores h = ∇log q the estimates are
      none: mean f·h (the survey's Algorithm 18);
      rao_blackwell: of f only the terms that contain the coordinate;
      control: the same less a*·h, a* = Cov(fh, h)/Var h over the same draws, so biased by O(1/S);
      leave_one_out: the same, f less its mean over all other draws: unbiased.
    """
    score = np.hstack([noise * np.exp(-log_sd), noise**2 - 1])
    if baseline == "none":
        return (shared + separate.sum(axis=1)) @ score / len(noise)
    signal = np.tile(shared[:, None] + separate, 2)
    if baseline == "leave_one_out":
        return ((signal - signal.mean(axis=0)) * score).sum(axis=0) / (len(noise) - 1)
    product = signal * score
    if baseline == "control":
        apart = score - score.mean(axis=0)
        product = product - (apart * product).sum(axis=0) / (apart**2).sum(axis=0) * score
    return product.mean(axis=0)


def by_slopes(noise: np.ndarray, slopes: np.ndarray, log_sd: np.ndarray) -> np.ndarray:
    """∇L by mean and log sd of independent coordinates, (2P,), from draws θ = μ + noise·sd.

    noise: (S, P); slopes: ∇log p̃ there, (S, P). The entropy is in closed form: its slope by log sd is 1.
    """
    wider = slopes * noise * np.exp(log_sd)
    return np.concatenate([slopes.mean(axis=0), wider.mean(axis=0) + 1])


def by_slopes_full(noise: np.ndarray, slopes: np.ndarray, log_diagonal: np.ndarray) -> np.ndarray:
    """∇L by mean, logarithms of L's diagonal and L below it, row by row, from draws θ = μ + L·noise.

    Shapes as in `by_slopes`; the answer is (2P + P(P−1)/2,).
    """
    below = (slopes.T @ noise)[np.tril_indices(noise.shape[1], -1)] / len(noise)
    return np.concatenate([by_slopes(noise, slopes, log_diagonal), below])


def entropy(log_sd: np.ndarray) -> float:
    """H[q] of a Gaussian, from the logarithms of its sds or of its root's diagonal, (P,)."""
    return float(log_sd.sum()) + 0.5 * len(log_sd) * (1 + np.log(2 * np.pi))
