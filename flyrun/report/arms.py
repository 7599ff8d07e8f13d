"""The arms of a run as the report sees them: their cells, done or not, and the summaries of the done ones."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyrun import paths
from flyrun.errors import StoreError
from flyrun.report import apart, kinds
from flyrun.report.summaries import Draws

if TYPE_CHECKING:
    from flyrun.runner.store import StoredCell

BASELINE = "regular"
FIT = "fit.json"  # what `flyrun fit` found, in its run's folder


@dataclass(frozen=True)
class ArmResult:
    """One arm. infos and cells are parallel, of the seeds that are done; pooled is None when none is.

    cells and pooled are summaries of the run's kind (flyrun/report/kinds.py).
    """

    name: str
    wanted: int
    infos: tuple[dict[str, Any], ...]
    cells: tuple[Any, ...]
    pooled: Any
    states: dict[int, str]
    messages: dict[int, str]
    paper: dict[str, float]

    @property
    def done(self) -> int:
        """Number of finished seeds."""
        return len(self.cells)

    @property
    def seeds_text(self) -> str:
        """ "5" or "3/5"."""
        return str(self.done) if self.done == self.wanted else f"{self.done}/{self.wanted}"

    def setting(self, *keys: str, default: Any = None) -> Any:
        """A value of the resolved config; default when no cell is done or there is no such key."""
        return _dig(self.infos[0].get("settings", {}) if self.infos else {}, keys, default)

    def fact(self, key: str, default: Any = None) -> Any:
        """A fact that the program told about this arm."""
        return self.infos[0].get("facts", {}).get(key, default) if self.infos else default


@dataclass(frozen=True)
class Run:
    """A run's title page (with "fit", what `flyrun fit` found) and its arms, in order. source: where the
    paper's values come from.
    """

    info: dict[str, Any]
    arms: tuple[ArmResult, ...]
    source: str

    @property
    def baseline(self) -> ArmResult | None:
        """The arm that speedups are relative to."""
        return next((arm for arm in self.arms if arm.name == BASELINE), None)

    @property
    def kind(self) -> kinds.Kind:
        """What makes this run's report."""
        if "fit" in self.info:
            return kinds.kind("fit")
        told = next((arm.fact("kind") for arm in self.arms if arm.done), None)
        return kinds.kind(self.info.get("report") or told)


def load(run_dir: Path) -> Run:
    """Read a run's cells and summarise those that are done; raises StoreError without a run.json."""
    from flyrun.runner import store

    info = store.read_run(run_dir)
    if info.get("kind") == "fit":
        with contextlib.suppress(OSError, ValueError):
            info["fit"] = json.loads((run_dir / FIT).read_text(encoding="utf-8"))
    by_arm: dict[str, list[StoredCell]] = {}
    for cell in store.open_cells(run_dir):
        by_arm.setdefault(cell.arm, []).append(cell)
    table, source = published(info)
    apart.summarise(by_arm.values())
    arms = tuple(_arm(name, cells, table.get(name, {})) for name, cells in by_arm.items())
    return Run(info, arms, source)


def published(info: dict[str, Any]) -> tuple[dict[str, dict[str, float]], str]:
    """The paper's values by arm, and where they come from; nothing when the run has none.

    The values travel in run.json ("reference"), or it names the file in results/reference that has them.
    """
    values = info.get("reference") or {}
    name = values if isinstance(values, str) else info.get("reference_name")
    stored: Any = {}
    with contextlib.suppress(OSError, ValueError):
        stored = json.loads((paths.reference_dir() / f"{name}.json").read_text(encoding="utf-8"))
    if isinstance(values, str):
        values = stored.get(info.get("experiment"), {})
    return values, str(stored.get("source", "")) if values else ""


def _arm(name: str, cells: list[StoredCell], paper: dict[str, float]) -> ArmResult:
    states, messages = {}, {}
    chains: list[Draws] = []
    summaries: list[Any] = []
    for cell in cells:
        states[cell.seed], messages[cell.seed] = cell.state, cell.message
        if cell.state == "unfinished" and not cell.message:
            messages[cell.seed] = f"stopped at iteration {cell.iterations_done:,}"
        if cell.state != "done":
            continue
        draws = Draws(cell)
        try:
            summaries.append(kinds.of(draws).cell_summary(draws))
            chains.append(draws)
        except (StoreError, KeyError, ValueError, OSError) as error:
            states[cell.seed], messages[cell.seed] = "failed", f"its draws cannot be read: {error}"
            draws.close()
    pooled = kinds.of(chains[0]).arm_summary(chains) if chains else None
    for draws in chains:
        draws.close()
    return ArmResult(
        name=name,
        wanted=len(cells),
        infos=tuple(draws.cell.info for draws in chains),
        cells=tuple(summaries),
        pooled=pooled,
        states=states,
        messages={seed: message for seed, message in messages.items() if message},
        paper=paper,
    )


def _dig(tree: Any, keys: tuple[str, ...], default: Any) -> Any:
    for key in keys:
        if not isinstance(tree, dict) or key not in tree:
            return default
        tree = tree[key]
    return tree
