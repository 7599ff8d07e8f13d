"""MNIST: an iteration in units of a one-thread BLAS product `X @ theta`, and FlyMC against the regular arm.

`make bench_blas` shows the figures.
"""

import time

import numpy as np
import pytest

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.config.bound import Map, NoBound
from flyrun.experiments.config.brightness import Implicit, NoBrightness
from flyrun.experiments.config.dataset.row_data import Mnist7v9
from flyrun.experiments.config.prior import Gaussian
from flyrun.experiments.config.protocol import Protocol
from flyrun.experiments.config.sampler.chain import RandomWalk
from flyrun.experiments.samplers.method import prepare
from flyrun.families.options import Logistic
from tests.benchmarks import stored_ratios

PROTOCOL = Protocol(iterations=10**9, burn_in=0, init="map")
ARMS = {
    "regular": (NoBound(), NoBrightness(), 0.02, 200),
    "map_tuned": (Map(), Implicit(q=0.01), 0.009, 4000),
}


class Chain:
    """A chain of an arm, some way from its start."""

    def __init__(self, name, folder):
        bound, sweep, step, self.n_iterations = ARMS[name]
        kernel = RandomWalk(step=step)
        arm = Arm("", name, Mnist7v9(), Logistic(), Gaussian(scale=1.0), bound, sweep, kernel, PROTOCOL)
        self.program = prepare(arm, folder)
        self.program.warm_up()
        self.state, _ = self.program.advance(self.program.init(0), 2000)

    def seconds(self):
        """Seconds an iteration takes, and a query."""
        begin = time.perf_counter()
        self.state, draws = self.program.advance(self.state, self.n_iterations)
        seconds = time.perf_counter() - begin
        assert np.isfinite(self.state["theta"]).all()
        return seconds / self.n_iterations, seconds / draws["queries"].sum()


@pytest.mark.thorough
@pytest.mark.parametrize("name", ARMS)
def test_iteration_against_blas(name, tmp_path, benchmark, capsys):
    chain = Chain(name, tmp_path)
    rows, theta = chain.program.problem.features.rows, chain.state["theta"]

    def pair():
        begin = time.perf_counter()
        for _ in range(20):
            rows @ theta
        product = (time.perf_counter() - begin) / 20
        return (chain.seconds()[0] / product,)

    (ratio,) = stored_ratios.measured(benchmark, pair, 15)
    stored_ratios.judge(benchmark, capsys, f"{name} iteration", ratio, "BLAS products of the data")


@pytest.mark.thorough
def test_firefly_against_regular(tmp_path, benchmark, capsys):
    regular, firefly = (Chain(name, tmp_path) for name in ARMS)

    def pair():
        one, other = firefly.seconds(), regular.seconds()
        return one[0] / other[0], one[1] / other[1]

    iteration, query = stored_ratios.measured(benchmark, pair, 15)
    stored_ratios.judge(benchmark, capsys, "firefly iteration", iteration, "regular iterations")
    stored_ratios.judge(benchmark, capsys, "firefly query", query, "times a datum of a regular pass")
