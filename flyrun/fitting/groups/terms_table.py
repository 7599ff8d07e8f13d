"""Any terms of groups of a table: their posterior by chains, told on the columns' scales."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from flyrun.families.prior_densities import Lkj, Normal
from flyrun.fitting.bars import Bar
from flyrun.fitting.groups import caveats, level_map, scales, stored_effects
from flyrun.fitting.groups.curves import Curves
from flyrun.fitting.groups.following import TermsPosterior
from flyrun.fitting.groups.stored_curves import Drawn
from flyrun.fitting.groups.term import Term
from flyrun.fitting.priors import Typed
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.smooths import Smooth
from flyrun.fitting.table_rows import Rows
from flyrun.ground.errors import ConfigError
from flyrun.tables.layout import Column, Layout

_MOST_INNER = 3_000  # effects of all terms but the largest, whose information is a dense matrix
_MOST_EFFECTS = 500_000  # draws of all are kept: 2 GB of so many


class Factor(NamedTuple):
    """A term of a formula: the groups' names, in order; columns: of its slopes; code: (N,) each row's; held:
    (J,) rows of each group, which are fewer where a row stands for many.

    places: of the columns among its formula's features; predictor: the place of what that explains among the
    family's predictors; usual: priors of sds where none is typed; into: (K-1, K-1), by how much the log odds
    of each of K classes against the first move predictors, if these are of classes.
    """

    bar: Bar
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    code: np.ndarray
    held: np.ndarray
    places: tuple[int, ...]
    predictor: int = 0
    usual: scales.Priors = scales.USUAL
    into: np.ndarray | None = None

    @property
    def centred(self) -> bool:
        """Whether slopes' columns are taken from their means: under a correlation that changes no model."""
        return self.bar.intercept and self.bar.correlated and bool(self.columns)

    @property
    def units(self) -> list[float]:
        """Of a class's effects: of an intercept 1, of slopes the sds of their columns."""
        return [*([1.0] if self.bar.intercept else []), *(column.sd for column in self.columns)]

    def own(self, target_sd: float) -> np.ndarray:
        """What takes sampled effects to those per unit of columns, intercepts where these are 0, (q, q)."""
        change = np.diag(1.0 / np.array(self.units))
        if self.centred:
            change[0, 1:] = [-column.mean / column.sd for column in self.columns]
        return np.kron(np.eye(len(self.bar.classes) or 1), self.unit(target_sd) * change)

    def unit(self, target_sd: float) -> float:
        """What sampled intercepts are in units of: the target's formula is of numbers that are divided."""
        return 1.0 if self.bar.of else target_sd

    def features(self, rows: Rows) -> np.ndarray:
        """What its formula's predictor is linear in, (N, W)."""
        design = rows.designs[self.predictor - 1] if self.predictor else None
        return rows.features if design is None else design.features

    def nesting(self) -> Iterator[tuple[str, np.ndarray]]:
        """The first of its columns, the first two and so on, joined, with each row's group of them, (N,)."""
        parts = [name.split(":") for name in self.names]
        for k in range(1, len(self.bar.columns) + 1):
            groups = [":".join(part[:k]) if len(self.bar.columns) > 1 else name
                      for part, name in zip(parts, self.names, strict=True)]  # fmt: skip
            yield ":".join(self.bar.columns[:k]), np.unique(groups, return_inverse=True)[1][self.code]

    @property
    def words(self) -> str:
        """How many groups there are and of how many rows."""
        return caveats.sizes(self.bar, self.held)

    def terms(self, rows: Rows, layout: Layout, typed: Mapping[str, Typed]) -> list[Term]:
        """Its term. Raises ConfigError for priors that disagree."""
        return [_term(self, rows, layout, typed)]

    def numbers(self, h: list[np.ndarray], target_sd: float) -> dict[str, np.ndarray]:
        """Sds of effects and correlations by name, (S,) each, per unit of columns, of h (S, n)."""
        if self.bar.fixed:
            return {}
        t = level_map.triangle(h[0].T, len(self.bar.names)).t
        t = np.einsum("ij,jks->sik", self.own(target_sd), t)  # no triangle where intercepts moved
        return stored_effects.numbers(self.bar, t, self.columns)

    def h_of(self, stored: dict[str, np.ndarray], target_sd: float) -> list[np.ndarray]:
        """h (S, n) of its term by what `numbers` tells."""
        t = np.linalg.solve(self.own(target_sd), stored_effects.triangle(self.bar, stored))
        lower = np.linalg.qr(t.transpose(0, 2, 1))[1].transpose(0, 2, 1)
        lower = lower * np.where(np.einsum("sii->si", lower) < 0.0, -1.0, 1.0)[:, None]
        return [level_map.of_triangle(lower, self.bar.correlated)]

    def sampled(self, effects: stored_effects.Effects, target_sd: float) -> list[np.ndarray]:
        """Effects of its term, (S, J·q), by what is kept of them."""
        back = np.linalg.inv(self.own(target_sd))
        return [np.einsum("ij,gsj->sgi", back, effects.values).reshape(len(effects.draws), -1)]

    def priors(self, terms: Sequence[Term], target_sd: float) -> list[dict[str, str]]:
        """Theirs, a row each."""
        (term,), bar, target_sd = terms, self.bar, self.unit(target_sd)
        if term.sd is not None:
            return [{"term": bar.term, "prior": str(Normal(0.0, term.sd * target_sd))}]

        where = f" where {stored_effects.at_means(self.columns)}" if self.centred else ""
        units = self.units * (len(bar.classes) or 1)
        priors = [str(prior.scaled(target_sd / unit)) for prior, unit in zip(term.sds, units, strict=True)]
        effects = zip(priors, bar.effects, strict=True)
        priors = [prior if column else prior + where for prior, (column, _) in effects]
        names = stored_effects.sd_names(bar)
        priors += [f"{Lkj(term.eta)}{where}"] * (len(names) - len(priors))
        return [{"term": name, "prior": prior} for name, prior in zip(names, priors, strict=True)]

    def effects(
        self,
        sampled: np.ndarray,
        draws: np.ndarray,
        numbers: dict[str, np.ndarray],
        target_sd: float,
        sd: float | None = None,
    ) -> stored_effects.Effects:
        """Effects (S, J·q) as they are stored, with these draws and numbers, (S,) by name. sd: of a term's
        effects, where it is known."""
        levels = sampled.reshape(len(draws), len(self.names), -1)
        values = np.einsum("ij,sgj->gsi", self.own(target_sd), levels).astype(np.float32)
        if sd is not None:
            values[0] = 0.0  # the reference has no coefficient
            triangle = np.full((len(draws), 1, 1), sd * self.unit(target_sd))
            return stored_effects.Effects(self.bar, self.names, self.held, draws, values, triangle)
        triangle = stored_effects.triangle(self.bar, numbers)
        return stored_effects.Effects(self.bar, self.names, self.held, draws, values, triangle)


