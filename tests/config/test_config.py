"""The dataclasses refuse what is unsuitable, in one line that names key, value and remedy."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from flyrun.experiments.config import plugins
from flyrun.experiments.config.acceptance import Exact
from flyrun.experiments.config.arm import ARM_GROUPS, Arm
from flyrun.experiments.config.bound import Map, NoBound
from flyrun.experiments.config.brightness import Explicit, Implicit, NoBrightness
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.config.dataset.row_data import Mnist7v9
from flyrun.experiments.config.prior import Gaussian
from flyrun.experiments.config.protocol import Protocol
from flyrun.experiments.config.sampler.chain import RandomWalk, Slice
from flyrun.families.options import Logistic
from flyrun.ground import schema
from flyrun.ground.errors import ConfigError
from flyrun.ground.executor import Local
from flyrun.ground.paths import conf_dir

ARM = Arm(
    experiment="test",
    name="map_tuned",
    dataset=Mnist7v9(),
    model=Logistic(),
    prior=Gaussian(),
    bound=Map(),
    brightness=Implicit(),
    sampler=RandomWalk(),
    protocol=Protocol(),
)


def refused(make) -> str:
    with pytest.raises(ConfigError) as caught:
        make()
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: Gaussian(scale=0), "prior.scale=0:"),
        (lambda: Gaussian(scale=-1), "prior.scale=-1:"),
        (lambda: Gaussian(scale=math.nan), "prior.scale=nan:"),
        (lambda: Gaussian(scale=math.inf), "prior.scale=inf:"),
        (lambda: Gaussian(scale="1"), "prior.scale=1:"),
        (lambda: Gaussian(scale=None), "prior.scale=null:"),
        (lambda: Gaussian(scale=True), "prior.scale=true:"),
        (lambda: Gaussian(grid=[]), "prior.grid=[]:"),
        (lambda: Gaussian(grid=[1, -1]), "prior.grid=[1,-1]:"),
        (lambda: Implicit(q=0), "brightness.q=0:"),
        (lambda: Implicit(q=1.01), "brightness.q=1.01:"),
        (lambda: Explicit(order="random"), "brightness.order=random:"),
        (lambda: Protocol(iterations=0), "protocol.iterations=0:"),
        (lambda: Protocol(iterations=10.5), "protocol.iterations=10.5:"),
        (lambda: Protocol(iterations=10, burn_in=10), "protocol.burn_in=10:"),
        (lambda: Protocol(burn_in=-1), "protocol.burn_in=-1:"),
        (lambda: Protocol(seeds=0), "protocol.seeds=0:"),
        (lambda: Protocol(seeds=[]), "protocol.seeds=[]:"),
        (lambda: Protocol(seeds=[1, 1]), "protocol.seeds=[1,1]:"),
        (lambda: Protocol(seeds=[-1]), "protocol.seeds=[-1]:"),
        (lambda: Protocol(thin=7), "protocol.thin=7:"),
        (lambda: Protocol(thin=0), "protocol.thin=0:"),
        (lambda: Protocol(init="mle"), "protocol.init=mle:"),
        (lambda: Local(workers=0), "executor.workers=0:"),
        (lambda: Mnist7v9(limit=0), "dataset.limit=0:"),
        (lambda: Mnist7v9(n_components=785), "dataset.n_components=785:"),
        (lambda: Mnist7v9(classes=(7, 7)), "dataset.classes=[7,7]:"),
        (lambda: Mnist7v9(classes=(7,)), "dataset.classes=[7]:"),
        (lambda: RandomWalk(step=-1), "sampler.step=-1:"),
    ],
)
def test_refuses_with_key_and_value(make, key):
    text = refused(make)
    assert text.startswith(key)
    assert "must" in text


def test_accepts_the_ends_of_ranges():
    assert Implicit(q=1).q == 1.0
    assert Protocol(iterations=1, burn_in=0).iterations == 1
    assert Protocol(iterations=1e4, burn_in=0).iterations == 10_000
    assert Gaussian(scale="held_out").scale == "held_out"


@given(
    st.floats() | st.integers() | st.text(max_size=5) | st.none() | st.booleans() | st.lists(st.integers())
)
def test_q_is_in_its_range_or_refused(value):
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 1e-12 <= value <= 1
    if good:
        assert Implicit(q=value).q == value
    else:
        refused(lambda: Implicit(q=value))


@given(st.integers(-3, 40), st.integers(-3, 40), st.integers(-1, 8))
def test_protocol_holds_what_the_runner_relies_on(iterations, burn_in, thin):
    try:
        protocol = Protocol(iterations=iterations, burn_in=burn_in, thin=thin)
    except ConfigError:
        assert thin < 1 or burn_in < 0 or burn_in >= iterations or iterations % thin or burn_in % thin
        return
    assert 0 <= protocol.burn_in < protocol.iterations
    assert protocol.iterations % protocol.thin == protocol.burn_in % protocol.thin == 0


def test_seed_list():
    assert Protocol(seeds=3).seed_list == (0, 1, 2)
    assert Protocol(seeds=[4, 2]).seed_list == (4, 2)


def test_arm_is_picklable_hashable_and_plain():
    assert pickle.loads(pickle.dumps(ARM)) == ARM
    assert hash(ARM) == hash(replace(ARM))
    settings = ARM.settings()
    assert json.loads(json.dumps(settings)) == settings
    assert list(settings) == list(ARM_GROUPS)


def test_key_settings_ignore_what_leaves_draws_unchanged():
    other = replace(ARM, protocol=Protocol(name="mine", seeds=2, chunk_seconds=9.0))
    assert other.key_settings() == ARM.key_settings()
    longer = replace(ARM, protocol=Protocol(iterations=50_000))
    assert longer.key_settings() != ARM.key_settings()


@pytest.mark.parametrize(("bound", "brightness"), [(NoBound(), Implicit()), (Map(), NoBrightness())])
def test_bound_and_brightness_go_together(bound, brightness):
    text = refused(lambda: replace(ARM, bound=bound, brightness=brightness))
    assert f"bound={bound.name}" in text
    assert f"brightness={brightness.name}" in text


def test_a_rule_of_acceptance_stands_where_an_update_takes_one(monkeypatch):
    assert ARM.acceptance == Exact()
    assert "acceptance" not in ARM.method()  # the draws are those of chains before there were rules
    other = replace(ARM, sampler=Slice())
    assert other.acceptance is None
    monkeypatch.setattr(Exact, "idle", False)
    assert "acceptance=exact: sampler=slice has none" in refused(lambda: replace(other, acceptance=Exact()))


@pytest.mark.parametrize("rows", ["dataset=mnist_7v9 model=logistic", "dataset=cifar3 model=softmax"])
def test_each_sampler_that_a_refusal_names_can_be_chosen(rows, tmp_path):
    with pytest.raises(ConfigError, match="do not fit") as refused:
        compose_job([*rows.split(), "sampler=gibbs"])
    named = str(refused.value).partition("choose ")[2].replace(" and ", ", ").split(", ")
    assert "hmc" in named
    assert "mixture_gibbs" not in named  # of rows, but of the mixture's alone
    chosen = "".join(f"  {name}: [sampler={name}]\n" for name in named)
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/each.yaml").write_text(f"# @package _global_\narms:\n{chosen}")
    job = compose_job([*rows.split(), "experiment=each"], [tmp_path])
    assert [arm.sampler.name for arm in job.arms] == named


def test_missing_group_is_named():
    assert refused(lambda: replace(ARM, prior=None)).startswith("prior=null:")


def test_model_without_a_use_for_groups_leaves_them_out(monkeypatch):
    monkeypatch.setattr(Logistic, "needs", ())
    monkeypatch.setattr(RandomWalk, "needs", ())
    arm = replace(ARM, prior=None, bound=None, brightness=None)
    assert list(arm.settings()) == ["dataset", "model", "sampler", "protocol"]


def test_build_names_unknown_options_and_keys():
    assert "did you mean scale?" in refused(lambda: schema.build("prior", {"name": "gaussian", "scal": 1}))
    assert "gaussian" in refused(lambda: schema.build("prior", {"name": "gauss"}))
    refused(lambda: schema.build("prior", None))


@pytest.mark.parametrize("group", sorted(schema.SCHEMAS))
def test_every_yaml_option_is_its_schema_and_says_what_it_is(group):
    paths = sorted((conf_dir() / group).glob("*.yaml"))
    for path in paths:
        values = yaml.safe_load(path.read_text())
        choice = schema.build(group, values)
        assert choice.name == path.stem
        own = {key for key, _, item in schema.typed_fields(type(choice)) if not item.metadata.get("shared")}
        assert set(schema.flat(values)) == own, path
        assert path.read_text().startswith("# ")
    named = {name for name in schema.SCHEMAS[group] if name != "*"} - set(plugins.names(group))
    assert named <= {path.stem for path in paths}
