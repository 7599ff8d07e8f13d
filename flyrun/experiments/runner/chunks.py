"""The loop that runs one cell: chunk by chunk, each stored as it ends, to its posterior file.

Where chunks begin and end depends on speed, never the draws: a method's `advance` guarantees that.
"""

import contextlib
import errno
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.runner import estimates, proofs, store, work_left
from flyrun.experiments.runner.cell import CellLog, Task
from flyrun.experiments.runner.draws import Arrays, Chunk, DrawStore, until
from flyrun.experiments.runner.outcomes import Outcome, failed
from flyrun.experiments.runner.posterior import PosteriorFile
from flyrun.experiments.runner.progress import summary
from flyrun.experiments.samplers.method import Facts, Method, agreed
from flyrun.ground import environment, files, progress, run_files
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.ground.lock import locked

_FIRST_CHUNK = 10  # few, for iterations that take seconds
_MAX_GROWTH = 8
_MAX_CHUNK_BYTES = 32 << 20
_POSTERIOR_OVERHEAD_BYTES = 1 << 20
#: where a method's result goes, and what its arrays share
_RESULTS = {"draws": ("result", None), "weighted": ("weighted", "draw"), "density": ("approximation", None)}
_TRACE_POINTS, _FEWEST_POINTS, _TRACE_QUERIES = 200, 8, 10_000_000
# A worker whose parent was killed ends at its next chunk border; a new one waits that long for the folder.
_LOCK_WAIT_S = 60.0
_COSTLY_PASSES = 1000


def run_cell(task: Task, report: Callable[[dict], None], stop: Callable[[], bool], methods: dict) -> Outcome:
    """Run or resume a cell to its end, or to the next chunk border once stop() is true.

    report takes small JSON-able events.  methods keeps the last prepared one, by key, between cells.
    Errors become outcomes, so that one cell's failure is no other cell's.
    """
    cell = task.cell
    try:
        with contextlib.ExitStack() as held:
            with _writing(cell.folder):
                files.make_folder(cell.folder)
                held.enter_context(locked(cell.folder / "lock", _LOCK_WAIT_S))
                (cell.folder / store.FAILED).unlink(missing_ok=True)
            if (info := work_left.finished(cell)) is not None:  # meanwhile, by a worker that had it before
                return Outcome(cell, "done", info=info)
            environment.reset_peak()
            if cell.key not in methods:
                methods.clear()  # another arm's data must not stay in memory
                methods[cell.key] = cell.prepared(task.prepare, task.setup_folder)
                methods[cell.key].warm_up()
            log = CellLog(cell.folder)
            run = _Run(task, methods[cell.key], report, log)
            now = time.time()  # as the cell begins: its share of what is left
            over = math.inf if task.ends is None else now + (task.ends - now) / task.turns
            outcome = run.to_end(lambda: stop() or time.time() >= over)
            log.write(summary(outcome))
            if outcome.state == "done" and task.summarise is not None:
                try:
                    task.summarise(cell.folder)
                except Exception as error:  # the report can do without
                    log.write(f"no summary: {type(error).__name__}: {error}")
            return outcome
    except Exception as error:
        return failed(cell, error)


