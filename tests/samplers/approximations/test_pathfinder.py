"""Pathfinder: its algebra against dense matrices, a Gaussian posterior, costs and cuts."""

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.approximations.pathfinder import (
    Inverse,
    Pathfinder,
    diagonal_after,
    inverse_of,
)
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError, FlyrunError
from tests.samplers.particles.toys import same_bits

LOGISTIC = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic"]


def _method(tmp_path, *more, prior="gaussian"):
    return prepare(arm_of([*LOGISTIC, f"prior={prior}"], ("sampler=pathfinder", *more)), tmp_path)


def bfgs(start, steps, bends):
    """The inverse Hessian by updates one after the other."""
    inverse = start
    for step, bend in zip(steps, bends, strict=True):
        left = np.eye(len(step)) - np.outer(step, bend) / (bend @ step)
        inverse = left @ inverse @ left.T + np.outer(step, step) / (bend @ step)
    return inverse


@pytest.mark.parametrize("m", [0, 1, 3, 8])
def test_the_factors_are_the_inverse_hessians(m):
    """Of six coordinates, by fewer and by more pairs."""
    rng = np.random.default_rng(0)
    curvature = np.cov(rng.standard_normal((6, 20)))
    diagonal, steps = rng.uniform(0.5, 2, 6), rng.standard_normal((m, 6))
    bends = steps @ curvature
    found = inverse_of(diagonal, steps, bends)
    dense = bfgs(np.diag(diagonal), steps, bends)
    root = found.half(np.eye(6)).T
    np.testing.assert_allclose(root @ root.T, dense, rtol=1e-7, atol=1e-9)
    assert found.log_determinant == pytest.approx(0.5 * np.linalg.slogdet(dense)[1], abs=1e-8)
    vector = rng.standard_normal(6)
    np.testing.assert_allclose(found.half_back(vector), root.T @ vector, rtol=1e-9)
    if m > 1:
        turned = inverse_of(diagonal, steps[::-1], bends[::-1]).half(np.eye(6)).T
        assert np.abs(turned @ turned.T - dense).max() > 1e-2


def test_the_diagonal_is_that_of_the_scaled_update():
    rng = np.random.default_rng(1)
    diagonal, step, bend = rng.uniform(0.5, 2, 5), rng.standard_normal(5), rng.standard_normal(5)
    bend *= np.sign(bend @ step)
    before = np.diag(1 / diagonal)
    lost = before @ np.outer(step, step) @ before / (step @ before @ step)
    scale = bend @ (diagonal * bend) / (bend @ step)
    after = scale * (before - lost) + np.outer(bend, bend) / (bend @ step)
    np.testing.assert_allclose(diagonal_after(diagonal, step, bend), 1 / np.diag(after), rtol=1e-12)


class OfGaussian(Pathfinder):
    """The posterior is N(centre, inverse of precision) times e³; looks are counted."""

    calls = 0
    precision = np.linalg.inv(np.cov(np.random.default_rng(2).standard_normal((3, 9))))
    centre = np.array([1.0, -2.0, 0.5])
    height = 3.0 + 0.5 * np.linalg.slogdet(precision)[1] - 1.5 * np.log(2 * np.pi)

    def log_posterior(self, theta):
        self.calls += 1
        pulled = self.precision @ (theta - self.centre)
        return self.height - 0.5 * (theta - self.centre) @ pulled, -pulled

    def log_posteriors(self, theta):
        away = theta - self.centre
        return self.height - 0.5 * np.einsum("kp,pq,kq->k", away, self.precision, away)


class Round(OfGaussian):
    """Broken: of the inverse curvature it knows the diagonal only."""

    def _gaussian(self, state, known):
        return super()._gaussian(state, known | {name: known[name][:0] for name in ("steps", "bends")})


def test_it_finds_a_gaussian(tmp_path):
    plain = _method(tmp_path)
    covariance = np.linalg.inv(OfGaussian.precision)
    sd = np.sqrt(np.diag(covariance))
    off = {}
    for kind in (OfGaussian, Round):
        method = kind(plain.arm, plain.problem)
        state, _ = method.advance(method.init(0), 60)
        assert state["done"][0]
        found = method.result(state)
        np.testing.assert_allclose((found["mean"] - method.centre) / sd, 0, atol=1e-2)
        off[kind] = np.abs((found["covariance"] - covariance) / np.outer(sd, sd)).max()
        off[kind, "bound"] = abs(state["elbo"][0] - 3.0)
    assert off[OfGaussian] < 1e-2
    assert off[OfGaussian, "bound"] < 1e-2
    assert off[Round] > 0.1


def test_every_look_is_charged_and_after_the_end_none(tmp_path):
    plain = _method(tmp_path, "sampler.draws=4")
    method = OfGaussian(plain.arm, plain.problem)
    state, records = method.advance(method.init(0), 40)
    steps = int((records["queries"] > 0).sum())
    assert 3 < steps < 40
    assert records["queries"].sum() == 60 * (method.calls + 4 * steps)
    assert records["visits"].sum() == 60 * (method.calls + steps)
    after, none = method.advance(state, 2)
    assert none["queries"].tolist() == none["visits"].tolist() == [0, 0]
    assert all(np.array_equal(after[name], state[name]) for name in state)
    assert (np.diff(records["elbo"]) >= 0).all()
    assert np.isfinite(records["elbo"]).all()


def test_cuts_do_not_matter(tmp_path):
    method = _method(tmp_path)
    same_bits(method, (1, 2, 5, 30))
    ends = [method.advance(method.init(seed), 3)[0]["position"] for seed in (0, 1)]
    assert not np.array_equal(*ends)


def test_it_comes_close_to_laplaces_approximation(tmp_path):
    method = _method(tmp_path, "sampler.draws=100")
    before = method.result(method.init(0))
    found = method.result(method.advance(method.init(0), 60)[0])
    laplace = prepare(arm_of([*LOGISTIC, "prior=gaussian"], ("sampler=laplace",)), tmp_path).result({})
    sd = np.sqrt(np.diag(laplace["covariance"]))
    for one, close in ((found, True), (before, False)):
        ratio = np.sqrt(np.diag(one["covariance"])) / sd
        assert (np.abs((one["mean"] - laplace["mean"]) / sd).max() < 0.5) == close
        assert (np.abs(np.log(ratio)).max() < 0.3) == close
    facts = method.facts()
    assert (facts.exact, facts.setup_queries) == (False, 0)
    assert method.estimates(method.init(0))["square"] == pytest.approx(np.ones(3))


class Nowhere(OfGaussian):
    """A posterior without a value."""

    def log_posterior(self, theta):
        return np.nan, theta


def test_bad_input_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="prior=laplace is none; choose prior=gaussian") as caught:
        _method(tmp_path, prior="laplace")
    assert "\n" not in str(caught.value)
    plain = _method(tmp_path)
    lost = Nowhere(plain.arm, plain.problem)
    with pytest.raises(FlyrunError, match="not finite where the path begins") as caught:
        lost.advance(lost.init(0), 1)
    assert "\n" not in str(caught.value)


def test_where_rounding_spoils_the_pairs_the_oldest_go():
    """A pair of negative curvature makes the matrix indefinite; without it there is a Gaussian."""
    steps = np.array([[1.0, 0.0], [0.0, 1.0]])
    found = inverse_of(np.ones(2), steps, np.array([[-1.0, 0.0], [0.0, 2.0]]))
    assert isinstance(found, Inverse)
    root = found.half(np.eye(2)).T
    np.testing.assert_allclose(root @ root.T, np.diag([1.0, 0.5]), rtol=1e-12)
