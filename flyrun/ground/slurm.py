"""Jobs of SLURM, most of all as the workers of a Dask cluster: sent, refused, waiting, ended."""

import shutil
import subprocess
import time
from collections import Counter
from dataclasses import fields
from typing import Any

from flyrun.ground.environment import ONE_THREAD
from flyrun.ground.errors import ConfigError
from flyrun.ground.executor import Slurm
from flyrun.ground.schema import listing, show

_ASK_EVERY_S = 10.0
_PATIENCE_S = 30.0


def check(slurm: Slurm) -> None:
    """Raise ConfigError where SLURM is asked for and is not there."""
    if slurm.jobs is not None and shutil.which("sbatch") is None:
        raise ConfigError(
            f"executor.slurm.jobs={slurm.jobs}: this machine has no sbatch; run where SLURM takes jobs, or "
            "leave executor.slurm out"
        )


class Jobs:
    """What became of the jobs that one cluster sent."""

    def __init__(self, slurm: Slurm):
        self.slurm, self.sent, self.refusal = slurm, list[str](), ""
        self._asked, self._gone, self._waiting = 0.0, 0, "its jobs are being sent"

    def cluster(self) -> Any:
        """Cluster whose workers are the jobs: processes of one thread each, this Python's."""
        from dask_jobqueue import SLURMCluster  # late, all three: only SLURM needs them
        from dask_jobqueue.slurm import SLURMJob  # late
        from distributed import Status  # late

        jobs = self

        class Job(SLURMJob):
            """A job that tells what becomes of it."""

            async def start(self) -> None:
                """Send it."""
                # Called off our thread, where an error would be logged and nobody told.
                try:
                    await super().start()
                    jobs.sent.append(str(self.job_id))
                except Exception as error:
                    self.status = Status.failed
                    jobs.refusal = jobs.refusal or str(error)

        # As in WORKER_SETTINGS: what Dask starts for a job may start processes itself.
        set_there = {**ONE_THREAD, "DASK_DISTRIBUTED__WORKER__DAEMON": "False"}
        lines = [f"export {name}={value}" for name, value in set_there.items()]
        alike = ("cores", "memory", "walltime", "queue", "account", "interface")
        made: Any = SLURMCluster
        return made(
            job_cls=Job,
            job_name="flyrun",
            processes=self.slurm.cores,
            log_directory=self.slurm.logs,
            job_extra_directives=list(self.slurm.directives),
            job_script_prologue=[*lines, *self.slurm.prologue],
            **{key: getattr(self.slurm, key) for key in alike},
        )

    def raise_refusal(self) -> None:
        """Raise ConfigError where SLURM took a job of ours not."""
        if self.refusal:
            lines = self.refusal.partition("stderr:")[2] or self.refusal
            said = "; ".join(filter(None, (line.strip() for line in lines.splitlines())))
            slurm = self.slurm
            asked = [one for one in fields(slurm) if getattr(slurm, one.name) not in (None, ())]
            keys = [f"executor.slurm.{one.name}={show(getattr(slurm, one.name))}" for one in asked]
            raise ConfigError(f"executor=dask: SLURM refuses a job ({said}); correct one of {listing(keys)}")

    def waiting(self) -> str:
        """What is being waited for, in words, while none of the jobs works."""
        self._ask()
        return self._waiting

    def ended(self) -> bool:
        """Whether SLURM has ended all jobs, as it said twice."""
        self._ask()
        return self._gone > 1

    def _ask(self) -> None:
        """Ask squeue, now and then."""
        if not self.sent or time.monotonic() - self._asked < _ASK_EVERY_S:
            return
        self._asked = time.monotonic()
        command = ["squeue", "--noheader", "--array", "--format=%T %r", f"--jobs={','.join(self.sent)}"]
        try:
            told = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            self._waiting = f"SLURM does not say how its jobs stand ({error})"
            return
        if told.returncode and "Invalid job id" not in told.stderr:
            self._waiting = f"SLURM does not say how its jobs stand ({' '.join(told.stderr.split())})"
            return
        standing = Counter(line.strip() for line in told.stdout.splitlines() if line.strip())
        self._gone = 0 if standing else self._gone + 1
        states = ", ".join(f"{count} {state}" for state, count in standing.items())
        self._waiting = f"SLURM's jobs {listing(self.sent)}: {states or 'ended'}"
