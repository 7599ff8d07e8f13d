"""How many data are bright is known given θ: chains are held against it, whatever moves their brightness."""

from typing import NamedTuple

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.samplers.chain.brightness import explicit, implicit, per_datum
from flyrun.experiments.samplers.chain.brightness.base import resample
from flyrun.experiments.samplers.chain.targets.firefly import darken, firefly
from flyrun.experiments.samplers.chain.targets.target import bright_count, start
from flyrun.ground.numerics.compiled import implements
from tests.samplers.approximations.exact import method_of

UPDATES = {"implicit": implicit, "explicit": explicit, "per_datum": per_datum}


class NeverLights(NamedTuple):
    """The broken twin: what is bright darkens, one an iteration, and nothing is lit."""

    unused: int = 0


@implements(resample, NeverLights)
def _never(brightness, rng, target, theta):
    if target.memory.partition.n_bright[0] > 0:
        darken(target, 0)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "words",
    [
        ("bound=map", "brightness=per_datum"),
        ("bound=untuned", "brightness=implicit"),
        ("bound=local", "bound.mass_outside=0.5", "brightness=per_datum"),
        ("acceptance=pseudo_marginal", "bound=none", "brightness=none", "sampler.step=1"),
    ],
)
def test_the_trace_has_how_many_data_are_bright_on_average_where_they_are_drawn_anew(tmp_path, words):
    method = method_of(tmp_path, "sampler=random_walk", *words)
    assert method.trace(np.zeros((0, method.n_params)))["bright_expected"].shape == (0,)
    places = np.array([[0.0, 0.1, -0.2], [2.5, 1.5, 0.0], [-4.0, 9.0, 3.0]])
    expected, target, rng = method.trace(places)["bright_expected"], method.parts[0], np.random.default_rng(4)
    for theta, mean in zip(places, expected, strict=True):
        counts = []
        for _ in range(400):
            fresh = firefly(target.base, target.model, target.bound, target.features, gradients=False)
            start(fresh, rng, theta)
            counts.append(bright_count(fresh))
        assert np.mean(counts) == pytest.approx(mean, abs=4.5 * np.sqrt(max(mean, 1e-3) / 400))
    assert np.ptp(expected) > 1.0


def test_full_data_and_biased_rules_promise_nothing_of_brightness(tmp_path):
    chain = ("sampler=random_walk", "sampler.step=1")
    whole = method_of(tmp_path, *chain, "bound=none", "brightness=none")
    biased = method_of(tmp_path, *chain, "acceptance=bright_subset", "bound=map", "brightness=implicit")
    assert "bright_expected" not in whole.trace(np.zeros((1, 3)))
    assert not any("occupation" in method.facts().plain() for method in (whole, biased))


RUN = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic", "prior=gaussian"]
RUN += ["protocol.seeds=2", "protocol.iterations=2000", "protocol.burn_in=500"]
RUN += ["executor.workers=1", "--quiet"]
KINDS = {
    "implicit": ["sampler=random_walk", "bound=untuned", "brightness=implicit"],
    "explicit": ["sampler=slice", "bound=map", "brightness=explicit"],
    "per_datum": ["sampler=hmc", "bound=local", "brightness=per_datum"],
}


@pytest.mark.thorough
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_report_marks_chains_that_light_nothing_and_no_others(tmp_path, monkeypatch, kind, broken):
    if broken:
        monkeypatch.setattr(UPDATES[kind], "build", lambda *_: NeverLights())
    assert main([*RUN, *KINDS[kind], "name=x", f"results_dir={tmp_path}"]) == 0
    page = (tmp_path / "runs" / "x" / "report.md").read_text()
    assert ("rows are bright on average" in page) == broken
    assert ("brightness=explicit brightness.fraction=1" in page) == broken


@pytest.mark.thorough
@pytest.mark.parametrize("broken", [False, True])
def test_a_report_holds_pseudo_marginal_chains_to_the_same(tmp_path, monkeypatch, broken):
    """Their broken twin forgets the density of the proposed brightness: θ and z sit where few are bright."""
    if broken:
        from flyrun.experiments.samplers.chain.acceptance import pseudo_marginal

        made = pseudo_marginal.build
        monkeypatch.setattr(pseudo_marginal, "build", lambda *a: made(*a)._replace(log_odds=0.0))
    words = ["sampler=random_walk", "sampler.metric=hessian", "sampler.step=1", "acceptance=pseudo_marginal"]
    words += ["bound=none", "brightness=none", "acceptance.q=0.05", "protocol.init=map"]
    assert main([*RUN, *words, "protocol.iterations=20000", "name=x", f"results_dir={tmp_path}"]) == 0
    page = (tmp_path / "runs" / "x" / "report.md").read_text()
    assert ("rows are bright on average" in page) == broken
    assert ("acceptance=exact bound=map brightness=implicit" in page) == broken
