"""A table's rows by group: the column of a group read, and the posterior with its effects integrated out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from flyrun.families.family import family
from flyrun.families.options import for_tables
from flyrun.families.prior_densities import Lkj, Prior
from flyrun.fitting.bars import Bar
from flyrun.fitting.groups import scales, stored_effects
from flyrun.fitting.groups.crossed import CrossedPosterior
from flyrun.fitting.priors import Typed
from flyrun.fitting.rows_posterior import Posterior, Rows
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import quoted
from flyrun.tables import pieces
from flyrun.tables.columns import MOST_LEVELS, usable
from flyrun.tables.dataset import Dataset
from flyrun.tables.layout import Column, Layout
from flyrun.tables.new_rows import words
from flyrun.tables.options import Table

_MOST_CROSSED = 300  # levels of the smaller of two factors
_MOST_PAIRS, _OF_A_GRID = 20_000_000, 10  # of levels, whose sums are held, and so often at points of a grid


@dataclass
class OfTable(CrossedPosterior):
    """Of a table's rows. names: of the groups, in order; target_sd: what effects are in units of; column: of
    the slope, if there is one; bars: as typed; second, second_names: of a crossed factor; order: (N,) the
    table's rows, group by group.
    """

    bar: Bar = field(default_factory=lambda: Bar(""))
    names: tuple[str, ...] = ()
    target_sd: float = 1.0
    column: Column | None = None
    bars: tuple[Bar, ...] = ()
    second: Bar | None = None
    second_names: tuple[str, ...] = ()
    order: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def others(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Sds of effects, and their correlation, of draws x (..., P), on the columns' own scales.

        An intercept's is that of a row whose column is 0.
        """
        t00, t10, t11 = scales.triangle(self.h(x).reshape(-1, self.after - self.before))
        slope = self.column
        numbers = [t00 * self.target_sd]
        if slope is not None:
            v00, v01, v11, shift = t00**2, t00 * t10, t10**2 + t11**2, slope.mean / slope.sd
            sd, slope_sd = np.sqrt(np.maximum(v00 - 2.0 * shift * v01 + shift**2 * v11, 0.0)), np.sqrt(v11)
            numbers = [sd * self.target_sd, slope_sd * self.target_sd / slope.sd]
            numbers.append((v01 - shift * v11) / np.maximum(sd * slope_sd, 1e-300))
        if self.second is not None:
            numbers.append(np.exp(x[..., self.after]).ravel() * self.target_sd)
        return {name: values.reshape(x.shape[:-1]) for name, values in zip(self._sds, numbers, strict=True)}

    @property
    def _sds(self) -> list[str]:
        more = [] if self.second is None else stored_effects.sd_names(self.second)
        return stored_effects.sd_names(self.bar) + more

    @property
    def words(self) -> str:
        """The groups, how many they are and of how many rows."""
        sizes = np.diff(np.append(self.starts, len(self.rows)))
        least, most = int(sizes.min()), int(sizes.max())
        each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        crossed = "" if self.second is None else f", and {self.second}: {len(self.second_names):,} groups"
        return f"{self.bar}: {self.groups:,} groups of {each} row{'s' * (most > 1)}{crossed}"

    def caveats(self) -> list[str]:
        """A line for a factor whose groups have a row each, where the noise is normal as its effects are."""
        if not self.family.by_sums:
            return []
        copies = np.broadcast_to(self.rows.weights, len(self.rows))
        factors = [(self.bar, np.add.reduceat(copies, self.starts))]
        if self.second is not None:
            factors.append((self.second, np.bincount(self.crossed, copies)))  # type: ignore[arg-type]
        return [
            f"{bar}: each of the {len(rows):,} groups has one row, so that only the priors tell sigma from "
            f"sd({bar.group}): rows show the sum of their squares; leave {bar} out, or take a column with "
            "more rows a group"
            for bar, rows in factors
            if rows.max() <= 1
        ]

    def effects_of(self, x: np.ndarray, draws: np.ndarray, seed: int) -> tuple[stored_effects.Effects, ...]:
        """Effects by the posterior's draws x (S, P), which are these among all of them, (S,)."""
        b = self.effects_at(x, seed)
        values = [b[..., 0]]
        if (slope := self.column) is not None:
            values = [b[..., 0] - b[..., 1] * (slope.mean / slope.sd), b[..., 1] / slope.sd]
        rows = np.diff(np.append(self.starts, len(self.rows)))
        effects = (np.stack(values, axis=-1).transpose(1, 0, 2) * self.target_sd).astype(np.float32)
        sds = self.others(x)
        triangle = stored_effects.triangle(self.bar, sds)
        first = stored_effects.Effects(self.bar, self.names, rows, draws, effects, triangle)
        if self.second is None or self.crossed is None:
            return (first,)
        levels = (x[:, self.after + 1 :].T * self.target_sd).astype(np.float32)[..., None]
        triangle = stored_effects.triangle(self.second, sds)
        rows = np.bincount(self.crossed, minlength=len(self.second_names))
        other = stored_effects.Effects(self.second, self.second_names, rows, draws, levels, triangle)
        return (first, other) if self.bars[0] == self.bar else (other, first)

    def h_of(self, stored: dict[str, np.ndarray]) -> np.ndarray:
        """h (S, m) by what `others` tells, by name."""
        scale = stored_effects.triangle(self.bar, stored) / self.target_sd
        if (slope := self.column) is None:
            return np.log(scale[:, :1])
        v00, v01, v11 = scale[:, 0] ** 2, scale[:, 0] * scale[:, 1], scale[:, 1] ** 2 + scale[:, 2] ** 2
        t00 = np.sqrt(np.maximum(v00 + 2.0 * slope.mean * v01 + slope.mean**2 * v11, 1e-300))
        t10 = (v01 + slope.mean * v11) * slope.sd / t00
        t11 = np.sqrt(np.maximum(v11 * slope.sd**2 - t10**2, 1e-300))
        return np.stack([np.log(t00), t10, np.log(t11)], axis=-1)

    def other_priors(self) -> list[dict[str, str]]:
        """Theirs, a row each."""
        priors = [str(self.of_scales.sd.scaled(self.target_sd))]
        if self.column is not None:
            where = f"where {self.column.name} is {self.column.mean:.3g}"
            by = str(self.of_scales.slope.scaled(self.target_sd / self.column.sd))
            priors = [f"{priors[0]} {where}", by, f"{Lkj(self.of_scales.eta)} {where}"]
        if self.second is not None:
            priors.append(str(self.of_crossed.sd.scaled(self.target_sd)))
        names = self._sds
        return [{"term": name, "prior": prior} for name, prior in zip(names, priors, strict=True)]


