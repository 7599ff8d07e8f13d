"""Models of global and local variables, q(φ) conjugate: (5.1) and Figure 5.1 of the survey.

p(φ) Π_n p(z_n | φ) p(x_n | z_n, φ). q(φ) is of the prior's family, its natural parameters are one vector.
Given q(φ) the best q(z_n) is in closed form, or by quadrature, and row n adds the statistics E t(z_n, x_n) to
the parameters. Angelino, Johnson & Adams (2016).
"""

from typing import NamedTuple, Protocol

import numpy as np


class Local(NamedTuple):
    """What rows say at q(φ), each with its best q(z_n)."""

    statistics: np.ndarray  # (M,): Σ E t(z_n, x_n)
    bound: float  # Σ E[log p(x_n, z_n | φ) − log q(z_n)]


class Hierarchy(Protocol):
    """Data bound to a model. `natural` are natural parameters of q(φ), (M,)."""

    n_data: int
    prior: np.ndarray  # (M,): natural parameters of p(φ)
    least_free_energy: float | None = None  # of any q(φ), where that is known

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Natural parameters to begin with, (M,)."""
        ...

    def local(self, natural: np.ndarray, index: np.ndarray) -> Local:
        """Of the rows index, (b,): b queries."""
        ...

    def divergence(self, natural: np.ndarray) -> float:
        """KL(q(φ) ‖ p(φ))."""
        ...

    def estimates(self, natural: np.ndarray) -> dict[str, float]:
        """How good q(φ) is, by functional."""
        ...


def free_energy(model: Hierarchy, natural: np.ndarray) -> float:
    """−ELBO at the best q(z): above −log p(x) by KL(q ‖ posterior)."""
    return model.divergence(natural) - model.local(natural, np.arange(model.n_data)).bound
