"""What looks gave of groups of row groups, kept as files, so that the same command goes on."""

import hashlib
import io
import shutil
import zipfile
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flyrun.fitting.request import ELSEWHERE
from flyrun.fitting.scan.block_sums import Products, Sums, Travelled
from flyrun.fitting.scan.classes_apart import Apart
from flyrun.fitting.scan.folds import HeldOut
from flyrun.fitting.scan.one_look import Each, Levels
from flyrun.fitting.scan.pilot_rows import Sample
from flyrun.fitting.scan.rows_kept import KeptRows
from flyrun.fitting.scan.sums_by_cell import Cells, Gathered
from flyrun.fitting.scan.terms import Sources
from flyrun.fitting.scan.text_levels import Texts
from flyrun.ground import files


class Looked(NamedTuple):
    """A group as it was looked at. seconds: of a CPU; kernel: the BLAS's that summed it."""

    result: Any
    seconds: float
    kernel: str


_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Apart,
        Cells,
        Each,
        Gathered,
        HeldOut,
        KeptRows,
        Levels,
        Looked,
        Products,
        Sample,
        Sources,
        Sums,
        Texts,
        Travelled,
    )
}


class Kept:
    """Results by key: all that they depend on."""

    def __init__(self, folder: Path):
        self.folder = folder

    def place(self, key: str) -> Path:
        """Of a group's result."""
        return self.folder / key

    def get(self, key: str) -> Any:
        """A result; None where there is none, or one that is damaged."""
        try:
            raw = self.place(key).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(raw[32:]).digest() != raw[:32]:
            return None
        try:
            with np.load(io.BytesIO(raw[32:]), allow_pickle=False) as arrays:
                return _unpacked(dict(arrays), "")
        except (ValueError, KeyError, TypeError, zipfile.BadZipFile):
            return None

    def size(self, key: str) -> int:
        """Bytes of a result that is there."""
        return self.place(key).stat().st_size

    def put(self, key: str, result: NamedTuple) -> int:
        """Keep one; its bytes. StoreError where there is no room."""
        stream = io.BytesIO()
        arrays: dict[str, Any] = _packed(result, "")
        np.savez(stream, **arrays)
        raw = stream.getvalue()
        with files.writing(self.folder, ELSEWHERE):
            self.folder.mkdir(parents=True, exist_ok=True)
            files.write_bytes(self.place(key), hashlib.sha256(raw).digest() + raw)
        return len(raw)

    def clear(self) -> None:
        """Forget all."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _packed(result: NamedTuple, at: str) -> dict[str, np.ndarray]:
    """A named tuple, and those in it or in tuples of it, as arrays by name."""
    arrays = {f"{at}kind": np.array(type(result).__name__)}
    for name, value in zip(result._fields, result, strict=True):
        if hasattr(value, "_fields"):
            arrays |= _packed(value, f"{at}{name}.")
        elif isinstance(value, tuple):
            arrays[f"{at}{name}.many"] = np.array(len(value))
            for k, part in enumerate(value):
                arrays |= _packed(part, f"{at}{name}.{k}.")
        else:
            arrays[f"{at}{name}"] = np.asarray(value)
    return arrays


def _unpacked(arrays: dict[str, np.ndarray], at: str) -> Any:
    kind: Any = _KINDS[str(arrays[f"{at}kind"])]
    values = []
    for name in kind._fields:
        if f"{at}{name}.kind" in arrays:
            values.append(_unpacked(arrays, f"{at}{name}."))
        elif f"{at}{name}.many" in arrays:
            many = int(arrays[f"{at}{name}.many"])
            values.append(tuple(_unpacked(arrays, f"{at}{name}.{k}.") for k in range(many)))
        else:
            value = arrays[f"{at}{name}"]
            values.append(value if value.ndim else value.item())
    return kind._make(values)


def digest(value: object) -> str:
    """Of a look or of blocks: of the values of all fields, to the bit."""
    hasher = hashlib.sha256()
    _feed(hasher, value)
    return hasher.hexdigest()[:16]


def _feed(hasher: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        hasher.update(f"{value.dtype}{value.shape}".encode())
        hasher.update(np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) or hasattr(value, "_fields"):
        names = [field.name for field in fields(value)] if is_dataclass(value) else value._fields  # type: ignore[arg-type]
        hasher.update(type(value).__name__.encode())
        for name in names:
            hasher.update(f"|{name}=".encode())
            _feed(hasher, getattr(value, name))
    else:
        hasher.update(repr(value).encode())
