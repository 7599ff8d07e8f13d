"""Rounds of sampling, each going on where the last ended, until the chains agree or the budget ends."""

import itertools
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from flyrun import __version__, files, paths
from flyrun.children import cores
from flyrun.config.arm import Arm, Job
from flyrun.exit_codes import DONE, FAILED, UNTRUSTED
from flyrun.fitting import coefficients, priors, ratios, second_process
from flyrun.fitting.choose import PreparedFit
from flyrun.fitting.request import ELSEWHERE, Clock, Request
from flyrun.report import document, render
from flyrun.report.summaries import FIT
from flyrun.runner import progress, store
from flyrun.runner.cell import cells, run_dir
from flyrun.runner.launch import run
from flyrun.samplers.method import prepare

_SET_UP = "MAP and bounds"
_LEAST, _MOST = 1.5, 4.0  # how much longer the next round makes the chains
_MOST_STORED_BYTES = 400e6  # of one chain's draws
_WORKERS_PAY_S = 15.0  # starting processes costs a few seconds
_FEWEST = 10  # draws of a chain that something can be said from
_SPENT = 0.05  # of the budget: what is left is not worth another start
# What comes after sampling, on a free core: a report, and by number (a draw of a coefficient) R-hat and ESS,
# of which so much of the budget's time is spent a round at most, and files. What they take here is so many
# times the pace at which reading and setting up went.
_REPORT_S, _JUDGED_S, _WRITTEN_S = 2.0, 7e-7, 3e-7
_JUDGING, _FORESEEN_S = 0.05, 0.5  # the time that less was foreseen for is that of starting
_LEAST_S = 1.0  # of sampling, whatever is left
_CHUNK = 0.02  # of the budget: chains end at a chunk's border


def fit(
    request: Request, task: PreparedFit, clock: Clock, screen: Any, other: second_process.SecondProcess
) -> int:
    """Run a request, typed as clock began, to its end; exit code. FlyrunError for what a person can mend."""
    rounds = _Rounds(request, task, clock, screen, other)
    for line in rounds.task.lines:
        rounds.say(line)
    code = rounds.to_end()
    if code in (DONE, UNTRUSTED):
        with rounds.timed("report"):
            text = other.ask(second_process.report, rounds.folder)
        if screen.tables is not None:
            document.show(text, rounds.folder, screen.tables)
        rounds.say(rounds.phases())
        path = rounds.folder / store.POSTERIOR
        opens = f'xarray.open_datatree("{path}", engine="h5netcdf")'
        rounds.say(f"posterior: {path}; open it with {opens} or ArviZ")
        screen.table(rounds.folder, posterior=path)
    return code


