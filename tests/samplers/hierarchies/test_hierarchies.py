"""Global and local variables: closed forms, slopes of the bound, who ends where; each with a broken twin."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm, poisson

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.gaussian_mixture import GaussianMixture
from flyrun.experiments.models.hierarchy import Local, free_energy
from flyrun.experiments.models.poisson_means import PoissonMeans
from flyrun.experiments.samplers.hierarchies.hierarchical_ep import HierarchicalEp
from flyrun.experiments.samplers.hierarchies.streaming_vi import StreamingVi
from flyrun.experiments.samplers.hierarchies.svi import Svi
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import build

MEANS = ("dataset=gaussian_toy", "dataset.n_data=40", "model=normal_means")
BLOBS = ("dataset=breast_cancer", "model=gaussian_mixture", "model.scale=0.5", "model.spread=2")
ASCENT = ("sampler=svi", "sampler.batch=null", "sampler.decay=0")


def method_of(tmp_path, *words):
    return prepare(arm_of([], words), tmp_path)


def after(method, steps, seed=0):
    return method.advance(method.init(seed), steps)[0]


def small_mixture(tmp_path, n_components):
    rows = np.random.default_rng(0).normal(size=(30, 2)) * [1.0, 0.5]
    options = build(
        "model", {"name": "gaussian_mixture", "n_components": n_components, "scale": 0.5, "spread": 2.0}
    )
    return Svi(arm_of([], (*MEANS, *ASCENT)), GaussianMixture(options, rows, rows[:0]))


def test_one_component_is_exact(tmp_path):
    method = small_mixture(tmp_path, 1)
    rows = method.model.rows
    covariance = 0.25 * np.eye(30) + 4.0
    evidence = sum(multivariate_normal(np.zeros(30), covariance).logpdf(column) for column in rows.T)
    ended = after(method, 1)["natural"]
    assert free_energy(method.model, ended) == pytest.approx(-evidence, rel=1e-12)
    assert free_energy(method.model, 0.5 * ended) > -evidence + 0.01


def slopes(model, natural):
    """Of the free energy, by differences."""
    steps = np.diag(1e-5 * (1 + np.abs(natural)))
    differences = [free_energy(model, natural + d) - free_energy(model, natural - d) for d in steps]
    return np.abs(np.array(differences) / 2e-5)


@pytest.mark.parametrize("which", ["mixture", "means"])
def test_coordinate_ascent_ends_where_the_bound_is_level(tmp_path, which):
    """So statistics, bound and divergence belong together; a few steps before it is not level."""
    method = small_mixture(tmp_path, 3) if which == "mixture" else method_of(tmp_path, *MEANS, *ASCENT)
    assert slopes(method.model, after(method, 400)["natural"]).max() < 1e-4
    assert slopes(method.model, after(method, 2)["natural"]).max() > 1e-3


def test_the_bound_of_normal_means_is_off_by_the_divergence_of_the_joint(tmp_path):
    method = method_of(tmp_path, *MEANS, *ASCENT)
    model = method.model
    target = model.target = model.target[:3]
    model.n_data, natural = 3, np.array([5.0, 1.0])
    between, noise, spread = 0.36, 0.64, 100.0
    precision = np.diag([1 / spread + 3 / between, *[1 / between + 1 / noise] * 3])
    precision[0, 1:] = precision[1:, 0] = -1 / between
    covariance = np.linalg.inv(precision)
    mean = covariance @ np.concatenate([[0.0], target / noise])
    z, width = model.given(np.array(0.2), np.arange(3))
    own, apart = np.array([0.2, *width * np.ones(3)]), mean - np.array([0.2, *z])
    log_ratio = -np.linalg.slogdet(precision)[1] - np.log(own).sum()
    divergence = 0.5 * (np.diag(precision) @ own + apart @ precision @ apart - 4 + log_ratio)
    evidence = multivariate_normal(np.zeros(3), (between + noise) * np.eye(3) + spread).logpdf(target)
    assert free_energy(model, natural) + evidence == pytest.approx(divergence, rel=1e-10)


def test_mean_field_has_the_mean_and_is_too_narrow(tmp_path):
    for words, steps in ((ASCENT, 60), (("sampler=memoized_vi", "sampler.batch=7"), 200)):
        method = method_of(tmp_path, *MEANS, *words)
        found = method.estimates(after(method, steps))
        assert found["mean_off"] < 1e-8
        assert found["sd_ratio"] == pytest.approx(1 / np.sqrt(1 + 0.64 / 0.36), rel=1e-3)  # the prior's part


def test_the_excess_free_energy_is_above_the_best_and_no_other(tmp_path):
    method = method_of(tmp_path, *MEANS, *ASCENT)
    state = after(method, 200)
    assert method.estimates(state)["excess_free_energy"] == pytest.approx(0, abs=1e-12)
    best, energy = state["natural"], free_energy(method.model, state["natural"])
    assert method.model.least_free_energy == pytest.approx(energy, rel=1e-12)
    for off in ([1.01, 1.0], [1.0, 1.01], [0.9, 0.95]):
        found = method.estimates(state | {"natural": best * off})
        wanted = free_energy(method.model, best * off) - energy
        assert found["excess_free_energy"] * method.model.n_data == pytest.approx(wanted, rel=1e-6)
        assert wanted > 0
    other = method_of(tmp_path, *BLOBS, *ASCENT)
    assert "excess_free_energy" not in other.estimates(after(other, 1)), "of a mixture the least is not known"


def test_memoized_bounds_never_fall_after_a_pass(tmp_path):
    """Those of stochastic steps do: the negative control."""
    words = (*BLOBS, "model.n_components=4", "sampler.batch=60")
    rises = {}
    for name in ("memoized_vi", "svi"):
        method = method_of(tmp_path, *words, f"sampler={name}")
        state, energies = after(method, 10), []
        for _ in range(20):
            state, _ = method.advance(state, 1)
            energies.append(free_energy(method.model, state["natural"]))
        rises[name] = np.diff(energies).max()
    assert rises["memoized_vi"] < 1e-8 < 1e-2 < rises["svi"]


@pytest.mark.thorough
def test_a_stream_of_conjugate_batches_is_exact_however_stale(tmp_path, monkeypatch):
    words = (*MEANS, "sampler=streaming_vi", "sampler.batch=9", "sampler.inner=2")
    for stale in (0, 2):
        method = method_of(tmp_path, *words, f"sampler.stale={stale}")
        sites = method.model.sites
        monkeypatch.setattr(method.model, "local", lambda at, index, sites=sites: Local(sites(index), 0.0))
        state, told = method.advance(method.init(0), 8)
        np.testing.assert_allclose(state["natural"], method.model.exact, rtol=1e-12)
        assert told["queries"].sum() == 2 * told["visits"].sum() == 80
    learn = StreamingVi.learn

    def as_printed(self, rng, state, index, t):  # (5.49): what was seen counts again
        seen = state["made"][max(0, t - 2) % 3].copy()
        spent = learn(self, rng, state, index, t)
        state["natural"] += seen
        state["made"][(t + 1) % 3] = state["natural"]
        return spent

    monkeypatch.setattr(StreamingVi, "learn", as_printed)
    assert after(method, 5)["natural"][0] > 1.01 * method.model.exact[0]


def in_order(choose):
    """In place of `wait`: of the batches that are out the one that `choose` takes has come."""
    return lambda out, return_when: SimpleNamespace(done=[choose(list(out))])


@pytest.mark.parametrize("choose", [np.random.default_rng(0).choice, list.pop], ids=["any", "last first"])
def test_real_workers_may_post_conjugate_batches_in_any_order(tmp_path, monkeypatch, choose):
    """One that is posted twice in place of another shows: the negative control."""
    words = ("sampler=streaming_vi", "sampler.batch=9", "sampler.team=threads", "sampler.workers=3")
    method = method_of(tmp_path, *MEANS, *words)
    sites = method.model.sites
    monkeypatch.setattr(method.model, "local", lambda at, index: Local(sites(index), 0.0))
    monkeypatch.setattr("flyrun.experiments.samplers.hierarchies.streaming_vi.wait", in_order(choose))
    state, first = method.advance(method.init(0), 2)
    state, told = method.advance(state, 6)
    np.testing.assert_allclose(state["natural"], method.model.exact, rtol=1e-12)
    assert told["late"].max() >= 2
    assert first["visits"].sum() + told["visits"].sum() == 40
    assert first["queries"].sum() + told["queries"].sum() == 400
    assert 160 <= state["span"][0] < 400
    rows = method.rows
    monkeypatch.setattr(method, "rows", lambda rng, key, t: rows(rng, key, 3 if t == 4 else t))
    twice = after(method, 8)["natural"]
    assert abs(twice[1] / method.model.exact[1] - 1) > 0.01


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [1, 4])
def test_real_workers_that_post_in_turn_are_the_simulated_ones(tmp_path, monkeypatch, workers):
    monkeypatch.setattr(
        "flyrun.experiments.samplers.hierarchies.streaming_vi.wait", in_order(lambda out: out[0])
    )
    words = (*BLOBS, "model.n_components=3", "sampler=streaming_vi", "sampler.batch=60", "sampler.inner=3")
    team = ("sampler.team=threads", f"sampler.workers={workers}")
    luck = {name: method_of(tmp_path, *words, *team).init(0)[name] for name in ("rng", "key")}

    def made(*more):
        method = method_of(tmp_path, *words, *more)
        return method.advance(method.init(0) | luck, 10)[0]["natural"]

    np.testing.assert_array_equal(made(*team), made(f"sampler.stale={workers - 1}"))
    assert not np.allclose(made(*team), made(f"sampler.stale={workers}"))


def test_batches_that_are_out_at_a_checkpoint_come_after_it(tmp_path, monkeypatch):
    """Once each, in the process that goes on and in another one; dropped they are missed: the control."""
    words = (*BLOBS, "model.n_components=3", "sampler=streaming_vi", "sampler.batch=60", "sampler.inner=1")
    monkeypatch.setattr("flyrun.experiments.samplers.hierarchies.streaming_vi.wait", in_order(list.pop))
    mine, other = (method_of(tmp_path, *words, "sampler.team=threads", "sampler.workers=3") for _ in "12")
    state = mine.advance(mine.init(0), 4)[0]
    assert (state["out"][:, 0] >= 0).sum() == 2
    ends = [one.advance(state, 10)[0]["natural"] for one in (mine, other)]
    np.testing.assert_array_equal(*ends)
    rows = mine.model.n_data
    weights = [end[:3].sum() - mine.model.prior[:3].sum() for end in ends]
    assert weights == pytest.approx([rows, rows])
    lost = other.advance(state | {"out": np.full((3, 3), -1.0)}, 10)[0]["natural"]
    assert lost[:3].sum() - mine.model.prior[:3].sum() != pytest.approx(rows)


@pytest.mark.slow
@pytest.mark.parametrize("team", ["processes", "dask"])
def test_workers_in_other_processes_find_the_same(tmp_path, team):
    pytest.importorskip("distributed")
    words = (*MEANS, "sampler=streaming_vi", "sampler.batch=9")
    here, there = (method_of(tmp_path, *words, f"sampler.team={one}") for one in ("threads", team))
    start = here.init(0)
    np.testing.assert_array_equal(there.advance(start, 8)[0]["natural"], here.advance(start, 8)[0]["natural"])


def elbo(model, at):
    """Of q(θ)Πq(z_n), in closed form."""
    mean, variance = np.split(at, 2)[0], np.exp(2 * np.split(at, 2)[1])
    squares = np.concatenate(
        [
            [model.prior[0] * (mean[0] ** 2 + variance[0])],
            model.tight * ((mean[1:] - mean[0]) ** 2 + variance[1:] + variance[0]),
            model.seen * ((model.target - mean[1:]) ** 2 + variance[1:]),
        ]
    )
    return -0.5 * squares.sum() + 0.5 * np.log(variance).sum()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("baseline", ["none", "rao_blackwell", "leave_one_out"])
def test_black_box_slopes_are_unbiased(tmp_path, monkeypatch, baseline):
    words = ("sampler=local_bbvi", "sampler.draws=50", f"sampler.baseline={baseline}", "dataset.n_data=3")
    method = method_of(tmp_path, *MEANS, *words)
    model, at, rng = method.model, np.linspace(-0.4, 0.5, 8), np.random.default_rng(3)
    steps = 1e-6 * np.eye(8)
    right = np.array([elbo(model, at + d) - elbo(model, at - d) for d in steps]) / 2e-6

    def z_scores():
        found = np.array([method.gradient(at, rng) for _ in range(1000)])
        return np.abs(found.mean(axis=0) - right) / (found.std(axis=0) / np.sqrt(1000))

    assert z_scores().max() < 4.5
    whole = model.log_joint
    monkeypatch.setattr(model, "log_joint", lambda *at: (whole(*at)[0], 0.0 * at[1], whole(*at)[2]))
    assert z_scores().max() > 6


def test_rao_blackwell_takes_the_rows_noise_from_local_slopes(tmp_path):
    spread = {}
    for baseline in ("none", "rao_blackwell"):
        method = method_of(tmp_path, *MEANS, "sampler=local_bbvi", f"sampler.baseline={baseline}")
        rng, at = np.random.default_rng(4), np.zeros(82)
        spread[baseline] = np.var([method.gradient(at, rng)[1:41] for _ in range(200)], axis=0).mean()
    assert spread["rao_blackwell"] < spread["none"] / 20  # about N = 40 times less


@pytest.mark.thorough
def test_hierarchical_ep_has_the_width_that_mean_field_lacks(tmp_path, monkeypatch):
    method = method_of(tmp_path, *MEANS, "sampler=hierarchical_ep", "sampler.shards=4", "sampler.draws=400")
    state, told = method.advance(method.init(0), 12)
    found = method.estimates(state)
    assert abs(found["sd_ratio"] - 1) < 0.03
    assert found["mean_off"] < 0.1
    assert told["queries"].sum() == 12 * 410 * 40
    tilted = HierarchicalEp.tilted

    def twice(self, rng, cavity, shard):  # no site taken away: rows count twice
        known = self.model.exact
        return cavity + tilted(self, rng, known, shard) - self.model.prior

    monkeypatch.setattr(HierarchicalEp, "tilted", twice)
    assert method.estimates(after(method, 12))["sd_ratio"] < 0.8


@pytest.mark.parametrize("name", ["svi", "memoized_vi", "streaming_vi", "local_bbvi", "hierarchical_ep"])
def test_a_cut_changes_nothing(tmp_path, name):
    batch = ["sampler.batch=9"] if name in ("svi", "memoized_vi", "streaming_vi") else []
    method = method_of(tmp_path, *MEANS, f"sampler={name}", *batch)
    whole = after(method, 7)
    parts = method.advance(after(method, 3), 4)[0]
    assert all(np.array_equal(whole[key], parts[key]) for key in whole)
    assert not np.array_equal(whole["rng"], after(method, 7, seed=1)["rng"])


def test_what_does_not_go_together_says_so(tmp_path):
    for words, told in {
        ("dataset=toy_2d", "model=normal_means", "sampler=svi"): "is for numbers, not for classes",
        (*BLOBS, "sampler=local_bbvi"): "choose model=normal_means",
        (*BLOBS, "sampler=svi", "sampler.batch=9999"): "take at most as many",
        (
            "dataset=gaussian_toy",
            "dataset.n_data=9",
            "model=gaussian_mixture",
            "sampler=svi",
        ): "no feature differs",
        (
            *MEANS,
            "sampler=streaming_vi",
            "sampler.workers=3",
        ): "choose sampler.stale=2, or sampler.team=threads",
        (*MEANS, "sampler=streaming_vi", "sampler.team=dask", "sampler.stale=1"): "choose sampler.stale=0",
        (*MEANS, "sampler=hierarchical_ep", "sampler.shards=41"): "take at most as many",
    }.items():
        with pytest.raises(ConfigError, match=told):
            method_of(tmp_path, *words).init(0)


COUNTS = ("dataset=counts_toy", "dataset.n_data=40", "model=poisson_means")


def counts(tmp_path, *target, **options):
    """The model of these counts."""
    return PoissonMeans(build("model", {"name": "poisson_means", **options}), np.array(target, float))


@pytest.mark.parametrize(("y", "m"), [(0, 0.5), (0, -3.0), (3, 0.0), (40, 1.0), (2, 6.0)])
def test_what_a_count_says_of_its_rate_is_by_quadrature(tmp_path, y, m):
    model = counts(tmp_path, 1.0, 2.0)
    z = np.linspace(m - 8, m + 8, 400_001)
    density = norm.pdf(z, m, 0.6) * poisson.pmf(y, np.exp(z)) * (z[1] - z[0])
    mean = density @ z / density.sum()
    second = density @ (z - mean) ** 2 / density.sum()
    log_z, found = model.tilted(y, m)
    assert log_z == pytest.approx(np.log(density.sum()), abs=1e-8)
    assert found == pytest.approx(mean, abs=1e-7)
    rng, drawn = np.random.default_rng(1), [None]
    model.target = np.full(2_000, float(y))
    for _ in range(40):
        drawn.append(model.redrawn(rng, np.array(m), drawn[-1], np.arange(2_000)))
    some = np.array(drawn[10:])
    assert some.mean() == pytest.approx(mean, abs=6 * np.sqrt(second / 2_000))
    assert some.var() == pytest.approx(second, rel=0.15)


def test_the_posterior_of_a_mean_rate_is_by_quadrature(tmp_path):
    """Of three counts, by sums over a plane; free energies lie above -log p(y), as they must."""
    model = counts(tmp_path, 0.0, 2.0, 5.0, spread=2.0)
    theta, z = np.linspace(-3, 4, 281), np.linspace(-8, 8, 2_001)
    given = norm.pdf(z, theta[:, None], 0.6) * (z[1] - z[0])
    density = norm.pdf(theta, 0, 2.0) * (theta[1] - theta[0])
    for y in model.target:
        density = density * (given @ poisson.pmf(y, np.exp(z)))
    share = density / density.sum()
    mean = share @ theta
    precision = 1 / (share @ (theta - mean) ** 2)
    np.testing.assert_allclose(model.exact, [precision, precision * mean], rtol=1e-3)
    for natural in (model.exact, 0.5 * model.exact, 2 * model.exact):
        assert free_energy(model, natural) > -np.log(density.sum())
    other = counts(tmp_path, 0.0, 2.0, 5.0, spread=2.0, between=1.2)
    assert abs(other.exact[0] / model.exact[0] - 1) > 0.1, "the twin: another model"


def test_mean_field_of_counts_is_level_and_narrow(tmp_path):
    """As of normal means; z's quadrature has statistics, bound and divergence together."""
    method = method_of(tmp_path, *COUNTS, *ASCENT)
    ended = after(method, 200)
    assert slopes(method.model, ended["natural"]).max() < 1e-4
    assert slopes(method.model, after(method, 2)["natural"]).max() > 1e-3
    found = method.estimates(ended)
    assert found["mean_off"] < 0.3
    assert 0.3 < found["sd_ratio"] < 0.8


