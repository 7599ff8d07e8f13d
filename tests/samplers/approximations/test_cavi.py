"""Numbers in clutter and a mixture: what expectation propagation, mean field and assumed-density filtering
make of them, against quadrature.
"""

import numpy as np
import pytest

from flyrun.experiments.gold import by_coordinate
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models import clutter
from flyrun.experiments.models.factors import Factors, Gaussians, tilted
from flyrun.experiments.models.problem import bind
from flyrun.experiments.samplers.approximations import serial
from flyrun.experiments.samplers.approximations.ep import matching
from flyrun.experiments.samplers.approximations.jaakkola_jordan import Cavi, Labels
from flyrun.experiments.samplers.approximations.sites import Sites, Update
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError

CLUTTER = ["dataset=clutter", "model=clutter", "prior=gaussian", "prior.scale=10"]
MIXTURE = ["dataset=mixture", "dataset.n_data=300", "model=mixture", "prior=gaussian", "prior.scale=3"]
NARROW = ("sampler=cavi", "sampler.start=prior", "sampler.variance=1")
ADF = ("sampler=ep", "sampler.start=prior", "sampler.schedule=serial")


class Against:
    """Methods on sets of numbers, held against quadrature."""

    def __init__(self, folder, n_data, n_sets=8):
        self.folder = folder
        self.words = [*CLUTTER, f"dataset.n_data={n_data}", f"dataset.n_sets={n_sets}"]
        arm = arm_of(self.words)
        self.exact = by_coordinate.moments(arm, bind(arm, folder, needs_map=False))
        self.sd = np.sqrt(self.exact.variance)

    def method(self, *more):
        """Ready to run."""
        return prepare(arm_of(self.words, more), self.folder)

    def _evidence(self, method, state):
        told = method.estimates(state)
        return told.get("log_evidence", told.get("evidence_bound", np.nan))

    def off(self, *more, n, seed=0):
        """After n passes: |error of the mean| in sds, ratio of sds, by set; error of the log evidence."""
        method = self.method(*more)
        state, _ = method.advance(method.init(seed), n)
        found = method.result(state)
        ratio = np.sqrt(np.diag(found["covariance"])) / self.sd
        evidence = self._evidence(method, state) - self.exact.log_z
        return np.abs(found["mean"] - self.exact.mean) / self.sd, ratio, evidence


@pytest.fixture(scope="module", params=[20, 50, 200])
def against(request, tmp_path_factory):
    return Against(tmp_path_factory.mktemp("setup"), request.param)


@pytest.fixture(scope="module")
def fifty(tmp_path_factory):
    return Against(tmp_path_factory.mktemp("setup"), 50)


# --- expectation propagation


@pytest.mark.parametrize("variance", [0.05, 0.3, 3.0])
def test_tilted_moments_are_minkas(variance):
    """Closed form of N(θ; m, v)·L(θ): variances of either side of where the quadrature moves to the top."""
    y, mean = np.linspace(-6.0, 6.0, 25), np.linspace(3.0, -1.0, 25)
    model, _ = clutter.bind(np.ones((25, 1)), y)
    cavity = Gaussians(mean[:, None], np.full((25, 1, 1), variance))
    found = tilted(Factors(clutter, model), cavity, 64)
    away = y - mean
    own = -0.5 * (away**2 / (variance + 1) + np.log(2 * np.pi * (variance + 1))) + np.log(0.5)
    log_z = np.logaddexp(own, model.log_clutter)
    share = np.exp(own - log_z)
    moved = mean + variance * share * away / (variance + 1)
    known = variance - share * variance**2 / (variance + 1)
    spread = share * (1 - share) * (variance * away / (variance + 1)) ** 2
    np.testing.assert_allclose(found.log_z, log_z, atol=1e-9)
    np.testing.assert_allclose(found.mean[:, 0], moved, atol=1e-9)
    np.testing.assert_allclose(found.variance[:, 0, 0], known + spread, atol=1e-9)
    # the site times the cavity has them
    site = matching(cavity, found)
    precision = 1 / variance + site.precision[:, 0, 0]
    np.testing.assert_allclose(1 / precision, known + spread, atol=1e-9)
    np.testing.assert_allclose((mean / variance + site.linear[:, 0]) / precision, moved, atol=1e-9)
    assert spread.max() > 1e-4  # negative control: without this term they would not


@pytest.mark.thorough(but=1)
def test_ep_has_means_spreads_and_evidence(against):
    off, ratio, evidence = against.off("sampler=ep", n=8)
    assert np.median(off) < 0.01
    assert np.median(ratio) == pytest.approx(1.0, abs=0.01)
    if "dataset.n_data=20" not in against.words:  # of which some sets have two modes
        assert off.max() < 0.01
        assert abs(evidence) < 0.02
    laplace = against.method("sampler=laplace").result({})
    assert np.median(np.abs(laplace["mean"] - against.exact.mean) / against.sd) > 3 * np.median(off)


class InOrder:
    """A generator whose order of rows is by a number of theirs."""

    def __init__(self, by):
        self.by = by

    def permutation(self, n):
        """Least first."""
        return np.argsort(self.by, kind="stable")


