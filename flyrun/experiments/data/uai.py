"""Markov networks in the UAI format (UAI inference competitions, 2006 on): MARKOV, tables of any scope.

    MARKOV
    2                 variables
    2 3               values of each
    2                 factors
    1 0               scope: how many variables, then which
    2 0 1
    2                 table: how many entries, then the entries, the last variable of the scope fastest
     0.4 0.6
    6
     1 2 3 4 5 6

An entry p > 0 becomes the energy φ = log p − log(smallest entry of its table) ≥ 0: the same distribution.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import dataset as options
from flyrun.ground import archive
from flyrun.ground.errors import DataError

MOST_VALUES = 1 << 28  # entries of all tables together: beyond, the file asks for more memory than is sane


class Network(NamedTuple):
    """sizes: values of each variable.  scopes: variables of each factor.  tables: its energies φ ≥ 0."""

    sizes: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    tables: tuple[np.ndarray, ...]


def load(config: options.graph_data.Uai) -> Network:
    """Network of the file config.path; DataError, naming line and factor, where it is not as it should be."""
    return read(path_of(config))


def fingerprint(config: options.graph_data.Uai) -> str:
    """Digest of the file that `load` reads."""
    return archive.sha256(file_bytes(path_of(config)))


def read(path: Path) -> Network:
    """Network of a file. Factors over no variable, which are constants, are left out."""
    reader = _Words(path)
    kind = reader.next("the word MARKOV")
    if kind != "MARKOV":
        raise reader.error(f"begins with {kind[:20]!r}; only MARKOV networks are read")
    n = reader.whole("the number of variables", 1)
    sizes = tuple(reader.whole(f"the number of values of variable {i}", 1) for i in range(n))
    n_factors = reader.whole("the number of factors", 0)
    scopes = [_scope(reader, f, n) for f in range(n_factors)]
    tables = [_table(reader, f, tuple(sizes[i] for i in scope)) for f, scope in enumerate(scopes)]
    if (rest := reader.left()) is not None:
        raise reader.error(
            f"goes on with {rest[:20]!r} after the last of {n_factors} tables; remove what is there"
        )
    kept = [f for f in range(n_factors) if scopes[f]]
    return Network(sizes, tuple(scopes[f] for f in kept), tuple(tables[f] for f in kept))


def _scope(reader: _Words, f: int, n: int) -> tuple[int, ...]:
    width = reader.whole(f"the scope size of factor {f}", 0)
    scope = tuple(reader.whole(f"a variable of factor {f}", 0) for _ in range(width))
    for i in scope:
        if i >= n:
            raise reader.error(f"factor {f} has variable {i}, but the last is {n - 1}; correct its scope")
    if len(set(scope)) < width:
        raise reader.error(f"factor {f} has a variable twice in its scope; each may stand once")
    return scope


def _table(reader: _Words, f: int, shape: tuple[int, ...]) -> np.ndarray:
    what, wanted = f"the table of factor {f}", math.prod(shape)
    given = reader.whole(f"the table size of factor {f}", 1)
    if given != wanted:
        raise reader.error(f"{what} has {given} entries; its scope wants {wanted}")
    if reader.entries + given > MOST_VALUES:
        raise reader.error(
            f"with factor {f} its tables hold more than {MOST_VALUES} entries; take a smaller graph"
        )
    entries = reader.numbers(given, what)
    if not np.all(np.isfinite(entries)) or entries.min() < 0.0:
        raise reader.error(f"{what} has a negative or infinite entry; entries are probabilities")
    if entries.min() == 0.0:
        remedy = "no sampler here takes impossible states: put a small positive number there"
        raise reader.error(f"{what} has an entry 0; {remedy}")
    logs = np.log(entries)
    return (logs - logs.min()).reshape(shape)


class _Words:
    """The words of a file, one by one, with the line that each stands in."""

    def __init__(self, path: Path):
        self.path, self.entries, self.line = path, 0, 1
        lines = file_bytes(path).decode("utf-8", "replace").splitlines()
        self._words = ((line, word) for line, text in enumerate(lines, start=1) for word in text.split())
        self._end = (max(len(lines), 1), None)

    def left(self) -> str | None:
        """The next word, or None at the end."""
        self.line, word = next(self._words, self._end)
        return word

    def next(self, what: str) -> str:
        """The next word; DataError at the end of the file."""
        word = self.left()
        if word is None:
            raise self.error(f"ends before {what}; the file was cut short")
        return word

    def whole(self, what: str, least: int) -> int:
        """The next word as a whole number."""
        word = self.next(what)
        if not word.isascii() or not word.isdigit() or len(word) > 12 or int(word) < least:
            raise self.error(f"has {word[:20]!r} for {what}; it must be a whole number at least {least}")
        return int(word)

    def numbers(self, count: int, what: str) -> np.ndarray:
        """So many words as numbers, (count,)."""
        values = np.empty(count)
        for k in range(count):
            word = self.next(f"entry {k + 1} of {count} of {what}")
            try:
                values[k] = float(word)
            except ValueError:
                raise self.error(f"has {word[:20]!r} in {what}; it must be a number") from None
        self.entries += count
        return values

    def error(self, what: str) -> DataError:
        """One line: file, line, what is wrong there."""
        return DataError(f"{self.path}, line {self.line}: {what}")


def path_of(config: options.graph_data.Uai | options.graph_data.EdgeList) -> Path:
    """The file that a dataset's config names; DataError where it names none."""
    if not config.path:
        raise DataError("dataset.path=null: must name a file, such as dataset.path=graph.uai or graph.csv")
    return Path(config.path).expanduser()


def file_bytes(path: Path) -> bytes:
    """A file's content; DataError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check dataset.path") from error
