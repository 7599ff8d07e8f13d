"""Generated data too large to hold: float32 files in one folder, mapped from there and never read whole.

A loader says by what recipe (its digest names the folder) and which arrays; here they are made, opened,
checked and verified.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from flyrun import paths
from flyrun.data import mapped, sources
from flyrun.errors import DataError

FACTS = "facts.json"


@dataclass(frozen=True)
class Generated:
    """The files of one size of a generated dataset.

    key: digest of the recipe and the size.  shapes: file -> shape, rows first.
    generate(arrays): fills the arrays, file -> (mapped) float32 array, and returns facts to keep beside them.
    needed: the facts that a reader needs.
    """

    name: str
    key: str
    shapes: dict[str, tuple[int, ...]]
    generate: Callable[[dict[str, np.ndarray]], dict[str, Any]]
    needed: tuple[str, ...] = ()

    @property
    def n_data(self) -> int:
        """Number of rows."""
        return next(iter(self.shapes.values()))[0]

    @property
    def folder(self) -> Path:
        """Where the files are, or will be."""
        return home() / f"{self.name}-{self.n_data}-{self.key[:12]}"

    def load(self, echo: Callable[[str], object]) -> list[np.ndarray]:
        """The arrays as they lie in the files, made where they are missing; writeable copies page by page.

        DataError when a file is cut short; every byte is checked by `verify` only, for it takes seconds.
        """
        if not self.folder.is_dir():
            self.make(self.folder, echo)
        return [self._opened(file) for file in self.shapes]

    def facts(self) -> dict[str, Any]:
        """What `generate` returned, and each file's sha256; DataError."""
        path = self.folder / FACTS
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            return {key: facts[key] for key in (*self.needed, "sha256")}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: cannot be read; {self._remedy()}") from error

    def state(self) -> str:
        """For `flyrun data list`: "built" when the files are there, "not built", or "altered"."""
        if not self.folder.is_dir():
            return "not built"
        try:
            for file in self.shapes:
                self._opened(file)
        except DataError:
            return "altered"
        return "built"

    def describe(self) -> dict[str, object]:
        """For `flyrun data info`."""
        return {"path": str(self.folder)}

    def verify(self) -> str:
        """Check every byte of the files; DataError when altered or cut short."""
        if not self.folder.is_dir():
            return f"not built; made at first use, or by `flyrun data build {self.name}`"
        for file in self.shapes:
            self._opened(file)
        known = self.facts()["sha256"]
        for file in self.shapes:
            if sources.sha256_of(self.folder / file) != known.get(file):
                raise DataError(f"{self.folder / file}: is altered; {self._remedy()}")
        return f"verified, {self.folder}"

    def build(self, out: Path | str | None, echo: Callable[[str], object]) -> Path:
        """Make the files anew, in the cache or as a folder inside the folder `out`."""
        folder = self.folder if out is None else Path(out) / self.folder.name
        self.make(folder, echo)
        return folder

    def make(self, folder: Path, echo: Callable[[str], object]) -> None:
        """Write the files into `folder`; DataError."""
        echo(f"{self.name}: generating {self.n_data:,} rows in {folder}")
        mapped.make(folder, self._write)

    def _write(self, folder: Path) -> None:
        with threadpool_limits(limits=1):
            arrays = {
                file: np.lib.format.open_memmap(folder / file, "w+", np.float32, shape)
                for file, shape in self.shapes.items()
            }
            facts = self.generate(dict(arrays))
            for values in arrays.values():
                values.flush()
        del arrays
        digests = {file: sources.sha256_of(folder / file) for file in self.shapes}
        (folder / FACTS).write_text(json.dumps({**facts, "sha256": digests}), encoding="utf-8")

    def _opened(self, file: str) -> np.memmap:
        return mapped.opened(self.folder / file, self.shapes[file], self._remedy())

    def _remedy(self) -> str:
        return f"delete the folder {self.folder}, it is made again at the next run"


def home() -> Path:
    """A checkout's datasets/cache/, unless FLYRUN_CACHE names another place or it cannot be written."""
    beside = paths.datasets_dir() / "cache"
    if "FLYRUN_CACHE" not in os.environ and paths.in_checkout() and paths.writable(beside):
        return beside
    return paths.cache_dir("data")
