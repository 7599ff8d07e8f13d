"""Sites from batches of rows: a pass of the loop over all rows at rate 1, EP's fixed point for stochastic EP,
noise floors, averages, control variates, counts, and that cuts do not matter.
"""

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.factors import Gaussians
from flyrun.experiments.samplers.approximations.jaakkola_jordan import JaakkolaJordan
from flyrun.experiments.samplers.approximations.stochastic import Sep, averaged, size_of
from flyrun.experiments.samplers.batches import rows_of
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError, FlyrunError
from tests.samplers.particles.toys import same_bits

SMALL = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic", "prior=gaussian"]
LARGE = [*SMALL[:1], "dataset.n_data=1000", *SMALL[2:]]
STUDENT = ["dataset=two_modes", "model=student_t", "prior=gaussian"]
WHOLE = ("sampler.decay=0", "sampler.average=0")
REPLACED = "sampler.batches=replacement"
SVI, KL, SEP = "svi_jaakkola_jordan", "stochastic_kl", "sep"


def _method(tmp_path, sampler, *more, words=SMALL):
    return prepare(arm_of(words, (f"sampler={sampler}", *more)), tmp_path)


def _end(method, n, seed=0):
    return method.result(method.advance(method.init(seed), n)[0])


def _on(method, index, kind=None):
    """The same method on some rows of its data, or as another class."""
    arm, (model, features) = method.arm, rows_of(method.arm, method.problem, index)
    problem = method.problem._replace(model=model, features=features)
    if kind is None:
        return arm.sampler.build(arm, problem)
    return kind(arm, problem, method.label, method.rule, method.at_point)


def _apart(found, truth):
    """(D,) distances of the means in sds, and ratios of the sds."""
    sd = np.sqrt(np.diag(truth["covariance"]))
    return (found["mean"] - truth["mean"]) / sd, np.sqrt(np.diag(found["covariance"])) / sd


def _rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


# -- one loop ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        (SVI,),
        (SVI, "sampler.control=true", REPLACED),
        (KL, REPLACED),
        (SEP, "sampler.start=map", "sampler.control=true"),
    ],
)
def test_cuts_do_not_matter(tmp_path, words):
    method = _method(tmp_path, *words, "sampler.batch=7")
    same_bits(method, (1, 5, 9))
    ends = [method.advance(method.init(seed), 15)[0]["precision"] for seed in (3, 4)]
    assert not np.array_equal(*ends)


class Pointlike(JaakkolaJordan):
    """Broken: bounds tight at the mean, as if it were known."""

    def of_rows(self, factors, at, old):
        return super().of_rows(factors, Gaussians(at.mean, 0.0 * at.variance), old)


def test_all_rows_at_rate_one_are_a_pass_of_coordinate_ascent(tmp_path):
    svi = _method(tmp_path, SVI, "sampler.batch=60", *WHOLE)
    ascent = _method(tmp_path, "jaakkola_jordan", "sampler.start=prior")
    for n in (1, 2, 7):
        truth = _end(ascent, n)
        for name, values in _end(svi, n).items():
            np.testing.assert_allclose(values, truth[name], rtol=1e-12, atol=1e-13)
    svi.rule = Pointlike()
    assert not np.allclose(_end(svi, 2)["mean"], _end(ascent, 2)["mean"], rtol=1e-2)


def three_classes(folder):
    """A table of 90 rows with a softmax model, as words."""
    rng = np.random.default_rng(0)
    rows, noise = rng.standard_normal((90, 2)), rng.gumbel(size=(90, 3))
    target = (rows @ np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]]) + noise).argmax(axis=1)
    lines = [f"{a:.6f},{b:.6f},{'xyz'[k]}" for (a, b), k in zip(rows, target, strict=True)]
    (folder / "classes.csv").write_text("\n".join(["a,b,class", *lines]) + "\n")
    table = ["dataset=table", f"dataset.path={folder / 'classes.csv'}", "dataset.target=class"]
    return [*table, "model=softmax", "prior=gaussian"]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("kind", ["logistic", "student_t", "softmax"])
