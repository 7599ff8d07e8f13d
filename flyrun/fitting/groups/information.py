"""Second derivatives of a likelihood by coefficients and terms' effects, as sparse designs give them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

Matrix = np.ndarray | sparse.csr_matrix
#: of rows, (N,), by two predictors
Curvatures = dict[tuple[int, int], np.ndarray]


@dataclass
class Information:
    """inner: of coefficients and effects of all terms but the largest, with these effects' priors; cross: of
    the largest term's effects and these, sparse; information: the largest's, (q, q, J); inverse: of that with
    the prior's, sparse.
    """

    inner: np.ndarray
    cross: "sparse.csr_matrix"
    information: np.ndarray
    inverse: "sparse.bsr_matrix"

    @cached_property
    def freed(self) -> "sparse.csr_matrix":
        """By how much the largest term's effects fall with the others."""
        return (self.inverse @ self.cross).tocsr()

    @property
    def left(self) -> np.ndarray:
        """`inner` once the largest term is integrated out."""
        return self.inner - (self.cross.T @ self.freed).toarray()


def products(
    first: dict[int, sparse.csr_matrix], other: dict[int, sparse.csr_matrix], curvatures: Curvatures
) -> sparse.csr_matrix:
    """Σ A'WB of designs by predictor, sparse."""
    return sum(first[j].T @ other[k].multiply(w[:, None]).tocsr() for (j, k), w in curvatures.items()).tocsr()


def diagonal(matrix: "np.ndarray | sparse.spmatrix", levels: int, q: int) -> np.ndarray:
    """Blocks on the diagonal of a (J·q, J·q) matrix, sparse or dense, (q, q, J)."""
    if levels == 1:
        return sparse.csr_matrix(matrix).toarray()[..., None]
    at = np.arange(levels) * q
    parts = [[np.asarray(matrix[at + i, at + k]).ravel() for k in range(q)] for i in range(q)]
    return np.array(parts)


def positive(information: np.ndarray) -> np.ndarray:
    """(q, q, J) without negative eigenvalues."""
    values, vectors = np.linalg.eigh(information.transpose(2, 0, 1))
    return np.einsum("jik,jk,jlk->ilj", vectors, values.clip(0.0), vectors)
