"""With NUMBA_DISABLE_JIT=1 the same code runs as plain Python, step for step."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from flyrun.experiments.models.base_density import log_base
from flyrun.ground.numerics.compiled import MissingMethodError

SCRIPT = """
import json, types, numpy as np
from flyrun.experiments.samplers.chain import random_walk
from flyrun.experiments.samplers.chain.brightness.explicit import explicit
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from tests.exactness.chains import firefly_target, full_target, sample, toy
problem = toy()
kernel = lambda: random_walk.build(types.SimpleNamespace(target_accept=0.35, step=0.3), 2)
arms = {
    "regular": (full_target(problem), NoBrightness()),
    "implicit": (firefly_target(problem), implicit(0.2, 40)),
    "explicit": (firefly_target(problem), explicit(0.2, "with_replacement", 40)),
}
found = {}
for name, (target, sweep) in arms.items():
    draws = sample(target, kernel(), sweep, [0.0, 0.0], 40, seed=2, burn_in=20)
    found[name] = {"theta": draws.theta.tolist(), "queries": draws.queries.tolist()}
print(json.dumps(found))
"""


def _run(**environment):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.thorough
def test_plain_python_takes_the_same_steps():
    plain, compiled = _run(NUMBA_DISABLE_JIT="1"), _run()
    for name, draws in compiled.items():
        assert plain[name]["queries"] == draws["queries"]
        np.testing.assert_allclose(plain[name]["theta"], draws["theta"], rtol=1e-9)


def test_a_missing_method_is_said_in_one_line():
    with pytest.raises(MissingMethodError, match="log_base is not defined for tuple"):
        log_base((1.0,), np.zeros(2), None)
