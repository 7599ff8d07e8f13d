"""Gaussian processes through inducing inputs, against dense closed forms, and twins that must not pass.

The oracle is DTC written with N × N matrices: y ~ N(0, Q_nn + β⁻¹I), Q = K_nm K_mm⁻¹ K_mn.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.models.gaussian_process import JITTER, Process, kernel
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.numerics.batches import Batches
from flyrun.ground.numerics.state import generator

N = 60
CURVE = ["dataset=noisy_curve", f"dataset.n_data={N}", "model=gaussian_process", "model.length=0.4"]
ARMS = {
    "pmd_inducing": ["sampler=pmd_inducing", "sampler.particles=4", "sampler.inducing=6", "sampler.batch=10"],
    "svi_gp": [
        "sampler=svi_gp",
        "sampler.inducing=6",
        "sampler.batch=10",
        "sampler.batches=replacement",
    ],
    "smc_inducing": ["sampler=smc_inducing", "sampler.particles=4", "sampler.inducing=6", "sampler.batch=10"],
    "subset_of_data": ["sampler=subset_of_data", "sampler.inducing=6"],
    "exact_gp": ["sampler=exact_gp"],
}


def method_of(tmp_path, name, *more):
    (arm,) = compose_job([*CURVE, *ARMS[name], "protocol.burn_in=0", *more]).arms
    return prepare(arm, tmp_path)


def after(method, steps, seed=0):
    return method.advance(method.init(seed), steps)[0]


def dtc(process: Process, points: np.ndarray):
    """log evidence, and mean and variance at the test rows: dense."""
    own = kernel(process, points, points) + JITTER * np.eye(len(points))
    here, there = (
        kernel(process, x, points) @ np.linalg.inv(np.linalg.cholesky(own)).T
        for x in (process.features, process.test_features)
    )
    covariance = here @ here.T + process.noise * np.eye(len(here))
    evidence = multivariate_normal.logpdf(process.target, np.zeros(len(here)), covariance)
    across = there @ here.T
    mean = across @ np.linalg.solve(covariance, process.target)
    known = np.einsum("ij,ji->i", across, np.linalg.solve(covariance, across.T))
    return evidence, mean, 1.0 - known


def off(method, state):
    """Largest differences from the oracle: of log weights, means, variances over particles."""
    log_weight, means, variances = method.predictions(state)
    wanted = [dtc(method.process, method.process.features[rows]) for rows in state["rows"]]
    ours = zip(log_weight, means, variances, strict=True)
    pairs = [zip(a, b, strict=True) for a, b in zip(ours, wanted, strict=True)]
    return np.max([[np.abs(a - b).max() for a, b in pair] for pair in pairs], axis=0)


# ---- one epoch at 1/t is Bayes' rule (particles.md §10 (a) and (d))


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("batch", [10, 7, 60])
@pytest.mark.parametrize("epochs", [1, 3])
def test_after_an_epoch_the_weights_are_evidences_and_predictions_are_dtcs(tmp_path, batch, epochs):
    method = method_of(tmp_path, "pmd_inducing", f"sampler.batch={batch}")
    state = after(method, epochs * method.batches.in_epoch)
    assert off(method, state).max() < 1e-8


def test_within_an_epoch_they_are_not(tmp_path):
    method = method_of(tmp_path, "pmd_inducing")
    assert off(method, after(method, 4))[0] > 1


@pytest.mark.parametrize("broken", ["factor", "decay", "delay"])
def test_broken_steps_do_not_give_evidences(tmp_path, monkeypatch, broken):
    method = method_of(tmp_path, "pmd_inducing")
    if broken == "factor":  # N/b dropped: the posterior of b rows
        monkeypatch.setattr(Batches, "factor", 1.0)
    elif broken == "decay":  # what was there is not put down by 1 − γ
        method.weights = lambda step: (1.0, method.batches.factor / step)
    else:  # γ = 1/(t + 5): a likelihood of power T/(T + 5)
        method = method_of(tmp_path, "pmd_inducing", "sampler.delay=5")
    assert off(method, after(method, 6))[0] > 0.1


# ---- the recursion as the paper has it, in natural parameters of u and with the weights step by step


def recursion(method, state, steps, gamma, broken=""):
    """log α of the first particle after `steps`, its Λ and η: formulas of Dai et al., §F.1."""
    process, beta = method.process, 1.0 / method.process.noise
    points = process.features[state["rows"][0]]
    size = len(points)
    precision = np.linalg.inv(kernel(process, points, points) + JITTER * np.eye(size))
    log_det, rng = np.linalg.slogdet(precision)[1], generator(state["rng"])
    prior = 0.0 if broken == "prior" else 1.0
    big, small, log_alpha = precision.copy(), np.zeros(size), 0.0

    def normaliser(big, small):
        half = 0.5 * small @ np.linalg.solve(big, small)
        return half - 0.5 * np.linalg.slogdet(big)[1] + 0.5 * size * np.log(2 * np.pi)

    for t in range(1, steps + 1):
        rows = method.batches.rows(t - 1, rng, int(state["key"][0]))
        y, across = process.target[rows], precision @ kernel(process, points, process.features[rows])
        g, scale = gamma(t), N / len(rows)
        before, keep = normaliser(big, small), 1.0 if broken == "normaliser" else 1.0 - gamma(t)
        big = (1 - g) * big + g * (prior * precision + scale * beta * across @ across.T)
        small = (1 - g) * small + g * scale * beta * across @ y
        each = 0.5 * np.log(beta / (2 * np.pi)) - 0.5 * beta * y**2
        constant = prior * (0.5 * log_det - 0.5 * size * np.log(2 * np.pi)) + scale * each.sum()
        log_alpha = (1 - g) * log_alpha + normaliser(big, small) - keep * before + g * constant
    return log_alpha, big, small


SETTINGS = {
    "epochs": [],
    "replacement": ["sampler.batches=replacement"],
    "slow": ["sampler.batches=replacement", "sampler.delay=3", "sampler.decay=0.7"],
}


@pytest.mark.parametrize("more", SETTINGS.values(), ids=SETTINGS)
def test_weights_and_gaussians_follow_the_papers_recursion(tmp_path, more):
    method = method_of(tmp_path, "pmd_inducing", "sampler.inducing=4", *more)
    begin, settings = method.init(1), method.arm.sampler
    inducing, posterior, _ = method.posterior(method.advance(begin, 9)[0])
    found = []
    for broken in ("", "normaliser", "prior"):
        told = recursion(method, begin, 9, lambda t: (t + settings.delay) ** -settings.decay, broken)
        mean = np.linalg.solve(told[1], told[2])
        ours = (inducing.root[0] @ posterior.mean[0]) - mean
        found.append((abs(posterior.log_evidence[0] - told[0]), np.abs(ours).max()))
    assert max(found[0]) < 1e-7
    assert found[1][0] > 0.1  # the normaliser's decay forgotten
    assert max(found[2]) > 1e-3  # the prior's part forgotten


def test_weights_by_the_bound_are_evidences_less_what_is_unexplained(tmp_path):
    method = method_of(tmp_path, "pmd_inducing", "sampler.weights=bound")
    state = after(method, 6)
    process, exact = method.process, np.zeros(N)
    covariance = kernel(process, process.features, process.features) + process.noise * np.eye(N)
    whole = multivariate_normal.logpdf(process.target, exact, covariance)
    for rows, found in zip(state["rows"], method.predictions(state)[0], strict=True):
        points = process.features[rows]
        own, across = kernel(process, points, points), kernel(process, points, process.features)
        explained = np.trace(across.T @ np.linalg.solve(own + JITTER * np.eye(len(points)), across))
        assert found == pytest.approx(
            dtc(process, points)[0] - (N - explained) / (2 * process.noise), abs=1e-6
        )
        assert found < whole


# ---- SVI


@pytest.mark.thorough
def test_svi_converges_to_dtcs_posterior_at_the_rate_of_the_closed_form(tmp_path):
    """Squared error of the mean in posterior variances: (N/b)·Σw² = N/(bT) a coordinate at γ = 1/t, where the
    residuals have the model's variance; here they are somewhat larger.
    """
    method, epochs = (method_of(tmp_path, "svi_gp", *more) for more in ((), ("sampler.batches=epochs",)))
    ends, errors = (30, 300, 3_000), []
    for seed in range(12):
        state, done = method.init(seed), 0
        wanted = epochs.posterior(after(epochs, 6, seed))[1]
        for steps in ends:
            state, done = method.advance(state, steps - done)[0], steps
            apart = method.posterior(state)[1].mean[0] - wanted.mean[0]
            errors.append(np.mean((wanted.root[0].T @ apart) ** 2))
    ratios = np.reshape(errors, (12, 3)).mean(axis=0) / [N / (10 * steps) for steps in ends]
    assert ratios.min() > 0.7
    assert ratios.max() < 2.5


def test_svi_without_the_factor_goes_elsewhere(tmp_path, monkeypatch):
    method = method_of(tmp_path, "svi_gp")
    monkeypatch.setattr(Batches, "factor", 1.0)
    state = after(method, 2_000)
    assert off(method, state)[2] > 0.01


def test_svi_is_mirror_descent_with_one_particle_and_shares_its_inputs(tmp_path):
    svi, pmd = method_of(tmp_path, "svi_gp"), method_of(tmp_path, "pmd_inducing")
    one, several = svi.init(5), pmd.init(5)
    np.testing.assert_array_equal(one["rows"][0], several["rows"][0])
    np.testing.assert_array_equal(method_of(tmp_path, "subset_of_data").init(5)["rows"], one["rows"][0])
    several |= {name: one[name] for name in ("rng", "key")}
    pmd.batches = svi.batches
    states = svi.advance(one, 7)[0], pmd.advance(several, 7)[0]
    means = [method.predictions(state)[1][0] for method, state in zip((svi, pmd), states, strict=True)]
    np.testing.assert_allclose(*means, rtol=0, atol=1e-10)


# ---- one-pass SMC, exact process, subset


def test_one_pass_smc_ends_at_the_evidences_and_then_stands_still(tmp_path):
    method = method_of(tmp_path, "smc_inducing")
    state, records = method.advance(method.init(0), 9)
    assert off(method, state).max() < 1e-8
    assert records["visits"].tolist() == [10.0] * 6 + [0.0] * 3
    early = after(method, 5)
    assert off(method, early)[0] > 1


@pytest.mark.parametrize("name", ["exact_gp", "subset_of_data"])
def test_the_exact_process_is_scikit_learns(tmp_path, name):
    method = method_of(tmp_path, name)
    process, state = method.process, after(method, 1)
    oracle = GaussianProcessRegressor(RBF(process.length), alpha=process.noise, optimizer=None)
    oracle.fit(process.features[state["rows"]], process.target[state["rows"]])
    mean, sd = oracle.predict(process.test_features, return_std=True)
    found = method.estimates(state)
    np.testing.assert_allclose(found["prediction"], process.centre + process.spread * mean, atol=1e-9)
    np.testing.assert_allclose(found["variance"], (process.spread * sd) ** 2, atol=1e-9)


def test_all_rows_inducing_is_the_exact_process(tmp_path):
    method = method_of(tmp_path, "pmd_inducing", f"sampler.inducing={N}", "sampler.particles=1")
    exact = method_of(tmp_path, "exact_gp")
    ours, theirs = (one.estimates(after(one, 6)) for one in (method, exact))
    for name in ("prediction", "variance"):
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5)


def test_particles_are_mixed_by_their_weights_and_without(tmp_path):
    method = method_of(tmp_path, "pmd_inducing")
    state = after(method, 6)
    log_weight, means, variances = method.predictions(state)
    process, found = method.process, method.estimates(state)
    for prefix, logs in (("", log_weight - logsumexp(log_weight)), ("equal_", np.full(4, -np.log(4)))):
        mean = np.exp(logs) @ means
        density = [
            logsumexp(logs + norm.logpdf(y, means[:, k], np.sqrt(variances[:, k] + process.noise)))
            for k, y in enumerate(process.test_target)
        ]
        assert found[f"{prefix}rmse"] == pytest.approx(
            process.spread * np.sqrt(np.mean((mean - process.test_target) ** 2)), abs=1e-12
        )
        assert found[f"{prefix}log_density"] == pytest.approx(
            np.mean(density) - np.log(process.spread), abs=1e-9
        )
    draws = np.random.default_rng(0)
    pick = draws.choice(4, 200_000, p=np.exp(log_weight - logsumexp(log_weight)))
    values = means[pick, 0] + np.sqrt(variances[pick, 0]) * draws.standard_normal(len(pick))
    assert found["variance"][0] == pytest.approx(process.spread**2 * values.var(), rel=0.03)


# ---- what the runner relies on


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("batches", ["epochs", "replacement"])
def test_cuts_do_not_matter(tmp_path, name, batches):
    more = [f"sampler.batches={batches}"] if name in ("pmd_inducing", "svi_gp") else []
    whole, records = method_of(tmp_path, name, *more).advance(method_of(tmp_path, name, *more).init(3), 20)
    method = method_of(tmp_path, name, *more)
    state, parts = method.init(3), []
    for n in (1, 5, 1, 6, 7):
        before = {key: values.copy() for key, values in state.items()}
        new, part = method_of(tmp_path, name, *more).advance(state, n)
        for key, values in before.items():  # the state that was handed in stays as it is
            np.testing.assert_array_equal(state[key], values)
        state = new
        parts.append(part)
    for key, values in whole.items():
        np.testing.assert_array_equal(state[key], values, err_msg=key)
    for key, values in records.items():
        np.testing.assert_array_equal(np.concatenate([part[key] for part in parts]), values, err_msg=key)


def test_seeds_differ_and_arms_share_inducing_inputs_not_batches(tmp_path):
    method, other = (
        method_of(tmp_path, "pmd_inducing"),
        method_of(tmp_path, "pmd_inducing", "sampler.batch=12"),
    )
    one, two, three = method.init(0), method.init(1), other.init(0)
    assert not np.array_equal(one["rows"], two["rows"])
    np.testing.assert_array_equal(one["rows"], three["rows"])
    assert not np.array_equal(one["rng"], three["rng"])


def test_costs_are_the_closed_forms(tmp_path):
    m, size, b = 4, 6, 10
    _, records = method_of(tmp_path, "pmd_inducing").advance(method_of(tmp_path, "pmd_inducing").init(0), 3)
    assert records["visits"].tolist() == [b] * 3
    assert records["queries"].tolist() == [m * b] * 3
    assert records["kernel_evaluations"].tolist() == [m * size * (b + size), *[m * size * b] * 2]
    _, records = method_of(tmp_path, "svi_gp").advance(method_of(tmp_path, "svi_gp").init(0), 2)
    assert records["queries"].tolist() == records["visits"].tolist() == [b, b]
    for name, rows in (("exact_gp", N), ("subset_of_data", size)):
        _, records = method_of(tmp_path, name).advance(method_of(tmp_path, name).init(0), 2)
        assert records["queries"].tolist() == records["visits"].tolist() == [rows, 0]
        assert records["kernel_evaluations"].tolist() == [rows**2, 0]


def test_kernel_rows_are_made_as_often_as_they_are_charged(tmp_path, monkeypatch):
    """Counted where the kernel is evaluated: the charge of a run in one piece is what was done."""
    made = SimpleNamespace(values=0)
    target = "flyrun.experiments.models.gaussian_process.kernel"

    def counted(process, a, b):
        made.values += len(a) * len(b)
        return kernel(process, a, b)

    monkeypatch.setattr(target, counted)
    for name in ("pmd_inducing", "svi_gp", "smc_inducing"):
        method, made.values = method_of(tmp_path, name), 0
        _, records = method.advance(method.init(0), 5)
        assert records["kernel_evaluations"].sum() == made.values


def test_what_is_handed_in_at_the_end_is_q_of_u(tmp_path):
    method = method_of(tmp_path, "pmd_inducing", "sampler.inducing=4")
    state = after(method, 6)
    found = method.result(state)
    _, big, small = recursion(method, method.init(0), 6, lambda t: 1.0 / t)
    np.testing.assert_allclose(found["covariance"][0], np.linalg.inv(big), atol=1e-7)
    np.testing.assert_allclose(found["mean"][0], np.linalg.solve(big, small), atol=1e-7)
    assert found["theta"].shape == (4, 4, 1)
    one = method_of(tmp_path, "svi_gp")
    shapes = {name: values.shape for name, values in one.result(after(one, 6)).items()}
    assert shapes == {"points": (6, 1), "mean": (6,), "covariance": (6, 6)}
    assert not method.facts().exact
    assert method_of(tmp_path, "exact_gp").facts().exact
