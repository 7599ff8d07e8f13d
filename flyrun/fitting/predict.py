"""Predictions of new rows by a finished fit: read, checked, and told by mean, sd and interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.fitting.fitted_draws import Fitted, means_at, others, predictor, responses_at, trials_of
from flyrun.fitting.groups.stored_effects import PARTS
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.schema import did_you_mean, listing, quoted
from flyrun.tables import new_rows
from flyrun.tables.new_rows import Rows
from flyrun.tables.options import Table

if TYPE_CHECKING:
    import pandas as pd

#: of new targets: one number, or several
Seed = int | tuple[int, ...]
#: column of rows' numbers in their file
ROW = "row"
KINDS = ("mean", "chance", "response")
# Rows that are worked out at a time. New targets are drawn by a generator for each such block, so that they
# do not depend on how a table was cut: do not change it without need.
_BLOCK = 512
_SQUARED = 1e150  # numbers above have no square
_NEW = "the new rows"
#: what to say of a prediction that is not finite
BEYOND = (
    "beyond 1.8e308, the largest number there is, so that inf stands there; are the columns in the units of "
    "the fit's table?"
)


def predictions(
    fit: Fitted,
    frame: pd.DataFrame,
    kind: str = "mean",
    interval: float = 0.9,
    draws: int | None = None,
    seed: int = 0,
    new_groups: str = "refuse",
) -> pd.DataFrame:
    """Mean, sd and the ends low and high of the central interval of each row's prediction, a row each.

    kind: "mean", of the target's expectation (the chance of the second of two classes, of each of several;
    successes among a row's trials; of log(y) where that is the target), "chance", of success in one trial, or
    "response", of new targets drawn with this seed.  draws: use so many of the fit's; by default all.
    new_groups: "refuse" levels of groups that the fit has not seen, "draw" an effect of each, or take "zero".
    Columns mean, sd, low, high; of several classes mean[LEVEL] and so on; of a fit with groups attrs["error"]
    is the largest standard error of a mean.  Raises DataError for rows that do not fit.
    """
    fit = fit.thinned(draws).with_new(new_groups, seed)
    rows = checked_rows(fit, frame)
    return predicted(fit, rows, kind, interval, seed)


def checked_rows(fit: Fitted, frame: pd.DataFrame) -> Rows:
    """Rows of a frame, checked. Raises DataError for those that do not fit."""
    new_rows.lacking(fit.layout, [*map(str, frame.columns)], _NEW, fit.groups)
    return _checked(fit, new_rows.of_frame(frame, fit.needed), frame.index, _NEW, _place)


def _checked(
    fit: Fitted, table: Mapping[str, np.ndarray], index: Sequence[Any], what: str, place: new_rows.Place
) -> Rows:
    rows = new_rows.checked(table, index, fit.layout, what, place, fit.groups)
    for effects in fit.effects:
        effects.refuse_new(rows, what, place)
    return rows


def means(fit: Fitted, rows: Rows, kind: str = "mean") -> Iterator[np.ndarray]:
    """Expected targets of checked rows, a block of rows at a time, (S, n, 1); of K classes (S, n, K).

    kind: "mean", or "chance" as of `predictions`.
    """
    return _drawn(fit, rows, kind, 0, 0)


def refuse_kind(fit: Fitted, kind: str, known: Sequence[str] = KINDS) -> None:
    """Raise ConfigError for a kind that is not known, or that a fit does not have."""
    if kind not in known:
        raise ConfigError(f"--kind {kind}: must be {listing(known, 'or')}")
    if kind == "chance" and not fit.layout.domain.has_chance:
        raise ConfigError(f"--kind chance: {fit.layout.explained} has an expectation, no chance; take mean")


def rows_of(fit: Fitted, path: Path, where: str | None = None) -> Rows:
    """The rows of a file, those that `where` asks for, read as the fit's was, checked.

    Raises DataError as `checked_rows` does.
    """
    from flyrun.tables import pieces, text_table  # late: a frame needs neither

    options = read_as(fit, where)
    new_rows.lacking(fit.layout, pieces.names(path, options), str(path), fit.groups)

    def place(index: object) -> str:
        return text_table.place(path, int(str(index)), options)

    read = pieces.pieces(path, fit.needed, options, fit.layout.text | set(fit.groups))
    checked = [checked_piece(fit, piece, str(path), place) for piece in read]
    if not checked:
        raise DataError(f"{path}: has no row to predict")
    return Rows.together(checked)


def read_as(fit: Fitted, where: str | None = None) -> Table:
    """How tables of new rows are read: as the fit's was, and such rows alone."""
    data = fit.settings["dataset"]
    kept = {key: data[key] for key in ("decimal", "encoding", "na", "categorical") if key in data}
    return Table(**kept, where=where)


def checked_piece(fit: Fitted, piece: pd.DataFrame, what: str, place: new_rows.Place) -> Rows:
    """Some rows of the table `what`, checked. Raises DataError as `checked_rows` does."""
    return _checked(fit, new_rows.of_frame(piece, fit.needed), piece.index, what, place)


def kept_of(fit: Fitted, path: Path, names: Sequence[str]) -> pd.DataFrame:
    """Columns of a file to write beside predictions. DataError for those that there are not, or cannot be."""
    import pandas as pd  # late: as below

    from flyrun.tables import pieces  # late: as above

    refuse_kept(fit, names)
    options, known = read_as(fit), pieces.names(path, read_as(fit))
    if lost := next((name for name in names if name not in known), None):
        raise DataError(f"--keep {quoted(lost)}: {path} has no such column{did_you_mean(lost, known)}")
    return pd.concat([*pieces.pieces(path, names, options, ())])


