"""KL(q‖p) of a density lies between its bounds by (6.4), where it is known; what breaks them is caught."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from flyrun.cli.main import main
from flyrun.experiments.accuracy import without_reference as tests
from flyrun.experiments.gold import bdmc
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.problem import bind

NORMAL = [
    "dataset=from_prior", "dataset.n_data=40", "dataset.n_features=2", "dataset.law=student_t",
    "dataset.nu=1e8", "model=student_t", "model.nu=1e8", "prior=gaussian",
]  # fmt: skip


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A linear regression with normal noise: its posterior N(mean, covariance) and log Z in closed form."""
    arm = arm_of(NORMAL)
    problem = bind(arm, tmp_path_factory.mktemp("setup"), needs_map=True)
    rows, target = problem.dataset.features, problem.dataset.target
    covariance = np.linalg.inv(np.eye(3) + rows.T @ rows)
    log_z = multivariate_normal(np.zeros(40), np.eye(40) + rows @ rows.T).logpdf(target)
    truth = np.array(problem.dataset.info["truth"]["theta"])
    return arm, problem, covariance @ rows.T @ target, covariance, log_z, truth


@pytest.fixture(scope="module")
def bracket(known):
    arm, problem, *_, truth = known
    return bdmc.bracket(arm, problem, truth, chains=32)


def _bounds(known, bracket, mean, covariance):
    arm, problem, *_ = known
    density = tests.Density(mean[None], covariance[None])
    draws = density.draw(np.random.default_rng(1), 4_000)
    return tests.divergence(arm, problem, density, draws, bracket)


def test_log_z_is_bracketed(known, bracket):
    log_z = known[4]
    assert bracket.low - 3 * bracket.low_se < log_z < bracket.high + 3 * bracket.high_se
    assert max(bracket.low_se, bracket.high_se) < 0.1


def test_kl_of_densities_lies_between_its_bounds(known, bracket):
    """Of the posterior itself, of one that is off, of mean field, and of a mixture of two."""
    _, _, mean, covariance, *_ = known
    precision = np.linalg.inv(covariance)
    off = 1.5 * np.sqrt(np.diag(covariance))
    narrow = np.diag(1 / np.diag(precision))
    of_narrow = 0.5 * (np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(narrow)[1])
    for q, right in (
        ((mean, covariance), 0.0),
        ((mean + off, covariance), 0.5 * off @ precision @ off),
        ((mean, narrow), of_narrow),
        ((mean, 4 * covariance), 0.5 * 3 * (4 - 1 - np.log(4))),
    ):
        least, most, error = _bounds(known, bracket, *q)
        assert least - 3 * error < right < most + 3 * error
        assert most - least < 0.3
        assert error < 0.15


def test_a_mixture_has_its_own_density(known):
    _, _, mean, covariance, *_ = known
    density = tests.Density(np.stack([mean, mean + 1]), np.stack([covariance, 2 * covariance]))
    draws = density.draw(np.random.default_rng(0), 20_000)
    parts = [multivariate_normal(mean, covariance), multivariate_normal(mean + 1, 2 * covariance)]
    right = np.log(0.5 * (parts[0].pdf(draws) + parts[1].pdf(draws)))
    np.testing.assert_allclose(density.log_density(draws), right, rtol=1e-9)
    np.testing.assert_allclose(draws.mean(axis=0), mean + 0.5, atol=0.02)


def test_a_start_that_is_no_draw_of_the_posterior_breaks_the_upper_bound(known):
    """The negative control: from 9 sds away, on a way too short to forget it, it is below the right KL."""
    arm, problem, mean, covariance, _, truth = known
    far = bdmc.bracket(arm, problem, truth + 9 * np.sqrt(np.diag(covariance)), steps=5)
    assert _bounds(known, far, mean, 4 * covariance).most < 2.42 - 3
    near = bdmc.bracket(arm, problem, truth, steps=5)
    assert _bounds(known, near, mean, 4 * covariance).most > 2.42 - 1


def test_the_truth_is_a_draw_only_under_the_model_and_prior_that_drew_it(known, tmp_path):
    arm, problem, *_, truth = known
    settings = {"model": arm.model.settings(), "prior": arm.prior.settings()}
    np.testing.assert_array_equal(tests.drawn(settings, problem), truth)
    for group, key, value in (
        ("prior", "scale", 2.0),
        ("model", "scale", 0.5),
        ("model", "name", "logistic"),
    ):
        other = settings | {group: settings[group] | {key: value}}
        assert tests.drawn(other, problem) is None
    assert tests.drawn(settings, problem._replace(power=4.0)) is None
    real = bind(arm_of(["dataset=toy_2d", "model=logistic", "prior=gaussian"]), tmp_path, needs_map=False)
    assert tests.drawn({"model": {}, "prior": {}}, real) is None


def test_the_truth_of_many_data_sets_is_a_draw_of_their_posteriors():
    """Whitened by its posterior it is a standard normal: over 60 data sets its mean square is 1."""
    squares = []
    for seed in range(60):
        arm = arm_of([*NORMAL, f"dataset.seed={seed}"])
        data = arm.dataset.code.load(arm.dataset)
        precision = np.eye(3) + data.features.T @ data.features
        away = np.array(data.info["truth"]["theta"]) - np.linalg.solve(
            precision, data.features.T @ data.target
        )
        squares.append(away @ precision @ away)
    assert np.mean(squares) == pytest.approx(3.0, abs=3 * np.sqrt(6 / 60))


@pytest.mark.thorough
def test_diagnose_bounds_any_approximation(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["protocol=smoke", "protocol.burn_in=0", "protocol.init=map", "protocol.seeds=1"]
    data = [
        "dataset=from_prior",
        "dataset.n_data=40",
        "model=logistic",
        "prior=gaussian",
        "executor.workers=1",
    ]
    for sampler in ("laplace", "mean_field"):
        assert main([*data, *words, f"sampler={sampler}", "protocol.iterations=9", f"name={sampler}"]) == 0
        capsys.readouterr()
        assert main(["diagnose", sampler, "--bracket", "--steps", "300"]) == 0
        said = capsys.readouterr().out
        assert "the truth, drawn from the prior" in said
        least, most = (float(one.split()[0]) for one in said.split("KL(q‖p) ")[1].split(" to ")[:2])
        assert -0.5 < least < 2
        assert 0 < most < 2
    # real data: no draw of the posterior but an exact chain's
    real = ["dataset=toy_2d", "model=logistic", "prior=gaussian", "executor.workers=1"]
    assert main([*real, *words, "sampler=laplace", "protocol.iterations=1", "name=real"]) == 0
    capsys.readouterr()
    assert main(["diagnose", "real", "--bracket", "--steps", "30"]) == 1
    assert "take dataset=from_prior" in capsys.readouterr().out
    assert main(["diagnose", "real"]) == 0
