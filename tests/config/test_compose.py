"""Composition: experiment + arm + what is typed -> Job."""

from __future__ import annotations

import pickle
import re
import shutil

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl

from flyrun.experiments.config import hydra_files
from flyrun.experiments.config.brightness import Explicit, Implicit, NoBrightness
from flyrun.experiments.config.catalogue import files, load
from flyrun.experiments.config.compose import compose_job, own_list
from flyrun.experiments.config.overrides import from_hydra, read, to_hydra
from flyrun.experiments.config.sampler.base import with_sampler
from flyrun.experiments.config.sampler.chain import Slice
from flyrun.ground.errors import ConfigError
from tests.in_process import flyrun

EXPERIMENT = "experiment=mnist_logreg"
ALONE = ["dataset=mnist_7v9", "model=logistic", "sampler=random_walk"]


def arms(*words: str) -> dict:
    return {arm.name: arm for arm in compose_job([EXPERIMENT, *words]).arms}


def test_the_main_experiment():
    job = compose_job([EXPERIMENT])
    assert job.name == job.experiment == "mnist_logreg"
    papers = job.arms[:3]
    assert [arm.name for arm in papers] == ["regular", "untuned", "map_tuned"] == list(job.reference)
    assert [arm.bound.name for arm in papers] == ["none", "untuned", "map"]
    assert [arm.brightness for arm in papers] == [NoBrightness(), Implicit(q=0.1), Implicit(q=0.01)]
    assert job.reference["regular"]["queries_per_iter"] == 12214
    assert str(job.results_dir) == "results"
    assert job.executor.workers is None
    assert pickle.loads(pickle.dumps(job)) == job


def composed(words, monkeypatch, by_hydra):
    if by_hydra:
        monkeypatch.setattr(hydra_files.Files, "_alone", lambda self, group, name: None)
    return compose_job(words)


@pytest.mark.thorough(but="words2-toy_flymc")
@pytest.mark.parametrize("name", ["toy_flymc", "opv_robust", "potts_mgpmh"])
@pytest.mark.parametrize(
    "words", [[], ["protocol=default", "executor=dask"], ["protocol=smoke", "fresh=true"]]
)
def test_files_are_composed_as_hydra_does(name, words, monkeypatch):
    asked, load = [], ConfigLoaderImpl.load_configuration
    monkeypatch.setattr(
        ConfigLoaderImpl, "load_configuration", lambda *a, **k: asked.append(a) or load(*a, **k)
    )
    words = [f"experiment={name}", *words]
    by_files = composed(words, monkeypatch, by_hydra=False)
    assert (few := len(asked)) <= 3  # of all arms together
    assert by_files == composed(words, monkeypatch, by_hydra=True)
    assert len(asked) > few


def test_what_was_edited_is_read_anew(monkeypatch, tmp_path):
    shutil.copytree(hydra_files.conf_dir(), tmp_path / "conf")
    monkeypatch.setattr(hydra_files, "conf_dir", lambda: tmp_path / "conf")
    before = arms("protocol.seeds=1", "only=regular")
    write(tmp_path, "conf/protocol/default.yaml", "name: default\nseeds: 1\niterations: 20\nburn_in: 10\n")
    after = arms("protocol.seeds=1", "only=regular")
    assert before["regular"].protocol.iterations != after["regular"].protocol.iterations == 20


def test_typed_values_reach_every_arm_that_has_the_key():
    got = arms("brightness.q=0.05", "prior.scale=2", "protocol.seeds=[3,4]")
    assert got["regular"].brightness == NoBrightness()
    assert got["untuned"].brightness.q == got["map_tuned"].brightness.q == 0.05
    assert {arm.prior.scale for arm in got.values()} == {2.0}
    assert {arm.protocol.seed_list for arm in got.values()} == {(3, 4)}


