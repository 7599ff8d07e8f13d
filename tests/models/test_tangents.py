"""Likelihoods of one function: the family they stand for, κ by search, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import nbinom

from flyrun.experiments.models import compiled_families, passes, tangents
from flyrun.experiments.models.collapse import collapse
from flyrun.extend import RowLikelihood, option
from flyrun.families import family as families
from flyrun.families.family import Family
from flyrun.fitting.priors import Priors
from flyrun.fitting.table_posterior import posterior_of
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import SCHEMAS
from flyrun.tables.dataset import Dataset
from tests.plugins.rows import registered

NAMES = ("label_noise", "softplus_counts", "known_noise")
N = 40


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, registered("flyrun_rows") as module:
        patch.setenv("FLYRUN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield module


def bound(name, n=N, **beside):
    """Code, model and features of rows whose targets are drawn."""
    rng = np.random.default_rng(1)
    rows = np.c_[rng.standard_normal(n), np.ones(n)]
    trials = rng.uniform(0.05, 2.0, n)
    y = families.family(name).draw(rng, trials, (rows @ [1.5, 0.5],))
    code = tangents.of(name)
    return code, *code.bind(
        rows, np.where(y > 0, 1.0, -1.0) if name == "label_noise" else y, trials=trials, **beside
    )


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_the_function(name):
    code, model, _ = bound(name, weights=np.arange(1.0, N + 1))
    eta, step = np.random.default_rng(2).normal(0.0, 3.0, (N, 1)), 1e-5
    below, here, above = (passes.values_and_slopes(model, eta + side * step) for side in (-1, 0, 1))
    np.testing.assert_allclose(here[1][:, 0], (above[0] - below[0]) / (2 * step), rtol=1e-6, atol=1e-6)
    bent = (below[1] - above[1])[:, 0] / (2 * step)
    np.testing.assert_allclose(code.curvature(model, eta)[:, 0, 0], bent, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_jax_has_the_same_functions(name):
    pytest.importorskip("jax")
    rng = np.random.default_rng(3)
    y, trials = rng.integers(0, 2, N) * 1.0, rng.uniform(0.1, 2.0, N)
    eta = (np.append(rng.normal(0.0, 5.0, N - 2), [-400.0, 400.0]),)
    with registered("flyrun_jax_rows"):
        ours, jax = families.family(name), families.family(f"jax_{name}")
    np.testing.assert_allclose(jax.log_density(y, trials, eta), ours.log_density(y, trials, eta), atol=1e-12)
    for one, other in zip(jax.derivatives(y, trials, eta), ours.derivatives(y, trials, eta), strict=True):
        np.testing.assert_allclose(np.squeeze(one), np.squeeze(other), rtol=1e-10, atol=1e-12)


def test_jax_derives_by_what_is_sampled_too():
    pytest.importorskip("jax")
    rng = np.random.default_rng(4)
    y, p = rng.integers(0, 9, N) * 1.0, (rng.normal(size=N), rng.normal(size=N))
    with registered("flyrun_jax_rows"):
        jax, ours = families.family("jax_dispersed_counts"), families.family("negative_binomial")
        assert SCHEMAS["model"]["jax_dispersed_counts"].auxiliary
        assert not SCHEMAS["model"]["jax_dispersed_counts"].bounds
        code = compiled_families.of("jax_dispersed_counts")
        model, _ = code.bind(np.ones((N, 1)), y)
        compiled = passes.values_and_slopes(model, np.column_stack(p))
    np.testing.assert_allclose(compiled[0], jax.log_density(y, 1.0, p), rtol=1e-12, atol=1e-12)
    phi = np.exp(p[1])
    known = nbinom.logpmf(y, phi, phi / (phi + np.exp(p[0])))
    np.testing.assert_allclose(
        jax.log_density(y, 1.0, p) + ours.constant(y, 1.0), known, rtol=1e-9, atol=1e-9
    )
    slopes, curvatures = jax.derivatives(y, 1.0, p)
    wanted = ours.derivatives(y, 1.0, p)
    alone = ours.alone_derivatives(y, 1.0, p[1:])
    np.testing.assert_allclose(slopes[1], wanted[0][1] + alone[0][0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(curvatures[1][1], wanted[1][1][1] + alone[1][0][0], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(curvatures[0][1], wanted[1][0][1], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(jax.read(np.array([[0.3]])), np.exp([[0.3]]))


@pytest.mark.parametrize("name", NAMES)
def test_kappa_is_the_largest_curvature_and_hardly_more(name):
    code, model, _ = bound(name)
    kappa = code.largest_curvature(model)
    y, trials = model.numbers[:, :2].T[..., None]
    grid = np.concatenate(
        [y + trials * np.linspace(-4, 4, 80_001), np.linspace(-40, 40, 80_001) + 0.0 * y], axis=1
    )
    most = families.family(name).derivatives(y, trials, (grid,))[1][0][0].max(axis=1)
    assert (kappa >= most).all()
    assert (kappa <= most * (1.0 + 1.5 * tangents.ROOM)).all()


def test_kappa_of_student_t_noise_is_the_one_by_hand():
    scale = np.array([1e-5, 0.3, 1.0, 40.0])
    kappa, at, _ = tangents.largest(families.family("known_noise"), np.array([0.0, 1.7, -300.0, 5.0]), scale)
    np.testing.assert_allclose(kappa, 1.25 / scale**2, rtol=2 * tangents.ROOM)
    np.testing.assert_allclose(at, [0.0, 1.7, -300.0, 5.0], atol=1e-2 * scale.max())


def test_kappa_is_kept_and_read_again(cache, monkeypatch):
    code, model, _ = bound("softplus_counts")
    first = code.largest_curvature(model)
    tangents._known.cache_clear()
    monkeypatch.setattr(tangents, "largest", None)  # what would search
    np.testing.assert_array_equal(code.largest_curvature(model), first)


def of_one(log_density, slope, curvature):
    """A family of one function."""
    return Family(
        "mine", "", None, "identity", lambda y, trials, p: log_density(p[0] - y),
        lambda y, trials, p: ((slope(p[0] - y),), ((curvature(p[0] - y),),)), None, None,
    )  # fmt: skip


REFUSED = {
    "grows without end": (lambda r: -(r**4), lambda r: -4 * r**3, lambda r: 12 * r * r),
    "grows without": (lambda r: -np.exp(r), lambda r: -np.exp(r), lambda r: np.exp(r)),
    "or has no end": (lambda r: -abs(r), lambda r: -np.sign(r), lambda r: 0.0 * r),
    "is not what the slope falls by": (lambda r: -r * r, lambda r: -2 * r, lambda r: 1.9 + 0.0 * r),
    "is no number": (lambda r: -r * r, lambda r: -2 * r, lambda r: np.where(r < -300, np.nan, 2.0)),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_curvature_without_bound_is_refused_in_a_line(why):
    with pytest.raises(ConfigError, match=why) as error:
        tangents.largest(of_one(*REFUSED[why]), np.array([0.3, 2.0]), np.ones(2))
    assert "choose bound=none" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_curvature_that_jumps_has_a_bound():
    """Huber's: the slope has no jump."""
    huber = of_one(
        lambda r: -np.where(abs(r) < 1, 0.5 * r * r, abs(r) - 0.5),
        lambda r: -np.clip(r, -1, 1),
        lambda r: np.where(abs(r) < 1, 1.0, 0.0),
    )
    kappa, *_ = tangents.largest(huber, np.array([0.3, 2.0]), np.ones(2))
    np.testing.assert_allclose(kappa, 1.0, rtol=2 * tangents.ROOM)


