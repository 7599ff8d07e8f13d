"""What a small table's posterior is, by particles that go from its prior to it: no search for a mode.

Sequential Monte Carlo over powers of the likelihood (Del Moral, Doucet & Jasra 2006): each power leaves half
of the particles effective, and random walks as wide as the particles are move them. Particles that the prior
puts near each mode keep that mode's share.
"""

from typing import NamedTuple

import numpy as np

from flyrun.fitting.rows_posterior import Posterior

PARTICLES, MOST = 4_000, 32_000
ERROR = 0.06  # sds, or logs of an sd, by which two runs may differ
_MOVES = 12  # walks after each power, and more until particles have moved so many sds in all
_EFFECTIVE = 0.5


class Settled(NamedTuple):
    """x: (S, P) draws; error: largest difference of two runs."""

    x: np.ndarray
    error: float


def sample(posterior: Posterior, seed: int = 0) -> Settled:
    """Particles of two runs that agree, or of the longest two."""
    many = PARTICLES
    while True:
        one, two = (_run(posterior, many, np.random.default_rng([seed, k, many])) for k in range(2))
        sd = np.sqrt(0.5 * (one.var(axis=0) + two.var(axis=0)))
        shift = np.abs(one.mean(axis=0) - two.mean(axis=0)) / sd
        error = float(max(shift.max(), np.abs(np.log(one.std(axis=0) / two.std(axis=0))).max()))
        if error <= ERROR or many >= MOST:
            return Settled(np.concatenate([one, two]), error)
        many *= 4


def _run(posterior: Posterior, many: int, rng: np.random.Generator) -> np.ndarray:
    """(many, P)."""
    prior = posterior.prior
    x = prior.mean + prior.sd * rng.standard_normal((many, len(prior.mean)))
    aux = [[one.prior.draw(rng) for _ in range(many)] for one in posterior.auxiliary]
    x = np.column_stack([x, *aux])
    value, power = posterior.log_likelihood(x), 0.0
    while power < 1.0:
        step = _step(value, 1.0 - power)
        weight = np.exp(step * (value - value.max()))
        at = (rng.random() + np.arange(many)) / many
        which = np.minimum(np.searchsorted(np.cumsum(weight) / weight.sum(), at), many - 1)
        x, value, power = x[which], value[which], power + step
        root = np.linalg.cholesky(np.cov(x.T) + 1e-12 * np.diag(x.var(axis=0)))
        before = posterior.log_prior(x)
        for move in range(_MOVES * (3 if power >= 1.0 else 1)):
            size = 2.4 / np.sqrt(x.shape[1]) * (0.1, 0.4, 1.0)[move % 3]
            there = x + size * rng.standard_normal(x.shape) @ root.T
            of_prior, likelihood = posterior.log_prior(there), posterior.log_likelihood(there)
            change = of_prior - before + power * (likelihood - value)
            taken = np.log(rng.random(many)) < np.where(np.isfinite(change), change, -np.inf)
            x = np.where(taken[:, None], there, x)
            value, before = np.where(taken, likelihood, value), np.where(taken, of_prior, before)
    return x


def _step(value: np.ndarray, most: float) -> float:
    """The largest step of the power that leaves enough particles effective."""

    def enough(step: float) -> bool:
        weight = np.exp(step * (value - value.max()))
        return bool(weight.sum() ** 2 / (weight**2).sum() >= _EFFECTIVE * len(value))

    if enough(most):
        return most
    low, high = 0.0, most
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return max(low, 1e-12)
