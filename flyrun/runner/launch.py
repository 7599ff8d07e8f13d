"""`run`: one command's cells, from what is stored to what is missing.

Order: lock the run's folder, plan and say why, prepare and compile each arm once here, run what is
missing, and tell how it ended and how to go on.
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from flyrun.config.schema import flat, show
from flyrun.errors import ConfigError, FlyrunError, StoreError
from flyrun.runner import environment, executors, memory, progress, store
from flyrun.runner.cell import Cell, Outcome, Task, cells, run_dir
from flyrun.runner.chunks import failed, unwritable
from flyrun.runner.draws import DrawStore
from flyrun.runner.lock import locked
from flyrun.runner.plan import Planned, plan
from flyrun.samplers.method import prepare as default_prepare

_SAID_WHEN_SLOWER_S = 1.0
_LEAST_S, _LEAST_SHARE = 1.0, 0.25  # of a given time: what setting up leaves the chains


@dataclass
class RunResult:
    """How a run ended: one outcome per cell that was looked at, cached ones included."""

    run_dir: Path
    resume_command: str
    outcomes: list[Outcome] = field(default_factory=list)
    interrupted: bool = False

    def of(self, state: str) -> list[Outcome]:
        """Outcomes in a state: "cached", "done", "stopped" or "failed"."""
        return [outcome for outcome in self.outcomes if outcome.state == state]

    @property
    def failed(self) -> list[Outcome]:
        """Cells that ended with an error; their logs hold it."""
        return self.of("failed")

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 1 when a cell failed, else 0."""
        return 130 if self.interrupted else 1 if self.failed else 0


def run(
    job: Any,
    console: Any = None,
    prepare: Callable[[Any, Path], Any] | None = None,
    stop_after_s: float | None = None,
    terse: bool = False,
    summarise: Callable[[Path], object] | None = None,
) -> RunResult:
    """Run every cell of `job` that is not finished, and return how each ended.

    console: a rich Console, runner.events.Events, or None for silence.
    prepare: what makes an arm's method (it must be importable in a worker process); by default
    flyrun.samplers.method.prepare.
    stop_after_s: so many seconds from now cells stop at their next chunk border, to be resumed; those that
    run one after the other each get an equal share. If setting up takes most of it, a quarter more is theirs.
    terse: no lines on single cells.
    summarise: called in the worker with the folder of every cell that it has finished; importable there too.
    Raises FlyrunError for what concerns all cells: settings or data that no program accepts, a folder
    that is in use or cannot be written. What was finished stays.
    """
    result = RunResult(run_dir(job), resume_command(job))
    left = _countdown(stop_after_s)
    wanted = cells(job)
    screen = progress.plain(console, len(wanted), terse)
    try:
        with contextlib.ExitStack() as stack:
            try:
                result.run_dir.mkdir(parents=True, exist_ok=True)
                stale = stack.enter_context(locked(result.run_dir / "lock"))
            except OSError as error:
                raise unwritable(result.run_dir, error) from error
            if stale:
                screen.say(f"took over the folder's lock: {stale} is gone")
            _run(job, wanted, result, console, screen, (prepare, summarise), left, terse)
    except KeyboardInterrupt:
        result.interrupted = True
    if result.interrupted:
        screen.say(f"interrupted; finished cells are kept. To go on: {result.resume_command}")
    return result


def resume_command(job: Any) -> str:
    """The command that goes on where this one stops; without fresh=true, which would begin again."""
    overrides = [word for word in job.run_overrides if word.partition("=")[0].lstrip("+") != "fresh"]
    return shlex.join(["flyrun", *overrides])