def posterior_of(
    table: Table,
    dataset: Dataset,
    layout: Layout,
    posterior: Posterior,
    bars: tuple[Bar, ...],
    typed: Mapping[str, Typed],
) -> OfTable:
    """The posterior of grouped rows. typed: priors of what `terms` names, in the table's units.

    Raises ConfigError for what is not fitted.
    """
    bar, codes = bars[0], partial(_codes, table, layout)
    second = _crossed(codes, posterior, bars) if len(bars) > 1 else None
    if second is not None:
        bar = second.first
    if not posterior.family.grouped:
        known = ", ".join(name for name in for_tables() if family(name).grouped)
        name = posterior.family.name
        raise ConfigError(f"{bar}: {name} is not fitted with groups; choose --model from {known}")
    column = next((each for each in layout.features if each.name == bar.slope), None)
    if bar.slope is not None and (column is None or column.levels is not None):
        raise ConfigError(f"{bar}: write {bar.slope}, a column of numbers, among the terms too")
    names, code = codes(bar)
    if len(names) < 2:
        raise ConfigError(f"{bar}: {bar.group} has one level, {names[0]}; leave the group out")
    order = np.argsort(code, kind="stable")
    rows, features = posterior.rows, np.asarray(posterior.rows.features)[order]
    target = rows.target[order]
    offset = rows.offset[order] if np.ndim(rows.offset) else rows.offset
    if dataset.folded:  # features stand times the sign of the target: effects do not
        sign = np.asarray(dataset.target)[order]
        features = features * sign[:, None].astype(features.dtype)
        target, offset = (sign > 0).astype(np.float64), offset * sign if np.ndim(offset) else offset
    others = (value[order] if np.ndim(value) else value for value in (rows.trials, rows.weights))
    trials, weights = others
    slope = None if bar.slope is None else features[:, layout.names.index(bar.slope)].astype(np.float64)
    starts = np.searchsorted(code[order], np.arange(len(names)))
    ordered = Rows(features, target, trials, offset, weights)
    return OfTable(
        posterior.family,
        ordered,
        posterior.prior,
        posterior.levels,
        posterior.sd,
        starts=starts,
        slope=slope,
        bar=bar,
        bars=bars,
        names=tuple(names),
        target_sd=layout.target.sd,
        column=column,
        crossed=None if second is None else second.code[order],
        second=second and second.bar,
        second_names=second.names if second else (),
        order=order,
        of_scales=_priors(bar, typed, layout.target.sd, column),
        of_crossed=scales.USUAL if second is None else _priors(second.bar, typed, layout.target.sd),
    )


