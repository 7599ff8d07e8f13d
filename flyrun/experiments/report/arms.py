"""The arms of a run as the report sees them: their cells, done or not, and what is known of the done ones."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from flyrun.experiments.runner.store import CellInfo

BASELINE = "regular"


@dataclass(frozen=True)
class ArmResult:
    """One arm. infos (cell.json) and cells are parallel, of the seeds that are done.

    cells, pooled: what the sections worked out of each cell, and of all of them, as attributes; a cell lacks
    those of sections that it has no input for. pooled is None where no seed is done.
    sweep: where it stands in one, {"arm": base arm, "axis": name, "point": value}.
    """

    name: str
    wanted: int
    infos: tuple[CellInfo, ...]
    cells: tuple[SimpleNamespace, ...]
    pooled: Any
    states: dict[int, str]
    messages: dict[int, str]
    paper: dict[str, float]
    sweep: dict[str, Any] | None = None

    @property
    def own_name(self) -> str:
        """Its name without the run's that it has on a page of several."""
        return self.name.rpartition("/")[2]

    @property
    def done(self) -> int:
        """Number of finished seeds."""
        return len(self.cells)

    def has(self, *names: str) -> bool:
        """Whether a seed is done and every cell has these values."""
        return bool(self.cells) and all(hasattr(cell, name) for cell in self.cells for name in names)

    def setting(self, *keys: str, default: Any = None) -> Any:
        """A value of the resolved config; default when no cell is done or there is no such key."""
        tree = self.infos[0].get("settings", {}) if self.infos else {}
        for key in keys:
            if not isinstance(tree, dict) or key not in tree:
                return default
            tree = tree[key]
        return tree

    def fact(self, key: str, default: Any = None) -> Any:
        """A fact that the method told about this arm."""
        return self.infos[0].get("facts", {}).get(key, default) if self.infos else default

    @property
    def exact(self) -> bool | str | None:
        """Whether its answers follow the posterior; "unknown" where nobody knows, None where none is done."""
        told = self.fact("exact")
        return "unknown" if self.infos and told is None else told

    def fact_mean(self, key: str) -> float:
        """Mean over seeds of a number among the facts; NaN where it is not known."""
        values = [info.get("facts", {}).get(key) for info in self.infos]
        known = [value for value in values if value is not None]
        return float(np.mean(known)) if known else float("nan")

    def each(self, name: str) -> np.ndarray:
        """A value of the cells that is one number, (seeds,)."""
        return np.array([getattr(cell, name) for cell in self.cells], dtype=float)

    @property
    def problem(self) -> str:
        """What arms on the same data with the same model share."""
        groups = (self.setting(group, default={}) for group in ("dataset", "model"))
        return "; ".join(", ".join(f"{key}={value}" for key, value in group.items()) for group in groups)


@dataclass(frozen=True)
class Run:
    """A run's title page and its arms, in order. source: where the
    paper's values come from.  paper_settings: arm, or "all" -> {group.key: value} of the paper.
    """

    info: dict[str, Any]
    arms: tuple[ArmResult, ...]
    source: str
    paper_settings: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def done(self) -> list[ArmResult]:
        """The arms with a finished seed."""
        return [arm for arm in self.arms if arm.done]

    @property
    def infos(self) -> list[Any]:
        """What says in which environments its numbers came about: of all cells, and of the whole."""
        whole = [{"environment": self.info["environment"]}] if "environment" in self.info else []
        return [*(info for arm in self.arms for info in arm.infos), *whole]

    @property
    def baseline(self) -> ArmResult | None:
        """The arm that speedups are relative to; of several runs the first one's."""
        return next((arm for arm in self.arms if arm.own_name == BASELINE), None)