def test_smoke_takes_what_makes_the_experiment_small():
    words = ["experiment=pmd_mixture", "only=[pmd,gibbs_swap]", "protocol=smoke"]
    job = compose_job(words)
    assert {(arm.protocol.iterations, arm.protocol.seeds) for arm in job.arms} == {(30, 2)}
    assert job.arms[0].sampler.particles == 100
    assert job.run_overrides == words  # and only these are repeated
    (pmd, _) = compose_job([*words, "protocol.iterations=40", "sampler.particles=7"]).arms
    assert (pmd.protocol.iterations, pmd.sampler.particles) == (40, 7)  # what is typed wins
    (pmd, swap) = compose_job([*words[:2], "protocol=short"]).arms
    assert (pmd.sampler.particles, swap.protocol.iterations) == (1_500, 2_000)
    assert compose_job([*words[:1], "only=gibbs", "protocol=smoke"]).arms  # without a key that others have


def test_smoke_shortens_arms_with_lengths_of_their_own():
    (regular, *_, firefly) = compose_job(["experiment=cifar_softmax"]).arms
    assert min(regular.protocol.iterations, firefly.protocol.iterations) > 4_000
    small = compose_job(["experiment=cifar_softmax", "protocol=smoke"]).arms
    lengths = {(arm.protocol.iterations, arm.protocol.burn_in, arm.protocol.thin) for arm in small}
    assert lengths == {(100, 30, 1)}
    (cost, *_) = compose_job(["experiment=gibbs_cost", "only=gibbs_edges", "protocol=smoke"]).arms
    assert cost.protocol.iterations == 40  # what is shorter stays
    (seeds, *_) = compose_job(["experiment=pmd_mixture", "only=pmd_weighted_20000", "protocol=smoke"]).arms
    assert len(seeds.protocol.seed_list) == 2


def test_lengths_that_make_an_experiment_small_lengthen_no_arm():
    words = ["experiment=arena_mnist", "only=[mala,ep]", "protocol=smoke"]  # its list says 150 iterations
    (mala, ep) = compose_job(words).arms
    assert (mala.protocol.iterations, mala.protocol.burn_in) == (150, 50)
    assert (ep.protocol.iterations, ep.protocol.burn_in) == (3, 0)
    (typed,) = compose_job([words[0], "only=ep", "protocol=smoke", "protocol.iterations=7"]).arms
    assert typed.protocol.iterations == 7


@pytest.mark.thorough(but=13)
@pytest.mark.parametrize("name", files("experiment"))
def test_what_makes_an_experiment_small_lets_nothing_be_long(name):
    own = read(own_list(load(files("experiment")[name]), "check"))
    for key, most in {"iterations": 400, "seeds": 2}.items():
        assert all(entry.value <= most for entry in own if entry.key == f"protocol.{key}")


def told_why(expected: str) -> bool:
    """Whether an expected time is at most ten minutes, or goes on to say what for."""
    minutes = re.search(r"(\d+|an?|half a) (minutes?|hours?)", expected)
    assert minutes, expected
    few = minutes[2].startswith("minute") and (not minutes[1].isdigit() or int(minutes[1]) <= 10)
    return few or ", for " in expected


@pytest.mark.thorough(but=13)
@pytest.mark.parametrize("name", files("experiment"))
def test_a_run_takes_ten_minutes_at_most_or_says_what_for(name):
    assert told_why(load(files("experiment")[name])["expected_time"])


def test_eleven_minutes_for_no_reason_are_too_long():
    assert not any(map(told_why, ("about 11 minutes on 2 cores", "an hour")))


