"""The compiled loop of every chain on a graph. A sweep is n updates of variables drawn uniformly."""

from typing import NamedTuple

import numpy as np

from flyrun.numerics.compiled import copy_into, outer_jit
from flyrun.samplers.gibbs.marginals import distance_to_uniform, note_change
from flyrun.samplers.gibbs.single_site import begin, resample_site


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


@outer_jit
def begin_chain(rng, graph, kernel, x):
    """Let the kernel work out what it keeps for its first position."""
    begin(kernel, rng, graph, x)


@outer_jit
def run_sweeps(rng, graph, kernel, x, marginals, clock, draws):
    """Run m = draws.error.shape[0] sweeps in place. clock: (1,) int64, updates done so far."""
    n = x.shape[0]
    memory = kernel.memory
    t = clock[0]
    for sweep in range(draws.error.shape[0]):
        nominal, actual = memory.nominal[0], memory.actual[0]
        acceptance, n_changed = 0.0, 0
        for _ in range(n):
            t += 1
            i = min(int(rng.random() * n), n - 1)
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
