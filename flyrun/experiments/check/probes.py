"""Whether kernels make the posterior, where bits cannot tell: long chains against quadrature and counting.

Short chains of other bits agree within what luck allows, which hides a temperature of 2. Here nothing is
stored: 24 seeds of a posterior of two coordinates, or of four variables of a graph, see a mean that is a few
hundredths of an sd off.
"""

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.config.bound import Map
from flyrun.experiments.config.brightness import Implicit
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.config.sampler.chain import Hmc, RandomWalk
from flyrun.experiments.prove import posteriors
from flyrun.experiments.prove.posteriors import Truth
from flyrun.experiments.prove.prove import CHAINS, answers, by_seeds
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.environment import one_thread

LEVEL = 1e-4
"""Probability that any probe fails by luck alone."""
VISIBLE = 0.1
"""Sds that the mean must be off by, at most, to be seen: seeds that differ so much that it would not are
themselves an error, of a kernel that runs away or never moves."""
ITERATIONS, SWEEPS = 100_000, 20_000
_GRAPHS = ("gibbs", "min_gibbs", "mgpmh", "double_min", "poisson_gibbs")
_COMPARISONS = 45  # five moments for each probe of rows, six for each of a graph


def probes() -> dict[str, Arm]:
    """A random walk on all data; it and HMC under Firefly Monte Carlo, bounds lower than they could be."""
    (full, *_) = posteriors.arms(RandomWalk(), ITERATIONS).values()
    firefly = replace(full, bound=Map(slack=1.0), brightness=Implicit(q=0.3))
    return {"random walk": full, "Firefly": firefly, "Firefly-HMC": replace(firefly, sampler=Hmc())}


def graph_probes() -> dict[str, Arm]:
    """The exact updates of one variable, on an Ising model of 2 × 2 variables that lean to one another."""
    length = (f"protocol.iterations={SWEEPS}", "protocol.burn_in=100", "protocol.thin=1")
    overrides = ["dataset=lattice", "dataset.rows=2", "dataset.columns=2", "model=ising", "model.beta=0.4"]
    return {name: compose_job([*overrides, *length, f"sampler={name}"]).arms[0] for name in _GRAPHS}


class Enumerated:
    """A graph's distribution by counting its states. method: of an arm of the graph."""

    def __init__(self, method: Any):
        sizes = method.graph.bounds.sizes
        states = np.array(list(itertools.product(*map(range, sizes))), np.int32)
        self._energy = method.trace
        energy = self._energy(states)["log_posterior"]
        share = softmax(energy)
        self._mean = share @ energy
        self._sd = np.sqrt(share @ (energy - self._mean) ** 2)
        self.expected = share @ self.functions(states)

    def functions(self, states: np.ndarray) -> np.ndarray:
        """What draws, (m, n), are judged by, (m, n + 2): the energy in sds, the variables, its square."""
        z = (self._energy(states)["log_posterior"] - self._mean) / self._sd
        return np.column_stack([z, states, z**2])


def probe(say: Callable[[str], object]) -> int:
    """Run them; print what error each would have seen; how many fail."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix="flyrun-check-") as folder, one_thread():
        for name, arm in probes().items():
            bad += _told(say, name, arm, *judged(prepare(arm, Path(folder)), Truth(arm, Path(folder))))
        for name, arm in graph_probes().items():
            method = prepare(arm, Path(folder))
            bad += _told(say, name, arm, *judged(method, Enumerated(method)))
    return bad


def _told(say: Callable[[str], object], name: str, arm: Arm, passed: bool, figures: str) -> bool:
    """Print a verdict; whether the probe failed."""
    verdict = "right" if passed else "DIFFERS"
    say(f"{name}, {CHAINS} seeds of {arm.protocol.iterations:,}: {verdict}, {figures}")
    return not passed


def judged(method: Any, truth: Any) -> tuple[bool, str]:
    """Whether a method's moments are those of a Truth or Enumerated, and the figures."""
    level = LEVEL / _COMPARISONS
    p, seen = by_seeds(answers(method)[0], truth, level)
    figures = f"least p = {p:.1g} of {level:.0e}; a mean off by {seen:.2g} sd would show"
    return p >= level and seen < VISIBLE, figures
