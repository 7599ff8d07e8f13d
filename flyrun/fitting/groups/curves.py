"""Smooth curves of a table's columns: their terms, and what a finished fit holds of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.families.prior_densities import Prior
from flyrun.fitting import smooths
from flyrun.fitting.groups import scales
from flyrun.fitting.groups.followed import Term
from flyrun.fitting.priors import Typed
from flyrun.fitting.rows_posterior import Rows
from flyrun.fitting.smooths import Basis, Directions, Smooth
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.schema import quoted
from flyrun.tables.layout import Column, Layout

if TYPE_CHECKING:
    import h5py
    import pandas as pd

    from flyrun.tables.new_rows import Place

_FEWEST = 5  # different values that a smooth can be of
_STEPS, _CUTS = 100, (0.1, 0.5, 0.9)  # at which a curve is shown, and shares of a further column's range
INTERVAL = (0.03, 0.97)  # of what is shown


@dataclass(frozen=True)
class Curves:
    """Of a smooth, one a level of `by`. columns: of the smooth, and of by; levels: (L,) of by, or ("",);
    design: (N, q) each, what effects add to rows; directions: how effects make the curve; centres: (L, l),
    the means of its lines' columns over rows.
    """

    smooth: Smooth
    columns: tuple[Column, ...]
    by: Column | None
    design: tuple[np.ndarray, ...]
    directions: tuple[Directions, ...]
    centres: np.ndarray

    @property
    def bar(self) -> Smooth:
        """The smooth, as Factor calls its own."""
        return self.smooth

    @property
    def levels(self) -> tuple[str, ...]:
        """Of by."""
        return tuple(self.by.levels or ()) if self.by else ("",)

    @property
    def names(self) -> list[str]:
        """Of sds, curve by curve."""
        return self.smooth.sd_names(self.levels)

    def terms(self, rows: Rows, layout: Layout, typed: Mapping[str, Typed]) -> list[Term]:
        """A term a curve."""
        each = len(self.smooth.names)
        sds: list[Prior] = [
            typed[name].prior.scaled(1.0 / layout.target.sd) if name in typed else scales.USUAL.sd
            for name in self.names
        ]
        return [
            Term(
                np.zeros(len(design), np.int64), design, 1, False, tuple(sds[k * each : (k + 1) * each]),
                shares=directions.shares,
            )
            for k, (design, directions) in enumerate(zip(self.design, self.directions, strict=True))
        ]  # fmt: skip

    def numbers(self, h: list[np.ndarray], target_sd: float) -> dict[str, np.ndarray]:
        """Sds by name, (S,) each, of h (S, m) of each curve."""
        values = [target_sd * np.exp(column) for each in h for column in each.T]
        return dict(zip(self.names, values, strict=True))

    def priors(self, terms: list[Term], target_sd: float) -> list[dict[str, str]]:
        """Theirs, a row each."""
        priors = [str(prior.scaled(target_sd)) for term in terms for prior in term.sds]
        return [{"term": name, "prior": prior} for name, prior in zip(self.names, priors, strict=True)]

    @property
    def words(self) -> str:
        """What the curves are made of."""
        of = f" for each of {len(self.levels)} levels of {self.smooth.by}" if self.by else ""
        return f"{self.smooth}: {self.design[0].shape[1]} directions of a curve{of}"

    def drawn(
        self, sampled: list[np.ndarray], draws: np.ndarray, target_sd: float, freedom: list[float]
    ) -> Drawn:
        """What is kept of effects (S, q) of each curve. freedom: effective degrees of freedom of each."""
        values = [
            target_sd * effects @ directions.matrix.T
            for effects, directions in zip(sampled, self.directions, strict=True)
        ]
        degrees = np.array(freedom) + self.centres.shape[1]
        return Drawn(self.smooth, self.columns, self.by, draws, np.stack(values), self.centres, degrees)


def of_table(smooth: Smooth, layout: Layout, frame: pd.DataFrame, copies: np.ndarray | None) -> Curves:
    """Curves of a table's rows. Raises ConfigError for columns that no smooth can be of."""
    from flyrun.tables.encode import numbers  # late: as above

    columns, by = _columns(smooth, layout)
    for column in columns:
        different = frame[column.name].nunique()
        if different < _FEWEST:
            raise ConfigError(
                f"{smooth}: {column.name} has {different} different values, of which a curve needs "
                f"{_FEWEST}; write C({quoted(column.name)}), a coefficient each, in its place"
            )
        if different < smooth.k:
            fewer = replace(smooth, k=different)
            raise ConfigError(
                f"{smooth}: {column.name} has {different} different values, fewer than k = {smooth.k}; "
                f"write {fewer}"
            )
    values = np.stack([frame[column.name].to_numpy(np.float64) for column in columns], axis=-1)
    basis = _basis(smooth, columns)
    code = np.zeros(len(frame), np.int64) if by is None else numbers(frame[by.name], by)
    designs, directions, centres = list[np.ndarray](), list[Directions](), list[np.ndarray]()
    for level, curve in enumerate(smooth.curves([] if by is None else by.levels or [])):
        chosen = code == level
        if min(len(np.unique(column)) for column in values[chosen].T) < _FEWEST:
            raise ConfigError(
                f"{smooth}: rows of {curve} have fewer than {_FEWEST} different values of a column; write "
                f"{replace(smooth, by=None)}, or {smooth.instead}"
            )
        some, how = smooths.design(basis, values[chosen], None if copies is None else copies[chosen])
        whole = np.zeros((len(frame), some.shape[1]))
        whole[chosen] = some
        designs.append(whole)
        directions.append(how)
        weights = None if copies is None else copies[chosen]
        centres.append(np.average(_lines(values[chosen]), axis=0, weights=weights))
    return Curves(smooth, columns, by, tuple(designs), tuple(directions), np.stack(centres))


