"""The parent's memory does not grow with the chains' length."""

import subprocess
import sys

import pytest

RUN = """
import resource, sys
from flyrun.cli.main import main
code = main(sys.argv[1:])
print("MB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
sys.exit(code)
"""
ARM = [
    "dataset=toy_2d",
    "model=logistic",
    "bound=map",
    "sampler=random_walk",
    "protocol.seeds=2",
    "executor.workers=2",
]


def peak_mb(folder, iterations):
    """Peak resident memory of the process that ran a command and built its report; workers not counted."""
    words = [*ARM, f"protocol.iterations={iterations}", f"protocol.burn_in={iterations // 10}"]
    command = [sys.executable, "-c", RUN, *words, f"name=n{iterations}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.rpartition("MB ")[2])


@pytest.mark.slow
def test_the_parents_memory_is_flat(tmp_path):
    peak_mb(tmp_path, 1_000)  # compiles
    short, long = peak_mb(tmp_path, 10_000), peak_mb(tmp_path, 1_000_000)
    print(f"peak of the parent: {short} MB at 10^4 iterations, {long} MB at 10^6")
    assert long - short < 50