def test_a_title_says_of_cut_data_that_they_were_cut():
    words = ["experiment=consensus_mnist", "only=full"]
    (whole, smoke, typed) = (
        compose_job([*words, *more]).title for more in ([], ["protocol=smoke"], ["dataset.limit=50"])
    )
    assert smoke == f"{whole} (data cut by protocol=smoke: dataset.limit=600)"
    assert typed == f"{whole} (other data: dataset.limit=50)"
    other = compose_job(["experiment=pmd_logistic", "only=pmd", "protocol=smoke"]).title
    assert other.endswith("(data cut by protocol=smoke: dataset=mnist_7v9)")
    both = compose_job([*words, "dataset.n_components=20", "protocol=smoke"]).title
    assert (
        both
        == f"{whole} (data cut by protocol=smoke: dataset.limit=600; other data: dataset.n_components=20)"
    )
    own = compose_job([*words, "dataset.limit=50", "protocol=smoke"]).title
    assert own == f"{whole} (other data: dataset.limit=50)"


@pytest.mark.thorough
def test_a_title_says_nothing_of_data_that_nothing_cut():
    words = ["dataset=table", "dataset.path=t.csv", "dataset.target=y", "model=logistic", "sampler=hmc"]
    assert {compose_job([*words, *more]).title for more in ([], ["protocol=smoke"])} == {"hmc-regular"}
    shown = compose_job(["experiment=mnist_logreg", "dataset=german_credit", "protocol=smoke"]).title
    assert shown.endswith("(other data: dataset=german_credit)")


def test_one_arm_alone():
    got = arms("arms.map_tuned.brightness.q=0.02", "arms.untuned.brightness=explicit")
    assert got["map_tuned"].brightness.q == 0.02
    assert got["untuned"].brightness == Explicit()
    both = arms("brightness.q=0.3", "arms.map_tuned.brightness.q=0.02")
    assert (both["untuned"].brightness.q, both["map_tuned"].brightness.q) == (0.3, 0.02)


def test_an_arm_whose_name_has_a_dot_alone():
    words = ["experiment=brightness_updates", "only=[explicit_0.1,explicit_0.01]"]
    both = compose_job([*words, "arms.explicit_0.1.brightness.fraction=0.2"]).arms
    assert [arm.brightness.fraction for arm in both] == [0.2, 0.01]
    with pytest.raises(ConfigError, match=r"explicit_0\.2.*no such arm.*did you mean explicit_0\.1\?"):
        compose_job([*words, "arms.explicit_0.2.brightness.fraction=0.2"])
    typed = "brightness.fraction=0.2"
    with pytest.raises(ConfigError, match=r"cannot stand in a key; write only=NAME and GROUP\.KEY=0\.2"):
        compose_job([*words, f"arms.explicit_0.01.{typed}"])
    (single,) = compose_job([words[0], "only=explicit_0.01", typed]).arms  # as the line says
    assert single.brightness.fraction == 0.2


def test_typed_choices_replace_the_arms_own():
    got = arms("only=[untuned,map_tuned]", "brightness=explicit", "brightness.fraction=0.2")
    assert {arm.brightness for arm in got.values()} == {Explicit(fraction=0.2)}


def test_the_last_of_two_counts():
    assert arms("prior.scale=1", "prior.scale=3")["regular"].prior.scale == 3


@pytest.mark.parametrize("only", ["only=[map_tuned,regular]", "only=regular", "+only=regular"])
def test_only(only):
    got = arms(only)
    assert "untuned" not in got
    assert next(iter(got)) == "regular"


@pytest.mark.parametrize(
    ("words", "name", "arm", "brightness"),
    [
        (["bound=map"], "random_walk-map", "map", Implicit(q=0.01)),
        (["bound=untuned"], "random_walk-untuned", "untuned", Implicit(q=0.1)),
        (["bound=none"], "random_walk-regular", "regular", NoBrightness()),
        ([], "random_walk-regular", "regular", NoBrightness()),
        (["bound=map", "brightness=explicit"], "random_walk-map", "map", Explicit()),
        (["bound=map", "brightness.q=0.2"], "random_walk-map", "map", Implicit(q=0.2)),
        (["bound=map", "name=mine"], "mine", "map", Implicit(q=0.01)),
    ],
)
def test_a_single_arm(words, name, arm, brightness):
    job = compose_job([*ALONE, *words])
    assert (job.name, job.experiment) == (name, None)
    assert [(one.name, one.experiment, one.brightness) for one in job.arms] == [(arm, name, brightness)]
    assert job.reference == {}