def _run(
    job: Any,
    wanted: list[Cell],
    result: RunResult,
    console: Any,
    screen: Any,
    calls: tuple[Any, Any],
    left: Callable[[], float | None],
    terse: bool,
) -> None:
    planned = plan(wanted, result.run_dir, job.fresh)
    screen.planned(result.run_dir, planned)
    pending = [one for one in planned if one.action != "cached"]
    cached = [one.cell for one in planned if one.action == "cached"]
    result.outcomes += [Outcome(cell, "cached") for cell in cached]
    if pending:
        executors.check(job.executor)
    entry = _entry(job, wanted)
    if not job.fresh:
        _refuse_to_replace(job, entry, result.run_dir)
    with environment.one_thread() if pending else contextlib.nullcontext():
        # Nothing stored is touched before settings and data are known to be good.
        tasks = _tasks(job, pending, result, screen, *calls)
        try:
            _clean(cached, [task.cell for task in tasks], job.fresh)
            dropped = store.write_run(result.run_dir, entry)
        except OSError as error:
            raise unwritable(result.run_dir, error) from error
        if dropped:
            reason = "run with another dataset, model, prior or protocol"
            screen.say(f"{', '.join(dropped)}: left out of the table, {reason}; name=… keeps runs apart")
        if tasks:
            _execute(job, tasks, result, console, left(), terse)


def _countdown(seconds: float | None) -> Callable[[], float | None]:
    """What is left for the chains, at any later time, of so many seconds from now."""
    if seconds is None:
        return lambda: None
    ends, least = time.monotonic() + seconds, min(max(_LEAST_S, _LEAST_SHARE * seconds), seconds)
    return lambda: max(ends - time.monotonic(), least)


def _clean(cached: list[Cell], begun: list[Cell], fresh: bool) -> None:
    """Remove what a fresh run repeats, a damaged `done`, and chunks left beside a finished posterior."""
    for cell in cached:
        if not cell.arm.protocol.extend:
            DrawStore(cell.folder).clear()
    for cell in begun:
        if fresh and cell.folder.exists():
            shutil.rmtree(cell.folder)
        (cell.folder / store.DONE).unlink(missing_ok=True)


def _refuse_to_replace(job: Any, entry: dict[str, Any], folder: Path) -> None:
    """Raise ConfigError where the run's table would lose finished cells of other settings."""
    for name, before, now in store.losses(folder, entry):
        then, next_ = flat(before), flat(now)
        keys = [key for key in {**then, **next_} if then.get(key) != next_.get(key)]
        changes = [f"{key}={show(then.get(key))}, now {show(next_.get(key))}" for key in keys[:3]]
        changes += [f"{len(keys) - 3} more"] if len(keys) > 3 else []
        keep, replace = ("--name ", "--fresh") if job.dashed else ("name=", "fresh=true")
        raise ConfigError(
            f"{folder}: holds finished results of arm {name} with other settings ({'; '.join(changes)}); "
            f"{keep}{_free_name(folder)} keeps both, {replace} replaces them"
        )


def _free_name(folder: Path) -> str:
    numbered = (f"{folder.name}_{k}" for k in itertools.count(2))
    return next(name for name in numbered if not (folder.parent / name).exists())


def _entry(job: Any, wanted: list[Cell]) -> dict[str, Any]:
    """What run.json is to hold."""
    keys = {cell.arm.name: cell.key for cell in wanted}
    arms = [
        {
            "name": arm.name,
            "key": keys[arm.name],
            "seeds": list(arm.protocol.seed_list),
            "problem": arm.problem(),
            "settings": arm.key_settings(),
            **({} if arm.swept is None else {"sweep": asdict(arm.swept)}),
        }
        for arm in job.arms
    ]
    kept = ("name", "experiment", "title", "paper", "reference", "reference_name", "figures")
    entry = {**{name: getattr(job, name) for name in kept}, "command": resume_command(job)}
    return {**entry, "arms": arms}


def _tasks(
    job: Any, pending: list[Planned], result: RunResult, screen: Any, prepare: Any, summarise: Any
) -> list[Task]:
    """Prepare and compile each arm once, so that workers find both done; tasks for the arms where it worked.

    A person's error (FlyrunError) ends the run; any other counts as the failure of that arm's cells.
    """
    prepare = prepare or default_prepare
    setup, surroundings = result.run_dir / "setup", environment.describe()
    compiled: dict[str, tuple[float, int | None] | Exception] = {}
    tasks = []
    for one in pending:
        arm, key = one.cell.arm, one.cell.key
        if key not in compiled:
            try:
                compiled[key] = _compile(arm, setup, screen.say, prepare)
            except FlyrunError:
                raise
            except OSError as error:
                raise unwritable(setup, error) from error
            except Exception as error:
                compiled[key] = error
        made = compiled[key]
        if isinstance(made, Exception):
            outcome = failed(one.cell, made)
            result.outcomes.append(outcome)
            screen.finished(outcome)
        else:
            tasks.append(Task(one.cell, prepare, setup, surroundings, made[0], job.name, summarise, made[1]))
    return tasks


