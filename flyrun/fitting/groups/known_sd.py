"""Groups whose effects have a known sd: coefficients of a category's levels, under one normal prior.

Rows ahead of the first group have no effect, as those of a category's reference level. No number of x tells
how much effects differ.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from flyrun.fitting.groups import effects
from flyrun.fitting.groups.crossed import Columns, CrossedPosterior
from flyrun.fitting.groups.integrated_out import GroupedPosterior
from flyrun.fitting.proposal import Mixture, freedom
from flyrun.fitting.rows_posterior import Expansion, Posterior


@dataclass
class KnownSd(CrossedPosterior):
    """x (P,): the coefficients, the auxiliary numbers, and effects of a crossed factor, whose codes are −1 in
    rows without one. known_sd: of the other effects.
    """

    known_sd: float = 1.0

    def __post_init__(self) -> None:
        """Work out sizes."""
        super().__post_init__()
        self.after = self.before
        self.size = self.before + self.levels_crossed

    @cached_property
    def ahead(self) -> Posterior:
        """Of the rows without an effect, but for what depends on auxiliary numbers alone."""
        some, every = slice(0, int(self.starts[0])), self.rows.features
        rows = replace(self.rows, features=every[:0]).take(some)
        rows = replace(rows, features=every.part(some) if isinstance(every, Columns) else every[some])  # type: ignore[arg-type]
        family = replace(self.family, alone_derivatives=None)
        return Posterior(family, rows, self.prior, self.levels, self.sd)

    @cached_property
    def wide(self) -> GroupedPosterior:
        """With coefficients of the crossed levels ahead of the others."""
        how = (
            self.family,
            replace(self.rows, features=self.indicated),
            self._prior(np.log(self.known_crossed)),
        )
        return KnownSd(*how, self.levels, self.sd, starts=self.starts, known_sd=self.known_sd)

    def _widened(self, x: np.ndarray) -> np.ndarray:
        """x (S, P) as `wide` has it."""
        return np.roll(x, self.levels_crossed, axis=1)

    def h(self, x: np.ndarray) -> np.ndarray:
        """The log of the sd, (..., 1), whatever x (..., P) is."""
        return np.full((*x.shape[:-1], 1), np.log(self.known_sd))

    def linear_part(self, x: np.ndarray) -> np.ndarray:
        """As of the base class, of x (..., P)."""
        return np.concatenate([x[..., : self.width] - self.prior.mean, x[..., self.before :]], axis=-1)

    def log_prior(self, x: np.ndarray) -> np.ndarray:
        """(S,) of x (S, P)."""
        z = x[:, self.before :] / self.known_crossed
        level = self.levels_crossed * np.log(self.known_crossed * np.sqrt(2.0 * np.pi))
        return Posterior.log_prior(self, x) - 0.5 * (z * z).sum(axis=1) - level

    def prior_at(self, x: np.ndarray) -> Expansion:
        """The log prior to second order about x, (P,)."""
        return Posterior.prior_at(self, x)

    def start(self) -> np.ndarray:
        """As of ungrouped rows, (P,)."""
        rows, x = self.rows, np.zeros(self.size)
        p = self.family.start(rows.target, *(rows.whole(name) for name in ("trials", "offset", "weights")))
        x[self.width - 1], x[self.n_coefficients : self.before] = p[0], p[1:]
        return x

    def proposal(self) -> Mixture:  # type: ignore[override]
        """About the mode."""
        if not self.by_grid:
            return GroupedPosterior.proposal(self)
        wide, order = self.wide, np.roll(np.arange(self.size), -self.levels_crossed)
        wide.nodes, wide.steps = self.nodes, self.steps
        its = wide.proposal()
        assert isinstance(its, Mixture)
        shape = (its.root @ its.root.T)[np.ix_(order, order)]
        return Mixture.of(its.centre[order], shape, freedom(self.size))

    def by_nodes(self, x: np.ndarray, nodes: int) -> np.ndarray:
        """(S,) of x (S, P), by so many nodes of an effect."""
        if not self.by_grid:
            return GroupedPosterior.by_nodes(self, x, nodes) + self.ahead.log_likelihood(x)
        wide = self.wide
        wide.nodes, wide.steps = self.nodes, self.steps
        values = wide.by_nodes(self._widened(x), nodes)
        self.queries, wide.queries = self.queries + wide.queries, 0
        return values

    def effects_at(self, x: np.ndarray, seed: int) -> np.ndarray:
        """As of the base class, of x (S, P)."""
        return (
            effects.draw(self.wide, self._widened(x), seed) if self.by_grid else effects.draw(self, x, seed)
        )

    def likelihood_at(self, x: np.ndarray) -> Expansion:
        """The log likelihood to second order about x, (P,); nodes as of the base class."""
        its, more = super().likelihood_at(x), self.ahead.likelihood_at(x)
        slope, curvature = its.slope + more.slope, its.curvature + more.curvature
        return Expansion(x, its.value + more.value, slope, curvature)
