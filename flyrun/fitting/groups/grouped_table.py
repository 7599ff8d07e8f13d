"""A table's rows by group: the column of a group read, and the posterior with its effects integrated out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from flyrun.families.prior_densities import Lkj, Normal, Prior
from flyrun.fitting.bars import Bar
from flyrun.fitting.groups import caveats, factors_of_table, scales, stored_effects, terms_table
from flyrun.fitting.groups.crossed import CrossedPosterior
from flyrun.fitting.groups.curves import Curves
from flyrun.fitting.groups.known_sd import KnownSd
from flyrun.fitting.groups.terms_table import Factor, OfTerms, sd_of
from flyrun.fitting.priors import Typed
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.smooths import Smooth
from flyrun.fitting.table_rows import Rows
from flyrun.tables.dataset import Dataset
from flyrun.tables.layout import Column, Layout
from flyrun.tables.options import Table

T = TypeVar("T")
_MOST_CROSSED = 300  # levels of the smaller of two factors
_MOST_PAIRS, _OF_A_GRID = 20_000_000, 10  # of levels, whose sums are held, and so often at points of a grid


@dataclass
class OfTable(CrossedPosterior):
    """Of a table's rows. names: of the groups, in order; target_sd: what effects are in units of; column: of
    the slope, if there is one; bars: as typed; second, second_names: of a crossed factor; order: (N,) the
    table's rows, group by group.
    counts: of each group, (G,), and of a second factor's. by_chains: the same posterior for chains, where
    weighted draws are refused.
    """

    bar: Bar = field(default_factory=lambda: Bar(("",)))
    names: tuple[str, ...] = ()
    target_sd: float = 1.0
    column: Column | None = None
    bars: tuple[Bar, ...] = ()
    second: Bar | None = None
    second_names: tuple[str, ...] = ()
    order: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    counts: tuple[np.ndarray, ...] = ()
    by_chains: Callable[[], OfTerms] = field(kw_only=True)

    def others(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Sds of effects, and their correlation, of draws x (..., P), on the columns' own scales.

        An intercept's is that of a row whose column is 0.
        """
        t00, t10, t11 = scales.triangle(self.h(x).reshape(-1, self.after - self.before))
        t = np.zeros((len(t00), self.effects, self.effects))
        t[:, 0, 0] = t00
        if (slope := self.column) is not None:
            shift = slope.mean / slope.sd
            t[:, 0] -= shift * np.stack([t10, t11], axis=-1)
            t[:, 1] = np.stack([t10, t11], axis=-1) / slope.sd
        columns = () if slope is None else (slope,)
        numbers = stored_effects.numbers(self.bar, self.target_sd * t, columns)
        if self.second is not None:
            second = np.exp(x[..., self.after]).ravel() * self.target_sd
            numbers[stored_effects.sd_names(self.second)[0]] = second
        return {name: values.reshape(x.shape[:-1]) for name, values in numbers.items()}

    def codes(self) -> list[np.ndarray]:
        """Each row's level, (N,), in the table's order, of each factor of the formula."""
        first = np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.rows))))
        sorted_codes = [first] if self.crossed is None else [first, self.crossed]
        codes = []
        for code in sorted_codes if self.bars[0] == self.bar else sorted_codes[::-1]:
            codes.append(np.empty_like(code))
            codes[-1][self.order] = code
        return codes

    @property
    def _sds(self) -> list[str]:
        more = [] if self.second is None else stored_effects.sd_names(self.second)
        return stored_effects.sd_names(self.bar) + more

    @property
    def words(self) -> str:
        """The groups, how many they are and of how many rows."""
        crossed = "" if self.second is None else f", and {self.second}: {len(self.second_names):,} groups"
        return caveats.sizes(self.bar, self.counts[0]) + crossed

    def caveats(self) -> list[str]:
        """As `of_single_rows`."""
        if not self.family.by_sums:
            return []
        copies = self.rows.weights * self.rows.features[:, -1].astype(np.float64) ** 2
        factors = [(self.bar, np.add.reduceat(copies, self.starts))]
        if self.second is not None:
            factors.append((self.second, np.bincount(self.crossed, copies)))  # type: ignore[arg-type]
        return caveats.of_single_rows(factors)

    def effects_of(self, x: np.ndarray, draws: np.ndarray, seed: int) -> tuple[stored_effects.Effects, ...]:
        """Effects by the posterior's draws x (S, P), which are these among all of them, (S,)."""
        b = self.effects_at(x, seed)
        values = [b[..., 0]]
        if (slope := self.column) is not None:
            values = [b[..., 0] - b[..., 1] * (slope.mean / slope.sd), b[..., 1] / slope.sd]
        effects = (np.stack(values, axis=-1).transpose(1, 0, 2) * self.target_sd).astype(np.float32)
        sds = self.others(x)
        triangle = stored_effects.triangle(self.bar, sds)
        first = stored_effects.Effects(self.bar, self.names, self.counts[0], draws, effects, triangle)
        if self.second is None or self.crossed is None:
            return (first,)
        levels = (x[:, self.after + 1 :].T * self.target_sd).astype(np.float32)[..., None]
        triangle = stored_effects.triangle(self.second, sds)
        other = stored_effects.Effects(
            self.second, self.second_names, self.counts[1], draws, levels, triangle
        )
        return (first, other) if self.bars[0] == self.bar else (other, first)

    def h_of(self, stored: dict[str, np.ndarray], count: int) -> np.ndarray:
        """As of OfTerms, (S, m)."""
        scale = stored_effects.triangle(self.bar, stored) / self.target_sd
        if (slope := self.column) is None:
            return np.log(scale[:, 0])
        (v00, v01), (_, v11) = np.einsum("sik,sjk->ijs", scale, scale)
        t00 = np.sqrt(np.maximum(v00 + 2.0 * slope.mean * v01 + slope.mean**2 * v11, 1e-300))
        t10 = (v01 + slope.mean * v11) * slope.sd / t00
        t11 = np.sqrt(np.maximum(v11 * slope.sd**2 - t10**2, 1e-300))
        return np.stack([np.log(t00), t10, np.log(t11)], axis=-1)

    def other_priors(self) -> list[dict[str, str]]:
        """Theirs, a row each."""
        priors = [str(self.of_scales.sd.scaled(self.target_sd))]
        if self.column is not None:
            where = f"where {stored_effects.at_means([self.column])}"
            by = str(self.of_scales.slope.scaled(self.target_sd / self.column.sd))
            priors = [f"{priors[0]} {where}", by, f"{Lkj(self.of_scales.eta)} {where}"]
        if self.second is not None:
            priors.append(str(self.of_crossed.sd.scaled(self.target_sd)))
        names = self._sds
        return [{"term": name, "prior": prior} for name, prior in zip(names, priors, strict=True)]


