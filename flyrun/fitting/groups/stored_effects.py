"""Groups' effects of a finished fit, as its file holds them: for tables, reports, and new rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.fitting import bars
from flyrun.fitting.bars import Bar
from flyrun.fitting.groups import stored_curves
from flyrun.fitting.smooths import Smooth
from flyrun.ground.errors import DataError
from flyrun.ground.schema import did_you_mean

if TYPE_CHECKING:
    import h5py
    import pandas as pd

    from flyrun.tables.layout import Column, Layout
    from flyrun.tables.new_rows import Place, Rows

STORED = "groups"  # of the file of draws
NEW_GROUPS = ("refuse", "draw", "zero")
_CENTRED = 0.1  # sds of a column that its mean is from 0, at most, where it is called centred
PARTS = 8  # of draws, in each of which new effects are spread evenly
_DRAWN = 40  # levels of a figure
_SHOWN = 10  # levels that a report shows
INTERVAL = (0.03, 0.97)
#: of groups.csv: a level's effect in a row, low and high the ends of its 94 % interval
COLUMNS = ("group", "level", "effect", "mean", "sd", "low", "high", "rows", "shrinkage")


@dataclass(frozen=True)
class Effects:
    """On the columns' own scales. draws: (S,) with which of the posterior's they go, chain after chain;
    values: (G, S, q), of each level its intercept where slopes' columns are 0, and its slopes, for each class
    that there is; rows: (G,) that each had; triangle: (S, q, q), T of their distribution N(0, TT').
    new: what is done with levels that the fit has not seen; seed: by which theirs are drawn.
    """

    bar: Bar
    levels: tuple[str, ...]
    rows: np.ndarray
    draws: np.ndarray
    values: np.ndarray
    triangle: np.ndarray
    new: str = "refuse"
    seed: int = 0

    @property
    def names(self) -> list[str]:
        """Of the q effects."""
        return self.bar.names

    def take(self, which: np.ndarray) -> Effects:
        """With some of the draws, (m,)."""
        some = {"draws": self.draws[which], "triangle": self.triangle[which]}
        return replace(self, values=self.values[:, which], **some)

    def with_new(self, new: str, seed: int) -> Effects:
        """With this done with levels that the fit has not seen: a coefficient is of those that it has."""
        return self if self.bar.fixed else replace(self, new=new, seed=seed)

    def all_new(self, new: str) -> Effects:
        """With this done with all levels."""
        return self if self.bar.fixed else replace(self, levels=(), new=new)

    def refuse_new(self, rows: Rows, what: str, place: Place) -> None:
        """Raise DataError for a level that the fit has not seen, where that is refused."""
        if self.new != "refuse":
            return
        texts = self.bar.levels(rows.texts).tolist()
        row = next((row for row, level in enumerate(texts) if level not in self._places), None)
        if row is None:
            return
        level = texts[row]
        what_is = "group"
        remedy = "--new-groups draw gives it an effect drawn as groups differ, --new-groups zero none"
        if self.bar.fixed:
            what_is, remedy = "level", "leave the row out, or fit groups, whose new ones get an effect: "
            remedy += str(Bar(self.bar.columns, of=self.bar.of))
        raise DataError(
            f"{what}: {place(rows.index[row])}, column {self.bar.group} holds {level!r}"
            f"{did_you_mean(level, list(self.levels))}, a {what_is} that the fit has not seen; {remedy}"
        )

    def added(self, rows: Rows) -> np.ndarray:
        """What effects add to the predictor of rows, as `of`."""
        along = [rows.columns[name] for name in self.bar.slopes]
        return self.of(self.bar.levels(rows.texts).tolist(), along)

    def of(self, groups: Sequence[str], columns: Sequence[np.ndarray]) -> np.ndarray:
        """What effects add to the predictor of rows of these groups, (S, n), or of K classes (S, n, K-1).

        columns: of slopes, (n,).
        """
        names = list(dict.fromkeys(groups))
        each = np.stack([self._one(name) for name in names])  # (g, S, q)
        place = {name: k for k, name in enumerate(names)}
        effects = each[[place[name] for name in groups]]
        effects = effects.reshape(*effects.shape[:2], len(self.bar.classes) or 1, -1)
        total = np.einsum("nsck,nk->snc", effects, self.columns(columns, len(effects)))
        return np.ascontiguousarray(total if self.bar.classes else total[..., 0])

    def columns(self, slopes: Sequence[np.ndarray], n: int) -> np.ndarray:
        """What a class's effects multiply, (n, q), by the columns of slopes, (n,) each."""
        return np.stack([*([np.ones(n)] if self.bar.intercept else []), *slopes], axis=-1)

    @cached_property
    def _order(self) -> np.ndarray:
        """Draws, (S,), by the sd of the first effect."""
        return np.argsort(self.triangle[:, 0, 0], kind="stable")

    @cached_property
    def _places(self) -> dict[str, int]:
        return {level: k for k, level in enumerate(self.levels)}

    def _one(self, name: str) -> np.ndarray:
        if name in self._places:
            return self.values[self._places[name]].astype(np.float64)
        effects = np.zeros((len(self.draws), len(self.names)))
        if self.new == "draw":  # by the level's name: the same in whatever table and place it stands
            label = f"{self.bar.label} {name}".encode()
            number = int.from_bytes(hashlib.sha256(label).digest()[:8], "big")
            rng = np.random.default_rng([self.seed, number])
            z = np.stack([stratified(self._order, rng) for _ in self.names], axis=-1)
            effects = np.einsum("sik,sk->si", self.triangle, z)
        return effects

    def stored(self) -> tuple[dict, dict]:
        """As the file of draws holds them: axes and variables."""
        axes = {"level": self.levels, "draw": self.draws, "effect": self.names}
        known = {"prior_sd": np.full(len(self.levels), self.triangle[0, 0, 0])} if self.bar.fixed else {}
        return axes, {"rows": self.rows, "effects": self.values} | known

    def rows_of_levels(self, columns: Sequence[Column] = ()) -> pd.DataFrame:
        """`table` without an index: group, level, effect, mean, sd, low, high, rows, shrinkage.

        columns: of the slopes; with intercepts at their means too, where these are not about 0.
        """
        table = self._rows_of_levels()
        if not (where := uncentred(self.bar, columns)):
            return table
        import pandas as pd  # late

        at = means_of(self.bar, columns)
        intercepts = replace(self.bar, slopes=())
        there = {"values": self.values.astype(np.float64) @ at.T, "triangle": at @ self.triangle}
        at_means = replace(self, bar=intercepts, **there)._rows_of_levels()
        both = pd.concat([table, at_means.assign(effect=at_means["effect"] + f" where {where}")])
        return both.assign(place=both["level"].map(self._places)).sort_values("place", kind="stable")[
            list(COLUMNS)
        ]

    def _rows_of_levels(self) -> pd.DataFrame:
        """As above, of effects as they are."""
        table = self.table()
        table.index = table.index.set_names(["level", "effect"][: table.index.nlevels])
        table = table.reset_index().assign(group=self.bar.group)
        if "effect" not in table:
            table["effect"] = self.names[0]
        return table.rename(columns={"q03": "low", "q97": "high"})[list(COLUMNS)]

    def shown(self, columns: Sequence[Column] = ()) -> dict[str, Any]:
        """What a report shows: a row a level and effect, of many levels those of the lowest and highest.

        drawn: by effect what its figure has, as `_ends`. columns: as of `rows_of_levels`.
        """
        table = whole = self.rows_of_levels(columns)
        there, where = set(table["effect"]), uncentred(self.bar, columns)
        both = ((name, f"{name} where {where}") for name in self.names)
        names = [name for pair in both for name in pair if name in there]
        first = table[table["effect"] == names[1 if where else 0]]
        order = first.sort_values("mean", kind="stable")["level"].tolist()
        ends = [*order[: _SHOWN // 2], *order[len(order) - _SHOWN // 2 :]]
        kept = order if len(order) <= _SHOWN else ends
        place = {level: k for k, level in enumerate(kept)}
        table = table[table["level"].isin(kept)]
        table = table.assign(place=table["level"].map(place)).sort_values("place", kind="stable")
        rows = table.drop(columns="place").to_dict("records")
        about = {"group": self.bar.label, "effects": names, "levels": len(self.levels)}
        about |= {"against": self.levels[0]} if self.bar.fixed else {"sd": sd_names(self.bar)[0]}
        drawn = {name: _ends(whole[whole["effect"] == name]) for name in names}
        return about | {"shown": len(kept), "rows": rows, "drawn": drawn}

    def table(self) -> pd.DataFrame:
        """A row a level and effect: rows, mean, sd, ends of the 94 % interval, and shrinkage.

        shrinkage: the effect's posterior variance over the variance that groups' effects have: near 0 a
        group's own rows decide, near 1 what all groups say.
        """
        import pandas as pd  # late

        variance, first = (self.triangle**2).sum(axis=2), int(self.bar.fixed)  # a reference has none
        parts = []
        for k in range(len(self.names)):
            values = self.values[first:, :, k]
            low, high = np.quantile(values, INTERVAL, axis=1)
            sd = values.std(axis=1, ddof=1, dtype=np.float64)
            columns = {
                "rows": self.rows[first:],
                "mean": values.mean(axis=1, dtype=np.float64),
                "sd": sd,
                "q03": low.astype(np.float64),
                "q97": high.astype(np.float64),
                "shrinkage": np.minimum(sd**2 / variance[:, k].mean(), 1.0),
            }
            parts.append(pd.DataFrame(columns, pd.Index(self.levels[first:], name=self.bar.group)))
        if len(parts) == 1:
            return parts[0]
        whole = pd.concat(parts, keys=self.names, names=["effect"]).swaplevel()
        places = np.arange(len(whole)).reshape(len(self.names), -1).T.ravel()  # level by level
        return whole.iloc[places]


def _ends(table: pd.DataFrame) -> dict[str, Any]:
    """An effect's levels, means and intervals, by mean; of many the lowest and highest."""
    table = table.sort_values("mean", kind="stable")
    if len(table) > _DRAWN:
        table = table.iloc[[*range(_DRAWN // 2), *range(len(table) - _DRAWN // 2, len(table))]]
    return {name: table[name].tolist() for name in ("level", "mean", "low", "high")}


def stratified(order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """N(0, 1) variables, (S,), one a draw, spread evenly over draws.

    They are over the n draws of each of PARTS parts, and over stretches of about √n of these in this order.
    Independent of another call's but for that. Parts are every PARTS-th draw: their means differ by a mean's
    error.
    """
    from scipy.special import ndtri  # late: only new groups need it

    z = np.empty(len(order))
    for part in range(PARTS):
        some = order[order % PARTS == part]
        length = max(1, int(np.sqrt(len(some))))
        stretches = -(-len(some) // length)
        shape = (stretches, length)
        place = rng.random(shape).argsort(axis=1)
        within = np.take_along_axis(rng.random(shape).argsort(axis=0), place, axis=1) + rng.random(shape)
        u = (place + within / stretches) / length
        z[some] = ndtri(u.ravel()[: len(some)].clip(1e-16, 1.0 - 1e-16))
    return z


def sd_names(bar: Bar) -> list[str]:
    """Of what the posterior holds of effects' distribution: sds, and correlations row by row."""
    of = [] if bar.fixed else bar.effects
    by = [bar.named(f"sd({name} by {bar.group})" if name else f"sd({bar.group})", its) for name, its in of]
    labels = [f"{name}[{its}]" if name and its else name or its for name, its in of]
    pairs = [[other, name] for k, name in enumerate(labels) for other in labels[:k]] if bar.correlated else []
    return by + [bar.named(f"cor({', '.join(filter(None, pair))} by {bar.group})") for pair in pairs]


def numbers(bar: Bar, t: np.ndarray, columns: Sequence[Column]) -> dict[str, np.ndarray]:
    """Of T (S, q, q) of effects per unit of columns: sds, then correlations, (S,) each by name.

    Intercepts are where columns of slopes are 0, and at these columns' means too, where that is elsewhere.
    """
    covariance = np.einsum("sik,sjk->ijs", t, t)
    sds = np.sqrt(np.einsum("iis->is", covariance))
    names, values = sd_names(bar), [*sds]
    if bar.correlated:
        rows, others = np.tril_indices(len(sds), -1)
        values += [*(covariance[rows, others] / np.maximum(sds[rows] * sds[others], 1e-300))]
    if where := uncentred(bar, columns):
        at = np.linalg.norm(means_of(bar, columns) @ t, axis=2).T
        for k in reversed(range(len(at))):
            place, its = 1 + k * (1 + len(columns)), bar.classes[k] if bar.classes else ""
            names.insert(place, bar.named(f"sd({bar.group} where {where})", its))
            values.insert(place, at[k])
    return dict(zip(names, values, strict=True))


def means_of(bar: Bar, columns: Sequence[Column]) -> np.ndarray:
    """What takes effects to intercepts at the means of columns, (K, q) of K classes, else (1, q)."""
    means = [[1.0, *(column.mean for column in columns)]]
    return np.kron(np.eye(len(bar.classes) or 1), means)


def uncentred(bar: Bar, columns: Sequence[Column]) -> str:
    """Where columns of slopes are at their means, if not about 0 and there are intercepts; else nothing."""
    away = bar.intercept and any(abs(column.mean) > _CENTRED * column.sd for column in columns)
    return at_means(columns) if away else ""


def columns_of(bar: Bar, layout: Layout) -> list[Column]:
    """The columns of its slopes."""
    by_name = {column.name: column for column in layout.parameters.get(bar.of, layout).features}
    return [by_name[name] for name in bar.slopes]


def at_means(columns: Sequence[Column]) -> str:
    """That these are at their means."""
    return ", ".join(f"{column.name} is {column.mean:.4g}" for column in columns)


def triangle(bar: Bar, stored: dict[str, np.ndarray]) -> np.ndarray:
    """T, (S, q, q), by sds and correlations, (S,) each, by name."""
    numbers, q = [stored[name] for name in sd_names(bar)], len(bar.names)
    sds = np.stack(numbers[:q], axis=-1)
    correlation = np.zeros((len(sds), q, q)) + np.eye(q)
    for row, column, values in zip(*np.tril_indices(q, -1), numbers[q:], strict=False):
        correlation[:, row, column] = values
    root = np.zeros_like(correlation)
    for i, k in zip(*np.tril_indices(q), strict=True):
        left = correlation[:, i, k] - (root[:, i, :k] * root[:, k, :k]).sum(axis=1)
        root[:, i, k] = np.sqrt(left.clip(0.0)) if i == k else left / root[:, k, k].clip(1e-300)
    return sds[:, :, None] * root


def stored_as(place: int) -> str:
    """The name of a factor's part of the file of draws, by its place in the formula."""
    return STORED if place == 0 else f"{STORED}_{place + 1}"


def read(
    file: h5py.File, settings: dict[str, Any], layout: Layout
) -> tuple[Effects | stored_curves.Drawn, ...]:
    """Of a fit's open file of draws, whose settings name its groups: each factor, in the formula's order."""
    effects = list[Effects | stored_curves.Drawn]()
    posterior = file["posterior"]
    for place, term in enumerate(bars.read(settings.get("groups", ()))):
        group = file[stored_as(place)]
        if isinstance(term, Smooth):
            effects.append(stored_curves.read(group, term, layout))
            continue
        bar = term.with_classes(layout)
        draws = group["draw"][...]
        numbers = {name: posterior[name][...].ravel()[draws] for name in sd_names(bar)}
        levels = tuple(level.decode() for level in group["level"][...])
        if bar.fixed:
            of_effects = np.full((len(draws), 1, 1), group["prior_sd"][0])
        else:
            of_effects = triangle(bar, numbers)
        parts = group["rows"][...], draws, group["effects"][...], of_effects
        effects.append(Effects(bar, levels, *parts))
    return tuple(effects)
