"""What a small table's posterior is, by particles that go from its prior to it: no search for a mode.

Sequential Monte Carlo over powers of the likelihood (Del Moral, Doucet & Jasra 2006): each power leaves half
of the particles effective, and random walks as wide as the particles are move them. Particles that the prior
puts near each mode keep that mode's share. Walks at the end go on until they change no moment: two runs may
lag behind the posterior alike. Where two runs differ, as by a mode that few particles reach, all
of them shape a mixture, which importance sampling then adapts (Cappé et al. 2004).
"""

from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from flyrun.fitting.proposal import Mixture, Several
from flyrun.fitting.rows_posterior import Posterior

PARTICLES, MOST = 4_000, 32_000
ERROR = 0.06  # sds, or logs of an sd, by which two runs may differ
_MOVES = 12  # walks after each power
_EFFECTIVE = 0.5
_BLOCK, _BLOCKS, _STILL = 48, 40, 0.04  # walks at the end, how often at most, and what they may change
_PARTS, _ROUNDS, _DRAWS = 8, 12, 60_000  # of the mixture, and draws a round that adapts it
_LEAST_SHARE, _FEWEST = 0.05, 20.0  # of a part; effective draws a number, from which a part takes their shape


class Settled(NamedTuple):
    """x: (S, P) draws; error: largest difference of two runs."""

    x: np.ndarray
    error: float


def sample(posterior: Posterior, seed: int = 0, many: int = PARTICLES) -> Settled:
    """Particles of two runs that agree, of so many or more each, or of the longest two."""
    while True:
        one, two = (_run(posterior, many, np.random.default_rng([seed, k, many])) for k in range(2))
        both, change = _at_rest(posterior, np.concatenate([one, two]), np.random.default_rng([seed, 2, many]))
        error = max(_apart(both[:many], both[many:]), change)
        if error <= ERROR:
            return Settled(both, error)
        if many >= MOST:
            return min(Settled(both, error), _adapted(posterior, both, seed), key=lambda it: it.error)
        many *= 4


def again(posterior: Posterior, known: Settled) -> Settled:
    """A longer sample of other random numbers, whose error is also how far it is from the first."""
    other = sample(posterior, 1, MOST)
    return Settled(other.x, max(other.error, _apart(known.x, other.x)))


def _at_rest(posterior: Posterior, x: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Particles (S, P) after walks, and what the last of these changed."""
    change = np.inf
    for _ in range(_BLOCKS):
        before = x
        x, _ = _walked(posterior, x, posterior.log_likelihood(x), 1.0, _BLOCK, rng)
        if (change := _apart(before, x)) <= _STILL:
            break
    return x, change


def _walked(
    posterior: Posterior, x: np.ndarray, value: np.ndarray, power: float, moves: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Particles (S, P), whose log likelihoods are (S,), after walks at this power of the likelihood."""
    root = np.linalg.cholesky(np.cov(x.T) + 1e-12 * np.diag(x.var(axis=0)))
    before = posterior.log_prior(x)
    for move in range(moves):
        size = 2.4 / np.sqrt(x.shape[1]) * (0.1, 0.4, 1.0)[move % 3]
        there = x + size * rng.standard_normal(x.shape) @ root.T
        of_prior, likelihood = posterior.log_prior(there), posterior.log_likelihood(there)
        change = of_prior - before + power * (likelihood - value)
        taken = np.log(rng.random(len(x))) < np.where(np.isfinite(change), change, -np.inf)
        x = np.where(taken[:, None], there, x)
        value, before = np.where(taken, likelihood, value), np.where(taken, of_prior, before)
    return x, value


def _apart(one: np.ndarray, two: np.ndarray) -> float:
    """Largest difference of two samples, (S, P) each, in sds or logs of an sd."""
    sd = np.sqrt(0.5 * (one.var(axis=0) + two.var(axis=0)))
    shift = np.abs(one.mean(axis=0) - two.mean(axis=0)) / sd
    return float(max(shift.max(), np.abs(np.log(one.std(axis=0) / two.std(axis=0))).max()))


def _adapted(posterior: Posterior, x: np.ndarray, seed: int) -> Settled:
    """Draws by two mixtures, each adapted by draws of its own, from these particles (S, P)."""
    first = KMeans(_PARTS, n_init=1, random_state=seed).fit_predict((x - x.mean(axis=0)) / x.std(axis=0))
    parts = [_shaped(x[first == k], np.ones((first == k).sum())) for k in range(_PARTS)]
    samples = []
    for k in range(2):
        rng, found = np.random.default_rng([seed, k]), Several(tuple(parts), np.full(_PARTS, 1.0 / _PARTS))
        for _ in range(_ROUNDS):
            draws = found.draw(rng, _DRAWS)
            log_weight = posterior.log_density(draws) - found.log_density(draws)
            weight = np.exp(log_weight - np.nanmax(log_weight))
            weight = np.where(np.isfinite(weight), weight, 0.0)
            near = found.nearest(draws)
            own, share = list(found.parts), np.full(_PARTS, _LEAST_SHARE)
            for part in range(_PARTS):
                mine = weight[near == part]
                share[part] += mine.sum() / weight.sum()
                if mine.sum() ** 2 > _FEWEST * x.shape[1] * (mine**2).sum():
                    own[part] = _shaped(draws[near == part], mine)
            found = Several(tuple(own), share / share.sum())
        at = np.searchsorted(np.cumsum(weight) / weight.sum(), (rng.random() + np.arange(MOST)) / MOST)
        samples.append(draws[np.minimum(at, len(draws) - 1)])
    return Settled(np.concatenate(samples), _apart(*samples))


def _shaped(x: np.ndarray, weight: np.ndarray) -> Mixture:
    """A t about the mean of weighted draws (S, P), as wide as they are."""
    centre = weight @ x / weight.sum()
    away = x - centre
    shape = (away * (weight / weight.sum())[:, None]).T @ away
    return Mixture.of(centre, shape + 1e-9 * np.diag(1.0 + np.diag(shape)), 5.0, 3.0)


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
        x, value = _walked(posterior, x, value, power, _MOVES, rng)
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
