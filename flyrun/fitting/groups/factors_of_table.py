"""Terms of a table's rows: the columns of groups and smooths read, and what cannot be one refused."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from flyrun.fitting.bars import Bar
from flyrun.fitting.groups import curves, scales, stored_effects
from flyrun.fitting.groups.curves import Curves
from flyrun.fitting.groups.terms_table import Factor
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.smooths import Smooth
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.schema import did_you_mean, quoted
from flyrun.tables import pieces
from flyrun.tables.columns import usable
from flyrun.tables.dataset import Dataset
from flyrun.tables.layout import Layout, in_order
from flyrun.tables.new_rows import words
from flyrun.tables.options import Table


def read_all(
    table: Table, dataset: Dataset, layout: Layout, posterior: Posterior, bars: Sequence[Bar | Smooth]
) -> list[Factor | Curves]:
    """The terms of a table's rows, in the formula's order. Raises ConfigError for what cannot be one."""
    return [
        _curves(table, dataset, layout, bar, posterior)
        if isinstance(bar, Smooth)
        else _factor(table, layout, bar, posterior)
        for bar in bars
    ]


def _factor(options: Table, layout: Layout, bar: Bar, posterior: Posterior) -> Factor:
    """A term with its groups' names and each row's. Raises ConfigError for what cannot be a group."""
    refuse_columns(bar, pieces.names(Path(str(options.path)).expanduser(), options), layout)
    read = _read(options, layout, bar.columns)
    frame = pd.DataFrame({name: words(read[name]) for name in bar.columns})
    assert len(frame) == layout.rows  # parameters.complete
    _levels(bar, frame)  # before slopes, which help nothing where there is one
    refuse_slopes(bar, layout)
    return factor_of(bar, frame, layout, posterior)


def refuse_columns(bar: Bar, known: Sequence[str], layout: Layout) -> None:
    """Raise ConfigError for columns that there are not, or that cannot be a group's. known: of the table."""
    part = layout.parameters.get(bar.of, layout)
    for name in (*bar.columns, *(slope for slope in bar.slopes if slope.isidentifier())):
        if name not in known:
            raise ConfigError(f"{bar}: {name} is no column of the table; it has {', '.join(known[:12])}")
    used = [column.name for column in (*part.columns, *layout.beside.values(), layout.target)]
    for name in bar.columns:
        if name in used and not (len(bar.columns) > 1 and name in layout.text):
            raise ConfigError(f"{bar}: {name} is a term or the target too; leave it out of one of them")


def refuse_slopes(bar: Bar, layout: Layout) -> None:
    """Raise ConfigError for columns that cannot be a slope's."""
    part = layout.parameters.get(bar.of, layout)
    by_name = {column.name: column for column in part.features}
    for slope in bar.slopes:
        categories = {name.partition("[")[0] for name in part.names if "[" in name}
        if slope not in by_name and not {slope, f"C({slope})"} & categories:
            raise ConfigError(f"{bar}: write {slope}, a column of numbers, among the terms too")
        if slope not in by_name or by_name[slope].levels is not None:
            less = replace(bar, slopes=tuple(name for name in bar.slopes if name != slope), intercept=True)
            within = replace(bar, columns=(*bar.columns, slope), slopes=(), correlated=True)
            raise ConfigError(f"{bar}: {slope} is a category; write {less} + {within}, an effect a level")


def _levels(bar: Bar, frame: pd.DataFrame) -> tuple[np.ndarray, pd.Index]:
    """Each row's level, (n,), and the levels' names. Raises ConfigError where there is one."""
    code, levels = pd.factorize(bar.levels(frame), sort=True)
    if len(levels) < 2:
        raise ConfigError(f"{bar}: {bar.group} has one level, {levels[0]!r}; leave {bar} out")
    return code, levels


def factor_of(bar: Bar, frame: pd.DataFrame, layout: Layout, posterior: Posterior) -> Factor:
    """A term of rows whose columns hold these texts. Raises ConfigError for what are no groups.

    posterior: whose predictors these are, of any rows.
    """
    for name in bar.columns if len(bar.columns) > 1 else ():
        if (held := frame[name].str.contains(":", regex=False)).any():
            level = frame[name][held].iloc[0]
            raise ConfigError(
                f"{bar}: {name} holds {level!r}, whose : stands between levels of two columns; rename it"
            )
    code, levels = _levels(bar, frame)
    if bar.fixed:
        code, levels = _against_reference(bar, code, list(map(str, levels)))
    else:
        bar = bar.with_classes(layout)
    part, columns = layout.parameters.get(bar.of, layout), stored_effects.columns_of(bar, layout)
    places = tuple(part.names.index(column.name) for column in columns)
    names, of = tuple(map(str, levels)), _explained(bar, posterior)
    contrasts = posterior.family.contrasts
    into = None if contrasts is None else np.linalg.inv(contrasts(posterior.levels))
    return Factor(bar, names, tuple(columns), code, np.bincount(code), places, *of, into)


def _explained(bar: Bar | Smooth, posterior: Posterior) -> tuple[int, scales.Priors]:
    """The place of what a term explains among predictors, and the usual priors of its sds."""
    if not bar.of:
        return 0, scales.USUAL
    place = [number.name for number in posterior.auxiliary].index(bar.of)
    usual = scales.OF_LOG if posterior.auxiliary[place].scale == "log" else scales.USUAL
    return posterior.linear + place, usual


def _against_reference(bar: Bar, code: np.ndarray, levels: list[str]) -> tuple[np.ndarray, list[str]]:
    """Codes (n,) and levels of a category with the reference first, others in order.

    Raises DataError for a reference that is no level.
    """
    order = in_order(levels)
    if bar.reference and bar.reference not in levels:
        raise DataError(
            f"{bar.term}: there is no level {bar.reference!r}{did_you_mean(bar.reference, levels)}; name one "
            f"that it has, as --reference {quoted(f'{bar.group}={order[0]}')}"
        )
    first = order.index(bar.reference) if bar.reference else 0
    order.insert(0, order.pop(first))
    place = {level: k for k, level in enumerate(order)}
    return np.array([place[level] for level in levels])[code], order


def _curves(options: Table, dataset: Dataset, layout: Layout, smooth: Smooth, posterior: Posterior) -> Curves:
    its = curves.of_table(smooth, layout, _read(options, layout), dataset.weights)
    predictor, usual = _explained(smooth, posterior)
    return replace(its, predictor=predictor, usual=usual)


def _used(layout: Layout) -> list[str]:
    """Columns that decide which rows are used."""
    return [column.name for column in (*layout.columns, *layout.beside.values(), layout.target)]


def _read(options: Table, layout: Layout, further: Sequence[str] = ()) -> pd.DataFrame:
    """The rows that are used, with further columns as text."""
    path, text = Path(str(options.path)).expanduser(), layout.text | set(further)
    names = list(dict.fromkeys([*_used(layout), *options.complete, *further]))
    parts = usable(pieces.pieces(path, names, options, text), options, str(path), text)
    return pd.concat([piece for piece, _ in parts])


def refuse_alike(factors: Sequence[Factor]) -> None:
    """Raise ConfigError where two have the same groups of rows, and an intercept each."""
    for k, other in enumerate(factors):
        for first in factors[:k]:
            if other.bar.of != first.bar.of:
                continue
            alike = len(np.unique(first.code * len(other.names) + other.code)) == len(first.names)
            if alike and len(first.names) == len(other.names) and first.bar.intercept and other.bar.intercept:
                raise ConfigError(
                    f"{other.bar}: its groups of rows are those of {first.bar}, so that rows do not tell the "
                    f"two apart; write {first.bar} alone"
                )
