"""The compiled loop of every chain on a graph. A sweep is n updates, of variables that a scan orders.

An update of one variable that leaves a law invariant does so in any order that does not depend on the state.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from flyrun.experiments.samplers.gibbs.single_site import begin, resample_site
from flyrun.ground.numerics.compiled import copy_into, jit, outer_jit

SCANS = ("random", "systematic", "permutation")


class Scan(NamedTuple):
    """The order of a sweep's updates: each variable drawn evenly, all in their order, or all in a new order.

    The systematic scan is Algorithm 2 of Angelino, Johnson & Adams 2016; He, De Sa, Mitliagkas & Ré 2016
    compare scans.
    """

    kind: int  # place in SCANS
    order: np.ndarray  # (n,) int64


def scan_of(n: int, kind: str = "random") -> Scan:
    """A scan of n variables, its kind one of SCANS."""
    return Scan(SCANS.index(kind), np.arange(n))


class Marginals(NamedTuple):
    """How often each variable had each value, over the states after updates 1 … t.

    A count of its current value is raised not at every update but when it changes, by the time since: an
    update costs O(1), whatever n and D.
    """

    counts: np.ndarray  # (n, D) int64, without the current stay of each variable at its value
    since: np.ndarray  # (n,) int64: the first of the states of that stay
    others: np.ndarray  # (n,) int64: sum of squared counts over the values other than the current one


def no_marginals(n: int, n_values: int) -> Marginals:
    """Before the first update."""
    return Marginals(np.zeros((n, n_values), np.int64), np.ones(n, np.int64), np.zeros(n, np.int64))


@jit
def note_change(marginals, i, before, after, t):
    """Variable i went from `before` to another value `after` in update t = 1, 2, …"""
    counts = marginals.counts[i]
    counts[before] += t - marginals.since[i]
    marginals.since[i] = t
    marginals.others[i] += counts[before] ** 2 - counts[after] ** 2


@jit
def distance_to_uniform(marginals, sizes, x, t):
    """Mean over variables of the ℓ2 distance between running marginal and uniform, after t updates. O(n)."""
    total = 0.0
    for i in range(x.shape[0]):
        stay = float(marginals.counts[i, x[i]] + t - marginals.since[i] + 1)
        square = (marginals.others[i] + stay * stay) / (float(t) * float(t))
        total += sqrt(max(0.0, square - 1.0 / sizes[i]))
    return total / x.shape[0]


class SweepDraws(NamedTuple):
    """What m sweeps leave behind."""

    states: np.ndarray  # (m, n) int32: positions after each sweep
    error: np.ndarray  # (m,): mean ℓ2 distance of the running marginals to uniform
    nominal: np.ndarray  # (m,): factor evaluations per update, nominal
    actual: np.ndarray  # (m,): factor evaluations per update, as done
    accepted: np.ndarray  # (m,): mean acceptance probability
    changed: np.ndarray  # (m,): share of the updates that changed their variable


def empty_sweeps(m: int, n: int) -> SweepDraws:
    """Room for m sweeps of n variables."""
    return SweepDraws(np.empty((m, n), np.int32), *(np.empty(m) for _ in range(5)))


def begin_chain(rng, graph, kernel, x):
    """Let the kernel work out what it keeps for its first position."""
    nothing = no_marginals(0, 0), np.zeros(1, np.int64), empty_sweeps(0, 0), scan_of(0)
    _run(rng, graph, kernel, x, *nothing, True)


def run_sweeps(rng, graph, kernel, x, marginals, clock, draws, scan):
    """Run m = draws.error.shape[0] sweeps in place. clock: (1,) int64, updates done so far."""
    _run(rng, graph, kernel, x, marginals, clock, draws, scan, False)


@jit
def permute(rng, order):
    """Fill order, (n,), with a uniform permutation, whatever it holds: Fisher & Yates, inside out."""
    for k in range(order.shape[0]):
        j = min(int(rng.random() * (k + 1)), k)
        order[k] = order[j]
        order[j] = k


@outer_jit
def _run(rng, graph, kernel, x, marginals, clock, draws, scan, begins):
    # beginning is part of this one function: what takes a graph and a kernel is costly to compile
    if begins:
        begin(kernel, rng, graph, x)
    n = x.shape[0]
    memory = kernel.memory
    t = clock[0]
    for sweep in range(draws.error.shape[0]):
        nominal, actual = memory.nominal[0], memory.actual[0]
        acceptance, n_changed = 0.0, 0
        if scan.kind == 2:
            permute(rng, scan.order)
        for k in range(n):
            t += 1
            i = scan.order[k] if scan.kind else min(int(rng.random() * n), n - 1)
            before = x[i]
            acceptance += resample_site(kernel, rng, graph, x, i)
            if x[i] != before:
                n_changed += 1
                note_change(marginals, i, before, x[i], t)
        copy_into(draws.states[sweep], x)
        draws.error[sweep] = distance_to_uniform(marginals, graph.bounds.sizes, x, t)
        draws.nominal[sweep] = (memory.nominal[0] - nominal) / n
        draws.actual[sweep] = (memory.actual[0] - actual) / n
        draws.accepted[sweep] = acceptance / n
        draws.changed[sweep] = n_changed / n
    clock[0] = t
