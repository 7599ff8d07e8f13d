"""Every update on every target: queries equal the closed forms, evaluations counted apart from the meter.

Full data: N × density evaluations (1 for random walk and MALA; slices keep the start's). FlyMC: bright data
× density evaluations + dark data proposed; darkening costs nothing. The random draws decide how many
evaluations and proposals there are, so they are counted at the two doors through which all of them go.

Counted in plain Python: the same code uncompiled, step for step (tests/samplers/test_plain_python.py), for
compiling each pair would take a quarter of a minute.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.samplers.chain.counted import ITERATIONS, SWEEPS, UPDATES, N


@pytest.fixture(scope="module")
def counts():
    """Update -> brightness -> what was counted."""
    said = subprocess.run(
        [sys.executable, "-m", "tests.samplers.chain.counted"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(said.stdout)


@pytest.mark.parametrize("name", UPDATES)
def test_queries_are_the_closed_forms(counts, name):
    found = counts[name]
    assert list(found) == list(SWEEPS)
    for arm, run in found.items():
        assert run["first"] == N  # the first state looks at every datum once
        n_bright, queries, calls, asked = np.array(run["rows"]).T
        np.testing.assert_array_equal(queries, n_bright * calls + asked)
        if arm == "regular":
            assert not asked.any()
        elif "all" in arm:
            np.testing.assert_array_equal(asked, N - n_bright)
        assert run["moved"] > ITERATIONS / 3
        if name.endswith("slice"):
            assert calls.min() >= 1
            assert calls.mean() > (3 if name == "slice" else 1)
        else:
            assert (calls == 1).all()
