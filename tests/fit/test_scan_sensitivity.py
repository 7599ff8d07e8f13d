"""Where prior and data disagree, or data are weak: a scan says what a fit of the same rows in memory says."""

import numpy as np
import pandas as pd
import pytest

import flyrun
from flyrun.families.family import family
from flyrun.fitting import gaussian_noise, sensitivity
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.table_rows import Rows

pytest.importorskip("pyarrow")
AT_ODDS, WEAK = sensitivity.DISAGREE, sensitivity.WEAK


def rows(model, n=4_000):
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, n))
    rare = (np.arange(n) == 5).astype(int)
    eta = 0.5 * x + 0.3 * z
    y = {
        "logistic": rng.random(n) < 1.0 / (1.0 + np.exp(-eta)),
        "gaussian": eta + rng.normal(size=n),
        "poisson": rng.poisson(np.exp(eta)),
    }[model]
    return pd.DataFrame({"x": x, "z": z, "rare": rare, "y": y.astype(float)})


def labels(fit):
    return {row["coefficient"]: row["prior_data"] for row in fit._about["coefficients"]}


@pytest.fixture
def folder(tmp_path):
    def write(frame):
        for k, part in enumerate(np.array_split(np.arange(len(frame)), 4)):
            frame.iloc[part].to_parquet(tmp_path / f"{k}.parquet")
        return tmp_path

    return write


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", ["gaussian", "logistic", "poisson"])
def test_a_scan_says_what_a_fit_in_memory_says(folder, model):
    frame, priors = rows(model), {"x": "normal(0.1, 0.05)", "rare": "normal(0, 0.01)"}
    whole = labels(flyrun.fit(frame, "y ~ x + z + rare", model=model, priors=priors))
    scan = labels(flyrun.fit(folder(frame), "y ~ x + z + rare", model=model, priors=priors))
    for each in (scan, whole):
        assert [each[name] for name in ("x", "z", "rare")] == [AT_ODDS, "", WEAK]


def test_the_log_likelihood_by_sums_is_that_of_rows():
    rng = np.random.default_rng(0)
    features, y, x = rng.normal(size=(50, 2)), rng.normal(size=50), rng.normal(size=(7, 3))
    both = np.column_stack([features, y])
    prior = CoefficientPrior(np.array([0.2, -0.1]), np.ones(2))
    posterior = Posterior(family("gaussian"), Rows(features, y), prior)
    sums = gaussian_noise.about(prior.mean, both.T @ both, 50.0)
    level = gaussian_noise.log_likelihood(sums, posterior, x) - posterior.log_likelihood(x)
    assert level == pytest.approx(level[0], abs=1e-9)
