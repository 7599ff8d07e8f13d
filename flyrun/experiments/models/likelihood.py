"""What a likelihood and its lower bound must offer.

Both work on a block of data: the data's indices, (n,), their linear predictors eta, (n, K), and room for the
results. `slopes` is room for the derivatives by η, (n, K), or None where only values are wanted: the two are
compiled apart.

Calling `log_likelihood` is what a likelihood query is; only targets (samplers/chain/targets) do so while a
chain runs, and they meter it.
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np

from flyrun.ground.numerics.compiled import generic, implements, inlined

M = TypeVar("M")


@inlined
def log_likelihood(model, index, eta, values, slopes):
    """values[i] = log L_n at eta[i], n = index[i]; slopes[i] = ∂ log L_n/∂η unless slopes is None."""


@inlined
def log_bound(bound, model, index, eta, values, slopes):
    """values[i] = log B_n at eta[i], B_n ≤ L_n; slopes[i] = ∂ log B_n/∂η unless slopes is None."""


@inlined
def enter(bound, theta):
    """Told before bounds are looked at, at which θ, (P,), for those that are not the same everywhere."""


implements(enter, object)(lambda bound, theta: None)


@generic
def bent(bound, model, block):
    """−∂² log B_n/∂η² of a block of data: (n,), or (n, K, K), or of K classes that all bend alike 1.0, short
    for ½(I − 11ᵀ/K). Python only."""


class Quadratic(NamedTuple):
    """The function −½ δᵀPδ + hᵀδ + c of δ = θ − m: what a product of Gaussian-shaped bounds collapses into.

    About m = 0 its terms may be millions of times what is left of their sum, as for small noise; near its top
    they are not (`at_top`).
    """

    precision: np.ndarray  # P, (P, P), symmetric
    centre: np.ndarray  # m, (P,)
    linear: np.ndarray  # h, (P,): the gradient at m
    constant: np.ndarray  # c, (1,): the value at m
    away: np.ndarray  # (P,): workspace, δ

    def curvature_times(self, step: np.ndarray) -> np.ndarray:
        """P·step, (D,)."""
        return self.precision @ step

    def with_ridge(self, ridge: float) -> "Quadratic":
        """With P + ridge·I in place of P."""
        return self._replace(precision=self.precision + np.eye(len(self.linear)) * ridge)

    def top(self) -> np.ndarray:
        """Where it is highest, (P,)."""
        return self.centre + np.linalg.solve(self.precision, self.linear)


def quadratic(precision: np.ndarray, linear: np.ndarray, constant: float) -> Quadratic:
    """Of P, (D, D), h, (D,), and c about m = 0."""
    centre, away = np.zeros(len(linear)), np.zeros(len(linear))
    return Quadratic(precision, centre, linear, np.array([float(constant)]), away)


def part(model: M, which: slice | np.ndarray) -> M:
    """The likelihood of some of its rows, a slice or indices (n,). Its arrays have an entry for each row."""
    whole: Any = model
    rows = {name: value[which] for name, value in whole._asdict().items() if isinstance(value, np.ndarray)}
    return whole._replace(**rows) if rows else model
