"""Smooth curves of a table's columns: their terms, as of the rows that are fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from flyrun.families.prior_densities import Prior
from flyrun.fitting import smooths
from flyrun.fitting.groups import scales
from flyrun.fitting.groups.stored_curves import Drawn, basis_of, columns_of, lines_of
from flyrun.fitting.groups.term import Term
from flyrun.fitting.priors import Typed
from flyrun.fitting.smooths import Directions, Smooth
from flyrun.fitting.table_rows import Rows
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import quoted
from flyrun.tables.layout import Column, Layout

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 5  # different values that a smooth can be of


@dataclass(frozen=True)
class Curves:
    """Of a smooth, one a level of `by`. columns: of the smooth, and of by; levels: (L,) of by, or ("",);
    design: (N, q) each, what effects add to rows; directions: how effects make the curve; centres: (L, l),
    the means of its lines' columns over rows; predictor, usual: as of Factor.
    """

    smooth: Smooth
    columns: tuple[Column, ...]
    by: Column | None
    design: tuple[np.ndarray, ...]
    directions: tuple[Directions, ...]
    centres: np.ndarray
    predictor: int = 0
    usual: scales.Priors = scales.USUAL

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
        each, unit = len(self.smooth.names), 1.0 / self.unit(layout.target.sd)
        sds: list[Prior] = [
            typed[name].prior.scaled(unit) if name in typed else self.usual.sd for name in self.names
        ]
        return [
            Term(
                np.zeros(len(design), np.int64), design, 1, False, tuple(sds[k * each : (k + 1) * each]),
                shares=directions.shares, predictor=self.predictor,
            )
            for k, (design, directions) in enumerate(zip(self.design, self.directions, strict=True))
        ]  # fmt: skip

    def unit(self, target_sd: float) -> float:
        """As of Factor."""
        return 1.0 if self.smooth.of else target_sd

    def numbers(self, h: list[np.ndarray], target_sd: float) -> dict[str, np.ndarray]:
        """Sds by name, (S,) each, of h (S, m) of each curve."""
        values = [self.unit(target_sd) * np.exp(column) for each in h for column in each.T]
        return dict(zip(self.names, values, strict=True))

    def h_of(self, stored: Mapping[str, np.ndarray], target_sd: float) -> list[np.ndarray]:
        """h (S, m) of each curve by what `numbers` tells."""
        logs = np.log(np.stack([stored[name] for name in self.names], axis=1) / self.unit(target_sd))
        return np.split(logs, len(self.design), axis=1)

    def sampled(self, drawn: Drawn, target_sd: float) -> list[np.ndarray]:
        """Effects (S, q) of each curve by what is kept of them."""
        pairs = zip(drawn.values, self.directions, strict=True)
        return [its @ np.linalg.pinv(how.matrix).T / self.unit(target_sd) for its, how in pairs]

    def added(self, drawn: Drawn, which: np.ndarray, target_sd: float) -> np.ndarray:
        """What it adds to the predictor of rows (m,), (S, m), in the target's units."""
        pairs = zip(self.sampled(drawn, target_sd), self.design, strict=True)
        total: np.ndarray = sum(effects @ columns[which].T for effects, columns in pairs)
        return self.unit(target_sd) * total

    def priors(self, terms: list[Term], target_sd: float) -> list[dict[str, str]]:
        """Theirs, a row each."""
        unit = self.unit(target_sd)
        priors = [str(prior.scaled(unit)) for term in terms for prior in term.sds]
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
            self.unit(target_sd) * effects @ directions.matrix.T
            for effects, directions in zip(sampled, self.directions, strict=True)
        ]
        degrees = np.array(freedom) + self.centres.shape[1]
        return Drawn(self.smooth, self.columns, self.by, draws, np.stack(values), self.centres, degrees)


def _as_category(smooth: Smooth, name: str) -> str:
    """What to write where a column has few values, and why."""
    category = f"C({quoted(name)})"
    if others := [other for other in smooth.names if other != name]:
        return f"s({quoted(others[0])}, by={category}), a curve each,"
    if smooth.by:
        return f"{category} * {smooth.by_name}, a coefficient each,"
    return f"{category}, a coefficient each,"


def of_table(smooth: Smooth, layout: Layout, frame: pd.DataFrame, copies: np.ndarray | None) -> Curves:
    """Curves of a table's rows. Raises ConfigError for columns that no smooth can be of."""
    columns, by = columns_of(smooth, layout)
    for column in columns:
        different = frame[column.name].nunique()
        if different < _FEWEST:
            raise ConfigError(
                f"{smooth}: {column.name} has {different} different values, of which a curve needs "
                f"{_FEWEST}; write {_as_category(smooth, column.name)} in its place"
            )
        if different < smooth.k:
            fewer = replace(smooth, k=different)
            raise ConfigError(
                f"{smooth}: {column.name} has {different} different values, fewer than k = {smooth.k}; "
                f"write {fewer}"
            )
    values = np.stack([frame[column.name].to_numpy(np.float64) for column in columns], axis=-1)
    basis = basis_of(smooth, columns)
    code = np.zeros(len(frame), np.int64) if by is None else by.coded(frame[by.name])
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
        centres.append(np.average(lines_of(values[chosen]), axis=0, weights=weights))
    return Curves(smooth, columns, by, tuple(designs), tuple(directions), np.stack(centres))