def _compile(arm: Any, setup: Path, say: Callable, prepare: Any) -> tuple[float, int | None]:
    """Prepare an arm and compile its loop; seconds that compiling took, and bytes at the peak of it all."""
    setup.mkdir(parents=True, exist_ok=True)
    memory.reset()
    with progress.when_slow(say, f"{arm.name}: setting up (once; kept in {setup})", _SAID_WHEN_SLOWER_S):
        method = prepare(arm, setup)
    for note in method.notes():
        say(note)
    cache = getattr(getattr(sys.modules.get("numba"), "config", None), "CACHE_DIR", "") or "the cache"
    start = time.perf_counter()
    with progress.when_slow(say, f"{arm.name}: compiling (once; kept in {cache})", _SAID_WHEN_SLOWER_S):
        seconds = float(method.warm_up())
    if time.perf_counter() - start > _SAID_WHEN_SLOWER_S:
        say(f"{arm.name}: compiled in {progress.duration(time.perf_counter() - start)}")
    return seconds, memory.peak()


def _execute(
    job: Any, tasks: list[Task], result: RunResult, console: Any, stop_after_s: float | None, terse: bool
) -> None:
    """Run the tasks, those that others read first, and add their outcomes.

    Those left out by Ctrl-C or the end of time count as stopped.
    """
    ends = None if stop_after_s is None else time.time() + stop_after_s
    waves = [[task for task in tasks if task.cell.depth == depth] for depth in _depths(tasks)]
    for wave in waves:
        if not result.interrupted:
            _execute_wave(job, wave, result, console, ends, terse)
    known = {outcome.cell.folder for outcome in result.outcomes}
    left = [task.cell for task in tasks if task.cell.folder not in known]
    result.outcomes += [Outcome(cell, "stopped", "before its end") for cell in left]


def _depths(tasks: list[Task]) -> list[int]:
    return sorted({task.cell.depth for task in tasks})


def _execute_wave(
    job: Any, tasks: list[Task], result: RunResult, console: Any, ends: float | None, terse: bool
) -> None:
    """Run tasks none of which reads another's cell."""
    display = progress.display(console, len(tasks), terse)
    executor = executors.executor(job.executor, len(tasks), display.event)
    if ends is not None:
        at_once = getattr(executor, "workers", len(tasks))
        turns = -(-len(tasks) // at_once)
        tasks = [replace(task, ends=ends, turns=turns - k // at_once) for k, task in enumerate(tasks)]
    timer = threading.Timer(0.0 if ends is None else max(0.0, ends - time.time()), executor.stop)
    timer.daemon = True
    if ends is not None:
        timer.start()
    refused = ""
    try:
        with _interruptible(executor, result, display.say):
            for outcome in executor.outcomes(tasks):
                display.finished(outcome)
                result.outcomes.append(outcome)
                if outcome.state == "unwritable":
                    refused = refused or outcome.message
                    executor.stop()
    finally:
        timer.cancel()
        display.close()
    if refused:
        raise StoreError(refused)


@contextlib.contextmanager
def _interruptible(executor: Any, result: RunResult, say: Callable) -> Iterator[None]:
    """First Ctrl-C (or SIGTERM): stop at the next chunk borders. Second: at once."""

    def handle(number: int, frame: Any) -> None:
        if result.interrupted:
            executor.kill()
            raise KeyboardInterrupt
        result.interrupted = True
        executor.stop()
        # Not from here: the handler may have come in the middle of another line.
        text = "stopping at the next chunk border; press Ctrl-C again to stop at once"
        threading.Thread(target=say, args=(text,), daemon=True).start()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in reversed(before.items()):  # SIGINT last: then Ctrl-C may raise again
            signal.signal(number, handler)
