"""Families as the runner's likelihoods: the same numbers compiled as of arrays, what a row counts for, and
posteriors with auxiliary numbers by every kind of method.
"""

import numpy as np
import pytest
from scipy.special import logsumexp

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models import compiled_families, gaussian_prior, passes
from flyrun.experiments.models.aux_prior import AuxPrior, Beside
from flyrun.experiments.models.factors import TooManyNodesError, nodes
from flyrun.experiments.models.features import gram, predicted, pull_back, pulled, variances
from flyrun.experiments.models.problem import log_densities, log_priors
from flyrun.experiments.models.with_aux import WithAux
from flyrun.experiments.samplers.method import prepare
from flyrun.families import family
from flyrun.families.prior_densities import LogGamma, LogNormal, Normal
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.compiled import jit
from flyrun.tables.dataset import Dataset

RUN = [name for name in family.names() if family.family(name).linear(4) == 1 and name != "logistic"]
TRIALS = ("binomial", "probit")
N = 12


def _data(name, rng, n=N, scale=0.7):
    """Rows with a bias, a target drawn at coefficients, and what the family knows of rows besides."""
    own = family.family(name)
    rows = np.c_[rng.standard_normal((n, 1)), np.ones(n)]
    trials = rng.integers(1, 5, n).astype(float) if name in TRIALS else np.ones(n)
    others = [np.full(n, 0.4) for _ in own.auxiliary(4, 1.0)]
    y = own.draw(rng, trials.astype(int), (scale * rows[:, 0] + 0.3, *others))
    return rows, np.asarray(y, float), {"trials": trials} if name in TRIALS else {}


def _bound(name, rows, y, **beside):
    return compiled_families.of(name).bind(rows, y, **beside)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("name", RUN)
