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


HALF = """
import os, signal, sys
from concurrent.futures import ProcessPoolExecutor, TimeoutError
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from flyrun.ground.children import Pool, starting

def half_a_result(size):
    def send(self, message, write=None):
        os.write(self.fileno(), bytes(message)[: len(message) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    Connection._send = send
    return bytes(size)

if __name__ == "__main__":
    pool = Pool(2) if sys.argv[1] == "ours" else ProcessPoolExecutor(2, starting())
    others = [pool.submit(os.getpid) for _ in range(2)]
    [other.result() for other in others]
    try:
        pool.submit(half_a_result, 100_000).result(timeout=float(sys.argv[2]))
    except (BrokenProcessPool, TimeoutError) as error:
        print(type(error).__name__, flush=True)
    for process in list((pool._processes or {}).values()):
        process.kill()
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("whose", "patience", "end"), [("ours", 30, "BrokenProcessPool"), ("python's", 3, "TimeoutError")]
)
def test_a_worker_that_is_killed_as_it_sends_keeps_nobody_waiting(tmp_path, whose, patience, end):
    """As by a system without memory. Python's own pool, the control, waits for the rest of its message."""
    (tmp_path / "half.py").write_text(HALF)
    command = [sys.executable, str(tmp_path / "half.py"), whose, str(patience)]
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.dirname(mapped.__file__)))}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert ran.stdout == f"{end}\n", ran.stderr


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


def test_a_home_that_takes_no_files_is_no_lines(tmp_path):
    """Of matplotlib's, which would look for fonts anew at each start, too."""
    (tmp_path / "home").write_text("a file, which takes none, whoever asks")
    draws = "import os; from flyrun.ground.page.figures import new_figure; new_figure()"
    draws += "; print(os.environ['MPLCONFIGDIR'])"
    env = {"HOME": str(tmp_path / "home"), "FLYRUN_CACHE": str(tmp_path / "cache"), "PATH": ""}
    env |= {"PYTHONPATH": os.path.dirname(os.path.dirname(os.path.dirname(mapped.__file__)))}
    ran = subprocess.run(
        [sys.executable, "-c", draws], capture_output=True, text=True, timeout=60, check=True, env=env
    )
    assert (ran.stdout, ran.stderr) == (f"{tmp_path / 'cache' / 'matplotlib'}\n", "")