def refuse_kept(fit: Fitted, names: Sequence[str]) -> None:
    """ConfigError for a column to write beside predictions that has the name of one of theirs."""
    if both := next((name for name in names if name in (ROW, *fit.predicted)), None):
        raise ConfigError(
            f"--keep {quoted(both)}: the predictions have a column of this name; rename it in the file"
        )


def predicted(
    fit: Fitted, rows: Rows, kind: str = "mean", interval: float = 0.9, seed: Seed = 0, first: int = 0
) -> pd.DataFrame:
    """`predictions` of checked rows, of which the first is the table's row number `first`."""
    import pandas as pd  # late: a service of single rows needs none

    names, values, error = summaries(fit, rows, kind, interval, seed, first)
    table = pd.DataFrame(values, rows.index, names)
    if error > 0.0:
        table.attrs["error"] = error
    return table


def of_row(
    fit: Fitted, row: Mapping[str, Any], kind: str = "mean", interval: float = 0.9, seed: int = 0
) -> dict[str, float]:
    """`predictions` of one row, given by its columns. Raises DataError for one that does not fit."""
    rows = _checked(fit, new_rows.of_mapping(row), range(1), "the new row", lambda index: "its only row")
    names, values, _ = summaries(fit, rows, kind, interval, seed)
    return dict(zip(names, values[0].tolist(), strict=True))


def summaries(
    fit: Fitted, rows: Rows, kind: str = "mean", interval: float = 0.9, seed: Seed = 0, first: int = 0
) -> tuple[list[str], np.ndarray, float]:
    """Names and values (n, C) of `predictions` of checked rows, and a mean's largest standard error, of fits
    with groups, else 0.
    """
    refuse_kind(fit, kind)
    blocks, error = list[np.ndarray](), 0.0
    for draws in _drawn(fit, rows, kind, seed, first):
        if fit.effects and len(draws) >= 2 * PARTS:
            parts = [draws[part::PARTS].mean(axis=0) for part in range(PARTS)]
            error = max(error, float(np.std(parts, axis=0, ddof=1).max()) / math.sqrt(PARTS))
        blocks.append(np.stack(summary(draws, interval), axis=-1))
    names = fit.predicted
    values = np.concatenate(blocks) if blocks else np.empty((0, len(names)))
    return names, values.reshape(len(rows), len(names)), error


@np.errstate(all="ignore")
def summary(draws: np.ndarray, interval: float) -> tuple[np.ndarray, ...]:
    """Mean, sd and the ends of the central interval over draws (S, ...), which lose their order and values.

    inf where a draw that takes part is inf; numbers near the largest that there is overflow in no sum.
    """
    ordered = np.moveaxis(np.require(draws, np.float64, "W"), 0, -1)
    ordered.sort(axis=-1)  # along memory: in a tenth of a partition's time
    largest = np.maximum(np.abs(ordered[..., 0]), np.abs(ordered[..., -1]))
    exponent = np.where(np.isfinite(largest) & (largest > _SQUARED), np.frexp(largest)[1], 0)
    if exponent.any():
        np.ldexp(ordered, -exponent[..., None], out=ordered)
    low, high = (_quantile(ordered, end) for end in (0.5 - 0.5 * interval, 0.5 + 0.5 * interval))
    mean = ordered.mean(axis=-1)
    ordered -= mean[..., None]
    np.square(ordered, out=ordered)  # and summed so that the bits do not depend on where memory begins
    sd = np.where(np.isinf(mean), np.inf, np.sqrt(ordered.sum(axis=-1) / max(1, len(draws) - 1)))
    return tuple(np.ldexp(value, exponent) for value in (mean, sd, low, high))


def _quantile(ordered: np.ndarray, chance: float) -> np.ndarray:
    """Of numbers (..., S) in order, (...): as NumPy's, but the outer one where between two is no number.

    NaN, which is in order behind all numbers, makes all NaN.
    """
    at = chance * (ordered.shape[-1] - 1)
    below = math.floor(at)
    first, next_ = ordered[..., below], ordered[..., min(below + 1, ordered.shape[-1] - 1)]
    between = first + (next_ - first) * (at - below)
    nearer = first if chance < 0.5 or at == below else next_
    between = np.where(np.isnan(between), nearer, between)
    return np.where(np.isnan(ordered[..., -1]), np.nan, between)


def overflow(table: pd.DataFrame) -> str:
    """What to say of rows with numbers that are not finite, by name, in a line; else nothing."""
    wrong = ~np.isfinite(table.to_numpy(np.float64)).all(axis=1)
    if not wrong.any():
        return ""
    more = f" and {wrong.sum() - 1:,} more" if wrong.sum() > 1 else ""
    return f"{table.index[wrong.argmax()]}{more}: {BEYOND}"


def _drawn(fit: Fitted, rows: Rows, kind: str, seed: Seed, first: int) -> Iterator[np.ndarray]:
    """Means or new targets of a block of rows at a time, (S, n, 1); of K classes (S, n, K)."""
    assert first % _BLOCK == 0
    for start in range(0, len(rows), _BLOCK):
        block = rows.part(start, start + _BLOCK)
        rng = np.random.default_rng([*np.atleast_1d(seed), (first + start) // _BLOCK])
        p = [predictor(fit, block), *others(fit, block)]
        at = fit, p, 1.0 if kind == "chance" else trials_of(fit, block)
        yield responses_at(*at, rng) if kind == "response" else means_at(*at)


def _place(index: object) -> str:
    return f"row {index}"
