"""`make bench`: the ratio of paired seconds and its interval, and what a slower head is called."""

from contextlib import contextmanager

import numpy as np
import pytest

from tools import bench


def test_the_interval_of_a_ratio_holds_its_level():
    """Equal code called slower by the clock: of 1,000 pairs that share what the machine does, ten miss 1."""
    rng = np.random.default_rng(2)
    missed = 0
    for _ in range(1000):
        load = np.exp(0.5 * rng.standard_normal(12))  # of the machine, which both sides of a round meet
        base, head = load * np.exp(0.05 * rng.standard_normal((2, 12)))
        found = bench.ratio(list(base), list(head))
        missed += not found.low <= 1.0 <= found.high
    assert missed <= 22  # 10 ± 3.1
    slower = bench.ratio(list(base), list(1.6 * head))
    assert slower.low > 1.5
    assert slower.mean == pytest.approx(1.6 * bench.ratio(list(base), list(head)).mean)


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (3.0, 1)])
def test_only_a_head_that_is_surely_slower_fails(monkeypatch, tmp_path, capsys, factor, code):
    """A gate on seconds that noise can fail: a generous ratio, and the whole interval above it."""

    @contextmanager
    def checked_out(revision):
        yield tmp_path

    monkeypatch.setattr(bench, "checked_out", checked_out)
    times, noise = [1.0, 1.3, 0.9, 1.1], [1.02, 0.98, 0.99, 1.01]
    head = [factor * one * off for one, off in zip(times, noise, strict=True)]
    monkeypatch.setattr(bench, "rounds", lambda *_: (times, head))
    assert bench.main(["--fail-above", "1.5", "--rounds", "4"]) == code
    assert "head takes" in capsys.readouterr().out


def test_a_worker_that_ends_is_said_in_a_line(monkeypatch, tmp_path):
    """A base that cannot run the case is no base that takes no time."""
    monkeypatch.setattr(bench, "WORKER", "raise SystemExit('no such option')")
    with pytest.raises(SystemExit, match="a worker ended: no such option"):
        bench.rounds(["dataset=none"], tmp_path, 2, 0.1)
