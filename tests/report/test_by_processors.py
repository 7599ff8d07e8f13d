"""Figures against numbers of processors: what they show, of which arms, and of others nothing."""

from types import SimpleNamespace

import pytest

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.illustrations import by_processors
from flyrun.ground.page.figures import faults

pytestmark = pytest.mark.figures


def arm(name, sampler, facts, cells, **model):
    info = {"settings": {"sampler": sampler, "model": model}, "facts": facts}
    made = tuple(SimpleNamespace(**cell) for cell in cells)
    return ArmResult(name, len(made), (info,) * len(made), made, None, {}, {}, {})


def run(*arms):
    return Run({}, arms, "")


def strips(processors, correlation, **more):
    sampler = {"name": "hogwild", "processors": processors, "schedule": "bsp", "sweeps": 1, **more}
    cells = [{"correlation": correlation, "correlation_se": 0.001}] * 2
    return arm(f"strips_{processors}", sampler, {"right_correlation": 0.4}, cells, beta=0.3)


def test_bias_is_in_percent_of_the_right_value_and_of_lockstep_alone():
    late = strips(5, 0.1, schedule="asynchronous")
    figure = by_processors.bias(run(strips(20, 0.3), strips(2, 0.398), late), None)
    (axis,) = figure.axes
    (line,) = [line for line in axis.lines if len(line.get_xdata()) == 2 and line.get_marker() == "o"]
    assert line.get_xdata().tolist() == [2, 20]
    assert line.get_ydata() == pytest.approx([-0.5, -25.0])
    assert faults(figure) == []
    assert by_processors.bias(run(strips(2, 0.398), late), None) is None
    assert by_processors.bias(run(strips(2, 0.398), strips(2, 0.3)), None) is None  # one place


def test_perplexity_stands_at_its_critical_path():
    cells = [{"of_perplexity": [500.0, 300.0]}, {"of_perplexity": [500.0, 310.0]}]
    serial = arm("gibbs", {}, {}, cells)
    shards = [arm(f"shards_{n}", {}, {"critical_per_round": 1000 / n}, cells) for n in (1, 4)]
    figure = by_processors.perplexity(run(serial, *shards), None)
    (axis,) = figure.axes
    places = [line.get_xdata()[0] for line in axis.lines if line.get_marker() == "o"]
    assert places == [1000, 250]
    assert {text.get_text() for text in axis.texts} == {"shards 1", "shards 4"}
    assert faults(figure) == []
    assert by_processors.perplexity(run(serial), None) is None
    assert by_processors.seconds(run(serial), None) is None


def test_time_a_site_is_by_threads_and_of_right_chains_alone():
    def timed(threads, sites, at, exact=True):
        sampler, facts = (
            {"name": "chromatic", "threads": threads},
            {"updates_per_round": sites, "exact": exact},
        )
        return arm(f"{threads}_{sites}_{exact}", sampler, facts, [{"us_per_site": at}] * 2)

    arms = [timed(2, 400, 0.9), timed(1, 400, 0.09), timed(2, 10**6, 0.018), timed(1, 10**6, 0.03)]
    figure = by_processors.a_site(run(*arms, timed(1, 900, 5.0, exact=False)), None)
    (axis,) = figure.axes
    lines = [line for line in axis.lines if line.get_marker() == "o"]
    assert [line.get_ydata().tolist() for line in lines] == [[90.0, 30.0], [900.0, 18.0]]
    assert faults(figure) == []
    assert by_processors.a_site(run(*arms[:1]), None) is None