class _Run:
    """A cell being run: the method's state, the draws on disk, and the book of times."""

    def __init__(self, task: Task, method: Method, report: Callable[[dict], None], log: CellLog):
        self.task, self.cell, self.method, self.report, self.log = task, task.cell, method, report, log
        self.protocol = self.cell.arm.protocol
        self.draws_come = method.answers == "draws"
        self.burn_in = self.protocol.burn_in if self.draws_come else 0
        facts = method.facts()
        # Queries that the steps may make.
        self.allowed = self.protocol.budget.in_queries(facts.n_data) - facts.setup_queries
        self.draws = DrawStore(self.cell.folder)
        self.started = time.perf_counter()
        with _writing(self.cell.folder):
            restored = self.draws.restore()
        self.state: Any = restored.state
        self.iteration = restored.iteration
        begun = {"burn_in_s": 0.0, "sampling_s": 0.0, "wall_s": 0.0, "sessions": 0, "queries": 0.0}
        self.book: dict[str, Any] = begun | {"processors": []} | restored.book
        self.book["sessions"] += 1
        here = str(environment.processor())
        self.book["processors"] = list(dict.fromkeys([*self.book["processors"], here]))
        self.wall_before = self.book["wall_s"]
        self.rate, self.row_limit, self.saving_s = 0.0, float(_FIRST_CHUNK), 0.0
        for note in restored.notes:
            fallback = f"goes back to iteration {self.iteration:,}" if self.iteration else "starts anew"
            self.tell("note", text=f"{note}; {fallback}")
            self.log.write(f"{note}; {fallback}")

    def tell(self, kind: str, **values: object) -> None:
        """Report an event of this cell."""
        self.report({"kind": kind, "arm": self.cell.arm.name, "seed": self.cell.seed, **values})

    def to_end(self, stop: Callable[[], bool]) -> Outcome:
        """Advance to the last iteration and finish, unless stopped at a chunk border."""
        total = self.protocol.iterations
        self.tell("start", iteration=self.iteration, total=self.expected())
        self.log.begin(str(self.cell), self.iteration, self.expected())
        if self.state is None:
            self.state = self.method.init(self.cell.seed, tuple(map(_finished, self.cell.needs)))
        size = 0
        # The first chunk runs in any case: where the budget is too small, it tells what is enough.
        while self.iteration < total and (not self.iteration or self.book["queries"] < self.allowed):
            if stop():
                done = f"at iteration {self.iteration:,} of {self.expected():,}"
                return Outcome(self.cell, "stopped", done)
            size = self.next_size(size)
            self.advance(size)
        return Outcome(self.cell, "done", info=self.finish())

    def expected(self) -> int:
        """Iterations that there will be, as far as is known."""
        if math.isinf(self.allowed) or not self.iteration:
            return self.protocol.iterations
        share = self.allowed / max(self.book["queries"], 1.0)
        return min(self.protocol.iterations, max(self.iteration, math.ceil(share * self.iteration)))

    def next_size(self, last: int) -> int:
        """Length of the next chunk: about chunk_seconds, whole thinning steps, cut at burn-in's end.

        A method without draws is stopped for every snapshot, and where half a budget's rest would be spent if
        steps go on to cost what they did: so it ends at the step that spends it.
        """
        thin, burn_in, total = self.protocol.thin, self.burn_in, self.protocol.iterations
        if not self.draws_come:
            total = min(total, estimates.next_snapshot(self.iteration))
            if self.allowed < math.inf:
                left = (self.allowed / max(self.book["queries"], 1.0) - 1) * self.iteration
                total = min(total, self.iteration + max(1, int(left / 2)))
        # On a slow disk chunks grow, so that storing them takes at most a tenth of the time.
        seconds = max(self.protocol.chunk_seconds, 9 * self.saving_s)
        wanted = min(self.rate * seconds, last * _MAX_GROWTH, self.row_limit) if last else _FIRST_CHUNK
        size = max(thin, int(wanted) // thin * thin)
        # Burn-in and sampling are timed apart, so no chunk holds both.
        border = -(-burn_in // thin) * thin
        end = border if self.iteration < border else total
        return min(size, min(end, total) - self.iteration)

    def advance(self, n: int) -> None:
        """Run n iterations and store them with the state after them."""
        first, start = self.iteration, time.perf_counter()
        self.state, records = self.method.advance(self.state, n)
        thin = self.protocol.thin
        draws = agreed(self.method, records, n, (first + n) // thin - first // thin)
        seconds = time.perf_counter() - start
        now_estimated = {} if self.draws_come else self.method.estimates(self.state)
        _check({**draws, **now_estimated}, first)
        self.rate = n / max(seconds, 1e-9)
        self.row_limit = _MAX_CHUNK_BYTES * n / max(1, sum(array.nbytes for array in draws.values()))
        taken = float(np.sum(draws.get("seconds", seconds)))
        self.book["burn_in_s" if first < self.burn_in else "sampling_s"] += taken
        self.book["queries"] += float(np.sum(draws.get("queries", 0.0)))
        self.book["wall_s"] = self.wall_before + time.perf_counter() - self.started
        with _writing(self.cell.folder):
            saving = time.perf_counter()
            self.draws.save(Chunk(first, n, draws, seconds, now_estimated), self.state, self.book)
            self.saving_s = time.perf_counter() - saving
        if not self.iteration and self.draws_come:
            self.warn_of_cost(float(np.mean(draws.get("queries", 0.0))))
        self.iteration += n
        means = {name: float(np.mean(array)) for name, array in draws.items() if array.ndim == 1}
        total = self.expected()
        shown = {"unit": self.method.unit, "shown": self.method.shown, "means": means}
        self.tell("chunk", iteration=self.iteration, total=total, rate=self.rate, **shown)
        self.log.pace(self.iteration, total, self.rate)

    def warn_of_cost(self, pace: float) -> None:
        """Say so where a step takes as many queries as thousands of passes over the data would."""
        n_data, unit = self.method.facts().n_data or 0, self.method.unit
        if n_data and pace > _COSTLY_PASSES * n_data:
            passes = f"{pace / n_data:,.0f} passes over all {n_data:,} data"
            text = f"each {unit} takes {pace:,.0f} likelihood queries, as many as {passes}"
            self.tell("note", text=f"{text}; another sampler may cost far less")
            self.log.write(text)

    def finish(self) -> store.CellInfo:
        """Write posterior.nc, cell.json and done, in this order; then the chunks go. Returns cell.json.

        Chains that can be extended keep their chunks; one that is longer than asked ends where asked.
        """
        folder, protocol, method, arm = self.cell.folder, self.protocol, self.method, self.cell.arm
        facts, length = proofs.judged(arm, method.facts(self.state)), self.length()
        attrs = {"experiment": arm.experiment or "", "arm": arm.name, "seed": self.cell.seed}
        attrs["exact"] = "unknown" if facts.exact is None else facts.exact
        sizes, points = (length, self.burn_in, protocol.thin), _trace_points(facts.n_data)
        with _writing(folder), files.replacing(folder / run_files.POSTERIOR) as temporary:
            files.reserve(folder, int(1.1 * self.draws.bytes_stored()) + _POSTERIOR_OVERHEAD_BYTES)
            posterior = PosteriorFile(temporary, sizes, attrs, facts.coordinates, points)
            with contextlib.closing(posterior) as tree:
                tree.add(until(self.draws.chunks(), length))
                grid, theta = tree.trace_points()
                if len(grid) and (trace := method.trace(theta)):
                    tree.add_group("trace", {"iteration": grid, **trace}, "grid")
                chunks, setup = until(self.draws.chunks(), length), facts.setup_costs()
                snapshots = estimates.of_chunks(chunks, length, protocol.thin, method.of_draws, setup)
                tree.add_group("estimate", snapshots, "snapshot")
                if result := method.result(self.state):
                    group, shared = _RESULTS[method.answers]
                    tree.add_group(group, result, shared)
                    if method.answers == "weighted" and {"theta", "log_weight"} <= result.keys():
                        tree.add_resampled(result)
        info = self.info(facts, tree.means(), length)
        with _writing(folder):
            files.write_json(folder / store.CELL, info)
            store.mark_done(folder)
            if not protocol.extend:
                self.draws.clear()
        return info

    def length(self) -> int:
        """Iterations that count: all asked for, or those that the budget reached, whole thinning steps."""
        left, thin = self.allowed, self.protocol.thin
        if math.isinf(left):
            return self.protocol.iterations
        reached = 0
        for chunk in self.draws.chunks() if left > 0 else ():
            spent = np.cumsum(chunk.draws.get("queries", np.zeros(chunk.n)))
            if spent[-1] >= left:
                reached = chunk.first + int(np.argmax(spent >= left)) + 1
                break
            left, reached = left - spent[-1], chunk.first + chunk.n
        reached -= reached % thin
        if reached < self.burn_in + thin:
            raise self.too_small(reached)
        return reached

    def too_small(self, reached: int) -> ConfigError:
        """The error of a budget that leaves no draw; it names one that does, by what iterations took."""
        budget, facts = self.protocol.budget, self.method.facts()
        pace = self.book["queries"] / self.iteration
        wanted = facts.setup_queries + 2 * pace * (self.burn_in + self.protocol.thin) + 1
        key, given = f"protocol.budget.{budget.unit}", getattr(budget, budget.unit)
        enough = wanted / (facts.n_data or 1) if budget.unit == "passes" else wanted
        where = f"at {self.method.unit} {reached:,}, within burn-in" if reached else "before the first draw"
        where = "by the set-up alone" if self.allowed <= 0 else where
        return ConfigError(f"{key}={given:g}: is spent {where}; take {key}={_round_up(enough)}")

    def info(self, facts: Facts, means: dict[str, float], length: int) -> store.CellInfo:
        """What cell.json holds."""
        cell, protocol = self.cell, self.protocol
        self.book["wall_s"] = self.wall_before + time.perf_counter() - self.started
        peaks = {"peak_bytes": environment.peak_memory(), "setup_peak_bytes": self.task.setup_peak_bytes}
        return {
            "experiment": cell.arm.experiment,
            "name": self.task.job,
            "arm": cell.arm.name,
            "seed": cell.seed,
            "key": cell.key,
            "settings": cell.arm.settings(),
            "answers": self.method.answers,
            "facts": facts.plain(),
            "tuning": dict(facts.tuned),
            "iterations": length,
            "burn_in": self.burn_in,
            "thin": protocol.thin,
            "means": means,
            "unit": self.method.unit,
            "shown": self.method.shown,
            "environment": {
                **self.task.environment,
                **environment.machine(),
                "cpu": ", then ".join(self.book["processors"]),
                **environment.blas(),
                "packages": environment.packages(cell.arm.code()),
            },
            "timings": {
                **{name: self.book[name] for name in ("sampling_s", "burn_in_s", "wall_s")},
                "compile_s": self.task.compile_s,
                "setup_s": float(facts.setup_s),
            },
            "memory": peaks,
            "sessions": self.book["sessions"],
            "finished": progress.now(),
        }


def _finished(folder: Path) -> store.StoredCell:
    """A cell that another one reads. Raises FlyrunError where it is not finished."""
    cell = store.open_folder(folder)
    if cell.state != "done":
        why = f": {cell.message}" if cell.message else ""
        raise FlyrunError(f"needs arm {cell.arm}, seed={cell.seed}, which is {cell.state}{why}")
    return cell


def _round_up(value: float) -> int:
    """To two digits, from 10 on."""
    unit = 10 ** max(0, math.floor(math.log10(max(value, 1.0))) - 1)
    return math.ceil(value / unit) * unit


def _trace_points(n_data: int | None) -> int:
    """Positions at which the log posterior is worked out after a run: fewer where each takes long."""
    return _TRACE_POINTS if not n_data else min(_TRACE_POINTS, max(_FEWEST_POINTS, _TRACE_QUERIES // n_data))


def _check(draws: Arrays, first: int) -> None:
    """Refuse draws that are not numbers, naming the iteration: averages over them would hide it."""
    for name, array in draws.items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            row = np.argwhere(np.isnan(np.atleast_1d(array)))[0][0]
            where = f"row {row} of the chunk from iteration {first:,}"
            raise FloatingPointError(f"'{name}' is not a number in {where}")


@contextlib.contextmanager
def _writing(folder: Path):
    """As `store.writing`, but for want of memory, which is no reason to end the other cells."""
    with store.writing(folder):
        try:
            yield
        except OSError as error:
            # HDF5 has one kind of error for all.
            if error.errno == errno.ENOMEM or "memory allocation failed" in str(error):
                raise MemoryError(str(error)) from error
            raise
