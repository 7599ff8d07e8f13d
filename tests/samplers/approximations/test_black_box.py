"""ADVI and black-box variational inference: where they end, what they cost, cuts, and what they refuse."""

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.factors import Gaussian
from flyrun.experiments.models.problem import log_densities, log_priors
from flyrun.experiments.samplers.approximations.advi import Advi
from flyrun.experiments.samplers.approximations.bbvi import Bbvi
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.ground.numerics.adam import Adam
from tests.samplers.approximations.exact import method_of
from tests.samplers.particles.toys import same_bits

LOGISTIC = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic"]
SMALL = [*LOGISTIC, "prior=gaussian"]
MIXTURE = ["dataset=mixture", "dataset.n_data=40", "model=mixture", "prior=gaussian"]
LONG = "sampler.draws=20", "sampler.batch=null"


def _method(tmp_path, sampler, *more, words=SMALL):
    return prepare(arm_of(words, (f"sampler={sampler}", *more)), tmp_path)


def _end(method, n):
    return method.result(method.advance(method.init(0), n)[0])


def _off(found, optimum):
    """Largest error of a mean in sds, and of a covariance, in units of the sds."""
    sd = np.sqrt(np.diag(optimum["covariance"]))
    apart = (found["covariance"] - optimum["covariance"]) / np.outer(sd, sd)
    return max(np.abs((found["mean"] - optimum["mean"]) / sd).max(), np.abs(apart).max())


class WithoutEntropy(Advi):
    """Broken: nothing keeps it wide."""

    def gradient(self, at, rows, rng):
        slope, bound = super().gradient(at, rows, rng)
        slope[self.n_params : 2 * self.n_params] -= 1
        return slope, bound


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "optimum"),
    [
        (("advi",), ("mean_field",)),
        (("advi", "sampler.covariance=full_rank"), ("kl_gaussian",)),
        (("advi", "sampler.covariance=full_rank", "sampler.whiten=true"), ("kl_gaussian",)),
        (("bbvi", "sampler.baseline=control"), ("mean_field",)),
        (("bbvi",), ("mean_field",)),
    ],
)
def test_they_end_at_the_optimum_of_their_bound(tmp_path, words, optimum):
    best = _end(_method(tmp_path, *optimum, "sampler.points=16"), 30)
    method = _method(tmp_path, *words, *LONG)
    assert _off(_end(method, 1_500), best) < 0.1
    if isinstance(method, Advi):
        assert _off(_end(WithoutEntropy(method.arm, method.problem), 1_500), best) > 0.5


class AsPrinted(Adam):
    """The survey's Algorithm 18: the gradient is added as it is."""

    def climbed(self, at, gradient, slope, square, t):
        return at + gradient, slope, square


def test_without_a_step_size_it_leads_away(tmp_path):
    method = _method(tmp_path, "bbvi")
    method.adam = AsPrinted(1.0)
    with np.errstate(all="ignore"), pytest.raises(FlyrunError, match=r"not finite; try a smaller") as caught:
        method.advance(method.init(0), 200)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("covariance", ["mean_field", "full_rank"])
def test_whitened_it_begins_at_laplaces_approximation(tmp_path, covariance):
    method = _method(tmp_path, "advi", "sampler.whiten=true", f"sampler.covariance={covariance}")
    laplace = _method(tmp_path, "laplace")
    exact, found = laplace.result({}), method.result(method.init(0))
    np.testing.assert_allclose(found["mean"], exact["mean"], rtol=1e-12)
    np.testing.assert_allclose(found["covariance"], exact["covariance"], rtol=1e-10)
    assert method.facts().setup_queries == laplace.facts().setup_queries > 60
    assert method.parts[0].size


@pytest.mark.thorough
def test_the_bound_in_the_records_is_the_bound(tmp_path):
    """Of both, by all rows: E log p̃ − log q by draws at the same Gaussian, in other coordinates too."""
    expected = {}
    for whiten in ("false", "true"):
        method = _method(tmp_path, "advi", f"sampler.whiten={whiten}", "sampler.batch=null")
        state = method.init(0)
        mean, root = method.gaussian(state["at"])
        theta = mean + np.random.default_rng(1).standard_normal((2_000, len(mean))) @ root.T
        each = sum(log_densities(method.arm, method.problem, theta))
        rest = np.linalg.slogdet(root)[1] + 0.5 * len(mean) * (1 + np.log(2 * np.pi))
        expected[whiten] = each.mean() + rest
        rng = np.random.default_rng(2)
        bounds = [method.gradient(state["at"], None, rng)[1] for _ in range(2_000)]
        assert abs(np.mean(bounds) - expected[whiten]) < 5 * each.std() / np.sqrt(1_000)
    assert abs(expected["true"] - expected["false"]) > 0.5
    method = _method(tmp_path, "bbvi", "sampler.draws=1000")
    bounds = [method.gradient(method.first(), None, np.random.default_rng(k))[1] for k in range(4)]
    assert abs(np.mean(bounds) - expected["false"]) < 0.5


