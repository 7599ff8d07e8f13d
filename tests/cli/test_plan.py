"""flyrun plan: what it prints, what it refuses; its account against what runs measure."""

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.problem import bind
from flyrun.experiments.plan.expected import expected, zigzag_time
from flyrun.experiments.samplers.method import prepare

DATA = ["dataset=tall", "dataset.n_data=4000", "model=logistic", "prior=gaussian", "prior.scale=10"]


@pytest.mark.thorough
def test_it_prints_every_method_and_how_to_choose_the_first(capsys):
    assert main(["plan", "breast_cancer"]) == 0
    said = capsys.readouterr().out
    assert "569 rows" in said
    for name in ("independence", "mh_ss, order 3", "surrogate_transition, order 2", "zigzag, order 1"):
        assert name in said
    assert "the first with: sampler=" in said


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ([], "plan: DATA is missing; as in `flyrun plan mnist_7v9`"),
        (["mnist_7v9", "tall"], "tall is one word too many"),
        (["mnst_7v9"], "did you mean mnist_7v9"),
        (["README.md"], "--target COLUMN"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, match, capsys):
    assert main(["plan", *words]) == 2
    said = capsys.readouterr().err.strip()
    assert match in said
    assert "\n" not in said


@pytest.mark.slow  # runs every method of the plan
def test_what_it_expects_is_what_runs_measure(tmp_path):
    """Within 15 %: data drawn for a test and acceptance, and a Zig-Zag's looks, of 4,000 rows."""
    problem = bind(arm_of(DATA), tmp_path, needs_map=True)
    found = {one.name: one for one in expected(arm_of(DATA), problem)}
    for name, order in (("mh_ss", 2), ("mh_ss", 3), ("smh", 2)):
        words = ("sampler=pcn", f"acceptance={name}", f"acceptance.order={order}", "protocol.init=map")
        method = prepare(arm_of([*DATA, *words], ()), tmp_path)
        _, records = method.advance(method.init(1), 4000)
        one = found[f"{name}, order {order}"]
        assert one.setup == method.facts().setup_queries
        assert one.acceptance == pytest.approx(records["accepted"].mean(), rel=0.15)
        assert 2 * one.candidates == pytest.approx(records["queries"].mean(), rel=0.15)
    method = prepare(arm_of([*DATA, "sampler=zigzag", "protocol.init=map"], ()), tmp_path)
    _, records = method.advance(method.init(1), 2000)
    looks = np.mean(records["queries"]) / method.arm.sampler.slice
    assert found["zigzag, order 2"].candidates == pytest.approx(looks, rel=0.15)


def test_a_zigzags_time_is_what_one_that_flips_in_vain_takes():
    """One coordinate, rates (vφ)₊ + γ: the variance of a long path's integral is the one in closed form."""
    rng, vain, length, n = np.random.default_rng(1), 0.7, 40.0, 4000
    phi, v, total = rng.standard_normal(n), rng.choice([-1.0, 1.0], n), np.zeros(n)
    left = np.full(n, length)
    while (left > 0).any():
        a, ring = v * phi, rng.standard_exponential(n)
        to_flip = np.where(a > 0, -a + np.sqrt(a * a + 2 * ring), -a + np.sqrt(2 * ring))
        step = np.minimum(np.minimum(to_flip, rng.standard_exponential(n) / vain), left)
        total += step * phi + 0.5 * v * step**2
        phi, left = phi + v * step, left - step
        v = np.where(left > 0, -v, v)
    assert total.var() / length == pytest.approx(zigzag_time(vain), rel=0.1)