def terms(bars: Sequence[Bar]) -> list[str]:
    """What people call the numbers of effects' distribution."""
    return [name for bar in bars for name in stored_effects.sd_names(bar)]


def _priors(
    bar: Bar, typed: Mapping[str, Typed], target_sd: float, column: Column | None = None
) -> scales.Priors:
    """Of a factor's effects; sds in units of the predictor, of a slope by the standardised column."""
    names = stored_effects.sd_names(bar)
    units = [1.0 / target_sd, 1.0 if column is None else column.sd / target_sd]
    sds: list[Prior] = [scales.USUAL.sd, scales.USUAL.slope]
    for k, (name, unit) in enumerate(zip(names[:2], units, strict=False)):
        sds[k] = typed[name].prior.scaled(unit) if name in typed else sds[k]
    of_correlation = typed[names[-1]].prior if names[-1] in typed else None
    return scales.Priors(sds[0], sds[1], of_correlation.eta if isinstance(of_correlation, Lkj) else 1.0)


class _Crossed(NamedTuple):
    """A factor beside the one that is integrated out: that one, this, its levels, and each row's, (N,)."""

    first: Bar
    bar: Bar
    names: tuple[str, ...]
    code: np.ndarray


def _crossed(
    codes_of: Callable[[Bar], tuple[list[str], np.ndarray]], posterior: Posterior, bars: tuple[Bar, ...]
) -> _Crossed:
    """Of two factors that of fewer levels; codes: (N,). Raises ConfigError for what is not fitted."""
    a, b, *more = bars
    if more:
        raise ConfigError(
            f"{more[0]}: at most two groups are fitted; leave one out, or write C({quoted(more[0].group)}) "
            f"instead, which may have {MOST_LEVELS} levels"
        )
    codes = {bar: codes_of(bar) for bar in (a, b)}
    few, many = sorted((a, b), key=lambda bar: (bar.slope is not None, len(codes[bar][0])))
    levels, code = codes[few]
    both, pairs = f"{a} and {b}", len(levels) * len(codes[many][0])
    if few.slope is not None or (many.slope is not None and len(levels) > len(codes[many][0])):
        raise ConfigError(
            f"{both}: of two groups the one of fewer levels has an intercept alone; leave the slope of "
            f"{(few if few.slope else many).group} out"
        )
    if len(levels) > _MOST_CROSSED or pairs > _MOST_PAIRS // (1 if posterior.family.by_sums else _OF_A_GRID):
        raise ConfigError(
            f"{both}: {len(levels):,} levels of {few.group} times {len(codes[many][0]):,} are too many (one "
            f"group may have {_MOST_CROSSED}); leave one out, or join its levels"
        )
    return _Crossed(many, few, tuple(levels), code)


def _codes(options: Table, layout: Layout, bar: Bar) -> tuple[list[str], np.ndarray]:
    """The levels of a group in order, and each row's, (N,)."""
    path = Path(str(options.path)).expanduser()
    if bar.group not in (known := pieces.names(path, options)):
        raise ConfigError(f"{bar}: {bar.group} is no column of the table; it has {', '.join(known[:12])}")
    used = [column.name for column in (*layout.columns, *layout.beside.values(), layout.target)]
    if bar.group in used:
        raise ConfigError(f"{bar}: {bar.group} is a term or the target too; leave it out of one of them")
    text = layout.text | {bar.group}
    parts = pieces.pieces(path, [*used, bar.group], options, text)
    texts = [words(piece[bar.group]) for piece, _ in usable(parts, options, str(path), text)]
    column = pd.concat(texts)
    if len(column) != layout.rows:
        raise ConfigError(
            f"{bar}: {bar.group} lacks a value in rows that have all others; fill it in, or leave them out"
        )
    code, levels = pd.factorize(column, sort=True)
    return [str(level) for level in levels], code


def remedy(bar: Bar, groups: int, why: str) -> ConfigError:
    """The refusal of draws that are not to be trusted."""
    less = f"fit (1 | {quoted(bar.group)}) instead"
    if bar.slope is None:
        less = f"fit C({bar.group}), a coefficient each, instead"
        if groups > MOST_LEVELS:
            less = f"leave {bar.group} out, or join its {groups:,} levels into fewer"
    return ConfigError(f"{bar}: weighted draws are not to be trusted, because {why}; {less}")
