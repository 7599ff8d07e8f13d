"""Files of draws are netCDF as others write it: h5netcdf makes the same tree."""

import fcntl
import re
from pathlib import Path

import h5netcdf
import h5py
import numpy as np
import pytest
import xarray

from flyrun.ground import netcdf

DRAWS = np.arange(12.0).reshape(1, 4, 3)
WORDS = ["α", "b", "c"]


@pytest.fixture
def ours(tmp_path):
    with netcdf.create(tmp_path / "ours.nc") as file:
        file.attrs["title"] = "draws"
        group = netcdf.group(file, "posterior")
        netcdf.dimension(group, "chain", [0])
        netcdf.dimension(group, "draw", np.arange(1, 5))
        netcdf.dimension(group, "theta_dim", WORDS)
        stored = netcdf.variable(
            group, "theta", ("chain", "draw", "theta_dim"), np.dtype("f8"), chunks=(1, 2, 3)
        )
        stored[:] = DRAWS
        group = netcdf.group(file, "trace")
        netcdf.dimension(group, "row", 0)
        netcdf.dimension(group, "column", 2)
        netcdf.variable(group, "values", ("row", "column"), np.dtype("i4"), chunks=(1, 2), compression="gzip")
    return tmp_path / "ours.nc"


def test_the_tree_is_the_one_that_h5netcdf_writes(ours, tmp_path):
    with h5netcdf.File(tmp_path / "theirs.nc", "w") as file:
        file.attrs["title"] = "draws"
        group = file.create_group("posterior")
        group.dimensions = {"chain": 1, "draw": 4, "theta_dim": 3}
        group.create_variable("chain", ("chain",), "i8")[:] = [0]
        group.create_variable("draw", ("draw",), "i8")[:] = np.arange(1, 5)
        group.create_variable("theta_dim", ("theta_dim",), h5py.string_dtype())[:] = np.array(WORDS, object)
        group.create_variable("theta", ("chain", "draw", "theta_dim"), "f8")[:] = DRAWS
        group = file.create_group("trace")
        group.dimensions = {"row": None, "column": 2}  # it has no dimension of length 0 that is not unlimited
        group.create_variable("values", ("row", "column"), "i4")
    with (
        xarray.open_datatree(ours, engine="h5netcdf") as made,
        xarray.open_datatree(tmp_path / "theirs.nc", engine="h5netcdf") as theirs,
    ):
        assert made.identical(theirs)
        assert list(made["posterior"].coords) == ["chain", "draw", "theta_dim"]
        assert not made["posterior"].equals(made["trace"])


def test_no_dimension_is_taken_for_a_variable(ours):
    with xarray.open_dataset(ours, group="trace", engine="h5netcdf") as trace:
        assert list(trace.variables) == ["values"]
        assert trace.sizes == {"row": 0, "column": 2}


@pytest.fixture
def refused_locks(ours):
    """As on a file system without locks: whoever asks for HDF5's is refused, for another holds it."""
    with ours.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="unable to lock file"):
            h5py.File(ours)
        yield ours


def test_no_file_is_locked(refused_locks):
    with netcdf.read(refused_locks) as file:
        np.testing.assert_array_equal(file["posterior/theta"][:], DRAWS)
    with netcdf.tree(refused_locks) as tree:
        np.testing.assert_array_equal(tree["posterior"]["theta"].to_numpy(), DRAWS)
    with netcdf.create(refused_locks) as file:
        file.attrs["title"] = "written anew"


def test_files_of_draws_are_opened_here_alone():
    package = Path(netcdf.__file__).parent
    calls = re.compile(r"h5py\.File\(|(?:xarray|xr)\.open_\w+\(|h5netcdf\.File\(")
    others = [path for path in package.rglob("*.py") if path.name != "netcdf.py"]
    lines = [
        line.strip() for path in others for line in path.read_text("utf-8").splitlines() if calls.search(line)
    ]
    assert [line for line in lines if not line.startswith("opens = f'")] == []
