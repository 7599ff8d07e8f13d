"""Files of arrays: whatever byte is wrong, they are as written or told to be damaged."""

import numpy as np
import pytest

from flyrun import files

ARRAYS = {"theta": np.arange(6.0).reshape(2, 3), "_span": np.array([0, 100])}


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
