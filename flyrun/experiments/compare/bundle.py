"""A run as one archive: its arms, versions, digests and table, and its draws or how to make them again.

What is in an archive is data: JSON, YAML and text, each of the size and the digest that bundle.json names.
"""

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from flyrun.experiments.check.measure import Measured, add, machine
from flyrun.experiments.config.composed import CONFIG
from flyrun.experiments.report.build import build
from flyrun.experiments.report.cite import bibtex
from flyrun.experiments.runner import store
from flyrun.experiments.runner.store import StoredCell
from flyrun.ground import files
from flyrun.ground.errors import StoreError
from flyrun.ground.run_files import POSTERIOR, RUN

FORMAT, ABOUT, TABLE = 1, "bundle.json", "table.json"
_FILES = (RUN, CONFIG, TABLE, "table.csv", "report.md")
_MOST_BYTES = 1 << 26  # of a file that is read whole
#: parts of bundle.json that say on what a run was made, each a mapping
ORIGIN = ("machine", "versions", "packages")
_SPENT = ("warmup_sample_stats", "sample_stats")
_LEVELS = ("sample_stats/log_joint", "sample_stats/energy", "posterior/theta")
#: of a cell's environment, what the last bits of its draws depend on
_BITS = ("cpu", "blas", "python", "numpy", "scipy", "numba", "scikit-learn")


@dataclass(frozen=True)
class Bundle:
    """An archive's contents. about: bundle.json.  texts: the other files but draws, by name."""

    path: Path
    about: dict[str, Any]
    texts: dict[str, str]


def pack(run_dir: Path, out: Path, draws: bool) -> Path:
    """Write a finished run as an archive, with its draws or without. Raises StoreError where a cell lacks."""
    info = store.read_chains(run_dir)
    if not build(run_dir).complete:
        remedy = f"`{store.report_of(run_dir)}` says which"
        raise StoreError(f"{run_dir}: not every cell is finished, so nothing was packed; {remedy}")
    if not (run_dir / CONFIG).is_file():
        remedy = f"type `{info['command']}` again, which samples nothing anew"
        raise StoreError(f"{run_dir}: has no {CONFIG}, which an earlier flyrun did not keep; {remedy}")
    cells, contents = (
        store.open_cells(run_dir, info),
        {name: (run_dir / name).read_bytes() for name in _FILES},
    )
    contents["references.bib"] = bibtex(info).encode()
    about = {
        "format": FORMAT,
        "run": run_dir.name,
        "command": info["command"],
        "machine": machine(),
        **origin(cells),
        "arms": measured(cells),
        "draws": "in draws/" if draws else f"made again by `flyrun run {out.name}`",
        "digests": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    }
    with files.writing(out, "name another file with --out FILE"):
        files.make_folder(out.parent)
        with files.replacing(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            for name, content in {ABOUT: json.dumps(about, indent=1).encode(), **contents}.items():
                archive.writestr(_member(name), content, zipfile.ZIP_DEFLATED)
            for cell in cells if draws else ():  # which are compressed
                with (
                    open(cell.folder / POSTERIOR, "rb") as source,
                    archive.open(
                        _member(f"draws/{cell.arm}/seed={cell.seed}.nc"), "w", force_zip64=True
                    ) as to,
                ):
                    shutil.copyfileobj(source, to)
    return out


def _member(name: str) -> zipfile.ZipInfo:
    """A file of an archive, without a date: the same run gives the same archive."""
    member = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    member.external_attr = 0o644 << 16
    return member


def read(path: Path) -> Bundle:
    """An archive's contents but its draws. Raises StoreError for what is none, or is not as it was packed."""
    remedy = "make it with `flyrun bundle RUN`"
    try:
        with zipfile.ZipFile(path) as archive:
            texts = {name: _text(archive, name) for name in (ABOUT, *_FILES)}
        about = json.loads(texts.pop(ABOUT))
        if about["format"] != FORMAT:
            raise StoreError(f"{path}: is a bundle of another format; read it with the flyrun that made it")
        for name, text in texts.items():
            if hashlib.sha256(text.encode()).hexdigest() != about["digests"][name]:
                raise ValueError(f"{name} is not as it was packed")
        for key in ORIGIN:
            about[key].items()
        for arm in about["arms"].values():
            Measured(**arm)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror or error}); name a bundle") from error
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise StoreError(f"{path}: is no bundle ({' '.join(str(error).split())}); {remedy}") from error
    return Bundle(path, about, texts)


def _text(archive: zipfile.ZipFile, name: str) -> str:
    """A file of an archive; ValueError for one larger than any that `pack` writes."""
    if archive.getinfo(name).file_size > _MOST_BYTES:
        raise ValueError(f"{name} is too large")
    return archive.read(name).decode()


def origin(cells: Iterable[StoredCell]) -> dict[str, dict[str, str]]:
    """With what finished cells were made: versions and processor; packages of their methods."""
    versions: dict[str, dict[str, None]] = {}
    packages: dict[str, str] = {}
    for cell in cells:
        environment = cell.info.get("environment", {})
        packages |= environment.get("packages", {})
        for key in ("flyrun", "commit", *_BITS):
            versions.setdefault(key, {})[str(environment.get(key))] = None
    return {"versions": {key: ", ".join(values) for key, values in versions.items()}, "packages": packages}


def measured(cells: Iterable[StoredCell]) -> dict[str, dict[str, Any]]:
    """What finished cells did, arm by arm, as `flyrun check` keeps it; the set-up is the cells' key.

    queries and moves: after burn-in too; of a method without draws, queries up to its answer and no moves.
    """
    arms: dict[str, dict[str, Any]] = {}
    digests: dict[str, Any] = {}
    for cell in cells:
        arm = arms.setdefault(cell.arm, asdict(Measured(cell.key, "", [], [], [])))
        digest = digests.setdefault(cell.arm, hashlib.sha256())
        with cell.file() as file:
            arrays = _arrays(file)
            for name in sorted(arrays):
                digest.update(name.encode())
                add(digest, arrays[name])
        arm["draws"] = digest.hexdigest()[:16]
        for name, value in zip(("queries", "moves", "level"), _statistics(arrays), strict=True):
            arm[name].append(value)
    return arms


def _arrays(file: h5py.File) -> dict[str, np.ndarray]:
    """The numbers of a cell's file by name, but seconds, which luck decides."""
    arrays: dict[str, np.ndarray] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "biuf" and not name.endswith("seconds"):
            arrays[name] = np.asarray(item)

    file.visititems(visit)
    return arrays


def _statistics(arrays: dict[str, np.ndarray]) -> tuple[float, float, float]:
    """Queries, moves and level of a cell, as `Measured` has them, of what is stored."""
    count = "actual" if "sample_stats/actual" in arrays else "queries"  # of a graph's factors
    spent = [arrays[key].sum() for group in _SPENT if (key := f"{group}/{count}") in arrays]
    spent = spent or [arrays["estimate/queries"][-1]] if "estimate/queries" in arrays else spent
    steps = np.diff(arrays.get("posterior/theta", np.zeros((1, 0, 1)))[0], axis=0) != 0
    level = next((arrays[name] for name in _LEVELS if name in arrays), None)
    if level is None:
        level = arrays["estimate/mean"][-1] if "estimate/mean" in arrays else np.zeros(1)
    moved = arrays.get("sample_stats/changed", steps.any(axis=tuple(range(1, steps.ndim))))
    return float(sum(spent)), float(moved.sum()), float(level.mean())
