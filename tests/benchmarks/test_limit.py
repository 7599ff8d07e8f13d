"""Firefly-HMC with local bounds in units of what no sampler undercuts: a draw of a Gaussian as large.

`make bench_blas` shows the figures.
"""

import time

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.chain.metric import scale_noise
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.diagnostics.coda import effective_size
from flyrun.ground.numerics.compiled import outer_jit
from flyrun.ground.numerics.streams import normals
from tests.benchmarks import stored_ratios

WORDS = ("sampler=hmc", "bound=local", "brightness=per_datum", "protocol.init=map", "protocol.burn_in=1000")
N_DRAWS = 20_000


@outer_jit
def _gaussian(rng, stream, metric, noise, out):
    for i in range(out.shape[0]):
        normals(stream, rng, noise)
        scale_noise(metric, noise, out[i])


@pytest.mark.slow
@pytest.mark.parametrize("n_data", [100_000, 1_000_000])
def test_iteration_against_a_draw_of_a_gaussian(n_data, tmp_path, benchmark, capsys):
    data = ["dataset=tall", f"dataset.n_data={n_data}", "model=logistic", "prior=gaussian"]
    program = prepare(arm_of(data, WORDS), tmp_path)
    state, _ = program.advance(program.init(0), 1000)
    kernel = program.parts[2]
    out, noise = np.empty((N_DRAWS, program.n_params)), np.zeros(program.n_params)
    rng = np.random.default_rng(0)

    def pair():
        begin = time.perf_counter()
        _gaussian(rng, kernel.stream, kernel.reference.metric, noise, out)
        middle = time.perf_counter()
        theta = program.advance(state, N_DRAWS)[1]["theta"]
        iterations = time.perf_counter() - middle
        gaussian = middle - begin
        least = min(effective_size(values).mean() for values in (theta, (theta - theta.mean(axis=0)) ** 2))
        return iterations / gaussian, iterations / gaussian * N_DRAWS / least

    iteration, draw = stored_ratios.measured(benchmark, pair, 5)
    of = f"at {n_data:.0e} rows"
    stored_ratios.judge(benchmark, capsys, f"local hmc iteration {of}", iteration, "draws of a Gaussian")
    stored_ratios.judge(benchmark, capsys, f"local hmc effective draw {of}", draw, "draws of a Gaussian")
