"""What `--log json`, or `--json`, prints: one JSON object a line, for machines.

    started        name, run_dir, cells (arm, seed, action, reason)
    cell_started   arm, seed, iteration, iterations
    progress       arm, seed, iteration, iterations, per_second, seconds_left, means
    cell_finished  arm, seed, iterations, seconds, means, folder
    cell_stopped   arm, seed, text
    cell_failed    arm, seed, text, log
    part           text, done, total, detail: of a fit's scan, in row groups
    note           text, and arm and seed where it is of one cell; each line that a verb prints
    warning        text: why an answer is not to be trusted as it is, and what stderr has besides errors
    table          csv, json, html; of a fit, posterior
    predictions    rows, file
    sweep          csv: the table of all its jobs
    error          text, as on stderr
    ended          exit_code; the last

Every object has event and time (UTC) besides.
"""

from pathlib import Path
from typing import Protocol, TextIO

from flyrun.experiments.runner import store
from flyrun.experiments.runner.outcomes import Outcome
from flyrun.experiments.runner.work_left import Planned
from flyrun.ground.progress import JsonLines


class Display(Protocol):
    """What is shown while cells run."""

    def planned(self, run_dir: Path, planned: list[Planned]) -> None:
        """Say what will be done with every cell, and why."""

    def say(self, text: str, style: str | None = None) -> None:
        """Say one line."""

    def part(self, text: str, done: int, total: int, detail: str) -> None:
        """Say how much of a piece of work is done."""

    def event(self, event: dict) -> None:
        """Take an event of a running cell: note, start or chunk."""

    def finished(self, outcome: Outcome) -> None:
        """Take the end of a cell."""

    def close(self) -> None:
        """Show nothing more."""
        return


class Events(JsonLines, Display):
    """What happens to cells as events."""

    def __init__(self, stream: TextIO):
        super().__init__(stream)
        self._ended: set[tuple[str, int]] = set()

    def planned(self, run_dir: Path, planned: list[Planned]) -> None:
        cells = [
            {"arm": one.cell.arm.name, "seed": one.cell.seed, "action": one.action, "reason": one.reason}
            for one in planned
        ]
        self.write("started", name=run_dir.name, run_dir=run_dir, cells=cells)

    def event(self, event: dict) -> None:
        cell = {"arm": event["arm"], "seed": event["seed"]}
        with self._lock:
            if event["kind"] == "note":
                self.write("note", **cell, text=event["text"])
            elif (event["arm"], event["seed"]) not in self._ended:
                where = {"iteration": event["iteration"], "iterations": event["total"]}
                if event["kind"] == "start":
                    self.write("cell_started", **cell, **where)
                else:
                    left = (event["total"] - event["iteration"]) / event["rate"]
                    pace = {"per_second": event["rate"], "seconds_left": left, "means": event["means"]}
                    self.write("progress", **cell, **where, **pace)

    def finished(self, outcome: Outcome) -> None:
        cell = {"arm": outcome.cell.arm.name, "seed": outcome.cell.seed}
        folder, info = outcome.cell.folder, outcome.info
        with self._lock:
            self._ended.add((outcome.cell.arm.name, outcome.cell.seed))
            if outcome.state == "done":
                seconds = info["timings"]["sampling_s"] + info["timings"]["burn_in_s"]
                told = {"iterations": info["iterations"], "seconds": seconds, "means": info["means"]}
                self.write("cell_finished", **cell, **told, folder=folder)
            elif outcome.state in ("stopped", "lost"):
                self.write("cell_stopped", **cell, text=outcome.message)
            else:
                self.write("cell_failed", **cell, text=outcome.message, log=folder / store.LOG)
