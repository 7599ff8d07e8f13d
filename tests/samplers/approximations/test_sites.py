"""The sites' loop: fixed points of its rules, closed forms, costs, and what it does when it leads away."""

import numpy as np
import pytest
from scipy import integrate, stats

from flyrun.experiments.models.base_density import Penalty
from flyrun.experiments.models.factors import Gaussians
from flyrun.experiments.models.problem import scores
from flyrun.experiments.samplers.approximations.kl_gaussian import KlGaussian
from flyrun.ground.errors import ConfigError, FlyrunError
from tests.samplers.approximations.exact import after, by_grid, method_of
from tests.samplers.approximations.problems import method_of as problem_of


def _normal(tmp_path):
    """Words of a regression with noise so light-tailed that it is normal, for which all is known."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40, 2))
    y = x @ [1.0, -0.5] + rng.standard_normal(40)
    lines = [f"{a},{b},{c}" for (a, b), c in zip(x, y, strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,y", *lines]))
    data = [f"dataset=table dataset.path={tmp_path / 'table.csv'} dataset.target=y".split()]
    return [*data[0], "model=student_t", "model.nu=1e7", "model.scale=1", "prior=gaussian", "prior.scale=2"]


@pytest.mark.parametrize("name", ["ep", "kl_gaussian", "mean_field", "jaakkola_jordan"])
def test_cuts_do_not_matter_and_passes_are_counted(tmp_path, name):
    method = method_of(tmp_path, f"sampler={name}")
    whole, records = method.advance(method.init(0), 6)
    state = method.init(0)
    for n in (1, 2, 3):
        state, _ = method.advance(state, n)
    for key in whole:
        np.testing.assert_array_equal(state[key], whole[key])
    nodes = 1 if name == "jaakkola_jordan" else 5
    assert records["queries"].tolist() == [60.0 * nodes] * 6
    assert records["visits"].tolist() == [60.0] * 6
    assert method.facts().setup_queries == method.problem.fit.queries + 60


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "mean_level", "sd_level"), [("ep", 0.02, 0.03), ("kl_gaussian", 0.02, 0.03)]
)
def test_moments_are_near_the_posteriors_where_laplaces_are_not(tmp_path, name, mean_level, sd_level):
    method = method_of(tmp_path, f"sampler={name}", "sampler.points=15")
    mean, covariance, _ = by_grid(tmp_path)
    sd = np.sqrt(np.diag(covariance))

    def off(found):
        return np.abs(found["mean"] - mean).max() / np.sqrt(covariance.diagonal().min())

    found = after(method, 12)
    assert off(found) < mean_level
    assert np.abs(np.sqrt(np.diag(found["covariance"])) / sd - 1).max() < sd_level
    laplace = method_of(tmp_path, "sampler=laplace")
    assert off(after(laplace, 1)) > 2 * off(found)


@pytest.mark.thorough
def test_evidence_of_ep_is_that_of_quadrature_and_bounds_are_below(tmp_path):
    log_z = by_grid(tmp_path)[2]
    found = {}
    for name in ("ep", "kl_gaussian", "mean_field", "jaakkola_jordan"):
        one = method_of(tmp_path, f"sampler={name}")
        estimates = one.estimates(one.advance(one.init(0), 60)[0])
        found[name] = float(estimates.get("log_evidence", estimates.get("evidence_bound")))
    assert abs(found["ep"] - log_z) < 0.02
    assert found["jaakkola_jordan"] < found["kl_gaussian"] < log_z - 0.01
    assert found["mean_field"] < found["kl_gaussian"]


def test_the_bound_of_coordinate_ascent_rises(tmp_path):
    method = method_of(tmp_path, "sampler=jaakkola_jordan", "sampler.start=prior")
    state, bounds = method.init(0), []
    for _ in range(30):
        state, _ = method.advance(state, 1)
        bounds.append(float(state["evidence"][0]))
    assert np.diff(bounds).min() > -1e-10
    assert bounds[-1] > bounds[0] + 1


def test_gaussian_variational_inference_has_no_slope_on_average_and_the_mean_curvature(tmp_path):
    """By draws of it; Laplace's Gaussian is no such point, for the posterior is skewed."""
    method = method_of(tmp_path, "sampler=kl_gaussian")

    def slopes(mean, covariance):
        draws = np.random.default_rng(0).multivariate_normal(mean, covariance, 4_000)
        each = scores(method.arm, method.problem, draws)
        return np.abs(each.mean(axis=0) / (each.std(axis=0) / np.sqrt(len(draws)))), each, draws - mean

    q = method.answer(method.advance(method.init(0), 30)[0])
    z, each, away = slopes(*q)
    assert z.max() < 4
    # −E∇² log p = E[∇log p (θ − m)ᵀ]·S⁻¹ under the Gaussian (Stein), a mean of products
    precision = np.linalg.inv(q.covariance)
    stein = -each.T @ away / len(away) @ precision
    np.testing.assert_allclose(stein, precision, atol=0.15 * np.abs(precision).max())
    laplace = method_of(tmp_path, "sampler=laplace")
    assert slopes(*laplace.answer(laplace.init(0)))[0].max() > 4