@dataclass
class OfTerms(TermsPosterior):
    """Of a table's rows. factors: in the formula's order; order: the places of each one's terms."""

    factors: tuple[Factor | Curves, ...] = ()
    order: tuple[tuple[int, ...], ...] = ()
    target_sd: float = 1.0

    def others(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Sds of effects, and their correlations, of draws x (..., P), per unit of columns."""
        numbers: dict[str, np.ndarray] = {}
        flat = x.reshape(-1, x.shape[-1])
        for factor, places in zip(self.factors, self.order, strict=True):
            numbers |= factor.numbers([flat[:, self.scales[place]] for place in places], self.target_sd)
        return {name: values.reshape(x.shape[:-1]) for name, values in numbers.items()}

    @property
    def grouped(self) -> list[tuple[Factor, int]]:
        """Factors of groups, and the place of each one's term."""
        pairs = zip(self.factors, self.order, strict=True)
        return [(factor, place) for factor, (place, *_) in pairs if isinstance(factor, Factor)]

    def codes(self) -> list[np.ndarray]:
        """Each row's level, (N,), of each factor."""
        return [factor.code for factor, _ in self.grouped]

    def other_priors(self) -> list[dict[str, str]]:
        """Theirs, a row each."""
        return [
            row
            for factor, places in zip(self.factors, self.order, strict=True)
            for row in factor.priors([self.terms[place] for place in places], self.target_sd)
        ]

    @property
    def words(self) -> str:
        """The groups, how many they are and of how many rows."""
        return ", and ".join(each.words for each in self.factors)

    @property
    def categories(self) -> list[tuple[str, Column]]:
        """Those whose levels have a coefficient each: the parameter whose formula has it, and the column."""
        fixed = (each for each, _ in self.grouped if each.bar.fixed)
        return [(each.bar.of, Column(each.bar.group, list(each.names), text=True)) for each in fixed]

    def caveats(self) -> list[str]:
        """As `of_single_rows`, and `of_many_levels`."""
        fixed = [line for each, _ in self.grouped if each.bar.fixed
                 for line in caveats.of_many_levels(each.bar, each.names, each.held)]  # fmt: skip
        intercepts = (
            (each, self.terms[place].columns[:, 0])
            for each, place in self.grouped
            if each.bar.intercept and not each.bar.of and not each.bar.fixed
        )
        counts = [
            (each.bar, np.bincount(each.code, self.rows.weights * ones**2)) for each, ones in intercepts
        ]
        return [*fixed, *(caveats.of_single_rows(counts) if self.family.by_sums else [])]

    def effects_of(
        self, x: np.ndarray, effects: np.ndarray, draws: np.ndarray
    ) -> tuple[stored_effects.Effects | Drawn, ...]:
        """Effects (S, E) by the posterior's draws x (S, P), which are these among all of them, (S,)."""
        numbers, psi, u = self.others(x), x.mean(axis=0), effects.mean(axis=0, dtype=np.float64)
        drawn = list[stored_effects.Effects | Drawn]()
        for factor, places in zip(self.factors, self.order, strict=True):
            sampled = [effects[:, self.effects[place]] for place in places]
            if isinstance(factor, Curves):
                drawn.append(factor.drawn(sampled, draws, self.target_sd, self.freedom(psi, u, places)))
            else:
                sd = self.terms[places[0]].sd
                drawn.append(factor.effects(sampled[0], draws, numbers, self.target_sd, sd))
        return tuple(drawn)

    def h_of(self, stored: dict[str, np.ndarray], count: int) -> np.ndarray:
        """h (S, m) of all terms by what `others` tells, (S,) each by name. count: S."""
        parts = [np.empty((0, 0))] * len(self.terms)
        for factor, places in zip(self.factors, self.order, strict=True):
            known = self.terms[places[0]].sd is not None
            each = [np.empty((count, 0))] if known else factor.h_of(stored, self.target_sd)
            for place, part in zip(places, each, strict=True):
                parts[place] = part
        return np.concatenate(parts, axis=1)

    def sampled(self, effects: Sequence[Any]) -> np.ndarray:
        """Effects as they were sampled, (S, E), of what is kept of each factor's."""
        u = np.empty((len(effects[0].draws), self.n_effects))
        for factor, places, its in zip(self.factors, self.order, effects, strict=True):
            for place, part in zip(places, factor.sampled(its, self.target_sd), strict=True):
                u[:, self.effects[place]] = part
        return u


def posterior_of(
    posterior: Posterior,
    rows: Rows,
    layout: Layout,
    factors: Sequence[Factor | Curves],
    typed: Mapping[str, Typed],
) -> OfTerms:
    """The posterior of rows with these terms. typed: priors of what tells effects' distribution, by name.

    Raises ConfigError for what is not fitted.
    """
    if posterior.family.contrasts is not None:
        refuse_of_classes(factors)
    of_factors = [factor.terms(rows, layout, typed) for factor in factors]
    built = [term for terms in of_factors for term in terms]
    order = sorted(range(len(built)), key=lambda k: built[k].size)
    inner, most = sum(built[k].size for k in order[:-1]), sum(term.size for term in built)
    if inner > _MOST_INNER or most > _MOST_EFFECTS:
        bars = [factor.bar for factor, terms in zip(factors, of_factors, strict=True) for _ in terms]
        largest = bars[order[-2 if inner > _MOST_INNER else -1]]
        raise ConfigError(
            f"{largest}: {most:,} effects of groups, {inner:,} of them outside of the largest term, are too "
            f"many ({_MOST_EFFECTS:,} and {_MOST_INNER:,} at most); leave {largest} out, or join its levels"
        )
    places = iter([order.index(k) for k in range(len(built))])
    return OfTerms(
        posterior.family,
        rows,
        posterior.prior,
        posterior.levels,
        posterior.sd,
        slopes=posterior.slopes,
        terms=tuple(built[k] for k in order),
        factors=tuple(factors),
        order=tuple(tuple(next(places) for _ in terms) for terms in of_factors),
        target_sd=layout.target.sd,
    )


def refuse_of_classes(factors: Sequence[Factor | Curves]) -> None:
    """Raise ConfigError for terms that are not fitted to classes: smooths, and categories of many levels."""
    for bar in (factor.bar for factor in factors):
        if isinstance(bar, Smooth):
            raise ConfigError(f"{bar}: softmax is not fitted with smooths; write {bar.instead} in its place")
        if bar.fixed:
            raise ConfigError(
                f"{bar}: softmax is not fitted with a category of so many levels; make groups of them, "
                f"{Bar(bar.columns)}"
            )


def refuse_lone(factors: Sequence[Factor]) -> None:
    """Raise ConfigError for a category with a coefficient a level of fewer than two rows each, on average."""
    for bar, names, held in ((each.bar, each.names, each.held) for each in factors if each.bar.fixed):
        if 2 * len(names) > held.sum():
            raise ConfigError(
                f"{bar}: has {len(names):,} levels in {held.sum():,} rows, fewer than two rows each; leave "
                f"{bar.group} out, or make groups of its levels: {Bar(bar.columns, of=bar.of)}"
            )


def sd_of(bar: Bar, typed: Mapping[str, Typed], unit: float) -> float:
    """Of the prior of a category's coefficients, in units of the predictor."""
    prior = typed[bar.term].prior
    assert isinstance(prior, Normal)
    return float(prior.sd / unit)


def refuse_constant(factor: Factor, rows: Rows) -> None:
    """Raise ConfigError for slopes of columns that are the same in all rows of each group.

    rows: their features stand times no sign.
    """
    bar, constant = factor.bar, list[str]()
    for column, place in zip(factor.columns, factor.places, strict=True):
        values = np.asarray(factor.features(rows)[:, place], np.float64)
        first = np.zeros(len(factor.names))
        first[factor.code] = values
        if np.ptp(values) > 0 and np.allclose(values, first[factor.code]):
            constant.append(column.name)
    refuse_slopes(bar, constant)


def refuse_slopes(bar: Bar, constant: Sequence[str]) -> None:
    """Raise ConfigError for slopes of columns that do not differ within groups, if there are any."""
    if constant:
        kept = tuple(name for name in bar.slopes if name not in constant)
        remedy = replace(bar, slopes=kept, intercept=bar.intercept or not kept)
        raise ConfigError(
            f"{bar}: {constant[0]} is the same in all rows of each group, so that it has no slope within; "
            f"write {remedy}"
        )


def _term(factor: Factor, rows: Rows, layout: Layout, typed: Mapping[str, Typed]) -> Term:
    bar, columns = factor.bar, list[np.ndarray]()
    whole = layout.task == "ordered"
    ones = np.ones(len(rows)) if whole else np.asarray(factor.features(rows)[:, -1], np.float64)
    if bar.fixed:
        sd = sd_of(bar, typed, factor.unit(layout.target.sd))
        ones = np.where(factor.code == 0, 0.0, ones)[:, None]  # the reference
        return Term(factor.code, ones, len(factor.names), False, (), predictor=factor.predictor, sd=sd)
    if bar.intercept:
        columns.append(ones)
    for column, place in zip(factor.columns, factor.places, strict=True):
        values = np.asarray(factor.features(rows)[:, place], np.float64)
        columns.append(values if factor.centred else values + ones * (column.mean / column.sd))
    names, unit = stored_effects.sd_names(bar), 1.0 / factor.unit(layout.target.sd)
    units = factor.units * (len(bar.classes) or 1)
    sds = tuple(
        typed[name].prior.scaled(each * unit) if name in typed else factor.usual.sd
        for name, each in zip(names, units, strict=False)
    )
    of_correlations = {
        str(typed[name].prior): typed[name].prior for name in names[len(sds) :] if name in typed
    }
    if len(of_correlations) > 1:
        raise ConfigError(
            f"--prior: {bar} has one LKJ prior of all correlations, and {' and '.join(of_correlations)} are "
            "typed; keep one"
        )
    eta = next((prior.eta for prior in of_correlations.values() if isinstance(prior, Lkj)), 1.0)
    correlated = bar.correlated and len(sds) > 1
    columns_of, into = np.stack(columns, axis=-1), factor.into
    if into is not None:
        columns_of, into = np.tile(columns_of, len(into)), np.repeat(into, len(columns), axis=1)
    its = factor.code, columns_of, len(factor.names), correlated, sds, eta
    return Term(*its, predictor=factor.predictor, into=into)
