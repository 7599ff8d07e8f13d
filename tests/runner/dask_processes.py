"""A Dask cluster of processes of its own, each of which can be killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


class Cluster:
    """Scheduler and workers, each in a process group of its own; they end with the `with`."""

    def __init__(self, workers=1, **environment):
        self._environment = environment
        self._stack, self._folder = contextlib.ExitStack(), Path(tempfile.mkdtemp(prefix="flyrun-cluster-"))
        self._file = self._folder / "scheduler.json"
        self._begin(workers, 0)

    def _begin(self, workers, port):
        self._file.unlink(missing_ok=True)
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", port, "--scheduler-file", self._file
        )
        self.address = self._told()
        self.workers = [self.worker() for _ in range(workers)]

    def _told(self):
        """The scheduler's address, once its file is whole: it is there before it is written."""
        while True:
            assert self.scheduler.poll() is None
            with contextlib.suppress(OSError, ValueError):
                return json.loads(self._file.read_text())["address"]
            time.sleep(0.02)

    def worker(self, nanny=False):
        """Another worker."""
        further = [] if nanny else ["--no-nanny"]
        return self._start("worker", "--scheduler-file", self._file, "--nthreads", "1", *further)

    def begin_again(self):
        """End all, and begin with as many workers and a scheduler at the same address."""
        self._stack.pop_all().close()
        self._begin(len(self.workers), self.address.rpartition(":")[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _start(self, tool, *words):
        command = [sys.executable, "-m", f"distributed.cli.dask_{tool}", "--no-dashboard", *map(str, words)]
        here = {**os.environ, **self._environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, env=here, cwd=self._folder, start_new_session=True, **quiet)
        self._stack.callback(process.wait)
        self._stack.callback(kill_group, process.pid)
        return process


def kill_group(process):
    """SIGKILL a process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
