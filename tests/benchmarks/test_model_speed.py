"""A pass over the data by MALA and slice sampling, in units of the BLAS products that plain NumPy would need.

MALA on CIFAR: a pass with gradient against X Θᵀ and Gᵀ X; slices on QM9: a density evaluation against X θ.
"""

import time

import numpy as np
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.samplers.method import prepare
from tests.benchmarks import stored_ratios


def _products(rows, n_predictors, gradients):
    kind = rows.dtype  # of another, NumPy would convert the rows first, which is no product
    theta, slopes = np.ones((rows.shape[1], n_predictors), kind), np.ones((n_predictors, len(rows)), kind)

    def run():
        rows @ theta
        if gradients:
            slopes @ rows

    return run


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["cifar_softmax", "opv_robust"])
def test_pass_against_blas(experiment, tmp_path, benchmark, capsys):
    words = ["only=regular", "sampler.step=0.01" if experiment == "cifar_softmax" else "sampler.width=0.004"]
    words += ["protocol.iterations=1000000", "protocol.burn_in=0", "protocol.thin=1"]
    program = prepare(compose_job([f"experiment={experiment}", *words]).arms[0], tmp_path)
    program.warm_up()
    state, _ = program.advance(program.init(0), 3)
    data = program.problem.dataset.features
    products = _products(data, program.problem.model.n_predictors, program.module.GRADIENTS)

    def pair():
        """Products and iterations, one after the other: what slows one slows both."""
        nonlocal state
        begin = time.perf_counter()
        products()
        reference = time.perf_counter() - begin
        begin = time.perf_counter()
        state, draws = program.advance(state, 5)
        passes = draws["queries"].sum() / len(data)
        return ((time.perf_counter() - begin) / passes / reference,)

    (ratio,) = stored_ratios.measured(benchmark, pair, 10)
    stored_ratios.judge(benchmark, capsys, f"{experiment} pass", ratio, "of the BLAS products")
