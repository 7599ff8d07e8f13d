"""The comparison's arithmetic, on draws whose effective size and error are known."""

from __future__ import annotations

import numpy as np

from tests.peers import judge
from tests.peers.run import joined


def _run(seed: int = 0, shift: float = 0.0):
    rng = np.random.default_rng(seed)
    draws = shift + np.array([1.0, 3.0]) * rng.standard_normal((4000, 2))
    return joined([(draws[:1000], np.full(1000, 5), 2.0), (draws[1000:], np.full(3000, 5), 2.0)], 1.5, 70.0)


def test_independent_draws_count_each():
    reference = np.zeros(2), np.array([1.0, 3.0])
    row = judge.row([_run(0), _run(1)], reference)
    assert abs(row["effective_draws"] - 8000) < 500
    assert abs(row["evaluations_per_ess"] - 5) < 0.5
    assert abs(row["ess_per_s"] - 1000) < 80
    assert row["mean_off_sds"] < 0.06
    assert row["sd_off"] < 0.04


def test_a_wrong_posterior_shows():
    row = judge.row([_run(shift=0.5)], (np.zeros(2), np.array([1.0, 1.0])))
    assert row["mean_off_sds"] > 0.4
    assert row["sd_off"] > 1.5


def test_seconds_run_on_over_chunks_and_errors_fall():
    run = _run()
    assert run.seconds[999] == 2.0
    assert run.seconds[-1] == 4.0
    assert run.evaluations[-1] == 20_000
    curve = judge.errors(run, (np.zeros(2), np.array([1.0, 3.0])))
    assert curve["error"][0] > 5 * curve["error"][-1]
