"""What prefetching gains, as a report says it: a small run with simulated and real workers, its caveats."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.report.sections import prefetching

pytestmark = pytest.mark.figures("steps_by_workers", "seconds_by_team")

EXPERIMENT = """# @package _global_
# Prefetching on points in the plane
defaults:
  - override /dataset: toy_2d
  - override /model: logistic
  - override /prior: gaussian
  - override /sampler: prefetching
  - override /protocol: smoke
executor: { workers: 1 }
protocol: { seeds: 1, iterations: 200, burn_in: 50, init: map }
figures: [steps_by_workers, by_processors]
drawn: [regular]
arms:
  regular: [sampler.workers=1, sampler.team=threads]
  threads: [sampler.workers=2, sampler.team=threads]
  far: [sampler.workers=4, sampler.scheme=static, sampler.latency=5]
  naive: [sampler.scheme=naive]
sweep:
  workers: { arms: [naive], points: { 4: [sampler.workers=4] } }
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefetching")
    (folder / "mine/experiment").mkdir(parents=True)
    (folder / "mine/experiment/ahead.yaml").write_text(EXPERIMENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["experiment=ahead", "--config-dir", "mine"]) == 0
    return folder / "results/runs/ahead"


@pytest.mark.thorough
def test_the_table_has_what_rounds_cost_and_what_theory_expects(run):
    rows = {row["arm"]: row for row in csv.DictReader((run / "table.csv").open())}
    one, ahead = rows["regular"], rows["naive"]
    assert (float(one["prefetch_steps"]), float(one["prefetch_wasted"])) == (1, 0)
    assert float(ahead["prefetch_steps"]) == pytest.approx(4, abs=0.1)
    assert float(ahead["prefetch_expected"]) == 4
    assert float(ahead["prefetch_wasted"]) == pytest.approx(1 - 4 / 15, abs=0.02)
    assert float(ahead["prefetch_speedup"]) == pytest.approx(float(ahead["prefetch_steps"]))
    assert float(ahead["prefetch_bytes"]) == pytest.approx(15 / 4 * 8 * 13, rel=0.03)
    assert ahead["prefetch_wrong"] == ""
    assert float(one["prefetch_wrong"]) < 0.2
    assert float(rows["far"]["prefetch_speedup"]) < 0.6
    assert float(one["prefetch_speedup"]) == 1
    assert float(rows["threads"]["prefetch_possible"]) < 2


@pytest.mark.thorough
def test_the_page_shows_both_kinds_and_says_what_does_not_pay(run):
    page = " ".join((run / "report.md").read_text().split())
    assert "Prefetching, simulated workers" in page
    assert "Prefetching, real workers" in page
    assert "4 workers are slower than one: messages of 5 evaluations cost more than they gain." in page
    assert "Prefetching is simulated: an evaluation takes" in page
    for name in ("steps_by_workers", "seconds_by_team"):
        assert (run / f"figures/{name}.png").stat().st_size > 10_000


def test_what_is_left_of_a_round_goes_by_its_messages():
    facts = {"evaluation_s": 0.3, "message_s": 0.1}
    arm = SimpleNamespace(setting=lambda *keys: 2, fact_mean=facts.get)
    assert prefetching._worth(arm) == pytest.approx(0.75)
    arm.has = lambda name: name != "prefetch_evaluations"
    arm.each = {"prefetch_steps": np.array([1.4, 1.6])}.get
    assert prefetching._arm_caveats(None, arm) == []
    facts["evaluation_s"] = 0.1
    assert prefetching._arm_caveats(None, arm) == [
        "an evaluation takes 100 ms, messages 100 ms a round: 2 workers pay from 200 ms on."
    ]
    assert prefetching._worth(SimpleNamespace(setting=lambda *keys: 1)) == 1