def test_a_density_compiled_is_the_one_of_arrays(name):
    rng, own = np.random.default_rng(1), family.family(name)
    rows, y, beside = _data(name, rng)
    offset, weights = rng.normal(size=N), rng.integers(1, 4, N).astype(float)
    model, _ = _bound(name, rows, y, offset=offset, weights=weights, **beside)
    eta = rng.normal(size=(N, model.n_predictors))
    values, slopes = passes.values_and_slopes(model, eta)
    p = (eta[:, 0] + offset, *eta[:, 1:].T)
    trials = model.numbers[:, 1]
    whole = own.log_density(y, trials, p) + own.alone(y, trials, p[1:])
    np.testing.assert_allclose(values, weights * whole, rtol=1e-12, atol=1e-12)
    step, numeric = 1e-5, np.empty_like(slopes)
    bends = compiled_families.of(name).curvature(model, eta)
    for k in range(eta.shape[1]):
        shift = step * np.eye(eta.shape[1])[k]
        above, below = (passes.values_and_slopes(model, eta + way * shift) for way in (1.0, -1.0))
        numeric[:, k] = (above[0] - below[0]) / (2 * step)
        bent = (below[1] - above[1]) / (2 * step)
        np.testing.assert_allclose(bends[:, k], bent, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(slopes, numeric, rtol=1e-7, atol=1e-8)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("name", RUN)
def test_a_weight_of_two_is_a_doubled_row_and_an_offset_is_added_to_the_predictor(name):
    rng = np.random.default_rng(2)
    rows, y, beside = _data(name, rng)
    again = np.r_[np.arange(N), 0, 3]
    weights = np.bincount(again).astype(float)
    weighted, features = _bound(name, rows, y, weights=weights, **beside)
    doubled = _bound(name, rows[again], y[again], **{key: one[again] for key, one in beside.items()})
    moved = _bound(name, rows, y, offset=0.7 * rows[:, 0] - 0.2, weights=weights, **beside)[0]
    theta = rng.normal(size=len(_start(name, weighted, features)))
    shifted = theta.copy()
    shifted[:2] -= [0.7, -0.2]
    module = compiled_families.of(name)
    found = passes.look(module, weighted, features, theta)
    for other, at, its in ((doubled[0], theta, doubled[1]), (moved, shifted, features)):
        same = passes.look(module, other, its, at)
        for one, two in zip(found[:3], same[:3], strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10)
    unweighted = passes.look(module, _bound(name, rows, y, **beside)[0], features, theta)
    assert abs(unweighted.value - found.value) > 1e-3


def _start(name, model, features):
    return compiled_families.of(name).start(model, features)


def test_trials_are_rows_of_one_trial_each():
    rng, module = np.random.default_rng(3), compiled_families.of("binomial")
    rows, y, beside = _data("binomial", rng)
    trials = beside["trials"].astype(int)
    each = np.repeat(np.arange(N), trials)
    hits = np.concatenate([np.arange(k) < hit for k, hit in zip(trials, y, strict=True)]).astype(float)
    whole, single = _bound("binomial", rows, y, **beside), _bound("binomial", rows[each], hits)
    theta = np.array([0.4, -0.3])
    for one, two in zip(
        passes.look(module, *whole, theta)[:3], passes.look(module, *single, theta)[:3], strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=1e-12)


@jit
def _pull(features, index, slopes, gradient):
    pull_back(features, index, slopes, gradient)


@pytest.mark.thorough
def test_rows_with_auxiliary_numbers_have_the_design_of_columns_of_ones():
    rng, size, k = np.random.default_rng(4), 3, 3
    rows = rng.normal(size=(9, size))
    features, model = WithAux(rows), compiled_families.of("negative_binomial").bind(rows, np.ones(9))[0]
    design = np.zeros((9, k, size + k - 1))
    design[:, 0, :size] = rows
    for m in range(1, k):
        design[:, m, size + m - 1] = 1.0
    theta, slopes, weight = rng.normal(size=size + 2), rng.normal(size=(9, k)), rng.normal(size=(9, k, k))
    weight += weight.transpose(0, 2, 1)
    root = rng.normal(size=(size + 2, size + 2))
    np.testing.assert_allclose(predicted(features, rows, theta), design @ theta)
    np.testing.assert_allclose(pulled(features, rows, slopes), np.einsum("nk,nkp->p", slopes, design))
    np.testing.assert_allclose(
        gram(features, rows, weight), np.einsum("nkm,nkp,nmq->pq", weight, design, design), atol=1e-12
    )
    np.testing.assert_allclose(
        variances(features, rows, root @ root.T),
        np.einsum("nkp,pq,nmq->nkm", design, root @ root.T, design), atol=1e-12,
    )  # fmt: skip
    each = np.stack([rows, rows + 1.0])
    thetas = np.stack([theta, -theta])
    np.testing.assert_allclose(predicted(features, each, thetas)[1], predicted(features, each[1], -theta))
    gradient = np.zeros(size + 1)
    _pull(features, np.arange(9), np.ascontiguousarray(slopes[:, :2]), gradient)
    np.testing.assert_allclose(gradient, pulled(features, rows, slopes[:, :2]))
    eta = passes.block_predictors(model, features, theta[: size + 1], slice(0, 9))
    np.testing.assert_allclose(eta, predicted(features, rows, theta[: size + 1]))
    wrong = theta[: size + 1].copy()
    wrong[size] += 1.0  # another auxiliary number leaves the rows' predictor as it is
    np.testing.assert_allclose(passes.block_predictors(model, features, wrong, slice(0, 9))[:, 0], eta[:, 0])


@pytest.mark.thorough
def test_the_prior_of_auxiliary_numbers_is_the_family_s_own():
    each = [LogGamma(1.0, 0.5), LogGamma(2.0, 0.1), Normal(0.3, 1.5), LogNormal(2.0, 3.0)]
    aux, a = AuxPrior.of_each(each), np.array([0.4, -1.1, 0.9, 2.3])
    np.testing.assert_allclose(
        aux.log_density(a), [one.log_density(v) for one, v in zip(each, a, strict=True)]
    )
    known = [one.derivatives(v) for one, v in zip(each, a, strict=True)]
    np.testing.assert_allclose(np.stack([aux.slopes(a), aux.bends(a)], axis=1), np.array(known, float))
    assert np.abs(aux.slopes(aux.mode())).max() < 1e-12
    both = Beside(gaussian_prior.prior(2.0), aux, 2)
    own = log_priors(gaussian_prior.prior(2.0), np.array([[1.0, -0.5]]))
    np.testing.assert_allclose(
        log_priors(both, np.array([[1.0, -0.5, *a]])), own + aux.log_density(a).sum(), rtol=1e-12
    )


@pytest.fixture
def counts(monkeypatch):
    """Forty counts whose mean alone is modelled: two parameters, the intercept and log φ."""
    rng = np.random.default_rng(5)
    rows, y = np.ones((40, 1)), rng.negative_binomial(2.0, 0.4, 40).astype(float)
    data = Dataset("counts", rows, y, rows[:0], y[:0], ("bias",), "0", {}, "counts")
    monkeypatch.setattr("flyrun.experiments.data.load", lambda config: data)


def _method(tmp_path, *words):
    own = ["dataset=toy_2d", "model=negative_binomial", "prior=gaussian", "prior.scale=2", "protocol=smoke"]
    return prepare(arm_of(own, words), tmp_path)


def _by_grid(method):
    """Moments of both parameters, (4,), their sds and the log evidence by quadrature."""
    axes = np.linspace(0.0, 2.5, 161), np.linspace(-2.5, 5.0, 301)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    log_p = sum(log_densities(method.arm, method.problem, grid))
    level = logsumexp(log_p)
    weight = np.exp(log_p - level)
    mean = weight @ grid
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    return mean, sd, level + np.log((axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0]))


