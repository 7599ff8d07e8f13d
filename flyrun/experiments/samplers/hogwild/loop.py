"""The one loop of Hogwild Gibbs: K processors, each with its own copy of all variables (Algorithms 15, 16).

In a round every processor draws its block q(t, k) times, evenly from `sweeps` to `most_sweeps`, given its
copy, and posts it to the others. By the rule "bsp" all posts arrive before the next round. By "asynchronous"
they go to `receivers` of them, drawn anew each round, and a post is late with probability `late`, by 1 … most
rounds evenly; of two that have been on the way a later one wins. All is drawn from the chain's own stream, so
that a schedule is repeated with its seed, and stored with its state.

It is plain Gibbs sampling, and exact, where one processor owns all variables (Niu et al. 2011; Johnson,
Saunderson & Willsky 2013).
"""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.config.sampler.hogwild import Hogwild
from flyrun.experiments.samplers.method import Records
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.compiled import copy_into, inlined, outer_jit

LABEL = "Hogwild Gibbs"


class Team(NamedTuple):
    """What the processors hold between rounds, and how they are told."""

    owner: np.ndarray  # (n,) int64: the processor of each variable
    copies: np.ndarray  # (K, n): each processor's copy
    posted: np.ndarray  # (A, n): what was posted in the last A rounds, by round modulo A
    due: np.ndarray  # (A, K, K) int64: delays of these posts, from whom, to whom; -1: not sent
    newest: np.ndarray  # (K, K) int64: round of the newest post that has arrived, from whom, at whom
    clock: np.ndarray  # (1,) int64: rounds done


def team(owner: np.ndarray, start: np.ndarray, late: float, most: int) -> Team:
    """K processors that all begin with `start`, (n,)."""
    k, ages = int(owner.max()) + 1, most + 1 if late > 0 else 1
    copies, posted = np.tile(start, (k, 1)), np.tile(start, (ages, 1))
    due, newest = np.zeros((ages, k, k), np.int64), np.full((k, k), -1, np.int64)
    return Team(owner, copies, posted, due, newest, np.zeros(1, np.int64))


class Schedule(NamedTuple):
    """What processors do in a round, and whom they tell."""

    sweeps: int  # of their own variables, at least
    most_sweeps: int  # at most
    late: float  # probability that a post is late
    receivers: int  # of a post


def schedule(config: Hogwild) -> Schedule:
    """As the options say."""
    asynchronous, others = config.schedule == "asynchronous", config.processors - 1
    receivers = others if config.receivers is None else min(config.receivers, others)
    most_sweeps = max(config.sweeps, config.most_sweeps or 0)
    return Schedule(config.sweeps, most_sweeps, config.late if asynchronous else 0.0, receivers)


def lockstep(config: Hogwild) -> bool:
    """Whether every round is alike: as many sweeps of each, and all posts arrive."""
    return schedule(config) == (config.sweeps, config.sweeps, 0.0, config.processors - 1)


def blocks(n: int, processors: int) -> np.ndarray:
    """(n,) int64: the owner of each variable; each has a run of neighbouring numbers, sizes differ by 1."""
    return np.arange(n) * processors // n


def owners(config: Hogwild, n: int) -> np.ndarray:
    """(n,): the processor of each variable. ConfigError where either has none of the others."""
    if config.owners is not None:
        given = np.array(config.owners, np.int64)
        if len(given) != n or not np.array_equal(np.unique(given), np.arange(config.processors)):
            raise ConfigError(
                f"sampler.owners: must name one of the processors 0 to {config.processors - 1} for each of "
                f"{n} variables, and each at least once; for other splits choose sampler.owners=null"
            )
        return given
    if config.processors > n:
        raise ConfigError(
            f"sampler.processors={config.processors}: there are {n} variables, each of one processor; "
            f"choose sampler.processors={n} or fewer"
        )
    runs = blocks(n, config.processors)
    if config.partition == "random":
        return np.random.default_rng(0).permutation(runs)
    return runs if config.partition == "runs" else np.arange(n) % config.processors


def counts(config: Hogwild, owner: np.ndarray, itemsize: int) -> dict[str, float]:
    """Of a round, owner (n,): expected updates, in all and on the longest path; bytes sent and got."""
    plan, sizes = schedule(config), np.bincount(owner)
    each = np.arange(plan.sweeps, plan.most_sweeps + 1)
    busiest = np.unique(np.multiply.outer(each, sizes))
    at_most = np.prod([np.searchsorted(each, busiest // size, "right") for size in sizes], axis=0)
    chances = np.diff(at_most / float(len(each)) ** len(sizes), prepend=0.0)
    return {
        "workers": config.processors,
        "updates_per_round": each.mean() * len(owner),
        "critical_per_round": float(busiest @ chances),
        "bytes_per_worker": itemsize * len(owner) * (1 + plan.receivers) / config.processors
        if config.processors > 1
        else 0,
    }


def records(tallies: np.ndarray) -> Records:
    """What run_rounds tells, (m, 3), by name."""
    return dict(zip(("queries", "span", "staleness"), tallies.T, strict=True))


@inlined
def redraw(field, rng, x, i):
    """Draw variable i of x, (n,), anew in place, given the others."""


@outer_jit
def run_rounds(rng, field, team, plan, states, tallies):
    """states.shape[0] rounds in place, as the Schedule `plan` says.

    states: (m, n), what the owners hold.  tallies: (m, 3): updates, those of the busiest processor, and the
    mean age in rounds of what the others know.
    """
    owner, copies = team.owner, team.copies
    n_processors, n = copies.shape
    for m in range(states.shape[0]):
        t = team.clock[0]
        tallies[m] = 0.0
        for k in range(n_processors):
            x, updates, sweeps = copies[k], 0, plan.sweeps
            if plan.most_sweeps > sweeps:
                sweeps += int(rng.random() * (plan.most_sweeps - sweeps + 1))
            for _ in range(sweeps):
                for i in range(n):
                    if owner[i] == k:
                        redraw(field, rng, x, i)
                        updates += 1
            tallies[m, 0] += updates
            tallies[m, 1] = max(tallies[m, 1], updates)
        now = team.posted[t % team.posted.shape[0]]
        for i in range(n):
            now[i] = copies[owner[i], i]
        tallies[m, 2] = _exchange(rng, team, plan)
        copy_into(states[m], now)
        team.clock[0] = t + 1


@outer_jit
def _exchange(rng, team, plan):
    """Post what the owners hold, deliver what is due; the mean age in rounds of what the others know."""
    t, ages = team.clock[0], team.posted.shape[0]
    n_processors, n = team.copies.shape
    due, age = team.due[t % ages], 0
    for s in range(n_processors):
        wanted, others = plan.receivers, n_processors - 1
        for k in range(n_processors):
            due[s, k] = 0
            if ages > 1 and rng.random() < plan.late:
                due[s, k] = min(1 + int(rng.random() * (ages - 1)), ages - 1)
            if s != k and plan.receivers < n_processors - 1:
                if rng.random() * others < wanted:
                    wanted -= 1
                else:
                    due[s, k] = -1
                others -= 1
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
