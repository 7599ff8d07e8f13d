"""Probit regression's posterior by approximations and weighted draws, against sums over a grid."""

import numpy as np
import pytest

from flyrun.ground.errors import FlyrunError
from tests.samplers.approximations.exact import DATA, after, by_grid, method_of

PROBIT = [*DATA, "model=probit", "prior=gaussian"]


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """Mean, covariance, log evidence."""
    return by_grid(tmp_path_factory.mktemp("exact"), PROBIT)


def _off(found, exact):
    """The mean's largest error in posterior sds, and the ratio of the sds that is farthest from 1."""
    mean, covariance, _ = exact
    sd = np.sqrt(np.diag(covariance))
    ratio = np.sqrt(np.diag(found["covariance"])) / sd
    return np.abs((found["mean"] - mean) / sd).max(), np.abs(ratio - 1.0).max()


@pytest.mark.thorough
def test_ep_in_both_schedules_and_kl_are_closer_than_laplace(tmp_path, exact):
    found = {
        "laplace": method_of(tmp_path, "sampler=laplace", words=PROBIT),
        "ep": method_of(tmp_path, "sampler=ep", words=PROBIT),
        "serial": method_of(tmp_path, "sampler=ep", "sampler.schedule=serial", words=PROBIT),
        "kl": method_of(tmp_path, "sampler=kl_gaussian", words=PROBIT),
    }
    off = {name: _off(after(method, 30), exact) for name, method in found.items()}
    assert off["ep"][0] < 0.01
    assert off["serial"][0] == pytest.approx(off["ep"][0], abs=1e-3)
    assert off["kl"][0] < 0.02
    assert off["laplace"][0] > 0.1


@pytest.mark.thorough
def test_weighted_draws_have_the_posteriors_moments_and_plain_ones_have_not(tmp_path, exact):
    mean, covariance, log_z = exact
    method = method_of(tmp_path, "sampler=weighted", "sampler.approximation=laplace", words=PROBIT)
    found = [method.estimates(method.advance(method.init(seed), 4_000)[0]) for seed in range(16)]
    for name, truth in (("mean", mean), ("square", mean**2 + np.diag(covariance)), ("log_evidence", log_z)):
        values = np.array([one[name] for one in found])
        z = (values.mean(axis=0) - truth) / (values.std(axis=0, ddof=1) / 4.0)
        assert np.abs(z).max() < 5, (name, z)
    plain = after(method, 20_000)["theta"].mean(axis=0)
    assert np.abs((plain - mean) / np.sqrt(np.diag(covariance) / 20_000)).max() > 6


def test_jaakkola_and_jordans_bounds_are_refused_in_one_line(tmp_path):
    with pytest.raises(FlyrunError, match="choose model=logistic") as refused:
        method_of(tmp_path, "sampler=jaakkola_jordan", words=PROBIT)
    assert "\n" not in str(refused.value)
