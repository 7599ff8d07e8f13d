"""A sweep's jobs on SLURM through submitit: waiting, ended without a result, given up."""

import contextlib
import io
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from hydra.core.utils import JobReturn, JobStatus

from flyrun.cli.messages import print_error
from flyrun.experiments.runner.launch import ENDING
from flyrun.ground.executor import Slurm
from flyrun.ground.slurm import Jobs

_LOOK_EVERY_S = 1.0
_SAY_AFTER_S = 5.0


@contextlib.contextmanager
def watched(lost: Callable[[list[str], int, str], None]) -> Iterator[None]:
    """Watch what submitit sends to SLURM within this context.

    lost: called with the words of a job, its place in the sweep (from 0) and what became of it, for each
    job that leaves no result. submitit itself would end the sweep, or wait for ever without a word.
    Raises KeyboardInterrupt where a signal ends the wait; the jobs are cancelled then.
    """
    try:
        from submitit.core.utils import UncompletedJobError  # late: an extra
        from submitit.slurm.slurm import SlurmExecutor, SlurmJob  # late, too
    except ImportError:
        yield
        return
    send = SlurmExecutor._internal_process_submissions
    sent = dict[str, tuple[Any, ...]]()  # a job's id -> what the launcher calls in it

    def send_and_wait(executor: Any, submissions: list[Any]) -> Any:
        # What sbatch says on stderr, submitit prints and raises: once is enough.
        with contextlib.redirect_stderr(io.StringIO()):
            jobs = send(executor, submissions)
        sent.update((job.job_id, submission.args) for job, submission in zip(jobs, submissions, strict=True))
        _wait(jobs)
        return jobs

    def results(job: Any) -> list[Any]:
        try:
            outcome, result = job._get_outcome_and_result()
        except UncompletedJobError:
            state = job.watcher.get_state(job.job_id, mode="force")
            outcome, result = "lost", f"SLURM's job {job.job_id} ended without a result (state {state})"
        if outcome == "success":
            return [result]
        arguments, _, place, *_ = sent[job.job_id]
        lost(arguments, place, result.strip().splitlines()[-1])
        return [JobReturn(status=JobStatus.COMPLETED)]  # the sweep goes on with the others

    with (
        mock.patch.object(SlurmExecutor, "_internal_process_submissions", send_and_wait),
        mock.patch.object(SlurmJob, "results", results),
    ):
        yield


def _wait(jobs: list[Any]) -> None:
    """Wait until each job has left a result, or ended in SLURM's words; say what is waited for."""
    slurm = Jobs(Slurm())
    slurm.sent = sorted({job.job_id.partition("_")[0] for job in jobs})
    shown, began = "", time.monotonic()
    with _signals_interrupt():
        try:
            while not all(job.done() for job in jobs) and not slurm.ended():
                waiting = slurm.waiting()
                if waiting != shown and time.monotonic() - began > _SAY_AFTER_S:
                    shown = waiting
                    print_error(f"waiting: {shown}")
                time.sleep(_LOOK_EVERY_S)
        except KeyboardInterrupt:
            subprocess.run(["scancel", *slurm.sent], check=False)
            print_error(f"stopped; SLURM's jobs {', '.join(slurm.sent)} are cancelled")
            raise


@contextlib.contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Let each of the signals that ask for an end raise KeyboardInterrupt."""

    def interrupt(end: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {end: signal.signal(end, interrupt) for end in ENDING if signal.getsignal(end) != signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
