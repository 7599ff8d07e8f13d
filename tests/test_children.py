"""What arrives as a signal, a child's end or a warning reaches a person as one line, or not at all."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from flyrun.ground import mapped
from flyrun.ground.errors import DataError
from flyrun.ground.page.figures import axes, saved

ENDS = """
import os
from flyrun.ground.children import Pool

if __name__ == "__main__":
    pool = Pool(2)
    pool.submit(os.getpid).result()
    print("began", flush=True)
    os._exit(130)  # as Ctrl-C ends it
"""


@pytest.mark.parametrize("folder", [".", "temporary/" + "x" * 90])
def test_a_process_that_ends_at_once_leaves_no_lines_of_its_helpers(tmp_path, folder):
    """Python's tracker of shared resources told of every semaphore that Ctrl-C left to it; and a folder for
    temporary files may be too deep for a socket."""
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / "ends.py").write_text(ENDS)
    command = [sys.executable, str(tmp_path / "ends.py")]
    place = os.path.dirname(os.path.dirname(os.path.abspath(mapped.__file__)))
    env = {**os.environ, "PYTHONPATH": os.path.dirname(place), "TMPDIR": str(tmp_path / folder)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "began\n", "")


def test_files_that_bear_a_librarys_name_are_no_libraries(tmp_path):
    """Workers would import them from the folder where a person stands."""
    for name in ("numpy", "yaml", "threadpoolctl"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a file of mine')")
    place = tmp_path / "program"
    place.mkdir()
    (place / "ends.py").write_text(ENDS)
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.dirname(mapped.__file__)))}
    command = [sys.executable, str(place / "ends.py")]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=env, cwd=tmp_path
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "began\n", "")


def test_letters_that_a_font_lacks_are_no_warnings():
    figure, (axis,) = axes(1, "日本語")
    axis.set_xlabel("አማርኛ ﷺ हिन्दी")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        image, text = saved(figure)
    assert image[:4] == b"\x89PNG"
    assert "<svg" in text


def test_a_full_cache_disk_is_one_line_and_no_signal(tmp_path, monkeypatch):
    """A page of a map that the disk has no room for ends a process by SIGBUS: room is taken first."""
    taken = []

    def full(descriptor, offset, size):
        taken.append(size)
        raise OSError(28, "No space left on device")

    folder = tmp_path / "tables" / "mine"
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(DataError, match=r"tables/mine: cannot be written \(No space left.*FLYRUN_CACHE$"):
            mapped.make(folder, lambda place: mapped.created(place / "rows.npy", (1000, 3)))
    assert taken[0] >= 12_000
    assert list(folder.parent.iterdir()) == []
    mapped.make(folder, lambda place: mapped.created(place / "rows.npy", (1000, 3)).fill(2.0))
    assert (folder / "rows.npy").stat().st_blocks * 512 >= 12_000
    np.testing.assert_array_equal(mapped.opened(folder / "rows.npy", (1000, 3), ""), 2.0)
