"""A figure without data in an axis, or with lines that cannot be told apart, is not published."""

import numpy as np
import pytest

from flyrun.experiments.compare.publish import publish
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.figures import band
from flyrun.experiments.report.sections import cost
from flyrun.ground.errors import StoreError
from flyrun.ground.page.figures import MOST_LINES, faults, new_figure
from tests.stored import write_three_arms


def two_panels():
    figure = new_figure()
    above, below = figure.subplots(2, 1)
    above.plot([1, 2], [3, 4], label="one")
    return figure, below


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    "draw",
    [
        lambda axis: axis.plot([0, 1], [2, 3]),
        lambda axis: axis.loglog([1, 10], [2, np.nan]),
        lambda axis: axis.scatter([1, 2], [3, 4]),
        lambda axis: axis.bar([1, 2], [3, 4]),
        lambda axis: axis.barh([1, 2], [3, 4]),
        lambda axis: axis.fill_between([1, 2], [3, 4], [5, 6]),
        lambda axis: axis.errorbar([1, 2], [3, 4], [1, 1], fmt="none"),
        lambda axis: axis.hist([1, 2, 2, 3]),
        lambda axis: axis.imshow(np.eye(3)),
        lambda axis: axis.step([1, 2], [3, 4]),
        lambda axis: axis.set_axis_off(),
    ],
)
def test_what_shows_data_has_no_fault(draw):
    figure, axis = two_panels()
    draw(axis)
    assert faults(figure) == []


@pytest.mark.thorough(but=2)
@pytest.mark.filterwarnings("ignore:Data has no positive values")
@pytest.mark.parametrize(
    "draw",
    [
        lambda axis: None,
        lambda axis: axis.plot([0, 1], [np.nan, np.nan]),
        lambda axis: axis.loglog([1, 10], [0, -1]),
        lambda axis: axis.plot([], []),
        lambda axis: axis.axhline(1.0),
        lambda axis: (axis.plot([0, 1], [2, 3]), axis.set_ylim(10, 20)),
        lambda axis: axis.scatter([np.nan], [1.0]),
        lambda axis: axis.fill_between([1, 2], [np.nan] * 2, [np.nan] * 2),
    ],
)
def test_an_axis_without_data_is_found(draw):
    """The negative controls: nothing, what is no number, what lies elsewhere, a line across all."""
    figure, axis = two_panels()
    draw(axis)
    assert faults(figure) == ["axis 2 of 2 shows no data"]


@pytest.mark.parametrize("lines", [MOST_LINES, MOST_LINES + 1])
def test_lines_that_cannot_be_told_apart_are_found(lines):
    figure = new_figure()
    axis = figure.subplots()
    for k in range(lines):
        axis.plot([0, 1], [k, k], "-" if k < 10 else ":", color=f"C{k % 10}", label=f"arm {k}")
        axis.plot([0, 1], [k, k + 1], label=f"_hidden {k}")
    assert len(faults(figure)) == (lines > MOST_LINES)


def test_one_methods_lines_on_other_data_are_paler():
    """Drawn as plain lines they look alike, which is found: the negative control."""
    figure = new_figure()
    axis, look, x = figure.subplots(), Look("#D55E00", "-"), np.arange(1.0, 4.0)
    for k in range(4):
        band(axis, x, np.array([x + k, x + k + 0.1]), look, f"n {k}")
    assert faults(figure) == []
    for line in axis.lines:
        line.set_alpha(None)
    assert faults(figure) == ["axis 1 of 1 has lines that look alike"]


@pytest.mark.thorough
@pytest.mark.figures
def test_such_a_figure_is_not_published(tmp_path, monkeypatch):
    root = write_three_arms(tmp_path / "runs" / "mnist_logreg", seeds=2)
    empty = lambda *_: two_panels()[0]  # noqa: E731
    monkeypatch.setitem(cost.SECTION.figures, "ess_time", empty)
    with pytest.raises(StoreError, match="figure ess_time: axis 2 of 2 shows no data"):
        publish(root, tmp_path / "again")
    assert not (tmp_path / "again").exists()
