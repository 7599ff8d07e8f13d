"""dataset.dtype=float32: rows are rounded once, and the posterior moves by far less than a chain can see."""

import numpy as np
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.models import problem as setup
from flyrun.experiments.samplers.chain.targets.full_data import full_data
from flyrun.experiments.samplers.method import prepare
from tests.densities import log_density

SMALL = {
    "mnist_logreg": ["dataset.limit=2000", "dataset.n_components=10", "prior.scale=1"],
    "opv_robust": ["dataset.limit=2000", "model.scale=0.3", "prior=gaussian", "prior.scale=1"],
}


def _arm(experiment, dtype):
    words = [f"experiment={experiment}", "only=map_tuned", *SMALL[experiment], f"dataset.dtype={dtype}"]
    return compose_job([*words, "protocol.iterations=20", "protocol.burn_in=0", "protocol.thin=1"]).arms[0]


@pytest.mark.thorough
@pytest.mark.parametrize("experiment", SMALL)
def test_the_posterior_moves_by_less_than_a_thousandth_of_its_sd(experiment, tmp_path):
    arm = _arm(experiment, "float64")
    exact = setup.bind(arm, tmp_path, True)
    rounded = setup.bind(_arm(experiment, "float32"), tmp_path, True)
    assert exact.features.rows.dtype == np.float64
    assert rounded.features.rows.dtype == np.float32
    root = np.linalg.inv(np.linalg.cholesky(setup.posterior_curvature(arm, exact)))
    sd = np.sqrt(np.diag(root.T @ root))
    assert np.abs((rounded.fit.theta_map - exact.fit.theta_map) / sd).max() < 1e-3

    rng, change = np.random.default_rng(0), []
    targets = [full_data(one.prior, one.model, one.features, sd.size) for one in (exact, rounded)]
    for _ in range(20):
        theta = exact.fit.theta_map + root.T @ rng.standard_normal(sd.size)
        low, high = (log_density(target, theta)[0] for target in targets)
        change.append(high - low)
    assert np.std(change) < 1e-3  # a constant changes nothing


@pytest.mark.slow
def test_chains_run_on_float32_rows(tmp_path):
    program = prepare(_arm("mnist_logreg", "float32"), tmp_path)
    _, draws = program.advance(program.init(0), 20)
    assert np.isfinite(draws["theta"]).all()
    assert draws["queries"].sum() > 0
