"""Tables in memory: while a frame is held, its name stands for a file."""

import contextlib
import hashlib
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flyrun.ground.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_HELD: dict[str, "Frame"] = {}
_NUMBERS = itertools.count(1)


class Frame:
    """A pandas frame as a reader of tables; digest: sha256 of names, types and cells."""

    def __init__(self, frame: "pd.DataFrame"):
        from pandas.util import hash_pandas_object  # late: pandas takes half a second

        self._frame = frame.reset_index(drop=True)
        self._frame.columns = [str(name) for name in frame.columns]
        about = [(name, str(dtype)) for name, dtype in self._frame.dtypes.items()]
        hasher = hashlib.sha256(repr(about).encode())
        try:
            hasher.update(hash_pandas_object(self._frame, index=False).to_numpy().tobytes())
        except TypeError as error:  # as of lists
            raise DataError(f"the frame: a column holds what is no number, word or date ({error})") from error
        self.digest = hasher.hexdigest()

    def names(self) -> list[str]:
        """Of the columns."""
        return list(self._frame.columns)

    def pieces(self, columns: list[str], rows: int, text: set[str]) -> Iterator["pd.DataFrame"]:
        """These columns, some rows at a time."""
        for first in range(0, max(len(self._frame), 1), rows):
            yield self._frame[columns].iloc[first : first + rows]


def find(path: object) -> Frame | None:
    """The frame that is held under this name."""
    return _HELD.get(str(path))


@contextlib.contextmanager
def held(frame: "pd.DataFrame") -> Iterator[str]:
    """Hold a frame; the name under which the reader of tables finds it."""
    name = f"frame {next(_NUMBERS)}"
    _HELD[name] = Frame(frame)
    try:
        yield name
    finally:
        del _HELD[name]


def pandas(table: object) -> "pd.DataFrame":
    """A pandas frame of any table that can be made one, as polars' and Arrow's. TypeError for others."""
    import pandas as pd  # late

    if isinstance(table, pd.DataFrame):
        return table
    if hasattr(table, "to_pandas"):
        return table.to_pandas()
    kind = type(table).__name__
    if type(table).__module__.startswith("dask"):
        raise TypeError(f"data: a {kind} of Dask is not read; use its to_parquet(FOLDER), and give that name")
    raise TypeError(f"data: must be a frame of pandas, polars or Arrow, or a file's name, not {kind}")
