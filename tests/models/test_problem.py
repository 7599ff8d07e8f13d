"""Set-up: the prior scale that the experiment states, what a fit costs, and that it is kept."""

import numpy as np
import pytest
from scipy.stats import t as scipy_t

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.config.bound import Map, NoBound, Untuned
from flyrun.experiments.config.brightness import Implicit, NoBrightness, PerDatum
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.config.dataset.row_data import Mnist7v9
from flyrun.experiments.config.prior import Gaussian, Laplace
from flyrun.experiments.config.protocol import Protocol
from flyrun.experiments.config.sampler.chain import Hmc, Mala, RandomWalk, Slice
from flyrun.experiments.models import passes, student_t
from flyrun.experiments.models.fits import noise_fit
from flyrun.experiments.models.problem import posterior_curvature
from flyrun.experiments.samplers.chain.bounds.map import expected_pseudo, lowered
from flyrun.experiments.samplers.chain.targets.full_data import full_data
from flyrun.experiments.samplers.method import prepare
from flyrun.families.options import StudentT
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import SCHEMAS
from flyrun.tables.dataset import Dataset
from flyrun.tables.options import Table
from tests.densities import log_density


def _program(folder, *overrides):
    job = compose_job(["experiment=mnist_logreg", "only=map_tuned", *overrides])
    return prepare(job.arms[0], folder)


@pytest.mark.thorough
def test_the_stated_prior_scale_is_what_held_out_gives(tmp_path):
    (stated,) = compose_job(["experiment=mnist_logreg", "only=map_tuned"]).arms
    program = _program(tmp_path, "prior.scale=held_out")
    tried = program.facts().more["held_out"]
    assert [scale for scale, _ in tried] == list(Gaussian().grid)
    assert max(tried, key=lambda pair: pair[1])[0] == stated.prior.scale
    assert program.facts().more["prior_scale"] == stated.prior.scale
    assert any("held_out takes" in line for line in program.notes())
    assert not any("an end of" in line for line in program.notes())


@pytest.mark.thorough
def test_a_held_out_scale_at_the_end_of_its_grid_is_told_of(tmp_path):
    cut = _program(tmp_path, "prior.scale=held_out", "prior.grid=[0.2,0.5]", "dataset.limit=2000")
    assert "takes 0.5, an end of prior.grid: " in cut.notes()[0]
    one = _program(tmp_path, "prior.scale=held_out", "prior.grid=[0.5]", "dataset.limit=2000")
    assert "an end of" not in one.notes()[0]


def test_setup_queries_are_the_fit_the_bounds_and_the_first_state(tmp_path):
    facts = _program(tmp_path).facts().plain()
    n = facts["n_data"]
    assert n == 12_214
    assert facts["map_queries"] >= 5 * n
    assert facts["map_queries"] % n == 0
    assert facts["setup_queries"] == facts["map_queries"] + 3 * n  # bounds, the curvature that scales steps
    regular = prepare(compose_job(["experiment=mnist_logreg", "only=regular"]).arms[0], tmp_path)
    assert regular.facts().setup_queries == n


def test_a_fit_is_kept_and_a_damaged_one_made_again(tmp_path):
    first = _program(tmp_path)
    (stored,) = tmp_path.glob("setup-*.npz")
    assert np.array_equal(_program(tmp_path).problem.fit.theta_map, first.problem.fit.theta_map)
    stored.write_bytes(stored.read_bytes()[:1000])
    assert np.array_equal(_program(tmp_path).problem.fit.theta_map, first.problem.fit.theta_map)


def test_the_look_about_the_map_is_kept_and_counts_as_before(tmp_path, monkeypatch):
    words = ["sampler=hmc", "sampler.metric=hessian"]
    first = _program(tmp_path, *words)
    (stored,) = tmp_path.glob("look-*.npz")
    monkeypatch.setattr(passes, "look", lambda *_: pytest.fail("looked again"))
    again = _program(tmp_path, *words)
    np.testing.assert_array_equal(again.setup.curvature, first.setup.curvature)
    assert again.facts().setup_queries == first.facts().setup_queries
    monkeypatch.undo()
    stored.write_bytes(stored.read_bytes()[:1000])
    np.testing.assert_array_equal(_program(tmp_path, *words).setup.curvature, first.setup.curvature)


