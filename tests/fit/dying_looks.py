"""Looks that end their workers, in a module that these import soon."""

import os
import signal
from pathlib import Path
from typing import NamedTuple


class Dying(NamedTuple):
    """A look whose worker dies the first time, and that says how often each block was looked at."""

    folder: Path

    def __call__(self, block):
        files = [self.folder / f"{block.number}-{k}" for k in range(9)]
        next(file for file in files if not file.exists()).touch()
        if block.number == 3 and not files[1].exists():
            os._exit(1)
        return block.rows


class Fatal(NamedTuple):
    """A look that no worker survives, or that has no memory."""

    dies: bool

    def __call__(self, block):
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)  # as a system without memory does
        raise MemoryError("Unable to allocate 9 GiB")
