"""A table's pieces kept as they were read: parsing text takes longer than all else that is done with it."""

import contextlib
import pickle
import tempfile
from collections.abc import Callable, Iterator

import pandas as pd

from flyrun import paths

_IN_MEMORY = 64 << 20


class Kept:
    """Reads pieces, and has those of the last reading again; beyond some MB from a file that has no name."""

    def __init__(self, read: Callable[[set[str]], Iterator[pd.DataFrame]]):
        self.read, self.count = read, 0
        self.spool: tempfile.SpooledTemporaryFile | None = None

    def __call__(self, text: set[str]) -> Iterator[pd.DataFrame]:
        """The pieces, the columns in `text` as strings."""
        self.count = 0
        self.close()
        folder = paths.cache_dir("tables")
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        self.spool = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(folder))  # noqa: SIM115, see close
        for piece in self.read(text):
            try:
                if self.spool is not None:
                    pickle.dump(piece, self.spool, pickle.HIGHEST_PROTOCOL)
                    self.count += 1
            except OSError:  # no room: it is parsed again
                self.close()
            yield piece

    def again(self, text: set[str]) -> Iterator[pd.DataFrame]:
        """The pieces of the last reading; read anew, columns in `text` as strings, where none are kept."""
        if self.spool is None:
            yield from self.read(text)
            return
        self.spool.seek(0)
        for _ in range(self.count):
            yield pickle.load(self.spool)

    def close(self) -> None:
        """Give the room back."""
        if self.spool is not None:
            self.spool.close()
        self.spool = None
