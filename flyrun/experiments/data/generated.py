"""Generated data too large to hold: float32 files in one folder, mapped from there and never read whole.

A loader says by what recipe (its digest names the folder) and draws rows; here they are written, opened,
checked and verified. They are drawn block by block, each from its own stream, so that a smaller set is the
beginning of a larger one.
"""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.ground import archive, feature_cache, mapped, paths, sources
from flyrun.ground.errors import DataError
from flyrun.ground.threads import one_blas_thread
from flyrun.tables.dataset import Dataset

FACTS = "facts.json"

Draw = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Generated:
    """The files of one size of a generated dataset: rows of `shape` (N, D) and their target (N,).

    recipe: plain values that decide what is in them.  files: names of the two.  seed, block: of the streams,
    and how many rows each gives.  start(): facts to keep beside the files, and draw(rng) -> the next block of
    both.  kept: names of arrays among these facts that are files of their own.
    """

    name: str
    shape: tuple[int, int]
    recipe: list[Any]
    files: tuple[str, str]
    seed: int
    block: int
    start: Callable[[], tuple[dict[str, Any], Draw]]
    kept: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Digest of the recipe, and of the library that draws."""
        return archive.sha256(json.dumps([*self.recipe, np.__version__]).encode())

    @property
    def folder(self) -> Path:
        """Where the files are, or will be."""
        return paths.cache_dir("data") / f"{self.name}-{self.shape[0]}-{self.key[:12]}"

    def dataset(
        self, names: tuple[str, ...], info: Callable[[dict[str, Any]], dict[str, Any]], **more: Any
    ) -> Dataset:
        """The files as they lie, made where they are missing. names: of the features; info(facts).

        DataError when a file is cut short; every byte is checked by `verify` only, for it takes seconds.
        """
        if not self.folder.is_dir():
            self.build(None, feature_cache.tell)
        rows, target = map(self._opened, self.files)
        return Dataset(
            name=self.name,
            features=rows,
            target=np.array(target, dtype=np.float64),
            feature_names=names,
            sha256=self.key,
            info=info(self._facts()),
            **{
                "test_features": np.empty((0, self.shape[1])),
                "test_target": np.empty(0),
                **self._kept(),
                **more,
            },
        )

    def _kept(self) -> dict[str, np.ndarray]:
        """The arrays beside the files; DataError."""
        arrays = {}
        for name in self.kept:
            path = self.folder / f"{name}.npy"
            try:
                arrays[name] = np.load(path, allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise DataError(f"{path}: is cut short or damaged; {self._remedy}") from error
        return arrays

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
            self._kept()
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
        for file in self._all_files:
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
        n_data, kind = self.shape[0], np.dtype(np.float32)
        with one_blas_thread(), contextlib.ExitStack() as opened:
            facts, draw = self.start()
            # Not mapped, so that what is written does not fill the memory.
            out = [opened.enter_context(open(folder / file, "wb")) for file in self.files]
            for file, shape in zip(out, (self.shape, self.shape[:1]), strict=True):
                head = {"descr": kind.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, head)
            for k, first in enumerate(range(0, n_data, self.block)):
                # Always a whole block, so that the rows do not depend on their number.
                for file, values in zip(out, draw(np.random.default_rng([self.seed, k])), strict=True):
                    file.write(np.ascontiguousarray(values[: n_data - first], kind).data)
        for name in self.kept:
            np.save(folder / f"{name}.npy", facts.pop(name))
        facts["sha256"] = {file: sources.sha256_of(folder / file) for file in self._all_files}
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")

    @property
    def _all_files(self) -> tuple[str, ...]:
        return (*self.files, *(f"{name}.npy" for name in self.kept))

    def _opened(self, file: str) -> np.memmap:
        shape = self.shape if file == self.files[0] else self.shape[:1]
        return mapped.opened(self.folder / file, shape, self._remedy)

    @property
    def _remedy(self) -> str:
        return f"delete the folder {self.folder}, it is made again at the next run"
