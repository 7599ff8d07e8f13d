"""Smooth curves of a finished fit, as its file holds them: for reports and new rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.fitting import smooths
from flyrun.fitting.smooths import Basis, Smooth
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.schema import quoted
from flyrun.tables.layout import Column, Layout, plain

if TYPE_CHECKING:
    import h5py

    from flyrun.tables.new_rows import Place, Rows

_STEPS, _CUTS = 100, (0.1, 0.5, 0.9)  # at which a curve is shown, and shares of a further column's range
INTERVAL = (0.03, 0.97)  # of what is shown


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

    def refuse_new(self, rows: Rows, what: str, place: Place) -> None:
        """Raise DataError for a value beyond the ends of the fit's, where that is refused."""
        for column in self.columns if not self.smooth.linear else ():
            values = rows.columns[column.name]
            beyond = (values < column.low) | (values > column.high)
            if beyond.any():
                at = int(beyond.argmax())
                raise DataError(
                    f"{what}: {place(rows.index[at])}, {column.name} is {values[at]:g}, beyond "
                    f"{column.low:g} to {column.high:g}, which {self.smooth} was fitted to; leave the row "
                    f"out, or fit with {replace(self.smooth, linear=True)}"
                )

    def added(self, rows: Rows) -> np.ndarray:
        """What it adds to the predictor of rows, (S, n)."""
        values = np.stack([rows.columns[column.name] for column in self.columns], axis=-1)
        splines = basis_of(self.smooth, self.columns).splines(values)
        code = np.zeros(len(rows), np.int64) if self.by is None else rows.columns[self.by.name]
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
        cuts = [[_cut(column, share) for column in across] for share in _CUTS]
        shown = list[dict[str, Any]]()
        for k, curve in enumerate(smooth.curves([] if self.by is None else self.by.levels or [])):
            level = self.by and f":{smooth.by_name}[{(self.by.levels or [])[k]}]"
            lines = [":".join(part) + (level or "") for part in smooths.products(smooth.names)]
            for cut in cuts if across else [[]]:
                values = np.column_stack([grid, *(np.full(_STEPS, value) for value in cut)])
                total = self.values[k] @ basis_of(smooth, self.columns).splines(values).T
                for line, column in zip(lines, (lines_of(values) - self.centres[k]).T, strict=True):
                    if line in names:
                        total += np.outer(beta[:, names.index(line)], column)
                low, high = np.quantile(total, INTERVAL, axis=0)
                numbers = {"value": grid, "mean": total.mean(axis=0), "sd": total.std(axis=0, ddof=1)}
                numbers |= {"low": low, "high": high}
                at = ", ".join(f"{c.name} = {plain(value)}" for c, value in zip(across, cut, strict=True))
                about = {"smooth": curve, "column": along.name, "at": at, "splines": self.values.shape[2]}
                about |= {"freedom": float(self.freedom[k])}
                shown.append(about | {name: each.tolist() for name, each in numbers.items()})
        return shown


def read(group: h5py.Group, smooth: Smooth, layout: Layout) -> Drawn:
    """Of a group of a fit's file of draws."""
    columns, by = columns_of(smooth, layout)
    variables = (group[name][...] for name in ("draw", "coefficients", "centres", "freedom"))
    return Drawn(smooth, columns, by, *variables)


def _cut(column: Column, share: float) -> float:
    """At this share of its range, to a hundredth of that or less."""
    value = column.low + share * (column.high - column.low)
    return round(value, 2 - math.floor(math.log10(column.high - column.low))) + 0.0  # -0 is 0


def lines_of(values: np.ndarray) -> np.ndarray:
    """What is not penalised of a smooth of values (n, m), but the constant: (n, 2^m − 1), as `products`."""
    places = smooths.products(range(values.shape[1]))
    return np.stack([values[:, part].prod(axis=1) for part in places], axis=-1)


def columns_of(smooth: Smooth, layout: Layout) -> tuple[tuple[Column, ...], Column | None]:
    """The columns of a smooth, and that of by. Raises ConfigError for those of another kind."""
    by_name = {column.name: column for column in layout.parameters.get(smooth.of, layout).sources}
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


def basis_of(smooth: Smooth, columns: tuple[Column, ...]) -> Basis:
    """The splines of a smooth of these columns."""
    return Basis(tuple((column.low, column.high) for column in columns), smooth.k)
