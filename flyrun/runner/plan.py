"""Which cells are finished, which go on, which begin, and why: said before anything runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flyrun.runner import store
from flyrun.runner.cell import Cell


@dataclass(frozen=True)
class Planned:
    """action: "cached", "resume" or "run"."""

    cell: Cell
    action: str
    reason: str


def plan(cells: Iterable[Cell], run_dir: Path, fresh: bool = False) -> list[Planned]:
    """What to do with each cell, from what lies in its folder. Changes nothing."""
    return [Planned(cell, *_decide(cell, run_dir, fresh)) for cell in cells]


def _decide(cell: Cell, run_dir: Path, fresh: bool) -> tuple[str, str]:
    if fresh:
        return "run", "asked for anew with fresh=true" if cell.folder.exists() else "no results yet"
    stored = store.open_cell(run_dir, cell.arm.name, cell.key, cell.seed)
    done, total = stored.iterations_done, cell.arm.protocol.iterations
    if stored.state == "done":
        length = stored.info.get("iterations", total)
        if cell.arm.protocol.extend and length != total:
            return "resume", f"finished at iteration {length:,}, wanted is {total:,}"
        return "cached", "finished"
    go_on = "resume" if done else "run"
    if stored.state == "failed":
        return go_on, f"failed before ({stored.message})"
    if stored.message:
        return go_on, stored.message
    if done:
        return go_on, f"stopped at iteration {done:,} of {total:,}"
    finished = cell.folder.parents[1].glob(f"*/seed={cell.seed}/{store.DONE}")
    if any(path.parent != cell.folder for path in finished):
        return "run", "settings, code or data are not those of the stored results"
    return "run", "no results yet"


def describe(planned: list[Planned]) -> list[str]:
    """One line for each arm, action and reason; one for all when everything is cached."""
    if all(one.action == "cached" for one in planned):
        return [f"all {len(planned)} cells cached" if len(planned) > 1 else "the cell is cached"]
    groups: dict[tuple[str, str, str], list[int]] = {}
    for one in planned:
        groups.setdefault((one.cell.arm.name, one.action, one.reason), []).append(one.cell.seed)
    return [
        f"{arm}: {action} {'seeds' if len(seeds) > 1 else 'seed'} {', '.join(map(str, seeds))}: {reason}"
        for (arm, action, reason), seeds in groups.items()
    ]
