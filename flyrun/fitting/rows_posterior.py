"""The posterior of a table's coefficients and auxiliary numbers: density and derivatives, by blocks of rows.

x, (P,), holds the coefficients of each linear predictor in turn, then the auxiliary numbers without bounds;
of one that has columns its coefficients, the intercept last. Densities of rows are counted: `queries`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from flyrun.families.bounded_priors import Bounded
from flyrun.families.cutpoint_priors import OfCutpoints
from flyrun.families.family import Auxiliary, Family
from flyrun.families.prior_densities import Prior
from flyrun.fitting.alike_rows import alike
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.table_rows import Design, Rows, as_column
from flyrun.ground.children import cores
from flyrun.ground.numerics.special import Numbers
from flyrun.ground.threads import in_order

T = TypeVar("T")

_NUMBERS = 1 << 19  # predictors of a block: they stay in a core's cache
_ROWS = 8_192  # of a block where derivatives are wanted


@dataclass
class Expansion:
    """Second order about a point x0: value, slope (P,) and minus the second derivatives (P, P)."""

    at: np.ndarray
    value: float
    slope: np.ndarray
    curvature: np.ndarray

    def change(self, x: np.ndarray) -> np.ndarray:
        """By how much the function changes from x0 to x, (S,), as far as this knows."""
        away = x - self.at
        return away @ self.slope - 0.5 * ((away @ self.curvature) * away).sum(axis=1)


@dataclass
class Within(Expansion):
    """By free numbers a of an expansion by bounded ones, whose change it tells. natural: a to these."""

    of: Expansion
    natural: Callable[[np.ndarray], np.ndarray]

    def change(self, x: np.ndarray) -> np.ndarray:
        """By how much the function changes from x0 to x, (S,): quadratic in the bounded numbers."""
        return self.of.change(self.natural(x))


@dataclass
class Posterior:
    """Of rows under a family and priors. levels: of the target, 0 of numbers; auxiliary: their priors.

    slopes: of each auxiliary number that has columns the priors of their coefficients, all but the intercept,
    whose prior is the number's; places: where each predictor's numbers are in x.
    """

    family: Family
    rows: Rows
    prior: CoefficientPrior
    levels: int = 0
    sd: float = 1.0
    queries: int = 0
    slopes: tuple[tuple[Prior, ...], ...] = ()
    auxiliary: tuple[Auxiliary, ...] = field(init=False)
    _counting: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Work out sizes, and which rows are alike."""
        self.auxiliary = self.family.auxiliary(self.levels, self.sd)
        self.linear = self.family.linear(self.levels)
        self.width = self.rows.features.shape[1]
        self.n_coefficients = self.linear * self.width
        designs = self.rows.designs or (None,) * len(self.auxiliary)
        widths = [self.width] * self.linear + [1 if its is None else its.features.shape[1] for its in designs]
        places, self.size = dict[int, slice](), 0
        for k in self.in_order(len(widths)):
            places[k] = slice(self.size, self.size + widths[k])
            self.size += widths[k]
        self.places = [places[k] for k in range(len(widths))]
        # the prior of an auxiliary number is its intercept's, the last of its own
        further = self.places[self.linear :]
        pairs = zip(further, self.auxiliary, strict=True)
        self.singles: list[tuple[Any, Prior | OfCutpoints]]  # a place, or a slice of a prior of several
        self.singles = [(place.stop - 1, number.prior) for place, number in pairs]
        if self.family.of_cutpoints:
            self.singles = [(slice(self.n_coefficients, self.size), self.family.of_cutpoints)]
        for place, priors in zip(further, self.slopes, strict=False):
            self.singles += [(place.start + d, prior) for d, prior in enumerate(priors)]
        every = [*self.prior.others, *self.singles]
        self.bounds = [(place, prior) for place, prior in every if isinstance(prior, Bounded)]
        of_logs = self.family.alone_of_logs
        self.alike = alike(self.rows, of_logs) if self.family.alone_derivatives else None

    def in_order(self, predictors: int) -> Sequence[int]:
        """Of so many predictors, linear ones first, the order of their numbers in x."""
        return range(predictors)

    def predictors(self, rows: Rows, x: np.ndarray) -> list[np.ndarray]:
        """Of rows as `take` gives them at x (S, P): K arrays, of linear ones (n, S), of others (S,)."""
        offset, x = rows.offset[:, None] if np.ndim(rows.offset) else rows.offset, self.natural(x)
        blocks = (x[:, place] for place in self.places[: self.linear])
        others = self.auxiliaries(x)
        for k, its in enumerate(rows.designs):
            if its is not None:
                others[k] = its.features @ x[:, self.places[self.linear + k]].T + as_column(its.offset)
        return [rows.features @ block.T + offset for block in blocks] + others

    def predictors_each(self, rows: Rows, x: np.ndarray) -> list[np.ndarray]:
        """Of rows as `take` gives them each at its row of x (n, P): K arrays (n,)."""
        further, x = rows.designs or (None,) * len(self.auxiliary), self.natural(x)
        designs = (*[Design(rows.features, rows.offset)] * self.linear, *further)
        return [
            x[:, place.start]
            if design is None
            else np.einsum("nd,nd->n", design.features, x[:, place]) + design.offset
            for place, design in zip(self.places, designs, strict=True)
        ]

    def natural(self, x: np.ndarray) -> np.ndarray:
        """x (..., P) with coefficients that have bounds in place of what is free of these."""
        x = x.copy() if self.bounds else x
        for place, prior in self.bounds:
            x[..., place] = prior.number(x[..., place])
        return x

    def free(self, x: np.ndarray) -> np.ndarray:
        """The inverse of `natural`."""
        x = x.copy() if self.bounds else x
        for place, prior in self.bounds:
            x[..., place] = prior.free(x[..., place])
        return x

    def auxiliaries(self, x: np.ndarray) -> list[np.ndarray]:
        """The auxiliary numbers in x (S, P), (S,) each; of one that has columns its intercept."""
        return [x[:, place.stop - 1] for place in self.places[self.linear :]]

    def others(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """What x (..., P) holds beside these two, as people read it, (...) each by name: here nothing."""
        return {}

    def codes(self) -> list[np.ndarray]:
        """Each row's level, (N,), in the table's order, of each factor of the formula: here there is none."""
        return []

    def other_priors(self) -> list[dict[str, str]]:
        """The priors of what `others` tells, a row each."""
        return []

    def blocks(self, size: int) -> Iterator[slice]:
        """All rows, so many at a time."""
        return (slice(first, first + size) for first in range(0, len(self.rows), size))

    def by_blocks(self, work: Callable[[slice], T], size: int) -> Iterator[T]:
        """work(block) of all rows, in order, on all cores where there are several blocks."""
        return in_order(work, self.blocks(size), cores() if len(self.rows) > size else 1)

    def thinned(self, step: int) -> "Posterior":
        """Of every so many-th row alone."""
        rows = self.rows.take(slice(None, None, step))
        return Posterior(self.family, rows, self.prior, self.levels, self.sd, slopes=self.slopes)

    # -- values --------------------------------------------------------------------------------------------

    def log_prior(self, x: np.ndarray) -> np.ndarray:
        """(S,) of x (S, P)."""
        total = self.prior.log_density(x[:, : self.n_coefficients])
        for place, prior in self.singles:
            total = total + prior.log_density(x[:, place])
        return total

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """(S,) of x (S, P), by all rows; −inf where it is no number."""
        total = np.zeros(len(x))
        with np.errstate(all="ignore"):
            for block in self.blocks(max(64, _NUMBERS // len(x))):
                rows = self.rows.take(block)
                y, trials = as_column(rows.target), as_column(rows.trials)
                each = self.family.log_density(y, trials, self.predictors(rows, x))
                total += rows.weights @ each if np.ndim(rows.weights) else rows.weights * np.sum(each, axis=0)
            total += self.alone(x)
        self.queries += len(x) * len(self.rows)
        return np.where(np.isnan(total), -np.inf, total)

    def alone(self, x: np.ndarray) -> np.ndarray:
        """The part that auxiliary numbers have alone, (S,) of x (S, P)."""
        if self.alike is None:
            return np.zeros(len(x))
        y, trials, weights = self.alike
        step, parts = max(1, _NUMBERS // (8 * max(1, len(y)))), []
        for first in range(0, len(x), step):
            a = self.auxiliaries(x[first : first + step])
            parts.append(
                weights
                @ np.broadcast_to(self.family.alone(y[:, None], trials[:, None], a), (len(y), len(a[0])))
            )
        return np.concatenate(parts)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(S,) of x (S, P): prior and likelihood, up to terms of the target alone."""
        return self.log_prior(x) + self.log_likelihood(x)

    def of_rows(self, rows: Rows, predictors: list[np.ndarray], whole: bool = True) -> np.ndarray:
        """Log likelihood at predictors of their own, (n,) or (n, S), of rows; or without what is `alone`."""
        with np.errstate(all="ignore"):
            log_p = self.family.log_density(rows.target, rows.trials, predictors)
            if whole:
                log_p = log_p + self.family.alone(rows.target, rows.trials, predictors[self.linear :])
        with self._counting:  # several threads come here
            self.queries += np.size(log_p)
        return rows.weights * log_p

    def value_and_slope(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density (S,) and its slope (S, P) at x (S, P), by all rows."""
        n = self.n_coefficients
        total, slope = self.log_prior(x), np.empty(x.shape)
        slope[:, :n] = self.prior.derivatives(x[:, :n])[0]
        for place, prior in self.singles:
            slope[:, place] = prior.derivatives(x[:, place])[0]
        of_priors = [slope[:, place].copy() for place, _ in self.bounds]
        with np.errstate(all="ignore"):
            for block in self.blocks(max(64, _NUMBERS // len(x))):
                rows = self.rows.take(block)
                y, trials, weights = (as_column(v) for v in (rows.target, rows.trials, rows.weights))
                p = self.predictors(rows, x)
                log_p, slopes = self._value_and_slopes(y, trials, p)
                total += (weights * log_p).sum(axis=0)
                for j, each in enumerate(slopes):
                    whole = np.broadcast_to(weights * each, (len(rows), len(x)))
                    columns = self._columns(rows, j)
                    slope[:, self.places[j]] += (
                        whole.sum(axis=0)[:, None] if columns is None else whole.T @ columns
                    )
            if self.alike is not None:
                y, trials, weights = (value[:, None] for value in self.alike)
                a = self.auxiliaries(x)
                total += (weights * self.family.alone(y, trials, a)).sum(axis=0)
                for j, each in enumerate(self.family.alone_derivatives(y, trials, a)[0]):  # type: ignore[misc]
                    slope[:, n + j] += (weights * each).sum(axis=0)
            for (place, prior), part in zip(self.bounds, of_priors, strict=True):  # rows' is by the number
                pace = prior.changes(x[:, place])[0]
                slope[:, place] = part + pace * (slope[:, place] - part)
        self.queries += len(x) * len(self.rows)
        return np.where(np.isnan(total), -np.inf, total), slope

    def _value_and_slopes(
        self, y: Numbers, trials: Numbers, p: list[np.ndarray]
    ) -> tuple[Numbers, Sequence[Numbers] | np.ndarray]:
        """log_density and its slopes by K predictors p, (n, S) of linear ones."""
        if self.family.second_order is None:
            return self.family.log_density(y, trials, p), self._slopes(y, trials, p)
        value, (slopes, _) = self.family.second_order(y, trials, p)
        return value, slopes

    def _slopes(self, y: Numbers, trials: Numbers, p: list[np.ndarray]) -> Sequence[Numbers] | np.ndarray:
        """By each of K predictors p, (n, S) of linear ones, without second derivatives where it can be."""
        if self.family.slopes_into is None:
            return self.family.derivatives(y, trials, p)[0]
        out = np.empty((len(p), *p[0].shape))
        self.family.slopes_into(y, trials, p, out)
        return out

    # -- derivatives ---------------------------------------------------------------------------------------

    def row_derivatives(
        self, rows: Rows, predictors: list[Any], whole: bool = True
    ) -> tuple[list[Any], list[list[Any]]]:
        """Slopes by K predictors and minus second derivatives, K by K, of rows, weighted, as `of_rows`."""
        with np.errstate(all="ignore"):
            derivatives = self.family.derivatives(rows.target, rows.trials, predictors)
            slopes = [rows.weights * value for value in derivatives[0]]
            curvatures = [[rows.weights * value for value in line] for line in derivatives[1]]
            if self.family.alone_derivatives and whole:
                more = self.family.alone_derivatives(rows.target, rows.trials, predictors[self.linear :])
                for j, slope in enumerate(more[0]):
                    slopes[self.linear + j] = slopes[self.linear + j] + rows.weights * slope
                    for k, value in enumerate(more[1][j]):
                        into = curvatures[self.linear + j]
                        into[self.linear + k] = into[self.linear + k] + rows.weights * value
        return slopes, curvatures

    def likelihood_at(self, x: np.ndarray) -> Expansion:
        """The log likelihood to second order about x, (P,), by all rows."""
        value, slope, curvature = 0.0, np.zeros(self.size), np.zeros((self.size, self.size))
        for some in self.by_blocks(lambda block: self._second_order(block, x), _ROWS):
            value, slope, curvature = value + some.value, slope + some.slope, curvature + some.curvature
        if self.alike is not None:
            its, n = self.alone_at(x), self.n_coefficients
            value, slope[n:], curvature[n:, n:] = (
                value + its.value,
                slope[n:] + its.slope,
                curvature[n:, n:] + its.curvature,
            )
        self.queries += len(self.rows)
        upper = np.triu(curvature)  # blocks on the diagonal came whole
        its = Expansion(x, value, slope, upper + np.triu(upper, 1).T)
        return self._within(its) if self.bounds else its

    def alone_at(self, x: np.ndarray) -> Expansion:
        """To second order by auxiliary numbers, (A,), the part that these have alone; there must be one."""
        assert self.alike is not None
        assert self.family.alone_derivatives is not None
        y, trials, weights = self.alike
        a = x[self.n_coefficients :]
        slopes, curvatures = self.family.alone_derivatives(y, trials, list(a))
        value = float(np.sum(weights * self.family.alone(y, trials, list(a))))
        slope = np.array([np.sum(weights * each) for each in slopes])
        return Expansion(
            a, value, slope, np.array([[np.sum(weights * c) for c in row] for row in curvatures])
        )

    def _within(self, its: Expansion) -> Expansion:
        """What is to second order by coefficients, those with bounds by what is free of these."""
        pace, bend = np.ones(self.size), np.zeros(self.size)
        for place, prior in self.bounds:
            pace[place], bend[place] = prior.changes(its.at[place])
        curvature = pace[:, None] * its.curvature * pace - np.diag(bend * its.slope)
        by_number = Expansion(self.natural(its.at), its.value, its.slope, its.curvature)
        return Within(its.at, its.value, pace * its.slope, curvature, by_number, self.natural)

    def _second_order(self, block: slice, x: np.ndarray) -> Expansion:
        """What some rows give at x (P,), but for auxiliary numbers alone; no curvature is given twice."""
        value, slope, curvature = 0.0, np.zeros(self.size), np.zeros((self.size, self.size))
        rows = self.rows.take(block)
        p = [eta[:, 0] if eta.ndim > 1 else eta for eta in self.predictors(rows, x[None])]
        with np.errstate(all="ignore"):
            log_p, (slopes, curvatures) = self.family.to_second_order(rows.target, rows.trials, p)
            value = float(np.sum(rows.weights * log_p))
        n = len(rows)
        for j in range(len(p)):
            whole, columns = np.broadcast_to(rows.weights * slopes[j], (n,)), self._columns(rows, j)
            at = self.places[j]
            slope[at] = whole.sum() if columns is None else whole @ columns
            for k in range(j, len(p)):
                row_curvature = np.broadcast_to(rows.weights * curvatures[j][k], (n,))
                curvature[at, self.places[k]] = _between(columns, row_curvature, self._columns(rows, k))
        return Expansion(x, value, slope, curvature)

    def prior_at(self, x: np.ndarray) -> Expansion:
        """The log prior to second order about x, (P,)."""
        slope, curvature, n = np.empty(self.size), np.zeros((self.size, self.size)), self.n_coefficients
        slope[:n], of_coefficients = self.prior.derivatives(x[:n])
        curvature[:n, :n] = np.diag(of_coefficients)
        for place, prior in self.singles:
            slope[place], curvature[place, place] = prior.derivatives(x[place])
        return Expansion(x, float(self.log_prior(x[None])[0]), slope, curvature)

    def _columns(self, rows: Rows, k: int) -> np.ndarray | None:
        """What the k-th predictor of rows is linear in, (n, W); None of a number that is alike for all."""
        if k < self.linear:
            return rows.features
        design = rows.designs[k - self.linear] if rows.designs else None
        return None if design is None else design.features

    def start(self) -> np.ndarray:
        """Where a search for the mode begins, (P,): the intercept, or cutpoints, as if no column mattered."""
        rows = self.rows
        y, trials, offset = rows.target, rows.whole("trials"), rows.whole("offset")
        if self.family.intercept:  # its number is below 0 where a row is folded by a target that failed
            folded = rows.features[:, -1] < 0.0
            if folded.any():
                y, offset = np.where(folded, trials - y, y), np.where(folded, -offset, offset)
        p = self.family.start(y, trials, offset, rows.whole("weights"))
        x = np.zeros(self.size)
        if self.family.intercept:
            x[np.arange(self.linear) * self.width + self.width - 1] = p[: self.linear]
        x[[place.stop - 1 for place in self.places[self.linear :]]] = p[self.linear :]
        return x


def _between(a: np.ndarray | None, weights: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """aᵀ·diag(weights)·b, of columns (n, ·) or, where None, the column of ones; weights: (n,)."""
    if a is None:
        return np.full((1, 1), weights.sum()) if b is None else (weights @ b)[None]
    return (weights @ a)[:, None] if b is None else a.T @ (b * weights[:, None])