def test_a_laplace_priors_sites_are_by_quadrature():
    rate, q = 3.0, stats.norm(0.3, 0.5)
    parts = [(-8, 0), (0, 8)]

    def average(f):
        return sum(integrate.quad(lambda t: f(t) * q.pdf(t), *part)[0] for part in parts)

    sites = (
        KlGaussian(5)
        .of_prior(Penalty(0.0, rate), Gaussians(np.array([[0.3]]), np.array([[[0.25]]])), None)
        .sites
    )
    bend = average(lambda t: rate * np.sign(t) * (t - 0.3)) / 0.25
    assert sites.precision[0, 0, 0] == pytest.approx(bend, rel=1e-6)
    slope = sites.linear[0, 0] - sites.precision[0, 0, 0] * 0.3
    assert slope == pytest.approx(average(lambda t: -rate * np.sign(t)), rel=1e-6)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["ep", "kl_gaussian", "ep serial"])
def test_normal_noise_has_the_known_answer_after_one_pass_from_the_prior(tmp_path, name):
    kind, *rest = name.split()
    more = (f"sampler={kind}", "sampler.start=prior", *(f"sampler.schedule={one}" for one in rest))
    method = method_of(tmp_path, *more, words=_normal(tmp_path))
    rows, target = method.problem.features.rows, method.problem.model.target
    precision = rows.T @ rows + np.eye(rows.shape[1]) / 4
    found = after(method, 1)
    mean = np.linalg.solve(precision, rows.T @ target)
    np.testing.assert_allclose(found["mean"], mean, atol=1e-4 * np.abs(mean).max())
    np.testing.assert_allclose(found["covariance"], np.linalg.inv(precision), rtol=1e-3, atol=1e-6)


def test_linear_response_repairs_what_mean_field_leaves_out(tmp_path):
    plain = after(method_of(tmp_path, "sampler=mean_field"), 30)
    method = method_of(tmp_path, "sampler=mean_field", "sampler.linear_response=true")
    found, sd = after(method, 30), np.sqrt(np.diag(by_grid(tmp_path)[1]))
    assert np.sqrt(np.diag(plain["covariance"]) / sd**2).min() < 0.97
    assert np.abs(np.sqrt(np.diag(found["covariance"])) / sd - 1).max() < 0.04
    np.testing.assert_array_equal(found["mean"], plain["mean"])


def test_jaakkola_and_jordans_spread_is_too_narrow(tmp_path):
    method = method_of(tmp_path, "sampler=jaakkola_jordan")
    sd = np.sqrt(np.diag(by_grid(tmp_path)[1]))
    assert np.sqrt(np.diag(after(method, 100)["covariance"]) / sd**2).max() < 0.95