@pytest.mark.thorough
def test_approximations_come_near_a_posterior_with_an_auxiliary_number(tmp_path, counts):
    method = _method(tmp_path, "sampler=ep")
    mean, sd, log_z = _by_grid(method)
    assert method.problem.coordinates == ("bias", "log_phi")
    for words, far, wide in (
        ("sampler=ep", 0.02, 0.04),
        ("sampler=kl_gaussian", 0.05, 0.1),
        ("sampler=laplace", 0.5, 0.3),
    ):
        method = _method(tmp_path, words)
        state = method.advance(method.init(0), 6)[0]
        q, evidence = method.answer(state), method.estimates(state)
        assert np.abs((q.mean - mean) / sd).max() < far, words
        assert np.abs(np.sqrt(np.diag(q.covariance)) / sd - 1.0).max() < wide, words
        for name, most in (("log_evidence", 0.02), ("evidence_bound", 0.1)):
            assert abs(evidence.get(name, log_z) - log_z) < most, words


@pytest.mark.thorough
def test_exact_methods_agree_with_quadrature(tmp_path, counts):
    for words, steps in (
        (("sampler=weighted", "sampler.approximation=ep"), 20_000),
        (("sampler=importance",), 8_000),
        (("sampler=mala", "sampler.metric=hessian", "bound=none", "protocol.init=map"), 12_000),
    ):
        method = _method(tmp_path, *words)
        mean, sd, log_z = _by_grid(method)
        state, told = method.advance(method.init(0), steps)
        if method.answers == "weighted":
            found = method.result(state)
            weight = found.get("sign", 1) * np.exp(found["log_weight"] - found["log_weight"].max())
            assert abs(method.estimates(state).get("log_evidence", log_z) - log_z) < 0.03, words
            theta = found["theta"]
        else:
            theta = told["theta"][len(told["theta"]) // 4 :]
            weight = np.ones(len(theta))
        weight = weight / weight.sum()
        centre = weight @ theta
        assert np.abs((centre - mean) / sd).max() < 0.05, words
        spread = np.sqrt(weight @ (theta - centre) ** 2)
        assert np.abs(spread / sd - 1.0).max() < 0.05, words
        # the prior of φ left out, log φ lies elsewhere: what would come out without its Jacobian
        assert abs((centre[1] - mean[1] - 0.3 * sd[1]) / sd[1]) > 0.2


def test_a_sampler_that_moves_coefficients_alone_is_refused(tmp_path, counts):
    with pytest.raises(
        ConfigError, match=r"sampler=sgld in arm .*: moves coefficients alone, .*; choose one of"
    ):
        _method(tmp_path, "sampler=sgld")


@pytest.mark.thorough(but="refused")
@pytest.mark.parametrize("run", [False, True], ids=["refused", "run"])  # which compiles
@pytest.mark.parametrize("sampler", ["hmc", "elliptical_slice", "pcn", "random_walk"])
def test_steps_shaped_by_bounds_that_a_family_lacks_are_refused_with_a_remedy(tmp_path, counts, sampler, run):
    """It ended in an AttributeError: 'Compiled' object has no attribute 'map_bound'."""
    with pytest.raises(ConfigError, match=r"has no bounds; choose sampler\.metric=hessian$") as error:
        _method(tmp_path, f"sampler={sampler}", "sampler.metric=bound")
    remedy = str(error.value).rpartition(" ")[2]
    method = _method(tmp_path, f"sampler={sampler}", remedy)
    if run:
        assert np.isfinite(method.advance(method.init(0), 20)[1]["theta"]).all()


def test_quadrature_over_too_many_numbers_is_refused():
    with pytest.raises(TooManyNodesError, match="sees 16 numbers"):
        nodes(16, 5)
    assert len(nodes(3, 5)[0]) == 125


@pytest.mark.thorough
def test_noise_is_sampled_with_both_its_numbers_or_given(tmp_path, monkeypatch):
    rng = np.random.default_rng(6)
    rows = np.ones((60, 1))
    y = 0.5 + 0.8 * rng.standard_t(4.0, 60)
    data = Dataset("numbers", rows, y, rows[:0], y[:0], ("bias",), "0", {}, "regression")
    monkeypatch.setattr("flyrun.experiments.data.load", lambda config: data)
    noise = "model=student_t", "model.scale=sampled", "model.nu=sampled"
    method = _method(tmp_path, *noise, "sampler=ep")
    assert method.problem.coordinates == ("bias", "log_sigma", "log_nu")
    q = method.answer(method.advance(method.init(0), 6)[0])
    draws = rng.multivariate_normal(*q, 4_000)
    away = np.linalg.solve(np.linalg.cholesky(q.covariance), (draws - q.mean).T)
    ratio = sum(log_densities(method.arm, method.problem, draws)) + 0.5 * (away**2).sum(axis=0)
    weight = np.exp(ratio - logsumexp(ratio))
    assert np.abs((weight @ draws - q.mean) / np.sqrt(np.diag(q.covariance)))[:2].max() < 0.2
    assert 1.0 / (weight**2).sum() > 800
    with pytest.raises(ConfigError, match="one is sampled with the other"):
        _method(tmp_path, "model=student_t", "model.scale=sampled", "sampler=ep")
    with pytest.raises(ConfigError, match=r"bound=map .*no bounds; choose bound=none"):
        _method(tmp_path, *noise, "sampler=random_walk", "bound=map")
    assert _method(tmp_path, "model=student_t", "sampler=laplace").problem.coordinates == ("bias",)
