"""Which cells are finished, which go on, which begin, and why: said before anything runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flyrun.experiments.config.protocol import Protocol
from flyrun.experiments.runner import store
from flyrun.experiments.runner.cell import Cell


@dataclass(frozen=True)
class Planned:
    """action: "cached", "resume" or "run"."""

    cell: Cell
    action: str
    reason: str


def plan(cells: Iterable[Cell], run_dir: Path, fresh: bool = False) -> list[Planned]:
    """What to do with each cell, from what lies in its folder. Changes nothing."""
    return [Planned(cell, *_decide(cell, run_dir, fresh)) for cell in cells]


def finished(cell: Cell) -> store.CellInfo | None:
    """cell.json of a cell that is finished and as long as is asked for; else None."""
    stored, protocol = store.open_folder(cell.folder), cell.arm.protocol
    if stored.state != "done" or (protocol.extend and _length(stored, protocol) != protocol.iterations):
        return None
    return stored.info


def _length(stored: store.StoredCell, protocol: Protocol) -> int:
    return stored.info.get("iterations", protocol.iterations)


def _decide(cell: Cell, run_dir: Path, fresh: bool) -> tuple[str, str]:
    if fresh:
        return "run", "asked for anew with fresh=true" if cell.folder.exists() else "no results yet"
    stored = store.open_cell(run_dir, cell.arm.name, cell.key, cell.seed)
    done, total = stored.iterations_done, cell.arm.protocol.iterations
    if stored.state == "done":
        if finished(cell) is not None:
            return "cached", "finished"
        return "resume", f"finished at iteration {_length(stored, cell.arm.protocol):,}, wanted is {total:,}"
    go_on = "resume" if done else "run"
    if stored.state == "failed":
        return go_on, f"failed before ({stored.message})"
    if stored.message:
        return go_on, stored.message
    if done:
        return go_on, f"stopped at iteration {done:,} of {total:,}"
    others = cell.folder.parents[1].glob(f"*/seed={cell.seed}/{store.DONE}")
    if any(path.parent != cell.folder for path in others):
        return "run", "settings, code or data are not those of the stored results"
    return "run", "no results yet"


def describe(planned: list[Planned]) -> list[str]:
    """One line for each arm, action and reason; one for all when everything is cached."""
    if all(work.action == "cached" for work in planned):
        return [f"all {len(planned)} cells cached" if len(planned) > 1 else "the cell is cached"]
    groups: dict[tuple[str, str, str], list[int]] = {}
    for work in planned:
        groups.setdefault((work.cell.arm.name, work.action, work.reason), []).append(work.cell.seed)
    return [
        f"{arm}: {action} {'seeds' if len(seeds) > 1 else 'seed'} {', '.join(map(str, seeds))}: {reason}"
        for (arm, action, reason), seeds in groups.items()
    ]
