"""A table's pieces kept as they were read: parsing text takes longer than all else that is done with it."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from flyrun.ground import paths
from flyrun.tables.pieces import numbers_alone

_IN_MEMORY = 256 << 20
_MOST_WORDS = 1000  # different ones in a column of text: more are names of things, which no table may have


class Kept:
    """Reads pieces, and has those of the last reading again: of numbers alone as they are, while there is
    room, others, and what goes beyond some MB, from a file that has no name. pays: whether it is quicker so.
    """

    def __init__(self, read: Callable[[set[str]], Iterator[pd.DataFrame]], pays: bool = True):
        self.read, self.pays = read, pays
        self.spool: Any = None
        self.room = 0
        # pieces, or index and columns of those in the file
        self.pieces: list[pd.DataFrame | tuple[pd.Index, dict[str, tuple[np.dtype, Any]]]] = []

    def __call__(self, text: set[str]) -> Iterator[pd.DataFrame]:
        """The pieces, the columns in `text` as strings."""
        self.close()
        if not self.pays:
            yield from self.read(text)
            return
        folder = paths.cache_dir("tables")
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        self.room = _IN_MEMORY
        self.spool = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(folder))  # noqa: SIM115, see close
        for piece in self.read(text):
            if self.spool is not None:
                try:
                    self._keep(piece)
                except (OSError, TypeError):  # no room, or nothing simple: it is parsed again
                    self.close()
            yield piece

    def again(self, text: set[str]) -> Iterator[pd.DataFrame]:
        """The pieces of the last reading; read anew, columns in `text` as strings, where none are kept."""
        if self.spool is None:
            yield from self.read(text)
            return
        self.spool.seek(0)
        for piece in self.pieces:
            if isinstance(piece, pd.DataFrame):
                yield piece
            else:
                index, columns = piece
                arrays = {name: self._found(len(index), *column) for name, column in columns.items()}
                yield pd.DataFrame(arrays, index=index)

    def _keep(self, piece: pd.DataFrame) -> None:
        if numbers_alone(piece):
            size = int(piece.memory_usage(index=False).sum())
            if size <= self.room:
                self.room -= size
                self.pieces.append(piece)
                return
        self.pieces.append((piece.index, {name: self._written(piece[name]) for name in piece}))

    def _written(self, values: pd.Series) -> tuple[np.dtype, Any]:
        """Write a column; its numbers' type and, where they count words, these in the column's own type."""
        texts = None
        if not isinstance(values.dtype, np.dtype) or values.dtype.kind not in "iufb":
            codes, texts = pd.factorize(values)
            if len(texts) > _MOST_WORDS or pd.api.types.infer_dtype(texts) not in ("string", "empty"):
                raise TypeError
            values, texts = pd.Series(codes), texts.astype(values.dtype)
        array = values.to_numpy()
        self.spool.write(array.tobytes())
        return array.dtype, texts

    def _found(self, length: int, dtype: np.dtype, texts: Any) -> Any:
        array = np.frombuffer(self.spool.read(length * dtype.itemsize), dtype)
        if texts is None:
            return array
        return pd.Categorical.from_codes(array, texts).astype(texts.dtype)

    def close(self) -> None:
        """Give the room back."""
        if self.spool is not None:
            self.spool.close()
        self.spool, self.pieces = None, []