def _lines(values: np.ndarray) -> np.ndarray:
    """What is not penalised of a smooth of values (n, m), but the constant: (n, 2^m − 1), as `products`."""
    places = smooths.products(range(values.shape[1]))
    return np.stack([values[:, part].prod(axis=1) for part in places], axis=-1)


def _columns(smooth: Smooth, layout: Layout) -> tuple[tuple[Column, ...], Column | None]:
    """The columns of a smooth, and that of by. Raises ConfigError for those of another kind."""
    by_name = {column.name: column for column in layout.sources}
    for name in smooth.names:
        if by_name[name].levels is not None:
            raise ConfigError(
                f"{smooth}: {name} is a category, and smooths are of numbers; write {quoted(name)} instead"
            )
    by = None if smooth.by is None else by_name[smooth.by]
    if by is not None and by.levels is None:
        coded = replace(smooth, coded=True)
        raise ConfigError(f"{smooth}: {smooth.by} is a column of numbers; write {coded} if these are names")
    return tuple(by_name[name] for name in smooth.names), by


def _basis(smooth: Smooth, columns: tuple[Column, ...]) -> Basis:
    return Basis(tuple((column.low, column.high) for column in columns), smooth.k)


@dataclass(frozen=True)
class Drawn:
    """A smooth of a finished fit. values: (L, S, K), of each curve the splines' coefficients, without line
    and mean; draws: (S,) with which of the posterior's they go; centres: as of Curves; freedom: (L,),
    effective degrees of freedom of each with its line.
    """

    smooth: Smooth
    columns: tuple[Column, ...]
    by: Column | None
    draws: np.ndarray
    values: np.ndarray
    centres: np.ndarray
    freedom: np.ndarray

    def take(self, which: np.ndarray) -> Drawn:
        """With some of the draws, (m,)."""
        return replace(self, draws=self.draws[which], values=self.values[:, which])

    @property
    def bar(self) -> Smooth:
        """The smooth, as Effects calls its groups."""
        return self.smooth

    def with_new(self, new: str, seed: int) -> Drawn:
        """As of Effects: itself."""
        return self

    def all_new(self, new: str) -> Drawn:
        """As of Effects: itself."""
        return self

    def refuse_new(self, rows: pd.DataFrame, what: str, place: Place) -> None:
        """Raise DataError for a value beyond the ends of the fit's, where that is refused."""
        for column in self.columns if not self.smooth.linear else ():
            values = rows[column.name].to_numpy(np.float64)
            beyond = (values < column.low) | (values > column.high)
            if beyond.any():
                at = int(beyond.argmax())
                raise DataError(
                    f"{what}: {place(rows.index[at])}, {column.name} is {values[at]:g}, beyond "
                    f"{column.low:g} to {column.high:g}, which {self.smooth} was fitted to; leave the row "
                    f"out, or fit with {replace(self.smooth, linear=True)}"
                )

    def added(self, rows: pd.DataFrame) -> np.ndarray:
        """What it adds to the predictor of rows, (S, n)."""
        from flyrun.tables.encode import numbers  # late: as above

        values = np.stack([rows[column.name].to_numpy(np.float64) for column in self.columns], axis=-1)
        splines = _basis(self.smooth, self.columns).splines(values)
        code = np.zeros(len(rows), np.int64) if self.by is None else numbers(rows[self.by.name], self.by)
        total = np.empty((len(self.draws), len(rows)))
        for level in np.unique(code):
            chosen = code == level
            total[:, chosen] = self.values[level] @ splines[chosen].T
        return total

    def stored(self) -> tuple[dict, dict]:
        """As the file of draws holds them: axes and variables."""
        axes = {"curve": range(len(self.values)), "draw": self.draws, "spline": range(self.values.shape[2])}
        axes |= {"column_of_centres": range(self.centres.shape[1])}
        return axes, {"coefficients": self.values, "centres": self.centres, "freedom": self.freedom}

    def shown(self, beta: np.ndarray, names: list[str]) -> list[dict[str, Any]]:
        """Its curves with their lines, as reports show them: on even steps, 0 on average over rows.

        beta: (S', D) all draws of the coefficients of these names. Of a surface cuts along its first column.
        """
        (along, *across), smooth = self.columns, self.smooth
        grid, beta = np.linspace(along.low, along.high, _STEPS), beta[self.draws]
        cuts = [[column.low + part * (column.high - column.low) for column in across] for part in _CUTS]
        shown = list[dict[str, Any]]()
        for k, curve in enumerate(smooth.curves([] if self.by is None else self.by.levels or [])):
            level = self.by and f":{smooth.by_name}[{(self.by.levels or [])[k]}]"
            lines = [":".join(part) + (level or "") for part in smooths.products(smooth.names)]
            for cut in cuts if across else [[]]:
                values = np.column_stack([grid, *(np.full(_STEPS, value) for value in cut)])
                total = self.values[k] @ _basis(smooth, self.columns).splines(values).T
                for line, column in zip(lines, (_lines(values) - self.centres[k]).T, strict=True):
                    if line in names:
                        total += np.outer(beta[:, names.index(line)], column)
                low, high = np.quantile(total, INTERVAL, axis=0)
                numbers = {"value": grid, "mean": total.mean(axis=0), "sd": total.std(axis=0, ddof=1)}
                numbers |= {"low": low, "high": high}
                at = ", ".join(f"{c.name} = {value:.3g}" for c, value in zip(across, cut, strict=True))
                about = {"smooth": curve, "column": along.name, "at": at, "splines": self.values.shape[2]}
                about |= {"freedom": float(self.freedom[k])}
                shown.append(about | {name: each.tolist() for name, each in numbers.items()})
        return shown


def read(group: h5py.Group, smooth: Smooth, layout: Layout) -> Drawn:
    """Of a group of a fit's file of draws."""
    columns, by = _columns(smooth, layout)
    variables = (group[name][...] for name in ("draw", "coefficients", "centres", "freedom"))
    return Drawn(smooth, columns, by, *variables)
