"""What weighted draws come from: the exponential tail of the log of an sd."""

import numpy as np
import pytest
from scipy.integrate import quad

from flyrun.fitting.proposal import Mixture


def test_a_long_tail_to_the_left_is_drawn_from_and_without_it_missed_negative_control() -> None:
    """Of the log of an sd: its density rises as e^h there, which the curvature at the mode does not tell."""

    def log_density(x: np.ndarray) -> np.ndarray:
        return x[:, 1] - np.exp(4.0 * x[:, 1]) / 4.0 - 0.5 * x[:, 0] ** 2

    at, shape = np.zeros(2), np.diag([1.0, 0.25])
    far = quad(lambda h: np.exp(h - np.exp(4.0 * h) / 4.0), -30.0, -4.5)[0]
    share = far / quad(lambda h: np.exp(h - np.exp(4.0 * h) / 4.0), -30.0, 3.0)[0]
    effective = []
    for tails in (((1, 1.5),), ()):
        proposal = Mixture.of(at, shape, tails=tails)
        x, _ = proposal.draw(np.random.default_rng(0), 20_000)
        log_weight = log_density(x) - proposal.log_density(x)
        weights = np.exp(log_weight - log_weight.max())
        there = weights[x[:, 1] < -4.5]
        effective.append(there.sum() ** 2 / (there**2).sum())
        error = share / effective[-1] ** 0.5
        assert there.sum() / weights.sum() == pytest.approx(share, abs=4.0 * error)
    assert effective[0] > 4.0 * effective[1]


def test_a_proposal_with_tails_is_a_density() -> None:
    shape = np.array([[1.0, 0.3], [0.3, 0.5]])
    plain = Mixture.of(np.zeros(2), shape)
    tailed = Mixture.of(np.zeros(2), shape, tails=((0, 1.5), (1, 1.0)))
    x, wide = tailed.draw(np.random.default_rng(1), 20_000)
    ratio = np.exp(plain.log_density(x) - tailed.log_density(x))
    assert ratio.mean() == pytest.approx(1.0, abs=4.0 * ratio.std() / len(x) ** 0.5)
    assert 0.2 < wide.mean() < 0.3
