"""What a person sees while cells run: bars on a terminal, sparse plain lines elsewhere.

Workers send small events after each chunk; showing them costs the chains nothing.
"""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import Any

from rich.console import Console

from flyrun.experiments.runner import store, work_left
from flyrun.experiments.runner.events import Display, Events
from flyrun.experiments.runner.outcomes import Outcome
from flyrun.experiments.runner.work_left import Planned
from flyrun.ground.progress import PLAIN_EVERY_S, Plain, duration, moves, progress_bar


class Lines(Plain, Display):
    """Plain lines: one per finished cell, one about the running cells every ten seconds."""

    def __init__(self, console: Console, cells: int, terse: bool = False):
        super().__init__(console)
        self._cells, self._finished, self._terse = cells, 0, terse
        self._running: dict[tuple[str, int], dict] = {}
        self._ended: set[tuple[str, int]] = set()
        # Events come from the thread that listens to the workers, ends of cells from the main one.
        self._lock = threading.RLock()
        self._last = time.monotonic()

    def planned(self, run_dir: Path, planned: list[Planned]) -> None:
        for line in [] if self._terse else work_left.describe(planned):
            self.say(line)

    def event(self, event: dict) -> None:
        with self._lock:
            cell = (event["arm"], event["seed"])
            if event["kind"] == "note":
                self.say(f"{_name(event)}: {event['text']}", "yellow")
            elif cell not in self._ended:
                self._running[cell] = event
                self._show(cell, event)

    def finished(self, outcome: Outcome) -> None:
        with self._lock:
            cell = (outcome.cell.arm.name, outcome.cell.seed)
            self._ended.add(cell)
            self._finished += outcome.state == "done"
            self._running.pop(cell, None)
            fine = outcome.state in ("done", "stopped")
            if not (self._terse and fine):
                self.say(summary(outcome), None if fine else "red")

    def _show(self, cell: tuple[str, int], event: dict) -> None:
        if time.monotonic() - self._last >= PLAIN_EVERY_S:
            self._last = time.monotonic()
            running = "; ".join(describe(event) for event in self._running.values())
            self.say(f"{self._finished} of {self._cells} cells done; {running}")


class Bars(Lines):
    """A bar per running cell with speed, acceptance, queries and time left; a line per finished cell."""

    def __init__(self, console: Console, cells: int, terse: bool = False):
        super().__init__(console, cells, terse)
        self._bars = progress_bar(console)
        self._tasks: dict[tuple[str, int], Any] = {}
        self._all = self._bars.add_task("cells", total=cells, detail=f"0 of {cells} cells")
        self._bars.start()

    def finished(self, outcome: Outcome) -> None:
        """As of Lines, and take the cell's bar away."""
        with self._lock:
            super().finished(outcome)
            if (task := self._tasks.pop((outcome.cell.arm.name, outcome.cell.seed), None)) is not None:
                self._bars.remove_task(task)
            detail = f"{self._finished} of {self._cells} cells"
            self._bars.update(self._all, completed=self._finished, detail=detail)

    def close(self) -> None:
        """Take the bars away."""
        self._bars.stop()

    def _show(self, cell: tuple[str, int], event: dict) -> None:
        if cell not in self._tasks:
            self._tasks[cell] = self._bars.add_task(_name(event), total=event["total"], detail="")
        detail = describe(event, named=False) if event["kind"] == "chunk" else ""
        self._bars.update(self._tasks[cell], completed=event["iteration"], detail=detail)


def display(console: Console, cells: int, terse: bool = False, bars: bool = False) -> Display:
    """Lines, or on a terminal bars if asked for; a console of None shows nothing, Events shows itself.

    terse: no line for a cell that ended well.
    """
    if isinstance(console, Events):
        return console
    return (Bars if bars and moves(console) else Lines)(console, cells, terse)


def describe(event: dict, named: bool = True) -> str:
    """One running cell in words."""
    words = [f"{_name(event)} {100 * event['iteration'] / event['total']:.0f}%"] if named else []
    if event["kind"] == "chunk":
        left = (event["total"] - event["iteration"]) / event["rate"]
        words += [f"{_figure(event['rate'])} {_short(event)}/s", *_means(event), f"{duration(left)} left"]
    return ", ".join(words)


def summary(outcome: Outcome) -> str:
    """The line that stays when a cell has ended."""
    if outcome.state == "done":
        info = outcome.info
        seconds = info["timings"]["sampling_s"] + info["timings"]["burn_in_s"]
        words = [
            f"{info['iterations']:,} {_plural(info['unit'])} in {duration(seconds)}",
            f"{_figure(info['iterations'] / max(seconds, 1e-9))} {_short(info)}/s",
            *_means(info),
        ]
        if info["sessions"] > 1:
            words.append(f"{info['sessions']} starts")
        return f"{outcome.cell}: {', '.join(words)}"
    if outcome.state == "stopped":
        return f"{outcome.cell}: stopped {outcome.message}"
    if outcome.state == "lost":
        return f"{outcome.cell}: cut short: {outcome.message}"
    log = outcome.cell.folder / store.LOG
    where = f"; traceback in {log}" if outcome.state == "failed" and log.exists() else ""
    return f"{outcome.cell}: failed: {outcome.message}{where}"


def _name(event: dict) -> str:
    return f"{event['arm']} seed={event['seed']}"


def _plural(unit: str) -> str:
    return f"{unit}es" if unit.endswith("s") else f"{unit}s"


def _short(told: Mapping[str, Any]) -> str:
    return "it" if told["unit"] == "iteration" else _plural(told["unit"])


class _Number(float):
    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else _figure(self)


def _means(told: Mapping[str, Any]) -> list[str]:
    """What the method shows of its records' means; a line that names another is left out."""
    means = {name: _Number(value) for name, value in told["means"].items()}
    names = {line: [name for _, name, *_ in Formatter().parse(line) if name] for line in told["shown"]}
    return [line.format(**means) for line, needed in names.items() if set(needed) <= set(means)]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if 10 <= value < 1e15 else f"{value:.2g}"