@pytest.mark.parametrize("init", ["prior", "map"])
def test_chunk_borders_leave_the_draws_as_they_are(tmp_path, init):
    program = _program(tmp_path, "protocol=smoke", f"protocol.init={init}", "protocol.thin=5")
    whole, draws = program.advance(program.init(7), 300)
    state, pieces = program.init(7), []
    for n in (5, 95, 60, 140):
        state, piece = program.advance(state, n)
        pieces.append(piece)
    for name, values in draws.items():
        np.testing.assert_array_equal(np.concatenate([piece[name] for piece in pieces]), values)
    # what is left in workspaces between calls is of no account
    for name in ("theta", "rng", "memory.partition.bright", "memory.values", "kernel.step.current"):
        np.testing.assert_array_equal(state[name], whole[name])
    assert len(draws["theta"]) == 60


@pytest.mark.thorough
def test_arms_of_one_seed_start_at_the_same_place(tmp_path):
    job = compose_job(["experiment=mnist_logreg", "protocol=smoke"])
    starts = [prepare(arm, tmp_path).init(3)["theta"] for arm in job.arms]
    assert np.array_equal(starts[0], starts[1])
    assert np.array_equal(starts[0], starts[2])


def test_arms_of_one_seed_that_differ_in_a_number_share_their_start_and_not_their_luck(tmp_path):
    words = ["dataset=toy_2d", "model=logistic", "sampler=random_walk", "protocol=smoke"]
    words += ["protocol.seeds=1", "protocol.iterations=400", "protocol.burn_in=0"]
    arms = [compose_job([*words, f"sampler.step={step}"]).arms[0] for step in (0.5, 0.5001)]
    programs = [prepare(arm, tmp_path) for arm in arms]
    first = [[program.init(seed)["theta"] for seed in range(3)] for program in programs]
    np.testing.assert_array_equal(*first)
    means = [
        [program.advance(program.init(seed), 400)[1]["theta"][:, 0].mean() for seed in range(40)]
        for program in programs
    ]
    # 0.4 is 2.6 standard errors of the correlation of 40 independent pairs; streams by the names gave 0.9
    assert abs(np.corrcoef(means)[0, 1]) < 0.4
    # a longer run begins as a shorter one, and a file that moved has the draws it had
    longer = compose_job([*words[:-2], "sampler.step=0.5", "protocol.iterations=900"]).arms[0]
    assert longer.method() == arms[0].method()
    tables = [Table(path=path, target="y") for path in ("a.csv", "b/a.csv")]
    assert tables[0].non_default() == tables[1].non_default() == {"name": "table", "target": "y"}


def test_a_great_slack_overflows_nothing():
    with np.errstate(all="raise"):
        by, expected = lowered(np.array([0.0, 0.3, 40.0]), 50.0)
    np.testing.assert_array_equal(by, [0.0, 15.0, 2000.0])
    assert expected[0] == 0.0
    assert np.all(np.isfinite(expected))


@pytest.mark.thorough
@pytest.mark.parametrize("slack", [0.0, 1.0])
def test_rates_of_each_datum_foretell_how_many_are_bright(slack, tmp_path):
    words = ["sampler=mala", "brightness=per_datum", "protocol.init=map", "protocol.iterations=3000"]
    program = _program(tmp_path, *words, "protocol.burn_in=500", f"bound.slack={slack}")
    tight = expected_pseudo(program.arm, program.problem, posterior_curvature(program.arm, program.problem))
    expected = lowered(tight, slack)[1]
    assert expected.sum() == pytest.approx((1.0 + slack) * tight.sum(), rel=0.01)
    state, _ = program.advance(program.init(1), 500)
    _, draws = program.advance(state, 2500)
    # second-order theory: within a fifth
    assert draws["bright"].mean() == pytest.approx((expected / (1 + expected)).sum(), rel=0.2)


def test_rates_need_bounds_at_the_map():
    for word in ("brightness=per_datum", "brightness.q=auto"):
        with pytest.raises(ConfigError, match="choose bound=map"):
            compose_job(["experiment=mnist_logreg", "only=untuned", word])


def test_q_auto_proposes_as_many_as_are_expected_to_be_bright(tmp_path):
    words = ["brightness.q=auto", "protocol.init=map", "protocol.iterations=400", "protocol.burn_in=100"]
    program = _program(tmp_path, *words)
    expected = expected_pseudo(
        program.arm, program.problem, posterior_curvature(program.arm, program.problem)
    ).sum()
    state, draws = program.advance(program.init(1), 400)
    q = program.facts(state).tuned["q"]
    assert q == pytest.approx(expected / 12_214)
    proposed = draws["queries"][1:] - draws["bright"][:-1]
    assert proposed.mean() == pytest.approx(q * (12_214 - draws["bright"].mean()), rel=0.1)