@pytest.mark.parametrize("name", NAMES)
def test_parabolas_lie_below_and_touch(name):
    rng = np.random.default_rng(5)
    offset, weights = rng.normal(size=N), rng.integers(1, 4, N) * 1.0
    code, model, features = bound(name, offset=offset, weights=weights)
    at = rng.normal(0.0, 2.0, (N, 1))
    for made in (code.map_bound(model, at), code.untuned_bound(model, features, 1.5)):
        touching = made.parabola[:, :1]
        assert (below(made, model, touching) == 0.0).all()
        for far in np.exp(rng.uniform(-4, 6, (200, N, 1))) * rng.choice([-1.0, 1.0], (200, N, 1)):
            assert (below(made, model, touching + far) > -1e-12 * far[:, 0] ** 2).all()
    theta = rng.normal(size=(5, 2))
    product = collapse(made, model, features)
    for one in theta:
        eta = features.rows @ one[:, None]
        away = one - product.centre
        total = product.constant[0] + away @ product.linear - 0.5 * away @ product.precision @ away
        log_b = passes.values_and_slopes(model, eta)[0] - below(made, model, eta)
        assert total == pytest.approx(log_b.sum(), rel=1e-12)


def below(made, model, eta):
    """log L − log B, (N,), at predictors (N, 1)."""
    at, height, slope, kappa = made.parabola.T
    away = eta[:, 0] - at
    return passes.values_and_slopes(model, np.ascontiguousarray(eta))[0] - (
        height + slope * away - 0.5 * kappa * away**2
    )


