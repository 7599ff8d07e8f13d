"""Copies of one process that has imported what flyrun needs: a new Python takes seconds for that.

flyrun looks for plug-ins as a copy imports the rest of it, so each meets those of its own folder.
"""

import contextlib
import json
import subprocess
import sys
from typing import NamedTuple

SERVER = """
import json, os, sys, traceback
import arviz_stats, h5netcdf, hydra, numba, pandas, xarray
import matplotlib.figure, scipy.special, scipy.stats
import flyrun.experiments.config.plugins, flyrun.ground.numerics.compiled

assert "flyrun.experiments.config.arm" not in sys.modules  # which looks for plug-ins
for line in sys.stdin:
    folder, said, code = json.loads(line)
    pid = os.fork()
    if pid:
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        continue
    ended = 1
    try:
        for number, name in enumerate(said, 1):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(folder)
        sys.path[0] = folder
        exec(code, {"__name__": "__main__"})
        ended = 0
    except SystemExit as error:
        ended = error.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended)
"""


TYPED = """
from flyrun.cli.main import main
from flyrun.ground.page import figures

figures.saved = lambda figure: (b"", "")
raise SystemExit(main({!r}))
"""


class Ended(NamedTuple):
    """What a copy left, named as subprocess.run names it."""

    returncode: int
    stdout: str
    stderr: str


class Copies:
    """Runs Python in copies of a process."""

    def __init__(self, server: subprocess.Popen):
        self._server = server

    def run(self, site, code):
        """code, with the packages of a folder and in it."""
        said = [site / f"copy.{name}" for name in ("out", "err")]
        print(json.dumps([str(site), list(map(str, said)), code]), file=self._server.stdin, flush=True)
        ended = int(self._server.stdout.readline())
        texts = [path.read_text() for path in said]
        for path in said:
            path.unlink()
        return Ended(ended, *texts)

    def flyrun(self, site, *words):
        """flyrun words, as typed there; figures are plotted, but not saved."""
        return self.run(site, TYPED.format([*words]))


@contextlib.contextmanager
def copies():
    """Until the block ends."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", SERVER], text=True, **pipes) as server:
        yield Copies(server)
        server.stdin.close()
