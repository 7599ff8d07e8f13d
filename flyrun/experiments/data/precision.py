"""Precision matrices of unit diagonal, generated, with a potential.

Recipe, c the coupling: random, (1 − c)I + cR with R the correlations of n standard normal vectors of length
n; equicorrelated, (1 − c)I + c11ᵀ; grid, −c/4 between nearest neighbours of a square. The potential h is
standard normal.
"""

import json
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import dataset as options
from flyrun.experiments.data.grid import grid_edges
from flyrun.ground import archive


class Precision(NamedTuple):
    """matrix: (n, n), symmetric, positive definite, unit diagonal.  potential: (n,), h of mean 𝒥⁻¹h."""

    matrix: np.ndarray
    potential: np.ndarray


def load(config: options.graph_data.Precision) -> Precision:
    """The matrix and potential of a config."""
    stream = np.random.RandomState(config.seed)  # whose streams are frozen for good
    matrix = LAWS[config.law](stream, config.n_variables, config.coupling)
    return Precision(matrix, stream.standard_normal(config.n_variables))


def fingerprint(config: options.graph_data.Precision) -> str:
    """Digest of the recipe's numbers."""
    recipe = ["precision", config.law, config.n_variables, config.coupling, config.seed]
    return archive.sha256(json.dumps(recipe).encode())


def random_matrix(stream: np.random.RandomState, n: int, coupling: float) -> np.ndarray:
    """(n, n): (1 − c)I + cR."""
    factors = stream.standard_normal((n, n))
    factors /= np.sqrt((factors**2).sum(axis=1, keepdims=True))
    matrix = coupling * (factors @ factors.T)
    matrix = 0.5 * (matrix + matrix.T)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def _equicorrelated(stream: np.random.RandomState, n: int, coupling: float) -> np.ndarray:
    return (1.0 - coupling) * np.eye(n) + coupling


def _grid(stream: np.random.RandomState, n: int, coupling: float) -> np.ndarray:
    matrix, (i, j) = np.eye(n), grid_edges(round(n**0.5)).T
    matrix[i, j] = matrix[j, i] = -0.25 * coupling
    return matrix


LAWS = {"random": random_matrix, "equicorrelated": _equicorrelated, "grid": _grid}