def test_batches_are_unbiased_for_all_rows(tmp_path):
    """Slopes and values of an epoch's batches, on average those of all rows at the same θ."""
    theta = np.array([[0.3, -0.4, 0.2], [1.0, 0.0, -1.0]])
    advi, bbvi = _method(tmp_path, "advi", "sampler.batch=7"), _method(tmp_path, "bbvi", "sampler.batch=7")
    rng = np.random.default_rng(0)
    parts = [advi.batches.rows(k, rng, 3) for k in range(advi.batches.in_epoch)]
    looks = [advi.log_posterior(theta, rows) for rows in parts]
    for found, exact in zip(zip(*looks, strict=True), advi.log_posterior(theta, None), strict=True):
        np.testing.assert_allclose(np.mean(found, axis=0), exact, rtol=1e-10)
    values = np.mean([bbvi.log_likelihoods(theta, rows) for rows in parts], axis=0)
    np.testing.assert_allclose(values, bbvi.log_likelihoods(theta, None), rtol=1e-10)
    bbvi.batches.kind = "replacement"  # whose factor is 60/7, not 9
    broken = np.mean([bbvi.log_likelihoods(theta, rows) for rows in parts], axis=0)
    assert np.abs(broken / bbvi.log_likelihoods(theta, None) - 1).min() > 0.01


@pytest.mark.parametrize("prior", ["gaussian", "laplace"])
def test_any_prior_is_a_sum_over_coordinates(tmp_path, prior):
    words = [*LOGISTIC, f"prior={prior}", "prior.scale=0.7"]
    method = _method(tmp_path, "bbvi", words=words)
    theta = np.random.default_rng(0).standard_normal((5, 3))
    by_coordinate = method.log_prior_by_coordinate(theta)
    np.testing.assert_allclose(by_coordinate.sum(axis=1), log_priors(method.problem.prior, theta), rtol=1e-12)
    assert np.isfinite(_end(method, 20)["covariance"]).all()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("sampler", ["advi", "bbvi"])
def test_costs(tmp_path, sampler):
    words = (sampler, "sampler.draws=4")
    method = _method(tmp_path, *words, "sampler.batch=7", words=MIXTURE)
    _, records = method.advance(method.init(0), 7)
    assert records["visits"].tolist() == [6, 7, 7, 6, 7, 7, 6]
    assert records["queries"].tolist() == (4 * records["visits"]).tolist()
    whole = _method(tmp_path, *words, "sampler.batch=null", words=MIXTURE)
    _, records = whole.advance(whole.init(0), 2)
    assert records["visits"].tolist() == [40, 40]
    assert records["queries"].tolist() == [160, 160]
    facts = method.facts()
    assert (facts.exact, facts.setup_queries) == (False, 0)
    assert method.estimates(method.init(0))["density"].shape[0] == 3


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    "words",
    [
        ("advi", "sampler.batch=7"),
        ("advi", "sampler.batch=7", "sampler.batches=replacement", "sampler.covariance=full_rank"),
        ("bbvi",),
        ("bbvi", "sampler.batch=7", "sampler.baseline=none"),
    ],
)
def test_cuts_do_not_matter(tmp_path, words):
    method = _method(tmp_path, *words)
    same_bits(method, (1, 4, 8))
    ends = [method.advance(method.init(seed), 3)[0]["at"] for seed in (0, 1)]
    assert not np.array_equal(*ends)


@pytest.mark.parametrize(
    ("words", "more", "text"),
    [
        (("bbvi", "sampler.draws=1"), "gaussian", r"sampler\.draws=1: .*take 2 or more"),
        (("bbvi", "sampler.batch=61"), "gaussian", r"sampler\.batch=61: the data have 60 rows"),
        (("advi", "sampler.batch=9"), "laplace", "prior=laplace is none; choose prior=gaussian"),
    ],
)
def test_bad_input_is_one_line(tmp_path, words, more, text):
    with pytest.raises(ConfigError, match=text) as caught:
        _method(tmp_path, *words, words=[*LOGISTIC, f"prior={more}"])
    assert "\n" not in str(caught.value)


def test_scores_without_a_baseline_need_one_draw(tmp_path):
    method = _method(tmp_path, "bbvi", "sampler.draws=1", "sampler.baseline=rao_blackwell")
    assert isinstance(method, Bbvi)
    assert np.isfinite(_end(method, 5)["mean"]).all()


def test_a_covariance_that_is_none_is_one_line(tmp_path, monkeypatch):
    method = method_of(tmp_path, "sampler=advi", "sampler.covariance=full_rank")
    monkeypatch.setattr(method, "answer", lambda state: Gaussian(np.zeros(3), -np.eye(3)))
    with pytest.raises(FlyrunError, match=r"not positive definite; try a smaller sampler\.rate") as told:
        method.estimates(method.init(0))
    assert "\n" not in str(told.value)
