"""Files that are of another kind than their names say, and text in other encodings than UTF-8."""

import codecs
import zipfile
from pathlib import Path

from flyrun.ground.errors import DataError
from flyrun.ground.schema import quoted
from flyrun.tables.formats import is_csv

_MARKS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_AT_ONCE = 1 << 20


def refuse_disguised(path: Path) -> None:
    """Raise DataError, with the command that helps, for a file whose content is not what its name says."""
    name = path.name.lower()
    with open(path, "rb") as file:
        begins = file.read(8)
    if begins.startswith(b"\x1f\x8b"):
        if not name.endswith(".gz"):
            raise _renamed(path, "is compressed by gzip", path.with_name(path.name + ".gz"))
    elif name.endswith(".gz") and begins:
        raise _renamed(path, "is not compressed by gzip", path.with_name(path.name[:-3]))
    elif begins.startswith(b"PAR1"):
        if not name.endswith((".parquet", ".pq")):
            raise _renamed(path, "is a Parquet file", path.with_suffix(".parquet"))
    elif begins.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")) and not name.endswith(".npz"):
        members = zipfile.ZipFile(path).namelist() if begins.startswith(b"PK") else ["xl/"]
        if any(member.startswith(("xl/", "mimetype", "Index/")) for member in members):
            raise DataError(f"{path}: is a spreadsheet; open it there and save the sheet as CSV (UTF-8)")
        if all(member.endswith(".npy") for member in members):
            raise _renamed(path, "is a NumPy archive", path.with_suffix(".npz"))
        raise DataError(f"{path}: is a zip archive; unpack it with `unzip {quoted(str(path))}`")


def _renamed(path: Path, fault: str, new: Path) -> DataError:
    command = f"mv {quoted(str(path))} {quoted(str(new))}"
    return DataError(f"{path}: {fault}; give it a name that says so: `{command}`")


def encoding_of(path: Path) -> str:
    """An encoding in which a text file can be read; "" where none is known."""
    if not is_csv(path) or path.name.lower().endswith(".gz"):
        return ""
    with open(path, "rb") as file:
        begins = file.read(4)
    marked = [name for mark, name in _MARKS if begins.startswith(mark)]
    return next((name for name in (*marked, "cp1252", "latin-1") if _decodes(path, name)), "")


def _decodes(path: Path, encoding: str) -> bool:
    try:
        with open(path, encoding=encoding) as file:
            while file.read(_AT_ONCE):
                pass
    except UnicodeError:
        return False
    return True
