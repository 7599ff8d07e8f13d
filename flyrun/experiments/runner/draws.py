"""A cell in progress on disk: one file of draws per chunk, and the two newest checkpoints.

    chunk-<first iteration, 9 digits>.npz      one chunk: draws, estimates, and _span = (first iteration, n)
    checkpoint-<iterations done, 9 digits>.npz  the state after that many iterations, and the book

The chunk is renamed into place before the checkpoint that counts it, so a checkpoint never promises
draws that are not there; chunks past the newest checkpoint belong to no known state and are dropped.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flyrun.ground import files

Arrays = dict[str, np.ndarray]
POSITION = "theta"
_SPAN, _SECONDS, _ESTIMATE, _BOOK, _STATE = "_span", "_seconds", "_estimate.", "_book", "state."
_KEPT_CHECKPOINTS = 2


class Chunk(NamedTuple):
    """Iterations first … first + n − 1.

    draws: what they left, by name, (n, ...), positions thinned.  seconds: how long they took.  estimates: E f
    after the last of them, of a method that leaves no draws.
    """

    first: int
    n: int
    draws: Arrays
    seconds: float = 0.0
    estimates: Arrays = {}  # noqa: RUF012  never written to


@dataclass
class Restored:
    """Where a cell stands. state is None when it starts anew; notes say what was found damaged."""

    state: Arrays | None = None
    iteration: int = 0
    book: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DrawStore:
    """Chunks and checkpoints in one cell's folder."""

    folder: Path

    def save(self, chunk: Chunk, state: Arrays, book: dict[str, Any]) -> None:
        """Store a chunk, then the state after it. May raise OSError."""
        first, n = chunk.first, chunk.n
        more = {_SPAN: np.array([first, n], np.int64), _SECONDS: np.array(chunk.seconds)}
        more |= {_ESTIMATE + name: value for name, value in chunk.estimates.items()}
        files.write_arrays(self.folder / f"chunk-{first:09d}.npz", {**chunk.draws, **more})
        arrays = {_STATE + name: array for name, array in state.items()}
        arrays[_BOOK] = np.frombuffer(json.dumps(book).encode(), np.uint8)
        files.write_arrays(self.folder / f"checkpoint-{first + n:09d}.npz", arrays)
        for path in self._files("checkpoint")[:-_KEPT_CHECKPOINTS]:
            path.unlink(missing_ok=True)

    def restore(self) -> Restored:
        """Newest whole checkpoint whose draws are all there; what lies past it is removed."""
        restored = Restored()
        borders = {0, *(chunk.first + chunk.n for chunk in self.chunks(restored.notes))}
        for path in reversed(self._files("checkpoint")):
            iteration = _number(path)
            try:
                if iteration not in borders:
                    raise files.DamagedFile(f"{path}: draws before it are missing or damaged")
                state, book = _unpack(files.read_arrays(path))
            except files.DamagedFile as error:
                restored.notes.append(
                    f"checkpoint at iteration {iteration:,} is not usable ({_reason(error)})"
                )
                path.unlink(missing_ok=True)
                continue
            restored.state, restored.iteration, restored.book = state, iteration, book
            break
        beyond = [path for path in self._files("chunk") if _number(path) >= restored.iteration]
        for path in (*beyond, *self.folder.glob(".*.tmp")):
            path.unlink(missing_ok=True)
        return restored

    def chunks(self, notes: list[str] | None = None) -> Iterator[Chunk]:
        """What is stored from iteration 0 on, without a gap.

        Without `notes` a damaged or missing chunk raises DamagedFile; with it, reading ends there and
        the reason is appended.
        """
        done = 0
        for path in self._files("chunk"):
            try:
                arrays = files.read_arrays(path)
                first, n = (int(value) for value in arrays.pop(_SPAN, (-1, 0)))
                if first != done or _number(path) != done:
                    raise files.DamagedFile(f"{path}: draws from iteration {done} on are missing")
            except files.DamagedFile as error:
                if notes is None:
                    raise
                notes.append(f"draws from iteration {done:,} on are not usable ({_reason(error)})")
                return
            seconds = float(arrays.pop(_SECONDS, 0.0))
            names = [name for name in arrays if name.startswith(_ESTIMATE)]
            estimates = {name.removeprefix(_ESTIMATE): arrays.pop(name) for name in names}
            yield Chunk(first, n, arrays, seconds, estimates)
            done += n

    def bytes_stored(self) -> int:
        """Size of the chunks on disk."""
        return sum(path.stat().st_size for path in self._files("chunk"))

    def clear(self) -> None:
        """Remove every chunk, checkpoint and leftover temporary file."""
        for pattern in ("chunk-*.npz", "checkpoint-*.npz", ".*.tmp"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)

    def _files(self, kind: str) -> list[Path]:
        paths = [path for path in self.folder.glob(f"{kind}-*.npz") if _number(path) >= 0]
        return sorted(paths, key=_number)


def until(chunks: Iterable[Chunk], end: int) -> Iterator[Chunk]:
    """Chunks up to iteration `end`, the last one cut there."""
    for first, n, draws, seconds, estimates in chunks:
        if first >= end:
            return
        size = min(n, end - first)
        # what is kept of every thin-th iteration has n // thin rows
        kept = {name: array[: len(array) * size // n] for name, array in draws.items()}
        yield Chunk(first, size, kept, seconds * size / n, estimates)


def _number(path: Path) -> int:
    digits = path.stem.rpartition("-")[2]
    return int(digits) if digits.isdigit() else -1


def _unpack(arrays: Arrays) -> tuple[Arrays, dict[str, Any]]:
    book = arrays.pop(_BOOK, None)
    if book is None:
        raise files.DamagedFile("no book in the checkpoint")
    return {name.removeprefix(_STATE): array for name, array in arrays.items()}, json.loads(book.tobytes())


def _reason(error: Exception) -> str:
    return str(error).rpartition(": ")[2]
