"""Rounds of sampling, each going on where the last ended, until the chains agree or the budget ends."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from flyrun import __version__
from flyrun.config import Job
from flyrun.errors import StoreError
from flyrun.fit import coefficients
from flyrun.fit.arguments import Request
from flyrun.fit.choose import Problem, problem
from flyrun.outputs import Screen
from flyrun.report.arms import FIT
from flyrun.runner import files, progress, store
from flyrun.runner.cell import cells, run_dir

POSTERIOR = "posterior.nc"
_LEAST, _MOST = 1.5, 4.0  # how much longer the next round makes the chains
_MOST_STORED_BYTES = 400e6  # of one chain's draws
_WORKERS_PAY_S = 15.0  # starting processes costs a few seconds


def fit(request: Request, screen: Screen) -> int:
    """Run a request to its end; exit code. Raises FlyrunError for what a person can mend."""
    from flyrun.report import build

    task = problem(request)
    rounds = _Rounds(request, task, screen)
    for line in task.lines:
        rounds.say(line)
    code = rounds.to_end()
    if code == 0:
        build(rounds.folder, screen.tables)
        rounds.tell_files()
    return code


class _Rounds:
    """Where the sampling stands."""

    def __init__(self, request: Request, task: Problem, screen: Screen):
        self.request, self.task, self.screen = request, task, screen
        self.job: Job = task.job
        self.folder = run_dir(self.job)
        self.protocol = self.job.arms[0].protocol
        self.started = time.monotonic()
        self.done = 0
        self.rate = math.nan  # seconds an iteration of all chains takes, one after the other
        by_size = int(_MOST_STORED_BYTES / (8 * task.n_params)) * self.protocol.thin
        self.limit = max(min(request.budget.iterations or by_size, by_size), self.protocol.burn_in + 100)

    def say(self, text: str) -> None:
        """Show one line."""
        progress.plain(self.screen.console, 0).say(text)

    def warn(self, text: str) -> None:
        """Show a line that also --quiet shows."""
        self.say(text)
        self.screen.warn(text)

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.request.budget.seconds - (time.monotonic() - self.started)

    def to_end(self) -> int:
        """Exit code: 0 with a posterior written, agreed or not; 1 where a chain failed or is too short."""
        from flyrun.runner.launch import run

        if self.job.fresh:
            for name in (FIT, POSTERIOR):
                (self.folder / name).unlink(missing_ok=True)
        total, fresh, number = self._first(), self.job.fresh, 0
        while True:
            number += 1
            job = self._with(total, fresh)
            result = run(job, self.screen.console, stop_after_s=self._stop_after(), terse=True)
            fresh = False
            self.screen.failures(result)
            if result.exit_code:
                return result.exit_code
            ended = bool(result.of("stopped"))
            if ended:
                total = self._iterations_done()
                if total < self.protocol.burn_in + 100:
                    self.warn(
                        f"the budget of {self.request.budget} ended at iteration {total:,}, too early for "
                        "draws to speak of; the same command with a longer --budget goes on from here"
                    )
                    return 1
                result = run(self._with(total, False), self.screen.console, terse=True)
                self.screen.failures(result)
                if result.exit_code:
                    return result.exit_code
            self.done, self.rate = total, self._seconds_an_iteration()
            rows = self._summarise()
            good = coefficients.agreed(rows)
            following = None if good or ended else self._next(total, rows)
            self._tell_round(number, total, rows, good, following)
            if following is None:
                self._write(rows, total, good)
                return 0
            total = following

    def _first(self) -> int:
        """Length of the first round: what is asked for, or where stored chains are."""
        stored = 0 if self.job.fresh else max(self._lengths(), default=0)
        return max(self._rounded(self.protocol.iterations), stored)

    def _rounded(self, iterations: float) -> int:
        thin = self.protocol.thin
        return int(min(iterations, self.limit)) // thin * thin

    def _stored(self) -> list[store.StoredCell]:
        found = cells(self.job)  # their keys know no length
        return [store.open_cell(self.folder, cell.arm.name, cell.key, cell.seed) for cell in found]

    def _lengths(self) -> list[int]:
        return [int(cell.info.get("iterations", 0)) or cell.iterations_done for cell in self._stored()]

    def _iterations_done(self) -> int:
        """Iterations that every chain has."""
        thin = self.protocol.thin
        return min(self._lengths(), default=0) // thin * thin

    def _with(self, total: int, fresh: bool) -> Job:
        arm = self.job.arms[0]
        arm = replace(arm, protocol=replace(self.protocol, iterations=total))
        return replace(self.job, arms=(arm,), fresh=fresh, executor=self._executor(total))

    def _executor(self, total: int) -> Any:
        executor = self.job.executor
        if executor.name != "local" or executor.workers is not None:
            return executor
        if self.request.workers is not None:
            return replace(executor, workers=self.request.workers)
        pays = self.rate * (total - self.done) > _WORKERS_PAY_S
        return executor if pays else replace(executor, workers=1)

    def _stop_after(self) -> float | None:
        return None if math.isinf(self.request.budget.seconds) else max(self.left(), 1.0)

    def _next(self, total: int, rows: list[dict[str, Any]]) -> int | None:
        """Length of the next round; None where the budget leaves none worth having."""
        least = min(row["ess_bulk"] for row in rows)
        burn_in = self.protocol.burn_in
        wanted = 1.2 * coefficients.ESS / max(least, 1.0)
        if least >= coefficients.ESS:  # R-hat is what is missing
            wanted = 2.0
        following = burn_in + (total - burn_in) * min(max(wanted, _LEAST), _MOST)
        following = min(following, total + max(self.left(), 0.0) / self.rate)
        following = self._rounded(following)
        return following if following > 1.05 * total else None

    def _seconds_an_iteration(self) -> float:
        infos = [cell.info for cell in self._stored()]
        return sum(
            (info["timings"]["burn_in_s"] + info["timings"]["sampling_s"]) / info["iterations"]
            for info in infos
        )

    def _summarise(self) -> list[dict[str, Any]]:
        self.beta = coefficients.draws(self._stored(), self.task.layout)
        return coefficients.summarise(self.beta, self.task.layout)

    def _tell_round(self, number: int, total: int, rows: list, good: bool, following: int | None) -> None:
        worst = max(rows, key=lambda row: row["rhat"])
        least = min(rows, key=lambda row: row["ess_bulk"])
        if good:
            outcome = "the chains agree"
        elif following is None:
            outcome = f"the budget of {self.request.budget} ends"
        else:
            outcome = f"on to {following:,}"
        self.say(
            f"round {number}: {total:,} iterations a chain, R-hat at most {worst['rhat']:.3f} "
            f"({_name(worst)}), bulk ESS at least {least['ess_bulk']:,.0f} ({_name(least)}): {outcome}"
        )
        self.screen.round(
            number=number,
            iterations=total,
            rhat_max=_finite(worst["rhat"]),
            ess_bulk_min=_finite(least["ess_bulk"]),
            agreed=good,
            next_iterations=following,
        )
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
        try:
            coefficients.write(self.folder / POSTERIOR, self.beta, self._stored(), layout, attrs)
            about = {
                "file": str(arm.dataset.path),
                "lines": self.task.lines,
                "caveats": self.task.caveats,
                "layout": layout.as_dict(),
                "agreed": good,
                "budget": str(self.request.budget),
                "iterations": total,
                "burn_in": self.protocol.burn_in,
                "chains": len(self.protocol.seed_list),
                "coefficients": rows,
            }
            files.write_json(self.folder / FIT, about)
        except OSError as error:
            raise StoreError(
                f"{self.folder}: cannot be written ({error.strerror or error}); make room"
            ) from error

    def tell_files(self) -> None:
        """Where the draws are, and how to open them."""
        path = self.folder / POSTERIOR
        self.say(
            f'posterior: {path}; open it with xarray.open_datatree("{path}", engine="h5netcdf") or ArviZ'
        )
        self.screen.table(self.folder, posterior=path)


def _name(row: dict[str, Any]) -> str:
    return f"{row['class']}: {row['coefficient']}" if row["class"] else str(row["coefficient"])


def _finite(value: float) -> float | None:
    """A number that JSON knows."""
    return value if math.isfinite(value) else None
