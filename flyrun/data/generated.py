"""Generated data too large to hold: float32 files in one folder, mapped from there and never read whole.

A loader says by what recipe (its digest names the folder) and draws rows; here they are written, opened,
checked and verified. They are drawn block by block, each from its own stream, so that a smaller set is the
beginning of a larger one.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from flyrun import paths
from flyrun.data import archive, features, mapped, sources
from flyrun.data.dataset import Dataset
from flyrun.errors import DataError

FACTS = "facts.json"

Draw = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Generated:
    """The files of one size of a generated dataset: rows of `shape` (N, D) and their target (N,).

    recipe: plain values that decide what is in them.  files: names of the two.  seed, block: of the streams,
    and how many rows each gives.  start(): facts to keep beside the files, and draw(rng) -> a block of both.
    """

    name: str
    shape: tuple[int, int]
    recipe: list[Any]
    files: tuple[str, str]
    seed: int
    block: int
    start: Callable[[], tuple[dict[str, Any], Draw]]

    @property
    def key(self) -> str:
        """Digest of the recipe, and of the library that draws."""
        return archive.sha256(json.dumps([*self.recipe, np.__version__]).encode())

    @property
    def folder(self) -> Path:
        """Where the files are, or will be."""
        return _home() / f"{self.name}-{self.shape[0]}-{self.key[:12]}"

    def dataset(
        self, names: tuple[str, ...], info: Callable[[dict[str, Any]], dict[str, Any]], **more: Any
    ) -> Dataset:
        """The files as they lie, made where they are missing. names: of the features; info(facts).

        DataError when a file is cut short; every byte is checked by `verify` only, for it takes seconds.
        """
        if not self.folder.is_dir():
            self.build(None, features.tell)
        rows, target = map(self._opened, self.files)
        return Dataset(
            name=self.name,
            features=rows,
            target=np.array(target, dtype=np.float64),
            test_features=np.empty((0, self.shape[1])),
            test_target=np.empty(0),
            feature_names=names,
            sha256=self.key,
            info=info(self._facts()),
            **more,
        )

    def _facts(self) -> dict[str, Any]:
        """What `start` returned, and each file's sha256; DataError."""
        path = self.folder / FACTS
        try:
            return {**json.loads(path.read_text(encoding="utf-8"))}
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{path}: cannot be read; {self._remedy}") from error

    def state(self) -> str:
        """For `flyrun data list`: "built" when the files are there, "not built", or "altered"."""
        if not self.folder.is_dir():
            return "not built"
        try:
            for file in self.files:
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
        for file in self.files:
            self._opened(file)
        known = self._facts().get("sha256", {})
        for file in self.files:
            if sources.sha256_of(self.folder / file) != known.get(file):
                raise DataError(f"{self.folder / file}: is altered; {self._remedy}")
        return f"verified, {self.folder}"

    def build(self, out: Path | str | None, echo: Callable[[str], object]) -> Path:
        """Make the files anew, in the cache or as a folder inside the folder `out`; DataError."""
        folder = self.folder if out is None else Path(out) / self.folder.name
        echo(f"{self.name}: generating {self.shape[0]:,} rows in {folder}")
        mapped.make(folder, self._write)
        return folder

    def _write(self, folder: Path) -> None:
        rows, target = (
            np.lib.format.open_memmap(folder / file, "w+", np.float32, shape)
            for file, shape in zip(self.files, (self.shape, self.shape[:1]), strict=True)
        )
        with threadpool_limits(limits=1):
            facts, draw = self.start()
            for k, first in enumerate(range(0, len(rows), self.block)):
                # Always a whole block, so that the rows do not depend on their number.
                drawn, aim = draw(np.random.default_rng([self.seed, k]))
                end = min(first + self.block, len(rows))
                rows[first:end], target[first:end] = drawn[: end - first], aim[: end - first]
        rows.flush()
        target.flush()
        facts["sha256"] = {file: sources.sha256_of(folder / file) for file in self.files}
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")

    def _opened(self, file: str) -> np.memmap:
        shape = self.shape if file == self.files[0] else self.shape[:1]
        return mapped.opened(self.folder / file, shape, self._remedy)

    @property
    def _remedy(self) -> str:
        return f"delete the folder {self.folder}, it is made again at the next run"


def _home() -> Path:
    """A checkout's datasets/cache/, unless FLYRUN_CACHE names another place or it cannot be written."""
    beside = paths.datasets_dir() / "cache"
    if "FLYRUN_CACHE" not in os.environ and paths.in_checkout() and paths.writable(beside):
        return beside
    return paths.cache_dir("data")