@dataclass
class OfCategory(KnownSd, OfTable):
    """Of a category with a coefficient a level, or two, the reference first among names and counts."""

    def others(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Nothing, of x (..., P)."""
        return {}

    def codes(self) -> list[np.ndarray]:
        """Each row's level, (N,), in the table's order, of each factor."""
        first = np.searchsorted(self.starts, np.arange(len(self.rows)), side="right")
        codes = list[np.ndarray]()
        for code in self._in_order(first, None if self.crossed is None else self.crossed + 1):
            codes.append(np.empty(len(code), np.int64))
            codes[-1][self.order] = code
        return codes

    def _in_order(self, first: T, second: T | None) -> list[T]:
        """What is of the two factors in the formula's order."""
        both = [first] if second is None else [first, second]
        return both if self.bars[0] == self.bar else both[::-1]

    @property
    def _factors(self) -> list[tuple[Bar, tuple[str, ...], np.ndarray, float]]:
        """Of each its names, counts, (G,), and the sd of its coefficients."""
        first = self.bar, self.names, self.counts[0], self.known_sd
        if self.second is None:
            return [first]
        return self._in_order(first, (self.second, self.second_names, self.counts[1], self.known_crossed))

    @property
    def words(self) -> str:
        """As of OfTerms."""
        return ", and ".join(caveats.sizes(bar, held) for bar, _, held, _ in self._factors)

    @property
    def categories(self) -> list[tuple[str, Column]]:
        """As of OfTerms."""
        return [("", Column(bar.group, list(names), text=True)) for bar, names, *_ in self._factors]

    def caveats(self) -> list[str]:
        """As `of_many_levels`."""
        return [
            line for bar, names, held, _ in self._factors for line in caveats.of_many_levels(bar, names, held)
        ]

    def effects_of(self, x: np.ndarray, draws: np.ndarray, seed: int) -> tuple[stored_effects.Effects, ...]:
        """As of OfTable, of draws x (S, P), the references' 0."""
        first, crossed = self.effects_at(x, seed)[..., 0], x[:, self.before :]
        effects = list[stored_effects.Effects]()
        for drawn, its in zip(self._in_order(first, crossed), self._factors, strict=False):
            bar, names, held, sd = its
            levels = np.pad(drawn.T * self.target_sd, ((1, 0), (0, 0))).astype(np.float32)[..., None]
            known = np.full((len(x), 1, 1), sd * self.target_sd)
            effects.append(stored_effects.Effects(bar, names, held, draws, levels, known))
        return tuple(effects)

    def h_of(self, stored: dict[str, np.ndarray], count: int) -> np.ndarray:
        """Nothing, (S, 0)."""
        return np.empty((count, 0))

    def other_priors(self) -> list[dict[str, str]]:
        """The coefficients', a row a category."""
        priors = ((bar.term, Normal(0.0, sd * self.target_sd)) for bar, _, _, sd in self._factors)
        return [{"term": term, "prior": str(prior)} for term, prior in priors]


def posterior_of(
    table: Table,
    dataset: Dataset,
    layout: Layout,
    posterior: Posterior,
    bars: tuple[Bar | Smooth, ...],
    typed: Mapping[str, Typed],
    chains: bool = False,
) -> OfTable | OfTerms:
    """The posterior of grouped rows. typed: priors of what `terms` names, in the table's units; chains: have
    effects drawn where they could be integrated out, too.

    Raises ConfigError for what is not fitted.
    """
    factors = factors_of_table.read_all(table, dataset, layout, posterior, bars)
    groups = [factor for factor in factors if isinstance(factor, Factor)]
    for factor in groups:
        if factor.columns:
            terms_table.refuse_constant(factor, _unfolded(dataset, posterior.rows, slice(None)))
    factors_of_table.refuse_alike(groups)
    return of_factors(posterior, partial(_unfolded, dataset, posterior.rows), layout, factors, typed, chains)


def of_factors(
    posterior: Posterior,
    taken: Callable[[slice | np.ndarray], Rows],
    layout: Layout,
    factors: Sequence[Factor | Curves],
    typed: Mapping[str, Typed],
    chains: bool = False,
) -> OfTable | OfTerms:
    """As of `posterior_of`, of rows that are taken in an order, with these terms."""
    groups = [factor for factor in factors if isinstance(factor, Factor)]
    terms_table.refuse_lone(groups)

    def by_chains() -> OfTerms:
        return terms_table.posterior_of(posterior, taken(slice(None)), layout, factors, typed)

    if chains or len(groups) < len(factors) or not integrated(posterior, groups):
        return by_chains()
    *few, (bar, names, columns, code, held, *_) = sorted(groups, key=_cost)
    column, second = (columns[0] if columns else None), (few[0] if few else None)
    order = np.argsort(code, kind="stable")
    ordered = taken(order)
    features = ordered.features
    slope = None if bar.slope is None else features[:, layout.names.index(bar.slope)].astype(np.float64)
    starts = np.searchsorted(code[order], np.arange(int(bar.fixed), len(names)))
    of_type: Callable[..., OfTable] = OfTable
    if bar.fixed:
        sds = [sd_of(each, typed, layout.target.sd) for each in (bar, second.bar if second else bar)]
        of_type = partial(OfCategory, known_sd=sds[0], known_crossed=sds[1])
    return of_type(
        posterior.family,
        ordered,
        posterior.prior,
        posterior.levels,
        posterior.sd,
        starts=starts,
        slope=slope,
        bar=bar,
        bars=tuple(factor.bar for factor in groups),
        names=names,
        target_sd=layout.target.sd,
        column=column,
        crossed=None if second is None else second.code[order] - int(bar.fixed),
        second=second and second.bar,
        second_names=second.names if second else (),
        order=order,
        counts=(held, *(other.held for other in few)),
        by_chains=by_chains,
        of_scales=_priors(bar, typed, layout.target.sd, column),
        of_crossed=scales.USUAL if second is None else _priors(second.bar, typed, layout.target.sd),
    )


def terms(bars: Sequence[Bar | Smooth], layout: Layout) -> dict[str, list[str]]:
    """What people call the numbers of effects' distribution: each by its name, and those of all classes by
    one without a class."""
    names, of_all = list[str](), dict[str, list[str]]()
    for bar in bars:
        if isinstance(bar, Smooth):
            sources = layout.parameters.get(bar.of, layout).sources
            by = next((column for column in sources if column.name == bar.by), None)
            names += bar.sd_names((by and by.levels) or [])
        elif bar.fixed:
            names.append(bar.term)
        else:
            its, q = bar.with_classes(layout), len(bar.names)
            each = stored_effects.sd_names(its)
            names += each
            if its.classes:
                sds = enumerate(stored_effects.sd_names(bar)[:q])
                of_all |= {name: each[k : len(its.names) : q] for k, name in sds}
    return of_all | {name: [name] for name in names}


def _priors(
    bar: Bar, typed: Mapping[str, Typed], target_sd: float, column: Column | None = None
) -> scales.Priors:
    """Of a factor's effects; sds in units of the predictor, of a slope by the standardised column."""
    names = stored_effects.sd_names(bar)
    units = [1.0 / target_sd, 1.0 if column is None else column.sd / target_sd]
    sds: list[Prior] = [scales.USUAL.sd, scales.USUAL.slope]
    for k, (name, unit) in enumerate(zip(names[:2], units, strict=False)):
        sds[k] = typed[name].prior.scaled(unit) if name in typed else sds[k]
    of_correlation = typed[names[-1]].prior if names and names[-1] in typed else None
    return scales.Priors(sds[0], sds[1], of_correlation.eta if isinstance(of_correlation, Lkj) else 1.0)


def integrated(posterior: Posterior, factors: Sequence[Factor]) -> bool:
    """The rule: whether effects are integrated out, of a factor or of two that cross; else chains draw them.

    The first where one factor has few effects a level, and the second has few levels and intercepts alone.
    """
    plain = all(each.bar.plain and not each.bar.of for each in factors) and not posterior.prior.others
    plain = plain and len({each.bar.fixed for each in factors}) == 1
    if not posterior.family.grouped or len(factors) > 2 or not plain:
        return False
    *few, (many_slopes, many) = sorted(map(_cost, factors))
    if not few:
        return True
    slopes, levels = few[0]
    most = _MOST_PAIRS // (1 if posterior.family.by_sums else _OF_A_GRID)
    small = levels <= _MOST_CROSSED and levels * many <= most
    return small and not slopes and not (many_slopes and levels > many)


def _cost(factor: Factor) -> tuple[bool, int]:
    """By which of two factors the second is integrated out: whether it has slopes, and its levels."""
    return bool(factor.columns), len(factor.names)


def _unfolded(dataset: Dataset, rows: Rows, order: slice | np.ndarray) -> Rows:
    """Rows in an order, whose features stand times the sign of the target no longer: effects do not."""
    features, target = np.asarray(rows.features)[order], rows.target[order]
    offset, trials, weights = (
        value[order] if np.ndim(value) else value for value in (rows.offset, rows.trials, rows.weights)
    )
    if dataset.folded:
        sign = np.asarray(dataset.target)[order]
        features = features * sign[:, None].astype(features.dtype)
        target, offset = (sign > 0).astype(np.float64), offset * sign if np.ndim(offset) else offset
    designs = tuple(design and design.take(order) for design in rows.designs)
    return Rows(features, target, trials, offset, weights, designs)
