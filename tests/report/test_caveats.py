"""Caveats on samplers that are exact and hardly move: shown where that is so, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from flyrun.cli.main import main
from flyrun.experiments.report.arms import ArmResult
from flyrun.experiments.report.gaussian_caveats import about_a_gaussian
from flyrun.experiments.report.sections import marginal_error as gibbs_words


def arm(settings, facts, rhat=1.0):
    info = {"settings": {group: {"name": name} for group, name in settings.items()}, "facts": facts}
    return ArmResult("a", 1, (info,), (None,), SimpleNamespace(rhat=[1.0, rhat]), {}, {}, {})


@pytest.mark.parametrize(
    ("sampler", "batches", "total", "key"),
    [
        ("min_gibbs", [1731.0], 416.14, "sampler.batch,"),
        ("min_gibbs", [40_000.0], 416.14, "sampler.batch,"),
        ("min_gibbs", [43_300.0], 416.14, ""),  # Ψ²/4
        ("double_min", [26.0, 5000.0], 957.13, "sampler.second_batch,"),
        ("double_min", [26.0, 957.13**2], 957.13, ""),
        ("min_gibbs", [0.001], 0.1, ""),  # below Ψ²/4, of an energy that hardly varies at all
        ("min_gibbs", [1.0], 0.0, ""),
        ("mgpmh", [0.1], 416.14, ""),
        ("gibbs", [], 416.14, ""),
    ],
)
def test_small_batches(sampler, batches, total, key):
    said = gibbs_words.sticks(arm({"sampler": sampler}, {"batches": batches, "total_energy_bound": total}))
    assert len(said) == bool(key)
    assert all(key in text and "below Ψ²/4" in text for text in said)


@pytest.mark.thorough
def test_a_report_tells_of_a_small_batch(tmp_path):
    words = ["experiment=ising_min_gibbs", "dataset.side=4", "protocol.seeds=2", "protocol.iterations=60"]
    words += ["protocol.burn_in=10", "executor.workers=1", f"results_dir={tmp_path}", "--quiet"]
    assert main([*words, "only=[gibbs,min_1,min_2]", "arms.min_2.sampler.batch=0.01"]) == 0
    report = (tmp_path / "runs" / "ising_min_gibbs" / "report.md").read_text()
    assert report.count("below Ψ²/4") == 1
    assert "min\\_2: its mean batch λ" in report


INDEPENDENCE = {"sampler": "independence", "model": "student_t", "prior": "laplace", "protocol": "x"}


@pytest.mark.parametrize(
    ("changed", "n_data", "text"),
    [
        ({}, 120, "a Student-t likelihood and a Laplace prior with 2.1 data a coefficient"),
        ({"model": "logistic"}, 120, "a posterior of a Laplace prior with"),
        ({"prior": "gaussian"}, 120, "a posterior of a Student-t likelihood with"),
        ({}, 285, ""),
        ({"model": "logistic", "prior": "gaussian"}, 120, ""),
        ({"sampler": "hmc"}, 60, ""),
    ],
)
def test_few_data_and_heavy_tails(changed, n_data, text):
    found = arm({**INDEPENDENCE, **changed}, {"n_data": n_data, "n_params": 57})
    said = about_a_gaussian(found)
    assert len(said) == bool(text)
    assert all(text in one for one in said)


@pytest.mark.parametrize(
    ("sampler", "init", "rhat", "shown"),
    [
        ("elliptical_slice", "prior", 3.6, True),
        ("elliptical_slice", "prior", float("nan"), False),
        ("elliptical_slice", "prior", 1.0, False),
        ("elliptical_slice", "map", 3.6, False),
        ("random_walk", "prior", 3.6, False),
    ],
)
def test_elliptical_slice_far_out(sampler, init, rhat, shown):
    found = arm({"sampler": sampler}, {"n_data": 60, "n_params": 57}, rhat)
    found.infos[0]["settings"]["protocol"] = {"init": init}
    said = about_a_gaussian(found)
    assert [("protocol.init=map" in one) for one in said] == [True] * shown


@pytest.mark.parametrize(
    ("sampler", "rate", "shown"),
    [
        ("surrogate_transition", 0.01, True),
        ("surrogate_transition", 0.9, False),
        ("pcn", 0.01, False),
    ],
)
def test_a_surrogate_transition_that_goes_astray(sampler, rate, shown):
    found = arm({"sampler": sampler}, {})
    found.infos[0]["settings"]["sampler"] |= {"moves": 20, "persistence": 0.7}
    said = about_a_gaussian(replace(found, cells=(SimpleNamespace(accept_rate=rate),)))
    assert len(said) == shown
    assert all("take sampler.moves=5 or sampler.persistence=0.85." in text for text in said)