@pytest.mark.thorough
def test_one_serial_pass_depends_on_the_order_and_sorted_is_worst(fifty, monkeypatch):
    drawn = [fifty.off(*ADF, n=1, seed=seed)[0] for seed in (0, 1)]
    assert np.abs(drawn[0] - drawn[1]).max() > 0.02
    later = fifty.off(*ADF, n=5)[0]
    assert later.max() < 0.01 < np.median(drawn[0])
    target = fifty.method(*ADF).problem.model.target
    monkeypatch.setattr(serial, "generator", lambda state: InOrder(target))
    monkeypatch.setattr(serial, "generator_state", lambda rng: np.zeros(1))
    assert np.median(fifty.off(*ADF, n=1)[0]) > 1.5 * np.median(np.concatenate(drawn))


@pytest.mark.thorough
def test_a_serial_pass_tells_nothing_that_is_no_number(fifty):
    _, records = (method := fifty.method(*ADF)).advance(method.init(0), 2)
    assert all(np.isfinite(values).all() for values in records.values())
    assert records["visits"].tolist() == [400, 400]


# --- mean field with labels


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("n_data", [20, 50])
def test_mean_field_is_too_narrow_and_a_start_as_wide_as_the_prior_is_lost(tmp_path, n_data):
    against = Against(tmp_path, n_data, n_sets=32)  # θ has a coordinate for each: a pass takes their cube
    off, ratio, evidence = against.off(*NARROW, n=60)
    assert np.median(off) < 0.06
    assert 0.70 < np.median(ratio) < 0.76
    assert evidence / 32 < -0.1
    lost, wide, _ = against.off("sampler=cavi", "sampler.start=prior", n=60)
    assert np.median(lost) > 3
    assert np.median(wide) > 10


def test_it_ends_where_it_does_from_the_mode(fifty):
    there, again = (fifty.off(*more, n=150) for more in (NARROW, ("sampler=cavi",)))
    for have, wanted in zip(there, again, strict=True):
        np.testing.assert_allclose(have, wanted, rtol=1e-8)


class Half(Labels):
    """Broken: sites of half the weight."""

    def of_rows(self, factors, at, old):
        found = super().of_rows(factors, at, old)
        return Update(Sites(0.5 * found.sites.precision, found.sites.linear), *found[1:])


@pytest.mark.parametrize("words", [CLUTTER, MIXTURE])
def test_the_bound_rises_and_is_charged(tmp_path, words):
    method = prepare(arm_of(words, ("sampler=cavi", "sampler.start=prior")), tmp_path)
    state = method.init(0)
    at = 1.0 + np.arange(len(state["mean"]))  # off the symmetry of the mixture
    state = {**state, "mean": at, "precision": np.eye(len(at))}
    _, records = method.advance(state, 40)
    rises = np.diff(records["evidence"])
    assert rises.min() > -1e-8 * abs(records["evidence"][-1])
    assert rises[0] > 1e-3
    assert set(records["queries"]) == set(records["visits"]) == {float(method.n_data)}
    broken = Cavi(method.arm, method.problem, "", Half())
    assert np.diff(broken.advance(state, 40)[1]["evidence"]).min() < -1e-3


def test_cuts_do_not_matter(fifty):
    method = fifty.method(*NARROW, "sampler.damping=0.7")
    whole, _ = method.advance(method.init(0), 9)
    state = method.init(0)
    for n in (1, 5, 3):
        state, _ = method.advance(state, n)
    for name in whole:
        np.testing.assert_array_equal(state[name], whole[name])


def test_a_model_without_labels_is_refused(tmp_path):
    words = ["dataset=toy_2d", "model=logistic", "prior=gaussian"]
    with pytest.raises(ConfigError, match="choose model=mixture or model=clutter"):
        prepare(arm_of(words, ("sampler=cavi",)), tmp_path)


# --- stochastic variational inference of the mixture


def _step(method, state, rate=1.0):
    """One step of coordinate ascent, or a share of it, by hand."""
    rows = method.batches.rows(int(state["step"][0]), None, int(state["key"][0]))
    found = method.of_batch(state["precision"], state["linear"], rows)
    precision = method.prior_precision + found.precision
    return {
        **state,
        "precision": (1 - rate) * state["precision"] + rate * precision,
        "linear": (1 - rate) * state["linear"] + rate * found.linear,
        "step": state["step"] + 1,
    }


def test_all_rows_a_step_with_steps_of_one_is_coordinate_ascent(tmp_path):
    whole = ("sampler=mixture_svi", "sampler.batch=300", "sampler.decay=0")
    method = prepare(arm_of(MIXTURE, whole), tmp_path)
    start = np.array([1.0, -1.0])  # off the symmetry, where nothing moves
    state = by_hand = short = method.init(0) | {"precision": 5 * np.eye(2), "linear": 5 * start}
    for _ in range(12):
        by_hand, short = _step(method, by_hand), _step(method, short, 0.999)
    state, records = method.advance(state, 12)
    for name in ("precision", "linear"):  # bit for bit
        np.testing.assert_array_equal(state[name], by_hand[name])
    assert np.abs(state["precision"] - short["precision"]).max() > 1e-6
    assert records["queries"].tolist() == [300] * 12
    # and what the sites' loop does, whose sums are in another order
    cavi = prepare(arm_of(MIXTURE, ("sampler=cavi", "sampler.start=prior")), tmp_path)
    first = cavi.init(0) | {"precision": 5 * np.eye(2), "mean": start}
    found, svi = cavi.result(cavi.advance(first, 12)[0]), method.result(state)
    for name in ("mean", "covariance"):
        np.testing.assert_allclose(svi[name], found[name], rtol=1e-9, atol=1e-11)
