"""Draws of a finished fit, and what each says of checked rows: predictors, expected and new targets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flyrun.families.family import Family, family
from flyrun.fitting.groups.stored_curves import Drawn
from flyrun.fitting.groups.stored_effects import NEW_GROUPS, Effects
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.special import sigmoid
from flyrun.ground.schema import listing, quoted
from flyrun.tables import new_rows
from flyrun.tables.encode import design
from flyrun.tables.layout import Layout
from flyrun.tables.new_rows import Rows

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


@np.errstate(all="ignore")  # a row may be so far out that there is no number for it
def predictor(fit: Fitted, rows: Rows) -> np.ndarray:
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
def others(fit: Fitted, rows: Rows) -> list[np.ndarray]:
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


def trials_of(fit: Fitted, rows: Rows) -> np.ndarray | float:
    """Of each row, (N,), or one number."""
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
    """New targets at predictors, (S, n, K), as of `means_at`; of classes 1 where one is, else 0."""
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
