"""The posterior as a thing that counts: derivatives by differences, counts by closed forms, and JAX's."""

import numpy as np
import pytest

import flyrun
from flyrun.ground.errors import ConfigError

ROWS = 60
MODELS = {
    "logistic": ([], "gaussian"),
    "softmax": ([], "gaussian"),
    "student_t": ([], "laplace"),
    "probit": ([], "gaussian"),
    "negative_binomial": ([], "gaussian"),
    "poisson": ([], "gaussian"),
}


def table(folder, model):
    """A file of rows for a model, and the words that ask for it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 3))
    counts = rng.poisson(np.exp(0.3 * x[:, 0]))
    numbers = x[:, 0] + x[:, 2] ** 3
    classes = np.digitize(x[:, 0], [-0.5, 0.5])
    targets = {"softmax": classes, "student_t": numbers, "negative_binomial": counts, "poisson": counts}
    y = targets.get(model, x[:, 0] + rng.normal(size=ROWS) > 0.3)
    np.savetxt(folder / "t.csv", np.c_[x, y], delimiter=",", header="a,b,c,y", comments="")
    return ["dataset=table", f"dataset.path={folder / 't.csv'}", "dataset.target=y", f"model={model}"]


@pytest.fixture(params=MODELS)
def posterior(request, tmp_path):
    words, prior = MODELS[request.param]
    return flyrun.posterior(overrides=[*table(tmp_path, request.param), f"prior={prior}", *words])


def test_derivatives_are_those_of_the_density_and_each_row_read_is_counted(posterior):
    rng = np.random.default_rng(1)
    theta, vector = rng.normal(size=(2, posterior.n_params)) * 0.5
    step = 1e-5

    def along(function):
        return (function(theta + step * vector) - function(theta - step * vector)) / (2 * step)

    posterior.taken()
    slope = along(posterior.log_density)
    assert posterior.taken() == 2 * ROWS
    assert posterior.gradient(theta) @ vector == pytest.approx(slope, rel=1e-6)
    assert posterior.taken() == ROWS
    value, gradient = posterior.value_and_gradient(theta)
    assert posterior.taken() == ROWS
    assert value == pytest.approx(posterior.log_density(theta), rel=1e-12)
    assert gradient == pytest.approx(posterior.gradient(theta), rel=1e-12)
    posterior.taken()
    if posterior.arm.prior.smooth:
        curved = posterior.hessian_times(theta, vector)
        assert posterior.taken() == ROWS
        assert curved == pytest.approx(along(posterior.gradient), rel=1e-5, abs=1e-5)
        assert curved == pytest.approx(-posterior.curvature(theta) @ vector, rel=1e-9, abs=1e-9)


def test_rows_add_up_to_the_whole_and_many_positions_are_asked_at_once(posterior):
    thetas = np.random.default_rng(2).normal(size=(4, posterior.n_params)) * 0.5
    halves = np.split(np.random.default_rng(3).permutation(ROWS), [20])
    posterior.taken()
    likelihood = sum(posterior.log_likelihoods(thetas[0], half).sum() for half in halves)
    assert posterior.taken() == ROWS
    parts = sum(posterior.likelihood_gradient(thetas[0], half) for half in halves)
    assert posterior.taken() == ROWS
    prior, of_prior = posterior.log_prior(thetas[0]), posterior.prior_gradient(thetas[0])
    assert posterior.taken() == 0
    values = posterior.log_density(thetas)
    assert posterior.taken() == 4 * ROWS
    assert values[0] == pytest.approx(prior + likelihood, rel=1e-12)
    assert posterior.gradient(thetas)[0] == pytest.approx(of_prior + parts, rel=1e-9, abs=1e-9)
    assert posterior.queries >= 6 * ROWS


def test_an_experiment_s_arm_by_its_name_and_what_is_refused():
    digits = flyrun.posterior("toy_flymc", ["protocol=smoke"], arm="map_tuned", needs_map=True)
    assert digits.theta_map.shape == (digits.n_params,)
    assert digits.setup_queries > 0
    assert digits.gradient(digits.theta_map) == pytest.approx(0.0, abs=1e-3)
    with pytest.raises(ConfigError, match=r"map_tune: no such arm \(did you mean map_tuned"):
        flyrun.posterior("toy_flymc", arm="map_tune")
    with pytest.raises(ConfigError, match="model=ising: its data are no rows"):
        flyrun.posterior("hogwild_ising")


@pytest.mark.thorough(but="negative")
@pytest.mark.parametrize("model", MODELS)
def test_jax_is_given_the_same_and_counts_inside_compiled_loops(model, tmp_path):
    jax = pytest.importorskip("jax")
    words, prior = MODELS[model]
    posterior = flyrun.posterior(overrides=[*table(tmp_path, model), f"prior={prior}", *words])
    theta = np.random.default_rng(1).normal(size=posterior.n_params).astype(np.float32) * 0.5
    value_and_grad = jax.value_and_grad(posterior.jax.log_density)
    value, slope = value_and_grad(theta)
    exact = posterior.value_and_gradient(theta)
    assert float(value) == pytest.approx(exact[0], rel=1e-4)
    assert np.allclose(slope, exact[1], rtol=1e-3, atol=1e-3 * np.abs(exact[1]).max())
    posterior.taken()

    @jax.jit
    def climb(theta):
        return jax.lax.while_loop(
            lambda carried: carried[1] < 7,
            lambda carried: (carried[0] + 1e-3 * value_and_grad(carried[0])[1], carried[1] + 1),
            (theta, 0),
        )[0]

    climb(theta), climb(theta)
    assert posterior.taken() == 14 * ROWS
    rows = np.arange(20, 45)

    def of_rows(theta):
        return posterior.jax.log_likelihoods(theta, rows).sum()

    value, slope = jax.jit(jax.value_and_grad(of_rows))(theta)
    assert posterior.taken() == len(rows)
    assert float(value) == pytest.approx(posterior.log_likelihoods(theta, rows).sum(), rel=1e-4)
    exact = posterior.likelihood_gradient(theta, rows)
    assert np.allclose(slope, exact, rtol=1e-3, atol=1e-3 * np.abs(exact).max())
    posterior.taken()
    thetas = np.stack([theta] * 3)
    many = jax.jit(lambda thetas: jax.lax.map(posterior.jax.log_density, thetas))
    assert many(thetas).shape == (3,)
    assert posterior.taken() == 3 * ROWS
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(posterior.jax.vmappable)))(thetas)
    assert posterior.taken() == 3 * ROWS
    assert np.allclose(values, many(thetas), rtol=1e-4)
    assert np.allclose(slopes, value_and_grad(theta)[1], rtol=1e-3, atol=1e-3 * np.abs(slopes).max())
    with pytest.raises(Exception, match="unbatched array reference"):
        jax.vmap(posterior.jax.log_density)(thetas)
