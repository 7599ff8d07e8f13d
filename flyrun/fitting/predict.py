"""What a finished fit says of new rows: by every draw the linear predictor, the mean, and new targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.families.family import Family, family
from flyrun.fitting.groups.stored_curves import Drawn
from flyrun.fitting.groups.stored_effects import NEW_GROUPS, PARTS, Effects
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.numerics.special import sigmoid
from flyrun.ground.schema import did_you_mean, listing, quoted
from flyrun.tables import new_rows
from flyrun.tables.encode import design
from flyrun.tables.layout import Layout
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
_FAR = 1e300  # linear predictors of classes beyond are as far out, and have differences


@dataclass(frozen=True)
class Fitted:
    """A finished fit. beta: (S, D) draws on the columns' own scales, or (S, K-1, D) of K classes, of even
    weight; aux: (S, A) auxiliary numbers as they were sampled, where they were; effects: of its groups, a
    factor each, whose draws these are; columns: coefficients of auxiliary numbers that have columns, (S, W)
    by name.
    """

    layout: Layout
    link: str
    family: Family
    settings: dict[str, Any]
    beta: np.ndarray
    aux: np.ndarray
    effects: tuple[Effects | Drawn, ...] = ()
    columns: dict[str, np.ndarray] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Without the family, whose functions do not go to another process: its name does."""
        return vars(self) | {"family": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """With the family of that name."""
        vars(self).update(state | {"family": family(state["settings"]["model"])})

    @property
    def levels(self) -> list[str]:
        """Of a target in classes, which have a prediction each; else none."""
        return list(self.layout.target.levels or []) if self.layout.domain.classes > 2 else []

    @property
    def predicted(self) -> list[str]:
        """Names of the columns of predictions."""
        labels = [f"[{level}]" for level in self.levels] or [""]
        return [f"{key}{label}" for label in labels for key in ("mean", "sd", "low", "high")]

    def thinned(self, draws: int | None) -> Fitted:
        """With so many draws, evenly spaced. Raises ConfigError where there are not so many."""
        there = len(self.beta)
        if draws is None or draws == there:
            return self
        if not 1 <= draws <= there:
            raise ConfigError(f"--draws {draws}: must be from 1 to {there}, as many as the fit has")
        chosen = np.arange(draws) * there // draws
        aux = self.aux[chosen] if self.aux.size else self.aux
        effects = tuple(factor.take(chosen) for factor in self.effects)
        columns = {name: values[chosen] for name, values in self.columns.items()}
        return replace(self, beta=self.beta[chosen], aux=aux, effects=effects, columns=columns)

    def with_new(self, groups: str, seed: int) -> Fitted:
        """Levels of groups that it has not seen are refused, or get an effect drawn by this seed, or none.

        Raises ConfigError for another choice.
        """
        if groups not in NEW_GROUPS:
            raise ConfigError(f"--new-groups {groups}: must be {listing(NEW_GROUPS, 'or')}")
        effects = tuple(factor.with_new(groups, seed) for factor in self.effects)
        return replace(self, effects=effects)

    def with_groups(self, groups: str) -> Fitted:
        """Rows' groups as they are known, or each as a new one whose effect is drawn or zero.

        Raises ConfigError for another choice.
        """
        if groups == "known":
            return self
        if groups not in NEW_GROUPS[1:]:
            raise ConfigError(f"groups={groups!r}: must be {listing(('known', *NEW_GROUPS[1:]), 'or')}")
        return replace(self, effects=tuple(factor.all_new(groups) for factor in self.effects))

    @property
    def needed(self) -> list[str]:
        """Columns that rows of new tables must have."""
        return list(dict.fromkeys([*new_rows.needed(self.layout), *self.groups]))

    @property
    def factors(self) -> tuple[Effects, ...]:
        """Effects of groups."""
        return tuple(factor for factor in self.effects if isinstance(factor, Effects))

    @property
    def groups(self) -> list[str]:
        """The columns of its groups."""
        return list(dict.fromkeys(name for factor in self.effects for name in factor.bar.columns))


def of_draws(
    layout: Layout,
    link: str,
    model: Family,
    settings: dict[str, Any],
    draws: dict[str, np.ndarray],
    effects: tuple[Effects | Drawn, ...] = (),
) -> Fitted:
    """A fit of draws of even weight, (C, T, ...) by name: beta and, if kept, auxiliary numbers.

    effects: of its groups, and so of some of the draws.
    """
    beta = draws["beta"].reshape(-1, *draws["beta"].shape[2:])
    auxiliary = model.auxiliary(len(layout.target.levels or []), 1.0)
    aux = np.empty((len(beta), 0))
    columns = {name: draws[name].reshape(len(beta), -1) for name in layout.parameters}
    if auxiliary and all(number.name in draws for number in auxiliary):
        alike = (
            np.full(len(beta), 0.5) if number.name in columns else draws[number.name].ravel()
            for number in auxiliary
        )
        with np.errstate(all="ignore"):  # what stands for columns is not used
            aux = model.unread(np.stack([*alike], axis=-1))
    if effects:
        kept = effects[0].draws
        beta, aux = beta[kept], aux[kept]
        columns = {name: values[kept] for name, values in columns.items()}
    return Fitted(layout, link, model, settings, beta, aux, effects, columns)


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
        p = [_predictor(fit, block), *_others(fit, block)]
        at = fit, p, 1.0 if kind == "chance" else _trials(fit, block)
        yield responses_at(*at, rng) if kind == "response" else means_at(*at)


@np.errstate(all="ignore")  # a row may be so far out that there is no number for it
def _predictor(fit: Fitted, rows: Rows) -> np.ndarray:
    """η of each draw and row, (S, N), with its offset; of K classes (S, N, K-1), each against the first.

    Ordered classes have no intercept in it: cutpoints stand in for it.
    """
    features = design(rows, fit.layout)[:, : fit.beta.shape[-1]]
    eta: np.ndarray = np.einsum("s...d,nd->sn...", fit.beta, features, optimize=True)
    for offset in _offsets(fit.layout, rows):
        eta = eta + (offset[:, None] if eta.ndim == 3 else offset)
    for effects in fit.effects:
        if not effects.bar.of:
            eta = eta + effects.added(rows)
    return eta


def _offsets(layout: Layout, rows: Rows) -> list[np.ndarray]:
    """What rows add to a predictor, (N,), if anything."""
    beside = [(role, column) for role, column in layout.beside.items() if role in ("offset", "exposure")]
    values = [(role, rows.columns[column.name]) for role, column in beside]
    return [np.log(column) if role == "exposure" else column for role, column in values]


@np.errstate(all="ignore")  # as above
def _others(fit: Fitted, rows: Rows) -> list[np.ndarray]:
    """Auxiliary numbers of each draw as they were sampled, (S, 1) each, or (S, N) of one that has columns."""
    by_row = {
        name: fit.columns[name] @ design(rows, part).T + sum(_offsets(part, rows))
        for name, part in fit.layout.parameters.items()
    }
    for effects in fit.effects:
        if name := effects.bar.of:
            by_row[name] = by_row[name] + effects.added(rows)
    column = fit.layout.beside.get("precision_weights")
    if column is not None and fit.family.precise is not None:
        name = fit.family.precise[0]
        scale = others_at(fit, by_row)[_numbers(fit).index(name)]
        by_row[name] = scale + fit.family.by_weights(rows.columns[column.name])
    return others_at(fit, by_row)


def others_at(fit: Fitted, by_row: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Auxiliary numbers of each draw as they were sampled: these, (S, N) by name, and others (S, 1)."""
    return [by_row.get(name, fit.aux[:, k, None]) for k, name in enumerate(_numbers(fit))]


def _numbers(fit: Fitted) -> list[str]:
    """The names of the auxiliary numbers that were sampled."""
    return [number.name for number in fit.family.auxiliary(len(fit.levels), 1.0)][: fit.aux.shape[1]]


def _trials(fit: Fitted, rows: Rows) -> np.ndarray | float:
    column = fit.layout.beside.get("trials")
    return 1.0 if column is None else rows.columns[column.name]


@np.errstate(all="ignore")  # far out e^η overflows, and is inf
def means_at(fit: Fitted, p: list[np.ndarray], trials: np.ndarray | float) -> np.ndarray:
    """Expected targets at predictors: (S, n, 1), or chances of K classes, (S, n, K).

    p: the linear predictor, (S, n, ...), then the auxiliary numbers as they were sampled.
    """
    eta = p[0]
    if fit.layout.task == "classes":
        eta = np.clip(np.concatenate([np.zeros_like(eta[..., :1]), eta], axis=-1), -_FAR, _FAR)
        odds = np.exp(eta - eta.max(axis=-1, keepdims=True))
        return odds / odds.sum(axis=-1, keepdims=True)
    if fit.layout.task == "ordered":
        cuts = fit.family.read(fit.aux)
        below = np.asarray(sigmoid(cuts[:, None, :] - eta[..., None]))
        ends = np.zeros_like(below[..., :1])
        return np.diff(np.concatenate([ends, below, ends + 1.0], axis=-1), axis=-1)
    if fit.family.mean is None:
        return (trials * _inverse(fit.link)(eta))[..., None]
    return np.asarray(fit.family.mean(trials, p))[..., None]


def _inverse(link: str) -> Any:
    if link == "probit":
        from scipy.special import ndtr  # late: only probit needs it

        return ndtr
    return {"identity": np.asarray, "log": np.exp, "logit": _chance}[link]


def _chance(eta: np.ndarray) -> np.ndarray:
    """1/(1 + e⁻ᵑ), in a fifth of the time of one that is right below e⁻⁷⁰⁰, too."""
    odds = np.negative(eta)
    np.exp(odds, out=odds)
    odds += 1.0
    return np.reciprocal(odds, out=odds)


@np.errstate(all="ignore")  # as above
def responses_at(
    fit: Fitted, p: list[np.ndarray], trials: np.ndarray | float, rng: np.random.Generator
) -> np.ndarray:
    """New targets at predictors, as of `means_at`; of classes 1 where one is, else 0."""
    eta, *others = p
    if fit.layout.task == "classes":
        above = np.cumsum(means_at(fit, p, trials), axis=-1)[..., :-1]
        drawn = (rng.random(above.shape[:2])[..., None] > above).sum(axis=-1)
        return _one_hot(np.where(np.isnan(above[..., 0]), np.nan, drawn), len(fit.levels))
    if fit.aux.shape[1] == 0 and fit.family.auxiliary(len(fit.levels), 1.0):
        model = quoted(f"{fit.settings['model']}")
        raise ConfigError(
            f"--kind response: the fit of model {model} is of an older version, which kept no draws of its "
            "noise; fit again, or leave --kind out"
        )
    trials, unknown = np.broadcast_to(trials, eta.shape), np.isnan(eta)
    at = [np.where(unknown, 0.0, eta), *others]
    drawn = np.asarray(fit.family.draw(rng, trials, at), np.float64)
    drawn[unknown] = np.nan
    return _one_hot(drawn, len(fit.levels)) if fit.levels else drawn[..., None]


def _one_hot(classes: np.ndarray, levels: int) -> np.ndarray:
    hot = (classes[..., None] == np.arange(levels)).astype(np.float64)
    hot[np.isnan(classes)] = np.nan
    return hot


def _place(index: object) -> str:
    return f"row {index}"