def test_all_rows_at_rate_one_are_a_pass_of_gaussian_inference(tmp_path, kind):
    words = {"logistic": SMALL, "student_t": STUDENT}.get(kind) or three_classes(tmp_path)
    start = "sampler.start=map"
    loop = _method(tmp_path, "kl_gaussian", words=words)
    batch = f"sampler.batch={len(loop.problem.features.rows)}"
    whole = _method(tmp_path, KL, batch, start, *WHOLE, words=words)
    for n in (0, 1, 3):
        truth = _end(loop, n)
        for name, values in _end(whole, n).items():
            np.testing.assert_allclose(values, truth[name], rtol=1e-9, atol=1e-12)
    less = _method(tmp_path, KL, batch, start, "sampler.average=0", words=words)
    assert not np.allclose(_end(less, 3)["covariance"], truth["covariance"], rtol=1e-9)


# -- stochastic EP -----------------------------------------------------------------------------------------


class AsPrinted(Sep):
    """Broken: the cavity as printed, the prior and all but a share 1/N of one row's site."""

    def seen_under(self, precision, linear):
        share = (1 - 1 / self.batches.n_data) / self.batches.n_data
        return self.prior_precision + share * (precision - self.prior_precision), share * linear


@pytest.mark.thorough
@pytest.mark.parametrize("copies", [1, 20])
def test_on_copies_of_a_row_it_is_expectation_propagation(tmp_path, copies):
    index = np.zeros(copies, int)
    ep = _on(_method(tmp_path, "ep", "sampler.start=prior"), index)
    sep = _method(tmp_path, SEP, f"sampler.batch={copies}", *WHOLE)
    truth = _end(ep, 80)  # which damps itself
    for name, values in _end(_on(sep, index), 80).items():
        np.testing.assert_allclose(values, truth[name], rtol=1e-9, atol=1e-12)
    printed = _end(_on(sep, index, AsPrinted), 80)
    # with one row both cavities are the prior: only more of them show the misprint
    assert np.allclose(printed["covariance"], truth["covariance"], rtol=1e-9) == (copies == 1)


@pytest.mark.thorough
def test_with_falling_rates_it_comes_close_to_expectation_propagation(tmp_path):
    method = _method(tmp_path, SEP, "sampler.batch=6")
    truth = _end(_method(tmp_path, "ep"), 10)
    off, ratio = _apart(_end(method, 1_000), truth)
    assert np.abs(off).max() < 0.05
    np.testing.assert_allclose(ratio, 1.0, atol=0.03)
    off, _ = _apart(_end(_on(method, np.arange(60), AsPrinted), 1_000), truth)
    assert np.abs(off).max() > 0.2


# -- noise -------------------------------------------------------------------------------------------------


def _noise(method, truth, n, seeds):
    return _rms([_apart(_end(method, n, seed), truth)[0] for seed in range(seeds)])


@pytest.mark.thorough
@pytest.mark.parametrize(("sampler", "seeds"), [(KL, 10), (SEP, 4)])
def test_a_constant_step_leaves_its_noise_and_an_average_one_over_root_passes(tmp_path, sampler, seeds):
    """√(ρN/2b), and 1/√p after p passes: with replacement, as epochs without it do better."""
    truth = _end(_method(tmp_path, "kl_gaussian", words=LARGE), 6)
    same = ("sampler.batch=50", "sampler.start=map", "sampler.decay=0", REPLACED)

    def error(passes, *more):
        return _noise(_method(tmp_path, sampler, *same, *more, words=LARGE), truth, 20 * passes, seeds)

    for rate in (0.2, 0.05):
        floor = np.sqrt(0.5 * rate * 20)
        assert floor / 1.6 < error(6, f"sampler.rate={rate}", "sampler.average=0") < 1.6 * floor
    for passes in (3, 12):
        found = error(passes, "sampler.rate=0.2", "sampler.average=1")
        assert 1 / 1.6 < found * np.sqrt(passes) < 1.6
    assert error(12, "sampler.rate=0.2", "sampler.average=0") * np.sqrt(12) > 1.6


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("sampler", "loop"), [(KL, "kl_gaussian"), (SEP, "ep"), (SVI, "jaakkola_jordan")])
def test_control_variates_take_the_noise_away(tmp_path, sampler, loop):
    truth = _end(_method(tmp_path, loop, words=LARGE), 30)
    same = ("sampler.batch=50", "sampler.start=map", "sampler.average=0.5", REPLACED)

    def error(control):
        return _noise(_method(tmp_path, sampler, *same, control, words=LARGE), truth, 20, 4)

    assert error("sampler.control=true") < 0.03
    assert error("sampler.control=false") > 0.3


