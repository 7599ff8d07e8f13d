"""The one loop of Hogwild Gibbs: K processors, each with its own copy of all variables (Algorithms 15, 16).

In a round every processor draws its block `sweeps` times, given its copy, and posts it to the others. By
the rule "bsp" all posts arrive before the next round. By "asynchronous" a post is late with probability
`late`, by 1 … most rounds evenly; of two that have been on the way a later one wins. Delays are drawn from
the chain's own stream, so that a schedule is repeated with its seed, and stored with its state.

It is plain Gibbs sampling, and exact, where one processor owns all variables (Niu et al. 2011; Johnson,
Saunderson & Willsky 2013).
"""

from typing import NamedTuple

import numpy as np

from flyrun.config.sampler.hogwild import Hogwild
from flyrun.errors import ConfigError
from flyrun.numerics.compiled import copy_into, inlined, outer_jit

LABEL = "Hogwild Gibbs"


class Team(NamedTuple):
    """What the processors hold between rounds, and how they are told."""

    owner: np.ndarray  # (n,) int64: the processor of each variable
    copies: np.ndarray  # (K, n): each processor's copy
    posted: np.ndarray  # (A, n): what was posted in the last A rounds, by round modulo A
    due: np.ndarray  # (A, K, K) int64: delays of these posts, from whom, to whom
    newest: np.ndarray  # (K, K) int64: round of the newest post that has arrived, from whom, at whom
    clock: np.ndarray  # (1,) int64: rounds done


def team(owner: np.ndarray, start: np.ndarray, late: float, most: int) -> Team:
    """K processors that all begin with `start`, (n,)."""
    k, ages = int(owner.max()) + 1, most + 1 if late > 0 else 1
    copies, posted = np.tile(start, (k, 1)), np.tile(start, (ages, 1))
    due, newest = np.zeros((ages, k, k), np.int64), np.full((k, k), -1, np.int64)
    return Team(owner, copies, posted, due, newest, np.zeros(1, np.int64))


def blocks(n: int, processors: int) -> np.ndarray:
    """(n,) int64: the owner of each variable; each has a run of neighbouring numbers, sizes differ by 1."""
    return np.arange(n) * processors // n


def owners(config: Hogwild, n: int) -> np.ndarray:
    """(n,): the processor of each variable. ConfigError where there are more processors than variables."""
    if config.processors > n:
        raise ConfigError(
            f"sampler.processors={config.processors}: there are {n} variables, each of one processor; "
            f"choose sampler.processors={n} or fewer"
        )
    return blocks(n, config.processors)


def lateness(config: Hogwild) -> float:
    """The probability that a post is late."""
    return config.late if config.schedule == "asynchronous" else 0.0


def counts(config: Hogwild, owner: np.ndarray, itemsize: int) -> dict[str, float]:
    """Of a round: updates, in all and on the longest path, and bytes that a worker sends and is sent."""
    largest = int(np.bincount(owner).max())
    return {
        "workers": config.processors,
        "updates_per_round": config.sweeps * len(owner),
        "critical_per_round": config.sweeps * largest,
        "bytes_per_worker": itemsize * len(owner) if config.processors > 1 else 0,
    }


@inlined
def redraw(field, rng, x, i):
    """Draw variable i of x, (n,), anew in place, given the others."""


@outer_jit
def run_rounds(rng, field, team, sweeps, late, states, staleness):
    """states.shape[0] rounds in place. states: (m, n), what the owners hold; staleness: (m,), mean age."""
    owner, copies = team.owner, team.copies
    n_processors, n = copies.shape
    for m in range(states.shape[0]):
        t = team.clock[0]
        for k in range(n_processors):
            x = copies[k]
            for _ in range(sweeps):
                for i in range(n):
                    if owner[i] == k:
                        redraw(field, rng, x, i)
        now = team.posted[t % team.posted.shape[0]]
        for i in range(n):
            now[i] = copies[owner[i], i]
        staleness[m] = _exchange(rng, team, late)
        copy_into(states[m], now)
        team.clock[0] = t + 1


@outer_jit
def _exchange(rng, team, late):
    """Post what the owners hold, deliver what is due; the mean age in rounds of what the others know."""
    t, ages = team.clock[0], team.posted.shape[0]
    n_processors, n = team.copies.shape
    due, age = team.due[t % ages], 0
    for s in range(n_processors):
        for k in range(n_processors):
            due[s, k] = 0
            if ages > 1 and rng.random() < late:
                due[s, k] = min(1 + int(rng.random() * (ages - 1)), ages - 1)
    for s in range(n_processors):
        for k in range(n_processors):
            if s == k:
                continue
            for delay in range(min(ages, t + 1)):
                sent = t - delay
                if sent <= team.newest[s, k]:
                    break
                if team.due[sent % ages, s, k] == delay:
                    team.newest[s, k] = sent
                    for i in range(n):
                        if team.owner[i] == s:
                            team.copies[k, i] = team.posted[sent % ages, i]
                    break
            age += t - team.newest[s, k]
    return age / max(1, n_processors * (n_processors - 1))
