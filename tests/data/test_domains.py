"""What a target may hold, as families say it: one domain a task, and the first value that it has not."""

import numpy as np
import pytest

from flyrun.families import domains
from flyrun.families.family import family
from flyrun.families.options import for_tables, tasks
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.schema import schema
from flyrun.tables.options import Table


@pytest.mark.parametrize("name", for_tables())
def test_a_model_s_task_names_its_family_s_domain(name):
    assert domains.of(schema("model", name).task) is family(name).domain


def test_families_of_one_task_have_one_domain():
    """The first of a task is asked; the others must say the same."""
    for task in tasks():
        assert len({family(name).domain for name in for_tables(task)}) == 1


@pytest.mark.parametrize(
    ("task", "values", "at", "why"),
    [
        ("counts", [0, 3, 2.5, -1], 2, "counts are whole numbers from 0"),
        ("counts", [0, 3, -1.0], 2, "counts are whole numbers from 0"),
        ("successes", [0, 3, 2], 1, "successes are at most the trials"),
        ("positive", [1e-300, 0.0], 1, "such targets are numbers above 0"),
        ("regression", [-1e300, 0.5], None, ""),
    ],
)
def test_the_first_value_that_a_domain_has_not_is_named(task, values, at, why):
    refusal = domains.of(task).refusal(np.array(values, float), np.full(len(values), 2.0))
    assert refusal == (None if at is None else (at, why))


def test_a_sentence_tells_domains_apart():
    assert len({str(one) for one in domains.SHARED.values()}) == len(domains.SHARED)


def test_a_task_that_no_model_has_is_refused():
    with pytest.raises(DataError, match=r"dataset\.task=ages: no model"):
        domains.of("ages")
    with pytest.raises(ConfigError, match=r"dataset\.task=count: must be auto, .*did you mean counts"):
        Table(task="count")
