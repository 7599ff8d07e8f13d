"""A worker killed in each experiment of several workers: nothing is lost, bits are those of a whole run."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray

EXPERIMENTS = {
    "prefetching": "only=[regular,foretold]",
    "consensus_mnist": "only=[full,pie,trees,weierstrass]",
    "consensus_rare": "only=[full,rejection_event,weierstrass_event]",
    "consensus_two_modes": "only=[full,trees]",
    "hogwild_gaussian": "protocol.seeds=4",
    "hogwild_ising": "protocol.seeds=4",
    "chromatic": "protocol.seeds=4",
    "topics_hogwild": "protocol.seeds=4",
}


def _started(folder, experiment):
    words = [f"experiment={experiment}", "protocol=smoke", f"results_dir={folder}", EXPERIMENTS[experiment]]
    command = [sys.executable, "-m", "flyrun", *words, "executor.workers=2"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _kill_one(process, folder):
    """SIGKILL the worker of a cell that it is at. Whether there was one."""
    while process.poll() is None:
        for log in folder.glob("runs/*/*/*/seed=*/log.txt"):
            told = re.findall(r"process (\d+) on", log.read_text())
            if told and int(told[-1]) != process.pid and not (log.parent / "done").exists():
                os.kill(int(told[-1]), signal.SIGKILL)
                return True
        time.sleep(0.002)
    return False


def _answers(folder):
    """cell -> its stored answer, array by array."""
    found = {}
    for path in sorted(folder.glob("runs/*/*/*/seed=*/posterior.nc")):
        with xarray.open_datatree(path, engine="h5netcdf") as tree:
            groups = [name for name in ("posterior", "weighted", "estimate") if name in tree]
            arrays = {
                (group, name): tree[group][name].values.copy()
                for group in groups
                for name in tree[group].data_vars
                if name != "seconds"
            }
        found[path.relative_to(folder).parent] = arrays
    return found


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_killed_worker_loses_nothing(tmp_path, experiment):
    whole, hit = tmp_path / "whole", tmp_path / "hit"
    first = _started(whole, experiment)
    first.communicate()
    assert first.returncode == 0
    second = _started(hit, experiment)
    assert _kill_one(second, hit)
    told, _ = second.communicate()
    assert second.returncode == 0, told
    assert "its worker process died" in told
    right, found = _answers(whole), _answers(hit)
    assert right.keys() == found.keys()
    for cell, arrays in right.items():
        assert arrays.keys() == found[cell].keys()
        for name, values in arrays.items():
            np.testing.assert_array_equal(values, found[cell][name], err_msg=f"{cell} {name}")
