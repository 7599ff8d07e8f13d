"""A budget too small for any draw ends in one line, whose remedy works, for every family of methods.

The fault: set-up, burn-in or the first step spends the budget, and a method with nothing to hand in raises
what numpy says of empty arrays, or hands in a draw that was never paid for.
"""

import re

import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.runner.cell import Task, cells
from flyrun.experiments.runner.chunks import run_cell
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError

ROWS = ["dataset=toy_2d", "dataset.n_data=60", "model=logistic", "prior=gaussian", "bound=none"]
BATCHES = [*ROWS, "sampler.batch=10"]
TOPICS = [f"dataset.n_{one}" for one in ("documents=20", "valid=4", "test=4", "words=30", "topics=2")]
FAMILIES = {
    "random_walk": ROWS,
    "gibbs": ["dataset=grid", "dataset.side=3", "model=ising"],
    "mixture_gibbs": ["dataset=mixture", "dataset.n_data=12", "model=mixture", "prior=gaussian"],
    "hogwild": ["dataset=lattice", "dataset.rows=4", "dataset.columns=4", "model=ising"],
    "importance": ROWS,
    "weighted": ROWS,
    "laplace": ROWS,
    "ep": ROWS,
    "mean_field": ROWS,
    "sgld": BATCHES,
    "zigzag": [*ROWS, "protocol.init=map"],
    "weierstrass_gibbs": ROWS,
    "prefetching": ROWS,
}
#: no set-up, no burn-in: what the first step makes is an answer
OF_ONE_STEP = {
    "pmd": [*BATCHES, "sampler.particles=20"],
    "one_pass_smc": [*BATCHES, "sampler.particles=20"],
    "subset_of_data": ["dataset=noisy_curve", "model=gaussian_process"],
    "lda_gibbs": ["dataset=topic_corpus", "model=lda", "model.n_topics=2", *TOPICS],
}


def words(sampler, budget):
    length = ["protocol.iterations=12", "protocol.burn_in=4", "protocol.seeds=1"]
    return [f"sampler={sampler}", *(FAMILIES | OF_ONE_STEP)[sampler], *length, budget]


def outcome(folder, sampler, budget):
    """How an arm's one cell ends, in this process."""
    (folder / "setup").mkdir(exist_ok=True)
    (cell,) = cells(compose_job([*words(sampler, budget), f"results_dir={folder}"]))
    return run_cell(Task(cell, prepare, folder / "setup", {}), lambda event: None, lambda: False, {})


@pytest.mark.thorough(but=("random_walk", "importance", "laplace", "sgld"))
@pytest.mark.parametrize(
    ("sampler", "unit"),
    [*((name, "queries") for name in FAMILIES), ("laplace", "passes")],
)
def test_a_budget_too_small_for_any_draw_is_one_line_with_a_budget_that_serves(sampler, unit, tmp_path):
    ended = outcome(tmp_path, sampler, f"protocol.budget.{unit}=0.5")
    where = r"(by the set-up alone|at \w+ \d+, within burn-in)"
    found = re.fullmatch(
        rf"protocol\.budget\.{unit}=0\.5: is spent {where}; take (protocol\.budget\.{unit}=\d+)",
        ended.message,
    )
    assert (ended.state, bool(found)) == ("failed", True), ended.message
    assert outcome(tmp_path, sampler, found[2]).state == "done"


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("sampler", OF_ONE_STEP)
def test_a_method_without_set_up_and_burn_in_ends_at_the_step_that_spends_the_budget(sampler, tmp_path):
    ended = outcome(tmp_path, sampler, "protocol.budget.queries=0.5")
    assert (ended.state, ended.info["iterations"]) == ("done", 1)


@pytest.mark.parametrize("unit", ["queries", "passes"])
def test_shards_take_no_budget_and_say_which_key_to_lift(unit):
    with pytest.raises(ConfigError, match=rf"give protocol\.iterations, and protocol\.budget\.{unit}=null$"):
        compose_job(["sampler=consensus", *ROWS, f"protocol.budget.{unit}=9"])