def test_black_box_inference_of_counts_ends_near_the_best_q(tmp_path):
    few = (COUNTS[0], "dataset.n_data=12", COUNTS[2])
    bbvi = method_of(tmp_path, *few, "sampler=local_bbvi", "sampler.baseline=leave_one_out")
    best = method_of(tmp_path, *few, *ASCENT)
    ours, theirs = bbvi.estimates(after(bbvi, 1_500)), best.estimates(after(best, 200))
    assert ours["sd_ratio"] == pytest.approx(theirs["sd_ratio"], rel=0.05)
    assert ours["mean_off"] < 0.2
    assert ours["free_energy"] == pytest.approx(theirs["free_energy"], abs=2e-3)


@pytest.mark.thorough
def test_hierarchical_ep_of_counts_has_the_posteriors_width(tmp_path, monkeypatch):
    words = (*COUNTS, "sampler=hierarchical_ep", "sampler.shards=4", "sampler.draws=1000")
    method = method_of(tmp_path, *words)
    found = method.estimates(after(method, 12))
    assert abs(found["sd_ratio"] - 1) < 0.06
    assert found["mean_off"] < 0.2
    monkeypatch.setattr(
        PoissonMeans, "redrawn", lambda self, rng, theta, z, index: self.mode(self.target[index], theta)
    )
    assert method.estimates(after(method, 12))["sd_ratio"] < 0.9, "z at its mode has no width"