def test_job_keys():
    job = compose_job([EXPERIMENT, "name=a.b-c", "results_dir=~/x=y", "executor.workers=2", "fresh=true"])
    assert (job.name, job.executor.workers, job.fresh) == ("a.b-c", 2, True)
    assert job.results_dir.name == "x=y"
    assert "~" not in str(job.results_dir)
    # what goes on where a fresh run stopped is not fresh
    assert not any("fresh" in word for word in job.run_overrides)
    again = compose_job(job.run_overrides)
    assert (again.arms, again.results_dir) == (job.arms, job.results_dir)


BAD = {
    "prior.scale=-1": "prior.scale=-1: must",
    "prior.scale=0": "prior.scale=0: must",
    "prior.scale=nan": "prior.scale=nan: must",
    "prior.scale=null": "prior.scale=null: must",
    "prior.scale=wide": "held_out",
    "prior.scale=": "prior.scale=: must",
    "prior.scale=[1]": "prior.scale=[1]: must",
    "prior.scale=${nothing}": "nothing",
    "prior.scal=1": "did you mean prior.scale?",
    "+prior.scal=1": "prior.scal:",
    "++prior.scale.deep=1": "prior.scale.deep:",
    "scale=1": "or prior.scale?",
    "+unknown=1": "unknown:",
    "seed=1": "seed:",
    "~prior.scale": "nothing can be deleted",
    "~prior": "nothing can be deleted",
    "prior=null": "prior=null:",
    "prior={scale: 1}": "must name one option",
    "prior=gauss": "choose from gaussian",
    "prior@x=gaussian": "@packages",
    "prior.name=gauss": "no such prior",
    "bound=map": "bound=map and brightness=none do not go together in arm regular",
    "brightness=none": "do not go together in arm untuned",
    "brightness.q=0": "brightness.q=0: must be a finite number in [1e-12, 1]",
    "brightness.q=1e-20": "brightness.q=1e-20: must be a finite number in [1e-12, 1]",
    "brightness.q=1.5": "brightness.q=1.5: must",
    "protocol=long": "choose from arena, brisk, default, fit, full",
    "protocol.iterations=0": "protocol.iterations=0: must",
    "protocol.burn_in=80000": "below protocol.iterations=80000",
    "protocol.seeds=[]": "protocol.seeds=[]:",
    "protocol.seeds=[2,2]": "protocol.seeds=[2,2]:",
    "protocol.seeds=-1": "protocol.seeds=-1:",
    "protocol.seeds=1,2": 'protocol.seeds=[1,2]", or add -m',
    "protocol.thin=3": "must divide",
    "executor.workers=0": "executor.workers=0: must",
    "executor.cores=2": "executor=local has no key cores",
    "executor=slurm": "choose from dask and local",
    "experiment=mnist": "(did you mean mnist_logreg?)",
    "only=[map]": "choose from regular, untuned, map_tuned, map_tuned_small_q, map_tuned_slack",
    "only=[]": "only=[]:",
    "only=3": "only=3:",
    "name=../x": "folder name",
    "name=[a]": "folder name",
    "name=.hidden": "folder name",
    "fresh=yes": "true or false",
    "results_dir=3": "must be a folder",
    "arms=3": "arms.NAME.GROUP.KEY",
    "arms.regular=3": "arms.NAME.GROUP.KEY",
    "arms.regular.brightness.q=0.1": "brightness=none has no key q",
    "arms.tuned.prior.scale=1": "no such arm; choose from regular",
    "arms.regular.executor.workers=1": "belongs to the whole run",
    "arms.regular.prior=null": "must name one option",
    "x[=3": "cannot be read",
    "word": "not of the form key=value",
}


