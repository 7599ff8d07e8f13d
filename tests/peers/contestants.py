"""Who is compared: peers, our full-data arms, and Firefly Monte Carlo as in the paper and beyond."""

from __future__ import annotations

from collections.abc import Callable

from flyrun import config
from tests.peers import jax_peers, ours
from tests.peers.problems import Problem
from tests.peers.run import Run

Contestant = Callable[[Problem, int, float], Run]
_DEAREST = 300_000


def of(problem: Problem) -> dict[str, Contestant]:
    """Contestants by name; the reference first. The slowest are left out on the largest data."""
    n_data, n_params = problem.rows.shape
    light = n_data <= _DEAREST
    # beyond a few hundred thousand data a chunk of the peers' takes as long as the budget
    size = {"warm_up": 500, "chunk": 100} if light else {"warm_up": 200, "chunk": 25}
    rate = min(1.0, n_params / n_data)
    firefly = config.Map(), config.PerDatum(factor=1.0)
    found = {
        "nuts_dense": jax_peers.nuts(dense=True, **size),
        "nuts_diagonal": jax_peers.nuts(dense=False, **size),
        "hmcecs": jax_peers.energy_conserving_subsampling(**size),
        "blackjax_random_walk": jax_peers.blackjax_walk(),
        "blackjax_mala": jax_peers.blackjax_mala(),
        "regular_random_walk": ours.contestant(config.RandomWalk(), thin=10),
        "regular_mala": ours.contestant(config.Mala(), thin=10),
        "regular_hmc_by_bound": ours.contestant(config.Hmc(), burn_in=500),
        "regular_hmc_by_hessian": ours.contestant(config.Hmc(metric="hessian"), burn_in=500),
        "independence": ours.contestant(config.Independence(), burn_in=100),
        "firefly_random_walk": ours.contestant(
            config.RandomWalk(), config.Map(), config.Implicit(q=max(0.01, rate)), burn_in=10_000, thin=10
        ),
        "firefly_elliptical_slice": ours.contestant(config.EllipticalSlice(), *firefly, burn_in=1000),
        "firefly_hmc": ours.contestant(config.Hmc(n_steps=5), *firefly),
    }
    if not light:
        for name in ("blackjax_random_walk", "blackjax_mala", "regular_random_walk", "regular_mala"):
            del found[name]
    return found
