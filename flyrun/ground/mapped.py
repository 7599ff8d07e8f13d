"""Folders of mapped arrays in a cache: written beside, renamed into place, opened without being read."""

import contextlib
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flyrun.ground.errors import DataError, refusal


def make(folder: Path, write: Callable[[Path], object]) -> None:
    """Let write(temporary folder) fill a folder beside, which then takes the name `folder`; DataError."""
    temporary = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        temporary.chmod(0o755)  # mkdtemp makes it the owner's alone
        write(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        # Another process that was quicker leaves a full folder here, with the same content.
        with contextlib.suppress(FileExistsError):
            os.rename(temporary, folder)
    except OSError as error:
        if not folder.is_dir():
            raise DataError(refusal(folder, error, "name a folder of another in FLYRUN_CACHE")) from error
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def created(path: Path, shape: tuple[int, ...]) -> np.memmap:
    """A new .npy file of float32 to be filled; OSError where the disk has no room for all of it.

    Through a map a full disk is no error but a signal that ends the process, so room is taken first.
    """
    values = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    if hasattr(os, "posix_fallocate"):
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return values


def opened(path: Path, shape: tuple[int, ...], remedy: str) -> np.memmap:
    """The float32 array of this shape in a .npy file, a writeable copy page by page; DataError."""
    try:
        # Copy-on-write: the compiled loops take writeable arrays only.
        values = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: is cut short or damaged; {remedy}") from error
    if values.shape != shape or values.dtype != np.float32:
        raise DataError(f"{path}: holds other rows than {shape[0]:,}; {remedy}")
    return values


def expect(values: np.ndarray, random: bool) -> bool:
    """Tell the system how rows (N, …) of a mapped file will be looked at: here and there, or one by one.

    It reads far ahead otherwise, megabytes for every row. Whether it was told: nothing is to be told of rows
    in memory, nor where the system takes no advice.
    """
    base: object = values
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is None or not hasattr(mmap, "MADV_RANDOM"):
        return False
    base.madvise(mmap.MADV_RANDOM if random else mmap.MADV_NORMAL)
    return True
