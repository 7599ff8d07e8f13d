"""Colours of arms: one for a method in every figure, and no two arms of a figure alike."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from flyrun.experiments.config import catalogue
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.report.arms import ArmResult
from flyrun.experiments.report.build import load
from flyrun.experiments.report.colours import KNOWN, looks, styles_of
from flyrun.experiments.report.sections import chains
from flyrun.ground.page import figures
from flyrun.ground.page.colours import LINES, PALETTE
from tests.stored import write_three_arms

# fmt: off
ONLY = {
    # of the many arms that are alike but for the graph, those of two graphs
    "gibbs_cost": ["only=[gibbs,min,local,mgpmh,double,poisson,gibbs_edges,local_edges,poisson_edges]"],
    # of settings tried, those that figures draw
    "pmd_mixture_search": [
        "only=[kde_late,kde_epochs_width_0.03,hybrid_late,hybrid_epochs,ours_twice,sgld_step_0.03,svi_constant_0.03,"
        "npv,one_pass_smc]"
    ],
    "gradient_samplers_search": ["only=[sgld_step_0.01,sgld_cv_step_0.3,sghmc_step_0.01,sgfs_longer]"],
}
# fmt: on


def _arm(arm) -> ArmResult:
    groups = {name: asdict(getattr(arm, name)) for name in ("dataset", "model", "sampler")}
    settings = {name: {**group, "name": getattr(arm, name).name} for name, group in groups.items()}
    sweep = arm.swept and asdict(arm.swept)
    return ArmResult(arm.name, 1, ({"settings": settings},), (None,), None, {}, {}, {}, sweep=sweep)


@pytest.fixture(scope="module")
def drawn():
    """experiment -> (its arms, arm -> look, names of the arms that figures draw)."""
    found = {}
    for name in catalogue.options("experiment"):
        job = compose_job([f"experiment={name}", *ONLY.get(name, [])])
        arms = tuple(_arm(arm) for arm in job.arms)
        shown = job.drawn or [arm.name for arm in arms]
        found[name] = arms, styles_of(arms), {*shown, *(arm.name for arm in arms if arm.sweep is None)}
    return found


@pytest.mark.thorough
def test_an_arm_has_one_colour_in_all_experiments(drawn):
    colours: dict[str, set[str]] = {}
    for _, found, _ in drawn.values():
        for arm, look in found.items():
            colours.setdefault(arm, set()).add(look.colour)
    assert {arm: one for arm, one in colours.items() if len(one) > 1} == {}
    assert {"regular", "untuned", "map_tuned", "independence", "firefly_hmc", "mgpmh_1"} < colours.keys()
    # a method under another name
    assert colours["mgpmh"] == colours["mgpmh_1"] == colours["mgpmh_4"] == {KNOWN["mgpmh"]}
    assert colours["gibbs"] == {KNOWN["gibbs"]}


@pytest.mark.thorough
def test_no_two_arms_of_a_figure_look_alike(drawn):
    for arms, found, shown in drawn.values():
        for graph in {arm.problem for arm in arms}:
            names = [arm.name for arm in arms if arm.problem == graph and arm.name in shown]
            assert len({found[name] for name in names}) == len(names)


def test_colours_do_not_depend_on_the_order_of_known_arms_or_on_which_are_there():
    three = ["regular", "untuned", "map_tuned"]
    every = looks({name: name for name in three})
    assert looks({name: name for name in reversed(three)}) == every
    assert looks({"untuned": "untuned"})["untuned"] == every["untuned"]


def test_arms_of_ones_own_differ_however_many():
    names = [f"mine_{k}" for k in range(len(PALETTE) * len(LINES))]
    found = looks({name: name for name in ["regular", *names[:-1]]})
    assert len(set(found.values())) == len(names)
    assert len({found[name].colour for name in ["regular", *names[:7]]}) == len(PALETTE)


@pytest.mark.thorough
def test_lags_are_on_a_logarithmic_axis_and_long_axes_have_few_numbers(tmp_path):
    run = load(write_three_arms(tmp_path / "run", seeds=2))
    drawn = chains.SECTION.figures["autocorrelation"](run.arms, styles_of(run.arms), "")
    (axis,) = drawn.axes
    assert axis.get_xscale() == "log"
    assert axis.get_xlim()[0] == 1
    assert [line.get_color() for line in axis.lines[:3]] == [KNOWN[arm.name] for arm in run.arms]
    for high, most in ((200, 9), (100_000, 6)):
        axis.set_xlim(1, high)
        figures.round_numbers(axis.xaxis)
        assert len([tick for tick in axis.get_xticks() if 1 <= tick <= high]) <= most
