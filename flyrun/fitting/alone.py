"""The part of a likelihood that auxiliary numbers have alone, of all rows, at draws that read few."""

import numpy as np

from flyrun.fitting.alike_rows import MANY
from flyrun.fitting.rows_posterior import Posterior

_EVALUATIONS = 20_000_000  # of targets × draws; beyond, a polynomial of the draws is fitted
_DEGREE, _NEAR = 5, 1e-3  # of it in each number, and the nats to which it must be true
_TRIED = 8  # draws at which it is, from the nearest to the farthest


def beyond(posterior: Posterior, at: np.ndarray, x: np.ndarray) -> np.ndarray | None:
    """By how much this part of all rows, at draws x (S, P), is beyond its second order about `at` (P,), (S,).

    None where there is none, or it would cost too much, or rows are few: far draws need what cancels in them.
    """
    if posterior.alike is None or posterior.bounds or len(posterior.rows) < MANY:
        return None
    its, a = posterior.alone_at(at), x[:, posterior.n_coefficients :]
    dear = len(posterior.alike[0]) * len(x) > _EVALUATIONS
    if dear and not posterior.family.alone_of_logs:
        return None
    values = _fitted(posterior, x) if dear else posterior.alone(x)
    return None if values is None else values - its.value - its.change(a)


def _fitted(posterior: Posterior, x: np.ndarray) -> np.ndarray | None:
    """The part at draws x (S, P), (S,), by a polynomial of auxiliary numbers; None where that is not true."""
    a = x[:, posterior.n_coefficients :]
    low, high = a.min(axis=0), a.max(axis=0)
    z = 2.0 * (a - low) / (high - low) - 1.0
    roots = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    nodes = np.stack([each.ravel() for each in np.meshgrid(*[roots] * a.shape[1])], axis=1)
    there = np.zeros((len(nodes), x.shape[1]))
    there[:, posterior.n_coefficients :] = low + (nodes + 1.0) * (high - low) / 2.0
    coefficients = np.linalg.solve(_products(nodes), posterior.alone(there))
    tried = np.argsort(np.abs(z).max(axis=1))[np.linspace(0, len(x) - 1, _TRIED).astype(int)]
    values = _products(z) @ coefficients
    return values if np.abs(values[tried] - posterior.alone(x[tried])).max() < _NEAR else None


def _products(z: np.ndarray) -> np.ndarray:
    """Products of Chebyshev polynomials of numbers z (n, A), (n, ·)."""
    out = np.ones((len(z), 1))
    for each in z.T:
        out = (out[:, :, None] * np.polynomial.chebyshev.chebvander(each, _DEGREE)[:, None]).reshape(
            len(z), -1
        )
    return out
