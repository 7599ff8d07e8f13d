"""One datum's likelihood, its bound, and a Firefly chain in the space of θ and z (Figure 1 of the paper).

A one-dimensional logistic regression, x = 1 and t = +1, under the prior N(0, PRIOR_SD²).
"""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.config.sampler.chain import RandomWalk
from flyrun.experiments.models import gaussian_prior, logistic
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.samplers.chain import random_walk
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.loop import empty_draws, run_chain
from flyrun.experiments.samplers.chain.targets.firefly import firefly

PRIOR_SD = 3.0
TIGHT_AT = 1.5
_STEP, _Q = 2.5, 0.5


class OneDatum(NamedTuple):
    """What Figure 1 draws. theta: (T,) positions of the chain.  bright: (T,) bool, its z."""

    theta: np.ndarray
    bright: np.ndarray


def likelihood(theta: np.ndarray) -> np.ndarray:
    """L(θ), (n,)."""
    return 1.0 / (1.0 + np.exp(-theta))


def bound(theta: np.ndarray) -> np.ndarray:
    """B(θ), (n,), tight at ±TIGHT_AT."""
    a, c = logistic.tight_at(np.array([TIGHT_AT])).curve[0]
    return np.exp((a * theta + 0.5) * theta + c)


def prior(theta: np.ndarray) -> np.ndarray:
    """Its density, (n,)."""
    return np.exp(-0.5 * (theta / PRIOR_SD) ** 2) / (PRIOR_SD * np.sqrt(2 * np.pi))


def chain(iterations: int, seed: int = 0) -> OneDatum:
    """Random-walk Metropolis on θ, Algorithm 2 on z."""
    model, features = logistic.bind(np.ones((1, 1)), np.ones(1))
    bounds = logistic.untuned_bound(model, features, TIGHT_AT)
    base = gaussian_prior.pseudo_prior(gaussian_prior.prior(PRIOR_SD), collapse(bounds, model, features))
    target = firefly(base, model, bounds, features, gradients=False)
    kernel = random_walk.build(RandomWalk(step=_STEP), 1)
    draws = empty_draws(iterations, 1, 0, 1)
    rng = np.random.Generator(np.random.PCG64(seed))
    run_chain(rng, target, kernel, implicit(_Q, 1), np.zeros(1), 0, 0, 1, draws)
    return OneDatum(draws.theta[:, 0], draws.bright == 1)
