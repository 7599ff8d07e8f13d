"""Arrays to and from .npz files: the same arrays give the same bytes, and no pickle is ever read."""

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from flyrun.ground import files
from flyrun.ground.errors import DataError

# Of zip's methods bzip2 has one implementation whose output has not changed in years; that of deflate
# differs between zlib and its replacements, and a rebuilt file must have the registered sha256.
COMPRESSION = zipfile.ZIP_BZIP2
_BROKEN = (zipfile.BadZipFile, zlib.error)


def to_bytes(arrays: Mapping[str, np.ndarray], compress: bool = True) -> bytes:
    """An .npz file holding `arrays` in their order, without dates or anything of this machine."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as file:
        for name, values in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(
                member, np.ascontiguousarray(values), version=(1, 0), allow_pickle=False
            )
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            entry.compress_type = COMPRESSION if compress else zipfile.ZIP_STORED
            file.writestr(entry, member.getvalue(), compresslevel=9)
    return whole.getvalue()


def from_bytes(content: bytes, names: Iterable[str], what: str) -> dict[str, np.ndarray]:
    """The arrays called `names` out of an .npz file's bytes; DataError naming `what` otherwise."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in names}
    except (ValueError, KeyError, EOFError, OSError, RuntimeError, TypeError, *_BROKEN) as error:
        # RuntimeError: encrypted, packed in a way that is not known, or by one that this Python lacks.
        remedy = "; install this Python's bz2 module" if "bz2" in str(error) else ""
        wanted = ", ".join(names)
        raise DataError(f"{what}: cannot be read as an .npz file of {wanted} ({error}){remedy}") from error


def sha256(content: bytes) -> str:
    """Hex digest of `content`."""
    return hashlib.sha256(content).hexdigest()


def recipe(*numbers: object) -> str:
    """Digest of what decides the content of generated data: the `fingerprint` of their loader."""
    return sha256(json.dumps(numbers).encode())


def no_file(config: object) -> str:
    """The `fingerprint` of a loader whose settings say everything."""
    return ""


def write(path: Path, content: bytes) -> None:
    """Put `content` at `path`, whole or not at all, making its folder; OSError when it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(path, content)
