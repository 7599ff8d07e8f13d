"""`flyrun` in this process, where no process is tested: to start one takes three seconds of imports."""

import contextlib
import io
from pathlib import Path
from typing import NamedTuple

from flyrun.cli.main import main


class Ended(NamedTuple):
    """What a call left, named as subprocess.run names it."""

    returncode: int
    stdout: str
    stderr: str


def flyrun(folder: Path, *words: str) -> Ended:
    """Call it in a folder."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*words])
    return Ended(code, out.getvalue(), err.getvalue())