@pytest.mark.parametrize("word", BAD)
def test_bad_words_in_one_line(word):
    with pytest.raises(ConfigError) as caught:
        compose_job([EXPERIMENT, word])
    assert BAD[word] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_that_no_arm_that_runs_has():
    with pytest.raises(ConfigError, match=r"brightness\.q: no arm that runs"):
        compose_job([EXPERIMENT, "only=regular", "brightness.q=0.1"])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "dataset: none is chosen"),
        (ALONE[:2], "sampler: none is chosen"),
        ([*ALONE, "arms.map.brightness.q=1"], "arms belong to experiments"),
        ([*ALONE, "only=map"], "the arm that runs is regular"),
        ([*ALONE, "bound=map", "brightness=none"], "do not go together"),
        ([*ALONE, "brightness=implicit"], "do not go together"),
    ],
)
def test_bad_single_arms(words, text):
    with pytest.raises(ConfigError, match=text):
        compose_job(words)


def write(folder, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


def write_experiment(folder, text: str, name="mine") -> None:
    """An experiment of one arm, and what else is said in it."""
    chosen = "".join(f"  - override /{word.replace('=', ': ')}\n" for word in ALONE)
    write(folder, f"experiment/{name}.yaml", f"# @package _global_\ndefaults:\n{chosen}{text}\n")


def test_options_of_ones_own(tmp_path):
    write(tmp_path, "protocol/mine.yaml", "name: mine\nseeds: 1\niterations: 20\nburn_in: 10\n")
    text = """# @package _global_
defaults:
  - override /dataset: mnist_7v9
  - override /model: logistic
  - override /sampler: random_walk
  - override /protocol: mine
prior: {scale: 3.0}
arms:
  a: [bound=map]
  b: []
"""
    write(tmp_path, "experiment/mine.yaml", text.replace("prior: {scale: 3.0}\n", ""))
    job = compose_job(["experiment=mine", "prior.scale=3"], [tmp_path])
    assert job.title == "mine"
    assert [(arm.name, arm.prior.scale, arm.protocol.iterations) for arm in job.arms] == [
        ("a", 3, 20),
        ("b", 3, 20),
    ]
    assert job.arms[0].brightness == Implicit(q=0.01)


@pytest.mark.thorough
def test_what_an_experiment_says_to_hydra_is_no_setting_of_ours(tmp_path):
    write_experiment(tmp_path, "hydra: {job: {name: '${hydra.mode}'}}\narms: {a: [protocol.seeds=-1]}")
    refused = flyrun(tmp_path, "--config-dir", ".", "experiment=mine")
    assert "protocol.seeds=-1: must be" in refused.stderr


@pytest.mark.parametrize(
    ("line", "text"),
    [
        # Hydra takes the first without a word
        ("override /model: probit", "experiment=mine: chooses its model twice; keep one line"),
        ("override /bound: [map]", "experiment=mine: override /bound: must name one option, not a list"),
        ("override bound: map", "In 'experiment/mine': Could not override 'experiment/bound@bound'"),
        ("_self_\n  - _self_", "Duplicate _self_ defined in experiment/mine"),
        ("override /executor: null", "executor=null: must name one option; see `flyrun list executor`"),
    ],
)
def test_an_experiment_whose_choices_are_in_doubt_is_refused(tmp_path, line, text):
    write_experiment(tmp_path, f"  - {line}\narms: {{a: []}}")
    refused = flyrun(tmp_path, "--config-dir", ".", "experiment=mine", "prior=laplace")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert text in refused.stderr


@pytest.mark.thorough
def test_what_an_included_experiment_says_of_a_group_stands_for_each_option(tmp_path):
    write_experiment(tmp_path, "prior: {scale: -7}", "theirs")
    text = "# @package _global_\ndefaults:\n  - theirs\narms: {a: [prior=laplace]}\n"
    write(tmp_path, "experiment/mine.yaml", text)
    refused = flyrun(tmp_path, "--config-dir", ".", "experiment=mine")
    assert "prior.scale=-7" in refused.stderr


@pytest.mark.thorough(but="words0")
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("arms: [a]", "In 'experiment/bad'"),
        ("arms: {a: 3}", "must map each arm's name"),
        ("arms: {a: [nonsense.q=1]}", "nonsense.q: no such key"),
        ("arms: {a: [name=x]}", "no key of an arm"),
        ("arms: {a: [bound=map, brightness.fraction=1]}", "brightness=implicit has no key fraction"),
        ("arms: {'a/b': [bound=map]}", "an arm's name"),
        ("arms: {a: [bound=map]}\nsampler: {stepp: 1}", "sampler.stepp: no such key"),
        ("arms: {a: [bound=map]}\nreference: nowhere", "reference=nowhere"),
        ("arms: {a: [", "not valid YAML"),
        ("protocol: 5", "protocol=5: must name one option"),
        ("protocol: null", "protocol=null: arm regular needs one"),
        ("prior: 5", "prior=5: must name one option"),
        ("bound: on\narms: {a: [bound=map]}", "bound=true: must name one option"),
        ("executor: null", "executor=null: must name one option"),
    ],
)
@pytest.mark.parametrize("words", [[], ["protocol=smoke"]])
def test_bad_experiment_files_in_one_line(tmp_path, content, text, words):
    write_experiment(tmp_path, content, "bad")
    with pytest.raises(ConfigError) as caught:
        compose_job(["experiment=bad", *words], [tmp_path])
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("word", "hydra"),
    [
        ("prior.scale=1,2", "++prior.scale=1,2"),
        ("+prior.scale=1", "++prior.scale=1"),
        ("prior=gaussian", "prior=gaussian"),
        ("arms.map_tuned.brightness.q=0.1", "++per_arm.map_tuned.brightness.q=0.1"),
        ("arms.a.prior=gaussian", "++per_arm.a.prior=gaussian"),
        ("hydra.verbose=true", "hydra.verbose=true"),
        ("only=[a,b]", "++only=[a,b]"),
    ],
)
def test_words_that_hydra_accepts_and_back(word, hydra):
    assert to_hydra(read([word], multirun=True)[0]) == hydra
    assert from_hydra([hydra]) == [word.lstrip("+")]