@pytest.mark.thorough
@pytest.mark.parametrize("experiment", ["mnist_logreg", "cifar_softmax", "opv_robust"])
def test_the_curvature_at_the_map_is_the_gradients_change(experiment, tmp_path):
    words = [f"experiment={experiment}", "only=map_tuned", "dataset.limit=400", "model.scale=0.3"]
    arm = compose_job(words if experiment == "opv_robust" else words[:-1]).arms[0]
    problem = prepare(arm, tmp_path).problem
    curvature = posterior_curvature(arm, problem)
    if experiment == "opv_robust":  # the prior's stand-in, which its own gradient knows nothing of
        curvature -= np.eye(len(curvature)) * 0.5 / arm.prior.scale**2
    full = full_data(problem.prior, problem.model, problem.features, len(curvature))
    direction = np.random.default_rng(0).normal(size=len(curvature))
    at_map = problem.fit.theta_map
    # a step that no coordinate of the corner at 0 notices
    here = np.where(at_map == 0.0, 1e-3, at_map) if experiment == "opv_robust" else at_map
    step = 1e-6
    there, back = (log_density(full, here + sign * step * direction)[1] for sign in (1, -1))
    change = (back - there) / (2 * step)
    tolerance = 0.05 if experiment == "opv_robust" else 1e-5
    assert np.linalg.norm(curvature @ direction - change) < tolerance * np.linalg.norm(change)


