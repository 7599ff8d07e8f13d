"""How a cell and a run can end. Every end of a run is a RunResult, or an error that ends the whole run."""

import contextlib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.runner import store
from flyrun.experiments.runner.cell import Cell, CellLog, Task
from flyrun.experiments.runner.store import CellInfo
from flyrun.ground import files, progress
from flyrun.ground.errors import FlyrunError, StoreError, no_digits
from flyrun.ground.exit_codes import DONE, FAILED, INTERRUPTED, REFUSED

#: how a cell can end -> the exit code that it gives its run
ENDS = {
    "cached": DONE,  # it was finished before
    "done": DONE,
    "stopped": DONE,  # at a chunk border, as was asked: by a time limit, or Ctrl-C, whose code is another
    "lost": FAILED,  # nobody asked: its cluster is gone; it goes on from its checkpoint
    "failed": FAILED,  # an error, which its log holds
    "unwritable": REFUSED,  # the results folder takes no more, which ends the run
}
#: times that a cell whose worker process died is tried again
RESTARTS = 3
#: what numpy says, not of its memory, of arrays that none could hold
_TOO_BIG = ("array is too big", "Maximum allowed dimension exceeded", "Maximum allowed size exceeded")


@dataclass(frozen=True)
class Outcome:
    """How a cell ended. state: one of ENDS."""

    cell: Cell
    state: str
    message: str = ""
    info: CellInfo = field(default_factory=CellInfo)


@dataclass
class RunResult:
    """How a run ended: one outcome per cell that was looked at, cached ones included."""

    run_dir: Path
    resume_command: str
    outcomes: list[Outcome] = field(default_factory=list)
    interrupted: bool = False

    def of(self, *states: str) -> list[Outcome]:
        """Outcomes in one of these states."""
        return [outcome for outcome in self.outcomes if outcome.state in states]

    @property
    def failed(self) -> list[Outcome]:
        """Cells that ended with an error; their logs hold it."""
        return self.of("failed")

    @property
    def exit_code(self) -> int:
        """INTERRUPTED after Ctrl-C, else the worst of the cells'."""
        codes = [ENDS[outcome.state] for outcome in self.outcomes]
        return INTERRUPTED if self.interrupted else max(codes, default=DONE)

    @property
    def how_to_go_on(self) -> str:
        """What is kept of a run that was cut short, and the command that goes on; "" where it was not."""
        if not (self.interrupted or self.of("lost")):
            return ""
        kept = f"{len(self.of('cached', 'done'))} of {len(self.outcomes)} cells are finished"
        what = "interrupted; finished cells" if self.interrupted else f"cut short; {kept}, checkpoints"
        return f"{what} are kept. To go on: {self.resume_command}"


class Executor(Protocol):
    """Where cells run. It loses nothing that was stored."""

    def outcomes(self, tasks: list[Task]) -> Iterator[Outcome]:
        """Run the tasks, in order of their start; how each ended, in order of finishing."""
        ...

    def stop(self) -> None:
        """End cells at their next chunk border; start no other."""

    def kill(self) -> None:
        """End them at once."""


def failed(cell: Cell, error: Exception) -> Outcome:
    """Keep an error's traceback in the cell's log and its one line in `failed`."""
    error = no_digits(error, getattr(cell.arm.dataset, "standardize", True)) or error
    message = str(error) if isinstance(error, FlyrunError) else f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError) or any(phrase in message for phrase in _TOO_BIG):
        ways = [f"a smaller {key}" for key in _raised(cell.arm)]
        less = f"; take {' or '.join(ways)}" if ways else ""
        message = f"out of memory ({error}); fewer cells at once need less: executor.workers=1{less}"
    message = " ".join(message.split())
    with contextlib.suppress(OSError):
        cell.folder.mkdir(parents=True, exist_ok=True)
        CellLog(cell.folder).write(f"{cell}: failed\n{''.join(traceback.format_exception(error))}")
        files.write_json(cell.folder / store.FAILED, {"message": message, "time": progress.now()})
    return Outcome(cell, "unwritable" if isinstance(error, StoreError) else "failed", message)


def _raised(arm: Arm) -> list[str]:
    """Keys of whole numbers that are a thousand times their defaults, which arrays may be too large for."""
    return [
        f"{group}.{item.name}"
        for group, choice in arm.choices().items()
        for item in fields(choice)
        if isinstance(value := getattr(choice, item.name), int)
        and not isinstance(value, bool)
        and value > 1_000 * (item.default if isinstance(item.default, int) else 1_000)
    ]


def gave_up(cell: Cell) -> Outcome:
    """The end of a cell whose worker died once too often."""
    return failed(cell, RuntimeError(f"its worker process died {1 + RESTARTS} times; out of memory?"))


def died(arm: str, seed: int) -> dict[str, Any]:
    """The event of a worker's death that costs its cell a start."""
    return {"kind": "note", "arm": arm, "seed": seed, "text": "its worker process died; starting another"}
