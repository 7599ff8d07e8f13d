"""The mixture of two normals: its likelihood, the other mode, and the posterior on a grid."""

import hashlib

import numpy as np
import pytest
from scipy.stats import norm

from flyrun.experiments.config.dataset.row_data import Mixture
from flyrun.experiments.data import toys as data
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models import mixture, passes
from flyrun.experiments.models.problem import bind, draw_prior, log_densities, of_positions
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError
from tests.models.calls import log_likelihood

WORDS = ["dataset=mixture", "model=mixture", "prior=gaussian", "sampler=pmd"]


def _at(x, eta, scale=2.5):
    values, slopes = np.zeros(len(x)), np.zeros((len(x), 2))
    model = mixture.Mixture(x, scale)
    log_likelihood(model, np.arange(len(x)), eta, values, slopes)
    return values, slopes, mixture.curvature(model, eta)


@pytest.mark.thorough
def test_likelihood_slopes_and_curvature():
    rng = np.random.default_rng(0)
    x, eta = 3 * rng.standard_normal(50), 2 * rng.standard_normal((50, 2))
    values, slopes, bend = _at(x, eta)
    both = [norm.pdf(x, centre, 2.5) for centre in (eta[:, 0], eta.sum(axis=1))]
    np.testing.assert_allclose(values, np.log(np.mean(both, axis=0)), rtol=1e-12)
    for k in range(2):
        step = 1e-5 * (np.arange(2) == k)
        (low, low_slope, _), (high, high_slope, _) = _at(x, eta - step), _at(x, eta + step)
        np.testing.assert_allclose(slopes[:, k], (high - low) / 2e-5, atol=1e-8)
        np.testing.assert_allclose(-bend[:, :, k], (high_slope - low_slope) / 2e-5, atol=1e-8)


def test_far_away_it_is_finite():
    values, slopes, bend = _at(np.array([0.0, 1.0]), np.array([[700.0, 0.0], [-700.0, 1e3]]))
    assert np.isfinite(values).all()
    assert np.isfinite(slopes).all()
    assert np.isfinite(bend).all()


def test_data_are_those_that_the_ranges_were_measured_on():
    found = data.load(Mixture())
    digest = hashlib.sha256(np.round(found.target, 9).tobytes()).hexdigest()[:16]
    assert digest == "c3387244e385c34e"
    assert data.load(Mixture(seed=1)).sha256 != found.sha256


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    arm = arm_of(WORDS)
    return arm, bind(arm, tmp_path_factory.mktemp("setup"), needs_map=False)


@pytest.mark.thorough
def test_the_other_mode_explains_the_data_as_well(problem):
    arm, bound = problem
    theta = np.random.default_rng(0).standard_normal((5, 2))
    other = np.column_stack([theta.sum(axis=1), -theta[:, 1]])
    values = log_densities(arm, bound, np.concatenate([theta, other]))[1].reshape(2, 5)
    np.testing.assert_allclose(*values, rtol=1e-12)
    np.testing.assert_allclose(
        passes.sums_over(bound.model, bound.features, np.arange(1000), theta), values[0]
    )


@pytest.mark.thorough
def test_the_posterior_on_the_grid(problem):
    """Sizes that particles-measured gives of these data, and an integral by other means."""
    known = mixture.truth(problem[1])
    assert known.density.sum() * known.cell == pytest.approx(1, abs=2e-5)
    assert known.mass == pytest.approx(0.541, abs=5e-4)
    assert known.entropy == pytest.approx(-0.056, abs=5e-4)
    assert known.bandwidths[0] * 2 * 1500 ** (1 / 6) == pytest.approx([0.186, 0.334], abs=1e-3)
    theta = draw_prior(problem[1], np.random.default_rng(0), 40_000)
    likelihood = passes.sums_over(problem[1].model, problem[1].features, np.arange(1000), theta)
    weight = np.exp(likelihood - likelihood.max())
    share = weight @ (theta[:, 1] < 0) / weight.sum()
    assert share == pytest.approx(known.mass, abs=4 * 0.5 * np.sqrt((weight**2).sum()) / weight.sum())


@pytest.mark.thorough
def test_functionals_are_densities(problem):
    arm, bound = problem
    theta = np.array([[1.0, -2.0], [-1.0, 2.0], [9.0, 9.0]])
    found = of_positions(arm, bound, theta)
    assert found["mode"].tolist() == [1, 0, 0]
    inside = found["density"].sum(axis=2) * mixture.truth(bound).cell
    assert inside[:2, 0] == pytest.approx([1, 1], abs=0.02)
    assert inside[2].max() < 1e-12
    weight = np.array([0.2, 0.7, 0.1])
    for name, value in of_positions(arm, bound, theta, weight).items():
        np.testing.assert_allclose(value, np.tensordot(weight, found[name], axes=1), rtol=1e-12)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dataset=two_modes", "sampler=pmd"], "model=mixture in arm pmd: is for dataset=mixture alone"),
        (["dataset=mixture", "sampler=random_walk", "bound=map"], "has no bounds"),
        (["dataset=mixture", "sampler=random_walk", "bound=untuned"], "has no bounds"),
        (["dataset=mixture", "sampler=laplace"], "has no bounds"),
        (["dataset=mixture", "sampler=random_walk", "bound=none", "protocol.init=map"], "has no bounds"),
    ],
)
def test_what_it_cannot_serve_is_refused(tmp_path, words, said):
    with pytest.raises(ConfigError) as caught:
        prepare(arm_of([words[0], "model=mixture", "prior=gaussian"], tuple(words[1:])), tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
