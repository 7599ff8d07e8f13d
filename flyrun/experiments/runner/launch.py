"""`run`: one command's cells, from what is stored to what is missing.

Order: lock the run's folder, plan and say why, prepare and compile each arm once here, run what is
missing, and tell how it ended and how to go on.
"""

import contextlib
import itertools
import shlex
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from flyrun.experiments.config.arm import Arm, Job
from flyrun.experiments.config.composed import CONFIG, as_yaml
from flyrun.experiments.data import fingerprint
from flyrun.experiments.runner import executors, progress, store
from flyrun.experiments.runner.cell import Cell, Task, cells, run_dir
from flyrun.experiments.runner.compile_ahead import CompileAhead
from flyrun.experiments.runner.draws import DrawStore
from flyrun.experiments.runner.events import Display
from flyrun.experiments.runner.outcomes import Executor, Outcome, RunResult, failed
from flyrun.experiments.runner.work_left import finished, plan
from flyrun.experiments.samplers.method import prepare as default_prepare
from flyrun.ground import children, environment, files, run_files
from flyrun.ground.errors import ConfigError, FlyrunError, StoreError
from flyrun.ground.lock import locked
from flyrun.ground.paths import cache_dir
from flyrun.ground.progress import SLOW_S, duration, when_slow

_LEAST_S = 1.0  # of a given time: what setting up leaves the chains
_PARTS = ("arena", "held_out", "quadrature", "bounded")  # of the report, which experiments ask for


def run(
    job: Job,
    console: Any = None,
    prepare: Callable[[Any, Path], Any] | None = None,
    stop_after_s: float | None = None,
    terse: bool = False,
    summarise: Callable[[Path], object] | None = None,
) -> RunResult:
    """Run every cell of `job` that is not finished, and return how each ended.

    console: a rich Console, runner.events.Events, or None for silence.
    prepare: what makes an arm's method (it must be importable in a worker process); by default
    flyrun.experiments.samplers.method.prepare.
    stop_after_s: so many seconds from now cells stop at their next chunk border, to be resumed; those that
    run one after the other each get an equal share. If setting up takes it all, a second more is theirs.
    terse: no lines on single cells.
    summarise: called in the worker with the folder of every cell that it has finished; importable there too.
    Raises FlyrunError for what concerns all cells: settings or data that no program accepts, a folder
    that is in use or cannot be written. What was finished stays.
    """
    left, wanted = _countdown(stop_after_s), cells(job)
    result = RunResult(run_dir(job), resume_command(job))
    screen = progress.display(console, len(wanted), terse)
    launch = _Launch(job, console, screen, result, terse)
    try:
        with contextlib.ExitStack() as stack:
            files.refuse_unwritable(result.run_dir, store.ELSEWHERE)
            with store.writing(result.run_dir):
                result.run_dir.mkdir(parents=True, exist_ok=True)
                stale = stack.enter_context(locked(result.run_dir / "lock"))
            if stale:
                screen.say(f"took over the folder's lock: {stale} is gone")
            launch.run(wanted, prepare or default_prepare, summarise, left)
    except KeyboardInterrupt:
        result.interrupted = True
    if result.how_to_go_on:
        screen.say(result.how_to_go_on)
    return result


def resume_command(job: Job) -> str:
    """The command that goes on where this one stops; without fresh=true, which would begin again."""
    overrides = [word for word in job.run_overrides if word.partition("=")[0].lstrip("+") != "fresh"]
    return shlex.join(["flyrun", *overrides])


def _countdown(seconds: float | None) -> Callable[[], float | None]:
    """What is left for the chains, at any later time, of so many seconds from now."""
    if seconds is None:
        return lambda: None
    ends, least = time.monotonic() + seconds, min(_LEAST_S, seconds)
    return lambda: max(ends - time.monotonic(), least)


#: signals that ask a run to end: Ctrl-C, kill, a terminal that closes, SLURM's warning before its own end
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