class _Rounds:
    """Where the sampling stands."""

    def __init__(
        self,
        request: Request,
        task: PreparedFit,
        clock: Clock,
        screen: Any,
        other: second_process.SecondProcess,
    ):
        self.request, self.task, self.clock, self.screen, self.other = request, task, clock, screen, other
        read = clock.seconds() - task.set_up_s
        self.spent = defaultdict(float, {"read": read, _SET_UP: task.set_up_s})  # by phase
        self.pace = clock.pace()  # seconds that one of a free core takes
        self.job: Job = self.task.job
        self.folder = run_dir(self.job)
        self.protocol = self.job.arms[0].protocol
        self.seeds = self.protocol.seed_list
        self.done = 0
        self.most = max(_JUDGING * request.budget.seconds / (self.pace * _JUDGED_S), 1.0)  # numbers judged
        self.rate = math.nan  # seconds an iteration of all chains takes, one after the other
        self.slow = False  # a first round took too long for one process
        self.program: Any = None
        by_size = int(_MOST_STORED_BYTES / (8 * self.task.n_params)) * self.protocol.thin
        self.limit = max(min(request.budget.iterations or by_size, by_size), self.protocol.burn_in + 100)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Adds what passes to a phase, less what others within it take."""
        started, others = time.monotonic(), sum(self.spent.values())
        yield
        self.spent[phase] += time.monotonic() - started - (sum(self.spent.values()) - others)

    def phases(self) -> str:
        """Where the time went."""
        parts = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in self.spent.items())
        return f"{parts}; {self.clock.seconds():.1f} s in all"

    def say(self, text: str) -> None:
        """Show one line."""
        progress.display(self.screen.console, 0).say(text)

    def warn(self, text: str) -> None:
        """Show a line that also --quiet shows."""
        self.say(text)
        self.screen.warn(text)

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.request.budget.seconds - self.clock.seconds()

    def for_draws(self, total: int) -> float:
        """The same without what judging, writing and reporting chains of this length will take."""
        return self.left() - self._afterwards(total)

    def _afterwards(self, total: int) -> float:
        return self.pace * (_REPORT_S + self._numbers(total) * _WRITTEN_S) + self._judging(total)

    def _numbers(self, total: int) -> float:
        kept = max(total - self.protocol.burn_in, 0) // self.protocol.thin
        return float(len(self.seeds) * kept * self.task.n_params)

    def _judging(self, total: int) -> float:
        """Seconds that R-hat and ESS will take."""
        return self.pace * _JUDGED_S * min(self._numbers(total), self.most)

    def to_end(self) -> int:
        """Exit code: DONE or, of chains that do not agree, UNTRUSTED with a posterior written; FAILED where a
        chain failed or all are too short."""
        if self.job.fresh:
            for name in (FIT, store.POSTERIOR):
                (self.folder / name).unlink(missing_ok=True)
        # as long as is asked for, or where stored chains are
        stored = 0 if self.job.fresh else max(self._lengths(), default=0)
        total = max(self._rounded(self.protocol.iterations), stored)
        if self.for_draws(total) < _LEAST_S:
            taken, more = self.clock.seconds(), self._afterwards(total) + _LEAST_S
            self.warn(
                f"reading and setting up took {taken:.1f} s and a report takes about {more:.1f} s more, "
                f"beyond the budget of {self.request.budget}: the chains get {_LEAST_S:g} s; "
                f"--budget {math.ceil(1.25 * (taken + more))}s would cover all"
            )
        for number in itertools.count(1):
            result = self._reach(total, fresh=self.job.fresh and number == 1)
            if result.exit_code:
                return result.exit_code
            ended = bool(result.of("stopped"))
            if ended:
                self.seeds, total = self._usable()
                if not self.seeds:
                    self.warn(
                        f"the budget of {self.request.budget} ended at iteration {total:,}, too early for "
                        "draws to speak of; the same command with a longer --budget goes on from here"
                    )
                    return FAILED
                result = self._run(total, False, None)
                if result.exit_code:
                    return result.exit_code
            with self.timed("R-hat and ESS"):
                self.done, self.rate = total, sum(map(_seconds_an_iteration, self._stored()))
                self.beta = coefficients.draws(self._stored(), self.task.layout)
                began, foreseen = time.monotonic(), self._judging(total)
                rows = self.other.ask(coefficients.summarise, self.beta, self.task.layout, self.most)
                if foreseen > _FORESEEN_S:
                    self.pace *= max((time.monotonic() - began) / foreseen, 1.0)
            good = coefficients.agreed(rows) and not self._caveats()
            following = None if good or ended else self._next(total, rows)
            self._tell_round(number, total, rows, good, following)
            if following is None:
                break
            total = following
        self._write(rows, total, good)
        return DONE if good else UNTRUSTED

    def _reach(self, total: int, fresh: bool) -> Any:
        """Run the chains to `total`, or as far as the time takes them, all about as far."""
        while True:
            trial = not self.slow and self._executor(total).workers == 1 and self._more_cores()
            seconds = max(self.for_draws(total), _LEAST_S)
            seconds = min(seconds, _WORKERS_PAY_S) if trial else seconds
            result = self._run(total, fresh, None if math.isinf(seconds) else seconds)
            fresh = False
            least = max(min(_SPENT * self.request.budget.seconds, _WORKERS_PAY_S), _LEAST_S)
            if result.exit_code or not result.of("stopped") or self.for_draws(total) <= least:
                return result
            self.slow = trial or self.slow

    def _run(self, total: int, fresh: bool, stop_after_s: float | None) -> Any:
        chunk = min(self.protocol.chunk_seconds, _CHUNK * self.request.budget.seconds)
        protocol = replace(self.protocol, iterations=total, seeds=self.seeds, chunk_seconds=chunk)
        arms = (replace(self.job.arms[0], protocol=protocol),)
        job = replace(self.job, arms=arms, fresh=fresh, executor=self._executor(total))
        here = job.executor.name == "local" and job.executor.workers == 1
        self.program = self.program if here else None  # its data are not to lie beside the workers' own
        prepare = self._prepare if here else None
        with self.timed("draws"):  # files and compiling, where that is needed, included
            summary = (
                partial(self.other.begin, second_process.summarise) if here else second_process.summarise
            )
            result = run(job, self.screen.console, prepare, stop_after_s, terse=True, summarise=summary)
        self.screen.failures(result)
        return result

    def _prepare(self, arm: Arm, folder: Path) -> Any:
        """The program, set up once for all rounds, for it knows no length; the MAP once for all fits."""
        if self.program is None:
            with self.timed(_SET_UP):
                self.program = prepare(arm, paths.cache_dir("setup"))
        return self.program

    def _usable(self) -> tuple[tuple[int, ...], int]:
        """Which chains are far enough beyond burn-in, and a length of all: most draws by these two.

        None, and the longest chain's length, where no chain is.
        """
        thin, burn_in = self.protocol.thin, self.protocol.burn_in
        by_seed = zip(self.seeds, self._lengths(), strict=True)
        ranked = sorted(((length // thin * thin, seed) for seed, length in by_seed), reverse=True)
        draws = [(k + 1) * (length - burn_in) for k, (length, _) in enumerate(ranked)]
        most = max(range(len(ranked)), key=lambda k: draws[k])
        length = ranked[most][0]
        if length < burn_in + _FEWEST * thin:
            return (), ranked[0][0]
        return tuple(sorted(seed for _, seed in ranked[: most + 1])), length

    def _with_ratios(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not self.request.exp:
            return rows
        return ratios.beside(rows, self.beta, self.task.link, self.task.layout)

    def _caveats(self) -> list[str]:
        """That some chains are missing."""
        wanted, there = len(self.protocol.seed_list), len(self.seeds)
        if there == wanted:
            return []
        meaning = "R-hat compares these only" if there > 1 else "nothing tells whether chains agree"
        ended = f"only {there} of {wanted} chains got beyond burn-in before the budget ended"
        return [f"{ended}, and {meaning}; the same command with a longer --budget goes on with all"]

    def _rounded(self, iterations: float) -> int:
        thin = self.protocol.thin
        return int(min(iterations, self.limit)) // thin * thin

    def _stored(self) -> list[store.StoredCell]:
        found = [cell for cell in cells(self.job) if cell.seed in self.seeds]  # their keys know no length
        return [store.open_cell(self.folder, cell.arm.name, cell.key, cell.seed) for cell in found]

    def _lengths(self) -> list[int]:
        return [int(cell.info.get("iterations", 0)) or cell.iterations_done for cell in self._stored()]

    def _executor(self, total: int) -> Any:
        executor = self.job.executor
        if executor.name != "local" or executor.workers is not None:
            return executor
        if self.request.workers is not None:
            return replace(executor, workers=self.request.workers)
        if min(self._lengths(), default=0) >= total:  # only files are left to write
            return replace(executor, workers=1)
        pays = self.slow or self.rate * (total - self.done) > _WORKERS_PAY_S
        return executor if pays and self._more_cores() else replace(executor, workers=1)

    def _more_cores(self) -> bool:
        """Whether workers could take the place of this process."""
        asked = self.job.executor.name != "local" or self.job.executor.workers or self.request.workers
        return not asked and cores() > 1

    def _next(self, total: int, rows: list[dict[str, Any]]) -> int | None:
        """Length of the next round; None where the budget leaves none worth having."""
        least = min(row["ess_bulk"] for row in rows)
        burn_in = self.protocol.burn_in
        short = least < coefficients.ESS  # else R-hat is what is missing
        wanted = 1.2 * coefficients.ESS / max(least, 1.0) if short else 2.0
        longer = burn_in + (total - burn_in) * min(max(wanted, _LEAST), _MOST)
        following = self._rounded(min(longer, total + max(self.for_draws(int(longer)), 0.0) / self.rate))
        return following if following > 1.05 * total else None

    def _tell_round(self, number: int, total: int, rows: list, good: bool, following: int | None) -> None:
        worst = max(rows, key=lambda row: row["rhat"])
        least = min(rows, key=lambda row: row["ess_bulk"])
        known = not math.isnan(worst["rhat"])
        rhat = f"R-hat at most {render.spec(worst['rhat'], '.3f')} ({_name(worst)})" if known else "no R-hat"
        outcome = f"the budget of {self.request.budget} ends" if following is None else f"on to {following:,}"
        outcome = "the chains agree" if good else outcome
        self.say(
            f"round {number}: {total:,} iterations a chain, {rhat}, "
            f"bulk ESS at least {least['ess_bulk']:,.0f} ({_name(least)}): {outcome}"
        )
        self.screen.tell(
            "round",
            number=number,
            iterations=total,
            rhat_max=_finite(worst["rhat"]),
            ess_bulk_min=_finite(least["ess_bulk"]),
            agreed=good,
            next_iterations=following,
        )
        for text in self._caveats():
            self.screen.warn(text)
        if following is None and not good:
            self.screen.warn(f"the chains do not agree yet; {outcome}: see {self.folder / 'report.html'}")

    def _write(self, rows: list[dict[str, Any]], total: int, good: bool) -> None:
        """posterior.nc and fit.json, from which the report is made."""
        arm, layout = self.job.arms[0], self.task.layout
        attrs = {
            "flyrun": __version__,
            "file": str(arm.dataset.path),
            "target": layout.target.name,
            "model": arm.model.name,
        }
        with files.writing(self.folder, ELSEWHERE):
            coefficients.write(self.folder / store.POSTERIOR, self.beta, self._stored(), layout, attrs)
            about = {
                "key": self._stored()[0].key,
                "file": str(arm.dataset.path),
                "lines": self.task.lines,
                "how": f"{total:,} iterations a chain, the first {self.protocol.burn_in:,} of them burn-in "
                "and left out",
                "settings": self.task.settings,
                "link": self.task.link,
                "standardize": arm.dataset.standardize,
                "caveats": [*self.task.caveats, *self._caveats()],
                "layout": asdict(layout),
                "agreed": good,
                "budget": str(self.request.budget),
                "iterations": total,
                "chains": len(self.seeds),
                "coefficients": priors.beside(
                    self._with_ratios(rows), self.task.priors if arm.prior.name == "gaussian" else []
                ),
            }
            files.write_json(self.folder / FIT, about)


def _name(row: dict[str, Any]) -> str:
    return f"{row['class']}: {row['coefficient']}" if row["class"] else str(row["coefficient"])


def _seconds_an_iteration(cell: store.StoredCell) -> float:
    timings = cell.info["timings"]
    return (timings["burn_in_s"] + timings["sampling_s"]) / cell.info["iterations"]


def _finite(value: float) -> float | None:
    """A number that JSON knows."""
    return value if math.isfinite(value) else None
