"""Stochastic variational inference of logistic regression with the bounds of Jaakkola & Jordan (1997).

Natural gradients in minibatches (Hoffman, Blei, Wang & Paisley 2013): with ξ_n² = x_nᵀ(S + mmᵀ)x_n and
λ(ξ) = tanh(ξ/2)/(4ξ), S⁻¹ ← (1−ρ)S⁻¹ + ρ(P₀ + 2(N/b)Σλ_n x_n x_nᵀ) and S⁻¹m ← (1−ρ)S⁻¹m + ρ(N/b)Σ½t_n x_n,
ρ_t = (delay + t)^(−decay). The bounds are too narrow: so is the Gaussian that they end in.
"""

from typing import Any

import numpy as np

from flyrun.models.logistic import tight_at
from flyrun.models.problem import Problem
from flyrun.numerics.state import generator, generator_state
from flyrun.samplers.approximations import method
from flyrun.samplers.approximations.method import StreamedGaussian
from flyrun.samplers.batches import batches_of, rows_of
from flyrun.samplers.method import Facts, Method, Records, State


def build(arm: Any, problem: Problem) -> Method:
    """The method of an arm."""
    return SviJaakkolaJordan(arm, problem, batches_of(arm, len(problem.features.rows)))


class SviJaakkolaJordan(StreamedGaussian):
    """A step reads a batch, b queries."""

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more steps."""
        sampler, scale = self.arm.sampler, self.batches.factor
        rng, key, first = generator(state["rng"]), int(state["key"][0]), int(state["step"][0])
        precision, linear, queries = state["precision"], state["linear"], np.empty(n)
        for k in range(n):
            index = self.batches.rows(first + k, rng, key)
            _, features = rows_of(self.arm, self.problem, index)
            rows = features.rows.astype(np.float64)  # t_n x_n
            rate = (sampler.delay + first + k) ** -sampler.decay
            square = (rows @ np.linalg.solve(precision, linear)) ** 2
            square += np.einsum("nd,dn->n", rows, np.linalg.solve(precision, rows.T))
            bound = -2.0 * tight_at(np.sqrt(square)).curve[:, 0]  # 2λ
            curved = rows.T @ (rows * (scale * bound)[:, None])
            precision = (1 - rate) * precision + rate * (self.prior_precision + (curved + curved.T) / 2)
            linear = (1 - rate) * linear + rate * scale * 0.5 * rows.sum(axis=0)
            queries[k] = len(index)
        new = {"precision": precision, "linear": linear, "rng": generator_state(rng)}
        return {**state, **new, "step": state["step"] + n}, {"queries": queries}

    def facts(self, state: State | None = None) -> Facts:
        """As in the base class."""
        return method.facts(self.arm, self.problem, "SVI, Jaakkola-Jordan", False, 0, 0.0)
