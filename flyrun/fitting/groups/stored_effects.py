"""Groups' effects of a finished fit, as its file holds them: for tables, reports, and new rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.fitting import bars
from flyrun.fitting.bars import Bar
from flyrun.ground import netcdf
from flyrun.ground.errors import DataError
from flyrun.ground.schema import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from flyrun.tables.new_rows import Place

STORED = "groups"  # of the file of draws
NEW_GROUPS = ("refuse", "draw", "zero")
_SHOWN = 10  # levels that a report shows
INTERVAL = (0.03, 0.97)
#: of groups.csv: a level's effect in a row, low and high the ends of its 94 % interval
COLUMNS = ("group", "level", "effect", "mean", "sd", "low", "high", "rows", "shrinkage")


@dataclass(frozen=True)
class Effects:
    """On the columns' own scales. draws: (S,) with which of the posterior's they go, chain after chain;
    values: (G, S, q), of each level its intercept where the slope's column is 0, and its slope; rows: (G,)
    that each had; triangle: (S, 3), T00, T10 and T11 of their distribution N(0, TT').
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
        return ["intercept", *([] if self.bar.slope is None else [self.bar.slope])]

    def take(self, which: np.ndarray) -> Effects:
        """With some of the draws, (m,)."""
        some = {"draws": self.draws[which], "triangle": self.triangle[which]}
        return replace(self, values=self.values[:, which], **some)

    def refuse_new(self, texts: pd.Series, what: str, place: Place) -> None:
        """Raise DataError for a level that the fit has not seen, where that is refused."""
        unknown = ~texts.isin(self.levels)
        if self.new != "refuse" or not unknown.any():
            return
        level = str(texts[unknown].iloc[0])
        raise DataError(
            f"{what}: {place(unknown.idxmax())}, column {self.bar.group} holds {level!r}"
            f"{did_you_mean(level, list(self.levels))}, a group that the fit has not seen; --new-groups draw "
            "gives it an effect drawn as groups differ, --new-groups zero none"
        )

    def of(self, groups: Sequence[str], column: np.ndarray | None) -> np.ndarray:
        """What effects add to the predictor of rows of these groups, (S, n). column: of the slope, (n,)."""
        names = list(dict.fromkeys(groups))
        each = np.stack([self._one(name) for name in names])  # (g, S, q)
        place = {name: k for k, name in enumerate(names)}
        effects = each[[place[name] for name in groups]]
        total = effects[..., 0] if column is None else effects[..., 0] + effects[..., 1] * column[:, None]
        return np.ascontiguousarray(total.T)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {level: k for k, level in enumerate(self.levels)}

    def _one(self, name: str) -> np.ndarray:
        if name in self._places:
            return self.values[self._places[name]].astype(np.float64)
        effects = np.zeros((len(self.draws), len(self.names)))
        if self.new == "draw":  # by the level's name: the same in whatever table and place it stands
            label = f"{self.bar.group} {name}".encode()
            number = int.from_bytes(hashlib.sha256(label).digest()[:8], "big")
            z = np.random.default_rng([self.seed, number]).standard_normal((len(effects), 2))
            effects[:, 0] = self.triangle[:, 0] * z[:, 0]
            if effects.shape[1] == 2:
                effects[:, 1] = self.triangle[:, 1] * z[:, 0] + self.triangle[:, 2] * z[:, 1]
        return effects

    def stored(self) -> tuple[dict, dict]:
        """As the file of draws holds them: axes and variables."""
        axes = {"level": self.levels, "draw": self.draws, "effect": self.names}
        return axes, {"rows": self.rows, "effects": self.values}

    def rows_of_levels(self) -> pd.DataFrame:
        """`table` without an index: group, level, effect, mean, sd, low, high, rows, shrinkage."""
        table = self.table()
        table.index = table.index.set_names(["level", "effect"][: table.index.nlevels])
        table = table.reset_index().assign(group=self.bar.group)
        if "effect" not in table:
            table["effect"] = self.names[0]
        return table.rename(columns={"q03": "low", "q97": "high"})[list(COLUMNS)]

    def shown(self) -> dict[str, Any]:
        """What a report shows: a row a level and effect, of many levels those of the lowest and highest."""
        table = self.rows_of_levels()
        first = table[table["effect"] == self.names[0]]
        order = first.sort_values("mean", kind="stable")["level"].tolist()
        ends = [*order[: _SHOWN // 2], *order[len(order) - _SHOWN // 2 :]]
        kept = order if len(order) <= _SHOWN else ends
        place = {level: k for k, level in enumerate(kept)}
        table = table[table["level"].isin(kept)]
        table = table.assign(place=table["level"].map(place)).sort_values("place", kind="stable")
        rows = table.drop(columns="place").to_dict("records")
        about = {"group": self.bar.group, "effects": self.names, "levels": len(self.levels)}
        return about | {"shown": len(kept), "rows": rows}

    def table(self) -> pd.DataFrame:
        """A row a level and effect: rows, mean, sd, ends of the 94 % interval, and shrinkage.

        shrinkage: the effect's posterior variance over the variance that groups' effects have: near 0 a
        group's own rows decide, near 1 what all groups say.
        """
        import pandas as pd  # late

        variance = np.stack([self.triangle[:, 0] ** 2, (self.triangle[:, 1:] ** 2).sum(axis=1)])
        parts = []
        for k in range(len(self.names)):
            values = self.values[:, :, k]
            low, high = np.quantile(values, INTERVAL, axis=1)
            sd = values.std(axis=1, ddof=1, dtype=np.float64)
            columns = {
                "rows": self.rows,
                "mean": values.mean(axis=1, dtype=np.float64),
                "sd": sd,
                "q03": low.astype(np.float64),
                "q97": high.astype(np.float64),
                "shrinkage": np.minimum(sd**2 / variance[k].mean(), 1.0),
            }
            parts.append(pd.DataFrame(columns, pd.Index(self.levels, name=self.bar.group)))
        if len(parts) == 1:
            return parts[0]
        whole = pd.concat(parts, keys=self.names, names=["effect"]).swaplevel()
        places = np.arange(len(whole)).reshape(len(self.names), -1).T.ravel()  # level by level
        return whole.iloc[places]


def sd_names(bar: Bar) -> list[str]:
    """Of what the posterior holds of effects' distribution: sds, and the correlation of two."""
    if bar.slope is None:
        return [f"sd({bar.group})"]
    by = f"{bar.slope} by {bar.group}"
    return [f"sd({bar.group})", f"sd({by})", f"cor({by})"]


def triangle(bar: Bar, stored: dict[str, np.ndarray]) -> np.ndarray:
    """T00, T10 and T11, (S, 3), by sds and correlation, (S,) each, by name."""
    numbers = [stored[name] for name in sd_names(bar)]
    if len(numbers) == 1:
        return np.stack([numbers[0], np.zeros_like(numbers[0]), np.zeros_like(numbers[0])], axis=-1)
    sd, slope_sd, cor = numbers
    return np.stack([sd, slope_sd * cor, slope_sd * np.sqrt(np.maximum(1.0 - cor**2, 0.0))], axis=-1)


def stored_as(place: int) -> str:
    """The name of a factor's part of the file of draws, by its place in the formula."""
    return STORED if place == 0 else f"{STORED}_{place + 1}"


def read(path: Path, settings: dict[str, Any]) -> tuple[Effects, ...]:
    """Of a fit's file of draws, whose settings tell of its groups: of each factor, in the formula's order."""
    effects = []
    with netcdf.read(path) as file:
        posterior = file["posterior"]
        for place, bar in enumerate(bars.read(settings.get("groups", ()))):
            group = file[stored_as(place)]
            draws = group["draw"][...]
            numbers = {name: posterior[name][...].ravel()[draws] for name in sd_names(bar)}
            levels = tuple(level.decode() for level in group["level"][...])
            parts = group["rows"][...], draws, group["effects"][...], triangle(bar, numbers)
            effects.append(Effects(bar, levels, *parts))
    return tuple(effects)
