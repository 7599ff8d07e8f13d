"""A table's pieces kept as they were read: parsing text takes longer than all else that is done with it."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from flyrun import paths

_IN_MEMORY = 64 << 20
_MOST_WORDS = 1000  # different ones in a column of text: more are names of things, which no table may have


class Kept:
    """Reads pieces, and has those of the last reading again; beyond some MB from a file that has no name."""

    def __init__(self, read: Callable[[set[str]], Iterator[pd.DataFrame]]):
        self.read = read
        self.spool: tempfile.SpooledTemporaryFile | None = None
        self.columns: list[tuple[pd.Index, dict[str, tuple[np.dtype, Any]]]] = []  # of every piece

    def __call__(self, text: set[str]) -> Iterator[pd.DataFrame]:
        """The pieces, the columns in `text` as strings."""
        self.close()
        folder = paths.cache_dir("tables")
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        self.spool = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(folder))  # noqa: SIM115, see close
        for piece in self.read(text):
            if self.spool is not None:
                try:
                    self.columns.append((piece.index, {name: self._keep(piece[name]) for name in piece}))
                except (OSError, TypeError):  # no room, or nothing simple: it is parsed again
                    self.close()
            yield piece

    def again(self, text: set[str]) -> Iterator[pd.DataFrame]:
        """The pieces of the last reading; read anew, columns in `text` as strings, where none are kept."""
        if self.spool is None:
            yield from self.read(text)
            return
        self.spool.seek(0)
        for index, columns in self.columns:
            found = {name: self._found(len(index), *column) for name, column in columns.items()}
            yield pd.DataFrame(found, index=index)

    def _keep(self, values: pd.Series) -> tuple[np.dtype, Any]:
        """Write a column; its numbers' type and, where they count words, these in the column's own type."""
        words = None
        if not isinstance(values.dtype, np.dtype) or values.dtype.kind not in "iufb":
            codes, words = pd.factorize(values)
            if len(words) > _MOST_WORDS or pd.api.types.infer_dtype(words) not in ("string", "empty"):
                raise TypeError
            values, words = pd.Series(codes), words.astype(values.dtype)
        array = values.to_numpy()
        assert self.spool is not None
        self.spool.write(array.tobytes())
        return array.dtype, words

    def _found(self, length: int, dtype: np.dtype, words: Any) -> Any:
        assert self.spool is not None
        array = np.frombuffer(self.spool.read(length * dtype.itemsize), dtype)
        if words is None:
            return array
        return pd.Categorical.from_codes(array, words).astype(words.dtype)

    def close(self) -> None:
        """Give the room back."""
        if self.spool is not None:
            self.spool.close()
        self.spool, self.columns = None, []
