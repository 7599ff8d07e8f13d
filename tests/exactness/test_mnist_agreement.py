"""All three arms on the real digits agree with a reference that no chain made (make_mnist_reference.py)."""

from pathlib import Path

import numpy as np
import pytest

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.config.bound import Map, NoBound, Untuned
from flyrun.experiments.config.brightness import Implicit, NoBrightness
from flyrun.experiments.config.dataset.row_data import Mnist7v9
from flyrun.experiments.config.prior import Gaussian
from flyrun.experiments.config.protocol import Protocol
from flyrun.experiments.config.sampler.chain import RandomWalk
from flyrun.experiments.samplers.method import prepare
from flyrun.families.options import Logistic
from flyrun.ground.diagnostics.coda import effective_size

REFERENCE = np.load(Path(__file__).with_name("mnist_reference.npz"))
BURN_IN = 8_000
ARMS = {
    "regular": (NoBound(), NoBrightness(), 80_000),
    "untuned": (Untuned(), Implicit(q=0.1), 120_000),
    "map_tuned": (Map(), Implicit(q=0.01), 600_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["regular", "untuned", "map_tuned"])
def test_means_lie_within_four_standard_errors(name, tmp_path):
    bound, sweep, n_iterations = ARMS[name]
    protocol = Protocol(iterations=BURN_IN + n_iterations, burn_in=BURN_IN, thin=10, init="map")
    arm = Arm("", name, Mnist7v9(), Logistic(), Gaussian(scale=1.0), bound, sweep, RandomWalk(), protocol)
    program = prepare(arm, tmp_path)
    first = np.zeros(len(REFERENCE["mean"]) + 1)
    # 52 scores from sds and ESS that are themselves estimates, of chains worth 130 draws in the slowest
    # coordinate: what lies beyond 4 is looked at again with other luck, and fails beyond 2 on the same side,
    # where what is truly off by 4 lies in 49 of 50 runs
    for seed in (1, 2):
        state, _ = program.advance(program.init(seed), BURN_IN)
        _, draws = program.advance(state, n_iterations)
        z = scores(program, draws["theta"])
        beyond = np.abs(z) > 4.0 if seed == 1 else (np.abs(first) > 4.0) & (np.sign(first) * z > 2.0)
        first = z
        expected = {"regular": (12_214, 12_214), "untuned": (5_000, 8_000), "map_tuned": (130, 260)}[name]
        assert expected[0] <= draws["queries"].mean() <= expected[1]
        if not beyond.any():
            return
    pytest.fail(f"coordinates {np.flatnonzero(beyond)} are off, the last being the log likelihood")


def scores(program, theta):
    """z of every coordinate's mean and of the log likelihood's, (P + 1,)."""
    variance = REFERENCE["sd"] ** 2 / effective_size(theta) + REFERENCE["mcse"] ** 2
    z = (theta.mean(axis=0) - REFERENCE["mean"]) / np.sqrt(variance)
    mean, sd, mcse = REFERENCE["log_likelihood"]
    # a pass over the data each: of every fifth draw, which are together worth 797 where all are worth 840
    values = program.trace(theta[::5])["log_likelihood"]
    return np.append(z, (values.mean() - mean) / np.sqrt(sd**2 / effective_size(values) + mcse**2))