def test_the_robust_experiment_takes_the_other_molecules_too():
    assert compose_job(["experiment=opv_robust", "dataset=opv_scale"]).arms[0].dataset.name == "opv_scale"
    job = compose_job(["experiment=opv_robust", "dataset=opv_cep", "dataset.path=hce.csv"])
    assert job.arms[0].dataset.name == "opv_cep"


def test_a_sampler_takes_only_the_settings_that_it_has():
    """Defaults that its family has for settings of others are none of its own."""
    arm = compose_job(["dataset=toy_2d", "model=logistic", "sampler=random_walk"]).arms[0]
    assert with_sampler(arm, "slice", metric="hessian").sampler == Slice()
    assert with_sampler(arm, "hmc", metric="hessian").sampler.metric == "hessian"


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("baseline: hmc", "experiment=mine: baseline is no key; correct the experiment's file"),
        ("titel: Mine", r"experiment=mine: titel is no key \(did you mean title\?\)"),
        ("samplers: {step: 3}", r"experiment=mine: samplers is no key \(did you mean sampler\?\)"),
    ],
)
def test_an_unknown_key_of_an_experiments_file_is_refused_as_at_the_command_line(tmp_path, line, text):
    write_experiment(tmp_path, f"{line}\narms:\n  a: [sampler=random_walk, bound=none]")
    with pytest.raises(ConfigError, match=text):
        compose_job(["experiment=mine"], [tmp_path])
    write_experiment(tmp_path, "title: Mine\narms:\n  a: [sampler=random_walk, bound=none]")
    assert compose_job(["experiment=mine"], [tmp_path]).title == "Mine"
