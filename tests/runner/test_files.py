"""Files of arrays: whatever byte is wrong, they are as written or told to be damaged."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from flyrun.ground import files
from flyrun.ground.errors import StoreError

ARRAYS = {"theta": np.arange(6.0).reshape(2, 3), "_span": np.array([0, 100])}


@pytest.mark.thorough
@pytest.mark.parametrize("mask", [0xFF, 0x01])
def test_any_wrong_byte_is_noticed_or_harmless(tmp_path, mask):
    path = tmp_path / "checkpoint.npz"
    files.write_arrays(path, ARRAYS)
    content = path.read_bytes()
    damaged = 0
    for place in range(len(content)):
        wrong = bytearray(content)
        wrong[place] ^= mask
        path.write_bytes(wrong)
        try:
            found = files.read_arrays(path)
        except files.DamagedFile:
            damaged += 1
        else:  # names and sizes stand in the file twice, times and rights matter to nobody
            assert found.keys() == ARRAYS.keys()
            for name, values in ARRAYS.items():
                np.testing.assert_array_equal(found[name], values)
    assert damaged > 0.5 * len(content)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "No space left on device); make room on its disk, or name another place"),
        (errno.EDQUOT, "Disk quota exceeded); make room in your quota there, or name another place"),
        (errno.EROFS, "Read-only file system); mount its file system for writing, or name another place"),
        (errno.EACCES, "Permission denied); get the right to write there, or name another place"),
        (errno.ENAMETOOLONG, "File name too long); shorten the name, or name another place"),
        (errno.ENOLCK, "No locks available); mount its file system with locks, or name another place"),
        (errno.ENOENT, "No such file or directory); name another place"),
    ],
)
def test_each_refusal_has_its_remedy(number, said):
    for sentence in (os.strerror(number), f"Unable to create file (unable to open file, errno = {number})"):
        with pytest.raises(StoreError) as refused, files.writing(Path("place")):
            raise OSError(number, sentence)
        assert str(refused.value) == f"place: cannot be written ({said}"
    said = r"^place: cannot be written \(of HDF5's own\); elsewhere$"
    with pytest.raises(StoreError, match=said), files.writing(Path("place"), "elsewhere"):
        raise OSError("of HDF5's own")


def test_a_folder_that_takes_no_file_is_refused_and_another_left_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for place, said in (
        (tmp_path / "file" / "runs" / "mine", "Not a directory"),
        (Path("/proc/results/runs"), "cannot be written"),
        (tmp_path / ("n" * 300), "File name too long"),
    ):
        with pytest.raises(StoreError, match=said):
            files.refuse_unwritable(place)
    files.refuse_unwritable(tmp_path / "new" / "runs" / "mine")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreError, match="make room"):
        files.refuse_unwritable(tmp_path)