@dataclass(frozen=True)
class _Launch:
    """What the steps of a run share."""

    job: Job
    console: Any
    screen: Display
    result: RunResult
    terse: bool

    def run(self, wanted: list[Cell], prepare: Callable, summarise: Callable | None, left: Callable) -> None:
        """Plan, set up and run, with the folder locked."""
        job, folder, screen = self.job, self.result.run_dir, self.screen
        planned = plan(wanted, folder, job.fresh)
        screen.planned(folder, planned)
        pending = [work.cell for work in planned if work.action != "cached"]
        cached = [work.cell for work in planned if work.action == "cached"]
        self.result.outcomes += [Outcome(cell, "cached") for cell in cached]
        if pending:
            executors.check(job.executor)
        entry = _entry(job, wanted)
        if not job.fresh:
            _refuse_to_replace(job, entry, folder)
        with environment.one_thread() if pending else contextlib.nullcontext():
            # Nothing stored is touched before settings and data are known to be good.
            tasks = self.tasks(pending, prepare, summarise)
            with store.writing(folder):
                _clean(cached, [task.cell for task in tasks], job.fresh)
                dropped = store.write_run(folder, entry)
                _write_config(job, folder)
            if dropped:
                reason = "run with another dataset, model, prior or protocol"
                screen.say(f"{', '.join(dropped)}: left out of the table, {reason}; name=… keeps runs apart")
            if tasks:
                self.execute(tasks, left())

    def tasks(self, pending: list[Cell], prepare: Callable, summarise: Callable | None) -> list[Task]:
        """Prepare and compile each arm once, so that workers find both done; tasks of arms where it worked.

        A person's error (FlyrunError) ends the run; any other counts as the failure of that arm's cells.
        """
        setup, surroundings = self.result.run_dir / "setup", environment.describe()
        compiled: dict[str, tuple[float, int | None] | Exception] = {}
        tasks = []
        here = [cell for cell in pending if not cell.arm.sampler.worker]
        with CompileAhead(self.job.executor, here, prepare, setup) as ahead, children.Apart() as apart:
            for cell in pending:
                if cell.key in compiled:
                    continue
                ahead.begin(cell)
                try:
                    if kind := cell.arm.sampler.worker:
                        compiled[cell.key], messages = apart.call(kind, _compiled, cell, setup, prepare)
                        for text in messages:
                            self.screen.say(text)
                        continue
                    compiled[cell.key] = cost = _compile(cell, setup, self.screen.say, prepare)
                    ahead.took(cost[0])
                except FlyrunError:
                    raise
                except Exception as error:
                    compiled[cell.key] = error
        for cell in pending:
            outcome = compiled[cell.key]
            if isinstance(outcome, Exception):
                self.result.outcomes.append(failed(cell, outcome))
                self.screen.finished(self.result.outcomes[-1])
            else:
                tasks.append(Task(cell, prepare, setup, surroundings, *outcome, self.job.name, summarise))
        return tasks

    def execute(self, tasks: list[Task], stop_after_s: float | None) -> None:
        """Run the tasks, those that others read first, and add their outcomes.

        Those left out by Ctrl-C or the end of time count as stopped, others as lost.
        """
        ends = None if stop_after_s is None else time.time() + stop_after_s
        for _, wave in itertools.groupby(tasks, lambda task: task.cell.depth):
            if not self.result.interrupted:
                self.execute_wave(list(wave), ends)
        known = {outcome.cell.folder for outcome in self.result.outcomes}
        left = [task.cell for task in tasks if task.cell.folder not in known]
        asked = self.result.interrupted or ends is not None
        state = "stopped" if asked else "lost"
        self.result.outcomes += [Outcome(cell, state, "before its end") for cell in left]

    def execute_wave(self, tasks: list[Task], ends: float | None) -> None:
        """Run tasks none of which reads another's cell."""
        display = progress.display(self.console, len(tasks), self.terse, bars=True)
        executor = executors.executor(self.job.executor, tasks, display)
        timer = threading.Timer(0.0 if ends is None else max(0.0, ends - time.time()), executor.stop)
        timer.daemon = True
        if ends is not None:
            at_once = getattr(executor, "workers", len(tasks))
            turns = -(-len(tasks) // at_once)
            tasks = [replace(task, ends=ends, turns=turns - k // at_once) for k, task in enumerate(tasks)]
            timer.start()
        refused = ""
        try:
            with _interruptible(executor, self.result, display.say):
                for outcome in executor.outcomes(tasks):
                    display.finished(outcome)
                    self.result.outcomes.append(outcome)
                    if outcome.state == "unwritable":
                        refused = refused or outcome.message
                        executor.stop()
        finally:
            timer.cancel()
            display.close()
        if refused:
            raise StoreError(refused)


def _clean(cached: list[Cell], begun: list[Cell], fresh: bool) -> None:
    """Remove what a fresh run repeats, a damaged `done`, and chunks left beside a finished posterior."""
    for cell in cached:
        if not cell.arm.protocol.extend:
            DrawStore(cell.folder).clear()
    for cell in begun:
        if fresh and cell.folder.exists():
            shutil.rmtree(cell.folder)
        if finished(cell) is None:  # a worker that outlived its run may have ended it since
            (cell.folder / store.DONE).unlink(missing_ok=True)


def _refuse_to_replace(job: Job, entry: dict[str, Any], folder: Path) -> None:
    """Raise ConfigError where the run's table would lose finished cells of other settings."""
    for name, before, now in store.losses(folder, entry):
        keep, replace = ("--name ", "--fresh") if job.dashed else ("name=", "fresh=true")
        changes = run_files.changes(before, now)
        raise ConfigError(
            f"{folder}: holds finished results of arm {name} with other settings ({changes}); "
            f"{keep}{run_files.free_name(folder)} keeps both, {replace} replaces them"
        )


def _write_config(job: Job, folder: Path) -> None:
    """The arms of run.json with all their settings, beside it."""
    path = folder / CONFIG
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    names = [arm["name"] for arm in run_files.read_run(folder)["arms"]]
    files.write_text(path, as_yaml(job, before, names))


def _entry(job: Job, wanted: list[Cell]) -> dict[str, Any]:
    """What run.json is to hold."""
    keys = {cell.arm.name: cell.key for cell in wanted}

    def told(arm: Arm, settings: dict[str, Any]) -> dict[str, Any]:
        """A person's file is told from another by what is in it, not by its place."""
        if arm.dataset.path is None:
            return settings
        return settings | {"dataset": settings["dataset"] | {"sha256": fingerprint(arm.dataset)}}

    arms = [
        {
            "name": arm.name,
            "key": keys[arm.name],
            "seeds": list(arm.protocol.seed_list),
            "problem": told(arm, arm.problem()),
            "settings": told(arm, arm.key_settings()),
            **({} if arm.swept is None else {"sweep": asdict(arm.swept)}),
        }
        for arm in job.arms
    ]
    kept = ("name", "experiment", "title", "paper", "reference", "reference_name", "figures", "drawn")
    entry = {name: getattr(job, name) for name in (*kept, *_PARTS)}
    return entry | {"command": resume_command(job), "arms": arms}


def _compile(cell: Cell, setup: Path, say: Callable, prepare: Callable) -> tuple[float, int | None]:
    """Prepare a cell's arm and compile its loop; seconds that compiling took, bytes at the peak of it all."""
    with store.writing(setup):
        setup.mkdir(parents=True, exist_ok=True)
    environment.reset_peak()
    arm = cell.arm
    with when_slow(say, f"{arm.name}: setting up (once; kept in {setup})"):
        method = cell.prepared(prepare, setup)
    for note in method.notes():
        say(note)
    start = time.perf_counter()
    with when_slow(say, f"{arm.name}: compiling (once; kept in {cache_dir('compiled')})"):
        seconds = float(method.warm_up())
    if (taken := time.perf_counter() - start) > SLOW_S:
        say(f"{arm.name}: compiled in {duration(taken)}")
    return seconds, environment.peak_memory()


def _compiled(cell: Cell, setup: Path, prepare: Callable) -> tuple[tuple[float, int | None], list[str]]:
    """The same in a process of the cell's kind of worker, and what there was to say."""
    lines: list[str] = []
    with environment.one_thread():
        return _compile(cell, setup, lines.append, prepare), lines


@contextlib.contextmanager
def _interruptible(executor: Executor, result: RunResult, say: Callable) -> Iterator[None]:
    """First Ctrl-C, or another of ENDING: stop at the next chunk borders. Second: at once."""

    def handle(number: int, frame: object) -> None:
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
    # What is ignored stays so, as SIGHUP under nohup.
    numbers = [end for end in ENDING if end == signal.SIGINT or signal.getsignal(end) != signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in reversed(before.items()):  # SIGINT last: then Ctrl-C may raise again
            signal.signal(number, handler)