def _regression(folder, monkeypatch, n_test=400, task="regression", **groups):
    """A program on 600 generated rows with t₄ noise of scale 0.3."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 4))
    y = x @ [1.0, -0.5, 0.0, 0.2] + 0.3 * rng.standard_t(4, 1000)
    names = tuple("abcd")
    data = Dataset("small", x[:600], y[:600], x[600:][:n_test], y[600:][:n_test], names, "", task=task)
    monkeypatch.setattr("flyrun.experiments.data.load", lambda config: data)
    chosen = {
        "dataset": Mnist7v9(),
        "model": StudentT(scale="held_out"),
        "prior": Laplace(scale="held_out"),
        "bound": Map(),
        "brightness": Implicit(),
        "sampler": Slice(),
        "protocol": Protocol(iterations=300, burn_in=100, init="map"),
    }
    return prepare(Arm(experiment="", name="map_tuned", **{**chosen, **groups}), folder)


@pytest.mark.thorough
def test_scales_of_noise_and_prior_are_those_of_the_best_held_out_fit(tmp_path, monkeypatch):
    program = _regression(tmp_path, monkeypatch)
    facts = program.facts().plain()
    for scale, tried in (("model_scale", "held_out_model"), ("prior_scale", "held_out")):
        assert max(facts[tried], key=lambda pair: pair[1])[0] == facts[scale]
    assert facts["model_scale"] == pytest.approx(0.3, abs=0.051)
    assert program.problem.model.scale == facts["model_scale"]
    assert [line.split()[1] for line in program.notes()] == ["model.scale=held_out", "prior.scale=held_out"]
    # every fit is whole passes over the rows; every scale tried is one pass over the test rows
    n_tried = len(StudentT().grid) + len(Laplace().grid)
    assert (facts["map_queries"] - 400 * n_tried) % 600 == 0
    # the scores are what they say they are
    theta, sigma = program.problem.fit.theta_map, facts["model_scale"]
    test = program.problem.dataset
    score = scipy_t.logpdf(test.test_target, 4, loc=test.test_features @ theta, scale=sigma).mean()
    assert dict(map(tuple, facts["held_out"]))[facts["prior_scale"]] == pytest.approx(score, rel=1e-9)
    again = _regression(tmp_path, monkeypatch)
    assert again.problem.fit.held_out_model == facts["held_out_model"]
    assert len(list(tmp_path.glob("setup-*.npz"))) == 1
    assert np.isfinite(again.advance(again.init(0), 300)[1]["theta"]).all()


FIREFLY = {"prior": Gaussian(), "model": StudentT(scale=0.3)}
PLAIN = {**FIREFLY, "bound": NoBound(), "brightness": NoBrightness()}
UNTUNED = {**FIREFLY, "bound": Untuned(xi=0.0)}
AT_PRIOR, AT_MAP = (Protocol(iterations=300, burn_in=100, init=init) for init in ("prior", "map"))


@pytest.mark.thorough(but=5)
@pytest.mark.parametrize(
    ("looks", "groups"),
    [
        (0, {**PLAIN, "protocol": AT_PRIOR}),
        (1, {**PLAIN, "protocol": AT_MAP}),  # the curvature
        (1, {**PLAIN, "protocol": AT_PRIOR, "sampler": Hmc(metric="hessian")}),
        (1, {**PLAIN, "protocol": AT_MAP, "sampler": Hmc(metric="hessian")}),
        (1, {**PLAIN, "protocol": AT_PRIOR, "sampler": Hmc()}),  # the bounds that shape it
        (2, {**PLAIN, "protocol": AT_MAP, "sampler": Hmc()}),
        (0, {**UNTUNED, "protocol": AT_PRIOR}),
        (0, {**UNTUNED, "protocol": AT_PRIOR, "sampler": Hmc()}),
        (1, {**UNTUNED, "protocol": AT_PRIOR, "sampler": Hmc(metric="hessian")}),
        (1, {**UNTUNED, "protocol": AT_MAP}),
        (1, {**FIREFLY, "protocol": AT_PRIOR, "sampler": Slice(width=0.1)}),  # the bounds
        (2, {**FIREFLY, "protocol": AT_PRIOR}),  # and the curvature, in whose units the first width is
        (2, {**FIREFLY, "protocol": AT_MAP}),
        (2, {**FIREFLY, "protocol": AT_PRIOR, "bound": Map(offset_sds=2.0)}),
        (2, {**FIREFLY, "protocol": AT_MAP, "bound": Map(offset_sds=2.0)}),  # one curvature for both
        (2, {**FIREFLY, "protocol": AT_MAP, "sampler": Hmc(metric="hessian")}),
        (3, {**FIREFLY, "protocol": AT_PRIOR, "bound": Map(slack=0.3)}),  # and the rates' own
        (3, {**FIREFLY, "protocol": AT_PRIOR, "brightness": PerDatum()}),
        (3, {**FIREFLY, "protocol": AT_MAP, "bound": Map(slack=0.3), "brightness": PerDatum()}),
        (3, {**FIREFLY, "protocol": AT_PRIOR, "brightness": Implicit(q="auto")}),
    ],
)
def test_every_pass_of_the_setup_is_charged_once(looks, groups, tmp_path, monkeypatch):
    seen, predictors = [0], passes.block_predictors

    def spied(model, features, theta, block):
        seen[0] += block.stop - block.start
        return predictors(model, features, theta, block)

    monkeypatch.setattr(passes, "block_predictors", spied)
    facts = _regression(tmp_path, monkeypatch, **groups).facts().plain()
    assert facts["bound_queries"] == 600 * looks
    assert facts["setup_queries"] == facts["map_queries"] + facts["bound_queries"] + 600
    assert seen[0] == facts["map_queries"] + facts["bound_queries"]


@pytest.mark.thorough
@pytest.mark.parametrize("sampler", [RandomWalk(), Mala(), Slice()])
def test_round_steps_are_guessed_in_the_units_of_the_posterior(sampler, tmp_path, monkeypatch):
    """A guess in units of θ never comes down to a posterior of sd 10⁻⁹, and no step is ever accepted."""
    steps = []
    for scale in (0.3, 1e-9):
        groups = {**PLAIN, "model": StudentT(scale=scale), "protocol": AT_MAP, "sampler": sampler}
        made = _regression(tmp_path, monkeypatch, **groups)
        sd = np.trace(made.setup.curvature / made.n_params) ** -0.5
        steps.append(made.parts[2].step.current[0] / sd)
    assert steps[0] == pytest.approx(steps[1], rel=1e-12)
    assert 0.01 < steps[0] < 3.0
    fixed = type(sampler)(**{"width" if isinstance(sampler, Slice) else "step": 0.2})
    assert _regression(tmp_path, monkeypatch, **{**groups, "sampler": fixed}).parts[2].step.current[0] == 0.2


def _words(text):
    """Choices of groups by 'group=name key=value …' of each, between semicolons."""
    chosen = {}
    for part in filter(None, text.split(";")):
        (group, name), *settings = (word.split("=") for word in part.split())
        chosen[group] = SCHEMAS[group][name](**{key: int(value) for key, value in settings})
    return chosen


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize(
    "words",
    [
        *(f"acceptance={rule} order={order}" for rule in ("delayed", "mh_ss") for order in (1, 2, 3)),
        "acceptance=smh",
        "acceptance=tuna order=0",
        "acceptance=austerity order=0;sampler=random_walk step=1",
        "acceptance=austerity order=2",
        "acceptance=confidence order=1",
        "acceptance=pseudo_marginal;sampler=random_walk step=1",
        "acceptance=mh_ss;sampler=surrogate_transition",
        "bound=local;brightness=per_datum;sampler=slice",
        "bound=local;brightness=per_datum;sampler=hmc",
        "bound=map;brightness=per_datum;sampler=slice",
        "bound=untuned;brightness=implicit;sampler=slice",
        "sampler=elliptical_slice",
    ],
)
def test_the_setup_charges_the_likelihoods_that_a_spy_sees(words, tmp_path, monkeypatch):
    """Cost is what methods are compared by: one charge for each predictor at which a likelihood, a derivative
    or a bound that touches it is worked out, whoever asks; predictors alone are none."""
    seen = {}

    def spy(owner, name, place):
        plain = getattr(owner, name)

        def spied(*given):
            seen[id(given[place])] = given[place]  # kept, so that no other takes its id
            return plain(*given)

        monkeypatch.setattr(owner, name, spied)

    spy(passes, "_log_likelihoods", 2)
    for name in ("curvature", "map_bound", "local_curvature", "expected_pseudo_likelihood", "derivative"):
        spy(student_t, name, 1)
    chosen = {"bound": NoBound(), "brightness": NoBrightness(), "sampler": RandomWalk(), "protocol": AT_MAP}
    model = StudentT(scale=0.3)
    made = _regression(tmp_path, monkeypatch, prior=Gaussian(), model=model, **{**chosen, **_words(words)})
    facts = made.facts().plain()
    assert sum(map(len, seen.values())) == facts["map_queries"] + facts["bound_queries"]


def test_the_noise_scale_that_is_estimated_is_charged(tmp_path, monkeypatch):
    rows, over_blocks = [0], noise_fit.over_blocks

    def spied(n_data, work):
        rows[0] += n_data
        return over_blocks(n_data, work)

    monkeypatch.setattr(noise_fit, "over_blocks", spied)
    given = _regression(tmp_path, monkeypatch, prior=Gaussian(), model=StudentT(scale=0.3)).facts().more
    assert rows == [0]
    program = _regression(tmp_path, monkeypatch, prior=Gaussian(), model=StudentT(scale="estimated"))
    facts, data = program.facts().more, program.problem.dataset
    assert rows[0] >= 5 * 600
    fits = facts["map_queries"] - rows[0], given["map_queries"]
    assert fits[0] % 600 == 0
    assert abs(fits[0] - fits[1]) <= 600  # another scale may take a step more or less
    residuals = data.target - data.features @ np.linalg.lstsq(data.features, data.target)[0]
    peak = max(np.arange(0.2, 0.4, 0.001), key=lambda scale: scipy_t.logpdf(residuals, 4, 0, scale).sum())
    assert facts["model_scale"] == program.problem.model.scale == pytest.approx(peak, rel=0.02)
    assert (
        _regression(tmp_path, monkeypatch, prior=Gaussian(), model=StudentT(scale="estimated"))
        .facts()
        .more["map_queries"]
        == facts["map_queries"]
    )


def test_a_scale_can_be_given_and_the_other_held_out(tmp_path, monkeypatch):
    facts = _regression(tmp_path, monkeypatch, model=StudentT(scale=0.4)).facts().plain()
    assert (facts["model_scale"], facts["held_out_model"]) == (0.4, [])
    assert len(facts["held_out"]) == len(Laplace().grid)
    smooth = _regression(tmp_path, monkeypatch, prior=Gaussian(scale=1.0)).facts().plain()
    assert (smooth["prior_scale"], smooth["held_out"]) == (1.0, [])
    assert len(smooth["held_out_model"]) == len(StudentT().grid)


def test_held_out_without_rows_held_out_is_an_error(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"prior\.scale=held_out: .* keeps no rows apart"):
        _regression(tmp_path, monkeypatch, n_test=0)
    with pytest.raises(ConfigError, match=r"model\.scale=held_out"):
        _regression(tmp_path, monkeypatch, n_test=0, prior=Laplace(scale=1.0))


def test_a_model_for_other_targets_is_an_error(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="do not go together"):
        _regression(tmp_path, monkeypatch, task="binary")


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["cifar_softmax", "opv_robust"])
def test_stated_scales_are_what_held_out_gives(experiment, tmp_path):
    words = [f"experiment={experiment}", "only=map_tuned"]
    (stated,) = compose_job(words).arms
    words += ["dataset.split=held_out", "prior.scale=held_out"]
    words += ["model.scale=held_out"] if hasattr(stated.model, "scale") else []
    facts = prepare(compose_job(words).arms[0], tmp_path).facts().plain()
    assert facts["prior_scale"] == stated.prior.scale
    assert facts["model_scale"] == getattr(stated.model, "scale", None)
