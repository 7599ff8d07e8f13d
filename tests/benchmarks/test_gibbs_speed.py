"""Updates on the paper's two graphs, marginals kept: plain Gibbs in seconds, the others in units of it.

Stretches of all samplers take turns on one core, so that what slows one slows all; the middle ratio counts.
`make bench_blas` shows the figures. On Potts: 10⁶ Gibbs updates in at most 2.0 s, MGPMH at L² at most 1.5 of
Gibbs, superposed MIN-Gibbs at Ψ² and DoubleMIN at (L², Ψ²) at most 2.5. On Ising a Gibbs update is one dot
product of 0.1 µs, below what the random numbers of an MGPMH update cost: those ratios are shown only. As
tests, with machines shared, three times as much is allowed.
"""

import statistics
import time

import numpy as np
import pytest

from flyrun.experiments.data.grid import gaussian_kernel
from flyrun.experiments.models.graphs.ising import ising
from flyrun.experiments.models.graphs.pair_factors import dense_pairs
from flyrun.experiments.models.graphs.potts import potts
from flyrun.experiments.samplers.gibbs.double_min import double_min
from flyrun.experiments.samplers.gibbs.gibbs import build as gibbs
from flyrun.experiments.samplers.gibbs.local_minibatch import local_minibatch
from flyrun.experiments.samplers.gibbs.loop import (
    begin_chain,
    empty_sweeps,
    no_marginals,
    run_sweeps,
    scan_of,
)
from flyrun.experiments.samplers.gibbs.mgpmh import mgpmh
from flyrun.experiments.samplers.gibbs.min_gibbs import min_gibbs

KERNEL = gaussian_kernel(20, 1.5)
N, SWEEPS, ROUNDS = 400, 60, 9
GRAPHS = {
    "ising": ising(dense_pairs(2.0 * KERNEL), N),
    "potts": potts(dense_pairs(4.6 * KERNEL), N, 10),
}
SAMPLERS = {
    "mgpmh at L²": (lambda graph, local, total: mgpmh(graph, local), 1.5),
    "min at Ψ²": (lambda graph, local, total: min_gibbs(graph, total), 2.5),
    "double at (L², Ψ²)": (lambda graph, local, total: double_min(graph, local, total), 2.5),
    "local of 160": (lambda graph, local, total: local_minibatch(graph, 160), None),
}


class Chain:
    """A sampler that has settled."""

    def __init__(self, graph, kernel):
        self.graph, self.kernel = graph, kernel
        self.rng, self.x = np.random.default_rng(1), np.zeros(N, np.int32)
        self.marginals, self.clock = no_marginals(N, graph.bounds.n_values), np.zeros(1, np.int64)
        begin_chain(self.rng, graph, kernel, self.x)
        self.seconds()

    def seconds(self):
        """Seconds of an update, over SWEEPS sweeps."""
        draws = empty_sweeps(SWEEPS, N)
        began = time.perf_counter()
        chain = self.rng, self.graph, self.kernel, self.x, self.marginals, self.clock
        run_sweeps(*chain, draws, scan_of(N))
        return (time.perf_counter() - began) / (SWEEPS * N)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_updates_against_plain_gibbs(name, benchmark):
    graph = GRAPHS[name]
    sizes = graph.bounds.largest_local**2, graph.bounds.total**2
    chains = {"gibbs": Chain(graph, gibbs(None, graph))}
    chains |= {sampler: Chain(graph, make(graph, *sizes)) for sampler, (make, _) in SAMPLERS.items()}
    rounds = []
    benchmark.pedantic(
        lambda: rounds.append({sampler: chain.seconds() for sampler, chain in chains.items()}),
        rounds=ROUNDS,
        warmup_rounds=1,
    )
    while len(rounds) < ROUNDS:  # benchmarks are off: one call was made
        rounds.append({sampler: chain.seconds() for sampler, chain in chains.items()})
    million = 1e6 * statistics.median(one["gibbs"] for one in rounds)
    benchmark.extra_info["gibbs_million_s"] = round(million, 3)
    print(f"\n{name}: gibbs {million:.2f} s for a million updates (asked for Potts: at most 2)")
    assert million < 6.0
    for sampler, (_, limit) in SAMPLERS.items():
        ratio = statistics.median(one[sampler] / one["gibbs"] for one in rounds)
        benchmark.extra_info[sampler] = round(ratio, 2)
        asked = f" (asked: at most {limit})" if limit and name == "potts" else ""
        print(f"{name}: {sampler} {ratio:.2f} of gibbs{asked}")
        if asked:
            assert ratio < 3.0 * limit
