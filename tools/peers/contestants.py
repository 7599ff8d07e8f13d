"""Who is compared: peers, our full-data arms, and Firefly Monte Carlo as in the paper and beyond."""

from __future__ import annotations

from collections.abc import Callable

from flyrun.config.bound import Local, Map
from flyrun.config.brightness import Implicit, PerDatum
from flyrun.config.sampler.chain import EllipticalSlice, Hmc, Independence, Mala, RandomWalk
from tools.peers import blackjax_peers, numpyro_peers, ours
from tools.peers.problems import Problem
from tools.peers.run import FIREFLY as FIREFLY
from tools.peers.run import Run

Contestant = Callable[[Problem, int, float], Run]
BEST, NUTS, WALK = "firefly_hmc", "nuts_dense", "regular_random_walk"
#: the tuned NUTS of which × quotes the better: the one with more effective draws a second
BETTER_OF = (NUTS, "nuts_diagonal")
APPROXIMATE = ("hmcecs",)
_DEAREST = 300_000


def light(problem: Problem) -> bool:
    """Whether a pass over all data is quick enough for long warm-ups and several seeds."""
    return len(problem.rows) <= _DEAREST


def nuts(problem: Problem) -> Contestant:
    """The one whose long chains are the reference too."""
    return numpyro_peers.nuts(dense=True, warm_up=_warm_up(problem))


def of(problem: Problem) -> dict[str, Contestant]:
    """Contestants by name."""
    n_data, n_params = problem.rows.shape
    warm_up = _warm_up(problem)
    rate = min(1.0, n_params / n_data)
    burn_in = 2000 if light(problem) else 500
    firefly = Map(), PerDatum(factor=2.0)
    return {
        NUTS: nuts(problem),
        "nuts_diagonal": numpyro_peers.nuts(dense=False, warm_up=warm_up),
        "nuts_dense_model": numpyro_peers.nuts_of_a_model(warm_up),
        "hmcecs": numpyro_peers.energy_conserving_subsampling(warm_up),
        "blackjax_random_walk": blackjax_peers.walk(),
        "blackjax_mala": blackjax_peers.mala(),
        WALK: ours.contestant(RandomWalk(), burn_in=burn_in, thin=10),
        "regular_mala": ours.contestant(Mala(), burn_in=burn_in, thin=10),
        "regular_hmc_by_bound": ours.contestant(Hmc(), burn_in=500),
        "regular_hmc_by_hessian": ours.contestant(Hmc(metric="hessian"), burn_in=500),
        "independence": ours.contestant(Independence(), burn_in=100),
        "firefly_random_walk": ours.contestant(
            RandomWalk(), Map(), Implicit(q=max(0.01, rate)), burn_in=10_000, thin=10
        ),
        "firefly_elliptical_slice": ours.contestant(EllipticalSlice(), *firefly, burn_in=1000),
        "firefly_hmc_tight": ours.contestant(Hmc(n_steps=5), *firefly),
        "firefly_hmc_slack": ours.contestant(Hmc(n_steps=5), Map(slack=0.5), firefly[1]),
        BEST: ours.contestant(Hmc(), Local(), firefly[1]),
    }


def _warm_up(problem: Problem) -> int:
    return 500 if light(problem) else 200