def test_an_average_weighs_the_last_share():
    values = np.random.default_rng(0).standard_normal((30, 2))
    for share, power in ((1.0, 0), (0.5, 1), (0.25, 3)):
        mean = np.zeros(2)
        for t, value in enumerate(values, 1):
            mean = averaged(mean, value, t, share)
        weight = np.array([np.prod([t - j for j in range(1, power + 1)]) for t in range(1, 31)], float)
        np.testing.assert_allclose(mean, weight @ values / weight.sum())


def test_step_sizes(tmp_path):
    method = _method(tmp_path, SEP, "sampler.batch=6", "sampler.rate=null", "sampler.decay=0")
    assert size_of(method.arm.sampler, method.batches, 7) == 0.1
    method = _method(tmp_path, SEP, "sampler.batch=6", "sampler.rate=0.5", "sampler.delay=2")
    assert size_of(method.arm.sampler, method.batches, 6) == pytest.approx(0.5 * 8**-0.7)


# -- counts and bad input ----------------------------------------------------------------------------------


def test_what_it_costs(tmp_path):
    """b rows a step, as many queries of each as the quadrature has nodes; the MAP and a pass where used."""
    for sampler, more, each in ((SVI, (), 1), (KL, (), 5), (KL, ("sampler.points=3",), 3), (SEP, (), 5)):
        method = _method(tmp_path, sampler, "sampler.batch=25", "sampler.start=map", *more)
        _, records = method.advance(method.init(0), 4)
        assert records["visits"].tolist() == [20, 20, 20, 20]
        assert (records["queries"] >= each * records["visits"]).all()  # wide cavities are looked at again
        if sampler != SEP:
            assert (records["queries"] == each * records["visits"]).all()
        facts = method.facts()
        assert facts.setup_queries == facts.more["map_queries"] + 60
        assert facts.more["map_queries"] >= 60
        batch = "sampler.batch=25"
        assert _method(tmp_path, sampler, batch).facts().setup_queries == 0
        control = _method(tmp_path, sampler, batch, "sampler.control=true")
        assert control.facts().setup_queries == facts.setup_queries


def test_bad_input_is_one_line_whose_remedies_help(tmp_path):
    with pytest.raises(ConfigError, match="choose prior=gaussian"):
        _method(tmp_path, KL, "sampler.batch=9", words=[*SMALL[:-1], "prior=laplace"])
    wide = [*STUDENT, "prior.scale=10"]
    method = _method(tmp_path, KL, "sampler.batch=2", words=wide)
    with pytest.raises(FlyrunError, match=r"not positive definite.*larger sampler\.batch") as caught:
        _end(method, 200)
    assert "\n" not in str(caught.value)
    truth = _end(_method(tmp_path, "kl_gaussian", words=wide), 30)
    helped = (("sampler.batch=10",), ("sampler.batch=2", "sampler.control=true", "sampler.start=map"))
    for words in helped:
        off, _ = _apart(_end(_method(tmp_path, KL, *words, words=wide), 200), truth)
        assert np.abs(off).max() < 0.1
