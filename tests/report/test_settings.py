"""The table of settings: options and keys that are not at their default, beside the paper's."""

import json

import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.report import settings
from flyrun.experiments.report.arms import Run
from tests.stored import TABLE1

WORDS = ["experiment=mnist_logreg", "protocol.burn_in=500", "arms.map_tuned.brightness.q=0.02"]
PAPER = json.loads(TABLE1.read_text())["settings"]


def _run(*words, paper="mnist_logreg"):
    listed = [{"name": arm.name, "settings": arm.key_settings()} for arm in compose_job(words).arms]
    return Run({"arms": listed}, (), "", PAPER.get(paper, {}))


@pytest.fixture(scope="module")
def rows():
    return {row[0]: row[1:] for row in settings.table(_run(*WORDS)).rows}


def test_what_all_have_alike_stands_once(rows):
    assert (
        rows["all arms"][0]
        == "dataset=mnist_7v9 model=logistic prior=gaussian prior.scale=0.5 protocol.burn_in=500"
    )
    assert not any("protocol.burn_in" in row[0] for arm, row in rows.items() if arm != "all arms")


def test_an_arm_has_its_options_and_what_is_not_the_default(rows):
    assert rows["map_tuned_slack"][0] == (
        "bound=map bound.slack=0.5 brightness=implicit brightness.q=0.01 sampler=random_walk acceptance=exact"
    )
    # a default where another arm of this option has something else; none where all have it
    assert "bound.slack=0" in rows["map_tuned"][0]
    assert "sampler.metric" not in rows["regular"][0]


def test_what_the_paper_has_otherwise_is_beside_it(rows):
    assert rows["map_tuned"][1] == "brightness.q=0.01"
    assert all(row[1] == "-" for arm, row in rows.items() if arm != "map_tuned")


def test_a_start_that_is_not_the_papers_is_told_for_all_arms():
    table = settings.table(_run("experiment=cifar_softmax", paper="cifar_softmax"))
    assert "protocol.init=prior" in {row[0]: row[2] for row in table.rows}["all arms"]


def test_without_a_paper_there_is_no_column_of_it():
    assert settings.table(_run(*WORDS, paper="")).header == ("arm", "set to, where not the default")


def test_the_published_settings_are_the_ones_that_a_report_shows():
    by_arm = settings.stored(_run(*WORDS).info)
    alike, own = settings.split(by_arm)
    assert all(alike | own[arm] == by_arm[arm] for arm in by_arm)
