"""NetCDF-4 by h5py: a variable is a dataset, a dimension is an HDF5 scale that is attached to it.

Source: Unidata's NetCDF-4 format specification, "Creating NetCDF-4 files with the HDF5 library".
h5netcdf, by which xarray reads these files, takes 100 ms to write a small one: it looks each dataset up by
its path some fifty times.

HDF5 locks no file here: file systems without locks refuse that, and a file is written under a name of its own
before others see it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import h5py
import numpy as np

if TYPE_CHECKING:
    import xarray

_WITHOUT_VALUES = "This is a netCDF dimension but not a netCDF variable. {:10d}"


def create(path: Path) -> h5py.File:
    """An empty file; close it."""
    return h5py.File(path, "w", track_order=True, locking=False)


def read(file: Path | BinaryIO) -> h5py.File:
    """A file to read, by name or open; close it."""
    return h5py.File(file, "r", locking=False)


def tree(file: Path | BinaryIO) -> "xarray.DataTree":
    """A file's groups, opened lazily by xarray; close it."""
    import xarray  # late: a second

    return xarray.open_datatree(file, engine="h5netcdf", driver_kwds={"locking": False})


def group(file: h5py.File, name: str) -> h5py.Group:
    """A new group. NetCDF has names in the order in which they came."""
    return file.create_group(name, track_order=True)


def dimension(within: h5py.Group, name: str, along: int | Sequence[int] | Sequence[str] | np.ndarray) -> None:
    """A dimension of a group: of some length, or with a whole number or a word at each place."""
    if isinstance(along, int):
        within.create_dataset(name, (along,), ">f4").make_scale(_WITHOUT_VALUES.format(along))
        return
    of_text = len(along) > 0 and isinstance(along[0], str)
    values = np.array(along, dtype=h5py.string_dtype() if of_text else np.int64)
    within.create_dataset(name, data=values).make_scale(name)


def variable(
    within: h5py.Group, name: str, dims: Sequence[str], dtype: np.dtype, **storage: object
) -> h5py.Dataset:
    """A variable over dimensions of its group, to be filled; storage: chunks and compression."""
    shape = [len(within[dim]) for dim in dims]
    filled = within.create_dataset(name, shape, dtype, **(storage if 0 not in shape else {}))
    for axis, dim in enumerate(dims):
        filled.dims[axis].attach_scale(within[dim])
    return filled
