"""The comparison's arithmetic, on draws whose effective size and error are known."""

from __future__ import annotations

import numpy as np

from tools.peers import judge
from tools.peers.run import Start, joined

_TRUE = judge.Moments(np.zeros(2), np.array([1.0, 3.0]), np.zeros(2), np.zeros(2))


def _run(seed: int = 0, shift: float = 0.0):
    rng = np.random.default_rng(seed)
    draws = shift + np.array([1.0, 3.0]) * rng.standard_normal((4000, 2))
    parts = [(draws[:1000], np.full(1000, 5), 2.0), (draws[1000:], np.full(3000, 5), 2.0)]
    return joined(parts, Start(0.5, 1.0, 70.0))


def test_independent_draws_count_each():
    row = judge.row([_run(0), _run(1)], _TRUE)
    assert abs(row["effective_draws"] - 8000) < 500
    assert abs(row["evaluations_per_ess"] - 5) < 0.5
    assert abs(row["ess_per_s"] - 1000) < 80
    assert row["off_worst"] < 0.06
    assert row["sd_off"] < 0.04
    assert row["largest_z"] < judge.limit(2)


def test_errors_are_those_of_independent_normal_draws():
    found = judge.moments([_run(seed).draws for seed in range(4)])
    np.testing.assert_allclose(found.mean_error / found.sd, 1 / np.sqrt(16_000), rtol=0.1)
    np.testing.assert_allclose(found.sd_error, 1 / np.sqrt(2 * 16_000), rtol=0.1)


def test_a_wrong_mean_shows():
    row = judge.row([_run(shift=0.5)], _TRUE)
    assert row["off_worst"] > 0.4
    assert row["largest_z"] > judge.limit(2)


def test_a_wrong_sd_shows():
    wide = _TRUE.__class__(_TRUE.mean, 1.1 * _TRUE.sd, _TRUE.mean_error, _TRUE.sd_error)
    row = judge.row([_run()], wide)
    assert row["sd_off"] > 0.05
    assert row["largest_z"] > judge.limit(2)


def test_seconds_run_on_over_chunks_and_errors_fall():
    run = _run()
    assert run.seconds[999] == 2.0
    assert run.seconds[-1] == 4.0
    assert run.evaluations[-1] == 20_000
    curve = judge.errors(run, _TRUE)
    assert curve["error"][0] > 5 * curve["error"][-1]