@pytest.mark.parametrize("name", NAMES)
def test_local_parabolas_lie_below_within_reach_and_are_nearly_as_flat_as_can_be(name):
    rng = np.random.default_rng(6)
    code, model, _ = bound(name, weights=rng.integers(1, 4, N) * 1.0)
    at = rng.normal(0.0, 2.0, (N, 1))
    near = rng.uniform(0.02, 0.3, N) * np.minimum(model.numbers[:, 1], 1.0)
    for reach in (np.full(N, 1e-4), near, rng.uniform(0.3, 3.0, N), np.full(N, 30.0)):
        made = code.map_bound(model, at)
        bent = code.local_curvature(model, at, reach)
        assert (bent <= made.parabola[:, 3]).all()
        made.parabola[:, 3] = bent
        steps = np.linspace(-1.0, 1.0, 2001)[:, None, None] * reach[:, None]
        gaps = np.array([below(made, model, at + step) for step in steps])
        room = 1e-13 * (1.0 + np.abs(made.parabola[:, 1]))
        assert (gaps > -room).all()
        flatter = made._replace(parabola=made.parabola * [1, 1, 1, 0.5])
        if reach is near:
            worst = np.array([below(flatter, model, at + step) for step in steps]).min(axis=0)
            assert (worst < -room)[bent * reach**2 > 1e-3].all()
    none = code.local_curvature(model, at, np.zeros(N))
    np.testing.assert_allclose(none, code.curvature(model, at)[:, 0, 0], rtol=1e-12)


def test_what_is_written_otherwise_is_refused_in_a_line():
    pytest.importorskip("jax")
    import jax

    functions = {
        "scan of JAX": lambda eta, y: jax.lax.fori_loop(0, 3, lambda i, v: v - eta**2, y),
        "makes an array": lambda eta, y: -jax.numpy.sum(jax.numpy.array([eta, y]) ** 2),
        "cannot be traced by JAX: TracerBoolConversionError": lambda eta, y: eta if eta > y else y,
    }
    for why, function in functions.items():
        made = type("Made", (RowLikelihood,), {"task": "binary", "log_likelihood": staticmethod(function)})
        with registered("flyrun_rows"), pytest.raises(ConfigError, match=why) as error:
            option("model", "made")(made).family()
        assert "\n" not in str(error.value)


def test_half_of_what_is_needed_is_refused_in_a_line(monkeypatch):
    common = {"task": "binary", "log_likelihood": staticmethod(lambda eta, y: eta)}
    cases = {
        "lacks curvature": {"slope": staticmethod(lambda eta, y: 1.0)},
        'link = "own" needs mean': {
            "link": "own", "slope": common["log_likelihood"], "curvature": common["log_likelihood"],
        },
    }  # fmt: skip
    for why, more in cases.items():
        with registered("flyrun_rows"), pytest.raises(ConfigError, match=why):
            option("model", "made")(type("Made", (RowLikelihood,), {**common, **more})).family()
    monkeypatch.setitem(__import__("sys").modules, "jax", None)
    with registered("flyrun_rows"), pytest.raises(ConfigError, match=r"pip install 'flyrun\[jax\]'"):
        option("model", "made")(type("Made", (RowLikelihood,), common)).family()


def test_the_texts_example_is_a_likelihood():
    pytest.importorskip("jax")
    text = (Path(__file__).parents[2] / "docs/extending.md").read_text(encoding="utf-8")
    (block,) = (one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "RowLikelihood" in one)
    with registered("flyrun_rows"):
        exec(block, {"__name__": __name__})
        flipped, ours = (families.family(name) for name in ("flipped", "label_noise"))
    y, eta = np.array([0.0, 1.0, 1.0]), (np.array([-2.0, 0.3, 4.0]),)
    np.testing.assert_allclose(flipped.log_density(y, 1.0, eta), ours.log_density(y, 1.0, eta))


def test_rows_that_hold_their_labels_are_parted_from_them():
    """A label's likelihood need not be the other's mirrored, as a mapped table's folded rows have it."""
    rng = np.random.default_rng(7)
    x, t = np.c_[rng.normal(size=20), np.ones(20)], np.where(rng.random(20) < 0.5, 1.0, -1.0)
    others = x[:0], t[:0], ("x", "bias"), ""
    family, prior = families.family("label_noise"), Priors(np.zeros(2), np.ones(2), [])
    posteriors = [
        posterior_of(Dataset("d", rows, t, *others, offset=x[:, 0] ** 2, folded=folded), family, prior)
        for rows, folded in ((x, False), (t[:, None] * x, True))
    ]
    theta = rng.normal(size=(3, 2))
    first, second = (posterior.log_density(theta) for posterior in posteriors)
    np.testing.assert_allclose(first, second, rtol=1e-12)


def test_an_author_may_say_kappa():
    with registered("flyrun_rows") as module:
        said = type(
            "Said", (module.LabelNoise,), {"largest_curvature": staticmethod(lambda y: np.full(len(y), 0.3))}
        )
        option("model", "said")(said)
        code = tangents.of("said")
        model, _ = code.bind(np.ones((3, 1)), np.array([1.0, -1.0, 1.0]), weights=np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(code.largest_curvature(model), [0.3, 0.6, 0.9])
