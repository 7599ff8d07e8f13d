from __future__ import annotations

import io

import numpy as np
import pytest

from flyrun.ground import archive
from flyrun.ground.errors import DataError

ARRAYS = {"b": np.arange(12, dtype=np.uint8).reshape(3, 4), "a": np.array([0.5, np.pi])}


@pytest.mark.parametrize("compress", [True, False])
def test_numpy_reads_it_without_pickle(compress):
    with np.load(io.BytesIO(archive.to_bytes(ARRAYS, compress)), allow_pickle=False) as file:
        assert file.files == ["b", "a"]
        for name, values in ARRAYS.items():
            np.testing.assert_array_equal(file[name], values)
            assert file[name].dtype == values.dtype


def test_same_arrays_same_bytes(monkeypatch):
    first = archive.to_bytes(ARRAYS)
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert archive.to_bytes(ARRAYS) == first


def test_objects_are_neither_written_nor_read():
    objects = {"a": np.array([{"x": 1}], dtype=object)}
    with pytest.raises(ValueError, match="pickle"):
        archive.to_bytes(objects)
    file = io.BytesIO()
    np.savez(file, **objects)
    with pytest.raises(DataError, match=r"here\.npz"):
        archive.from_bytes(file.getvalue(), ["a"], "here.npz")


@pytest.mark.parametrize(
    "spoil", [lambda b: b[:-30], lambda b: b[:80] + b[90:], lambda b: b"", lambda b: b"x" * 99]
)
def test_damaged_bytes_are_one_error(spoil):
    with pytest.raises(DataError, match=r"here\.npz: cannot be read"):
        archive.from_bytes(spoil(archive.to_bytes(ARRAYS)), ARRAYS, "here.npz")


def _npy(content):
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


def _flagged(at, value):
    """A zip whose headers, at the start and in the directory, say something else."""

    def spoil(content):
        changed = bytearray(content)
        for mark, offset in ((b"PK\x03\x04", at), (b"PK\x01\x02", at + 2)):
            changed[content.index(mark) + offset] = value
        return bytes(changed)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"), [(_npy, "ndarray"), (_flagged(6, 1), "encrypted"), (_flagged(8, 97), "not supported")]
)
def test_other_kinds_of_files_are_one_error_without_a_remedy_that_is_none(spoil, said):
    with pytest.raises(
        DataError, match=rf"here\.npz: cannot be read as an \.npz file of b, a .*{said}"
    ) as error:
        archive.from_bytes(spoil(archive.to_bytes(ARRAYS)), ARRAYS, "here.npz")
    assert "bz2" not in str(error.value)


def test_a_python_without_bz2_is_told_what_it_lacks(monkeypatch):
    content = archive.to_bytes(ARRAYS)
    monkeypatch.setattr("zipfile.bz2", None)
    with pytest.raises(DataError, match="install this Python's bz2 module"):
        archive.from_bytes(content, ARRAYS, "here.npz")


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "file"
    archive.write(path, b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="No space"):
        archive.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