def test_a_laplace_prior_has_sites_of_its_own(tmp_path):
    """EP's moments of a coordinate times its prior are those of an integral."""
    from flyrun.experiments.models.base_density import Penalty
    from flyrun.experiments.models.factors import Gaussians, Sites
    from flyrun.experiments.samplers.approximations.ep import Ep

    rate, mean, variance = 1.7, np.array([0.3, -1.2]), np.array([0.5, 0.2])
    old = Sites(np.array([[[0.4]], [[1.0]]]), np.array([[0.1], [-0.2]]))
    cavity_precision = 1 / variance - old.precision[:, 0, 0]
    cavity_mean = (mean / variance - old.linear[:, 0]) / cavity_precision
    found = Ep(5).of_prior(Penalty(0.0, rate), Gaussians(mean[:, None], variance[:, None, None]), old)
    u = np.linspace(-12, 12, 400_001)
    for d in range(2):
        weight = np.exp(-0.5 * cavity_precision[d] * (u - cavity_mean[d]) ** 2 - rate * np.abs(u))
        weight /= weight.sum()
        centre = weight @ u
        spread = weight @ (u - centre) ** 2
        precision = cavity_precision[d] + found.sites.precision[d, 0, 0]
        assert precision == pytest.approx(1 / spread, rel=1e-6)
        linear = cavity_precision[d] * cavity_mean[d] + found.sites.linear[d, 0]
        assert linear / precision == pytest.approx(centre, abs=1e-6)


@pytest.mark.thorough
def test_a_row_by_row_pass_depends_on_the_order_and_three_do_not(tmp_path):
    method = method_of(tmp_path, "sampler=ep", "sampler.start=prior", "sampler.schedule=serial")
    first = [method.result(method.advance(method.init(seed), 1)[0])["mean"] for seed in (0, 1)]
    last = [method.result(method.advance(method.init(seed), 6)[0])["mean"] for seed in (0, 1)]
    assert np.abs(first[0] - first[1]).max() > 1e-3
    np.testing.assert_allclose(*last, atol=1e-4)
    parallel = after(method_of(tmp_path, "sampler=ep"), 12)
    np.testing.assert_allclose(last[0], parallel["mean"], atol=1e-3)


def test_undamped_steps_that_lead_away_are_an_error_with_a_remedy_that_works(tmp_path):
    words = [*_normal(tmp_path), "model.nu=2", "model.scale=0.05"]
    method = method_of(tmp_path, "sampler=kl_gaussian", "sampler.start=prior", words=words)
    with pytest.raises(FlyrunError, match=r"sampler\.start=map") as error:
        method.advance(method.init(0), 60)
    assert "\n" not in str(error.value)
    mended = method_of(tmp_path, "sampler=kl_gaussian", words=words)
    assert np.isfinite(after(mended, 30)["mean"]).all()


def test_what_does_not_fit_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="choose model=logistic"):
        method_of(tmp_path, "sampler=jaakkola_jordan", words=_normal(tmp_path))
    with pytest.raises(ConfigError, match=r"sampler\.schedule=parallel"):
        method_of(tmp_path, "sampler=ep", "sampler.schedule=serial", "prior=laplace")


CLUTTER = [
    "dataset=clutter", "dataset.n_data=20", "dataset.n_sets=20",
    "model=clutter", "prior=gaussian", "prior.scale=10",
]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("damps", [True, False])
def test_passes_that_go_round_damp_themselves(tmp_path, damps):
    """If they may; undamped they move .1 to 1.7 sds for ever."""
    method = problem_of(tmp_path, "sampler=ep", f"sampler.adapt={str(damps).lower()}", words=CLUTTER)
    state, records = method.advance(method.init(0), 100)
    assert (records["moved"][-20:].max() < 1e-3) == damps
    assert (method.facts(state).more["damping"] < 1) == damps


def test_passes_that_settle_are_not_damped(tmp_path):
    method = method_of(tmp_path, "sampler=ep")
    state, records = method.advance(method.init(0), 12)
    assert records["moved"][-1] < 1e-4
    assert state["share"][0] == 1.0
