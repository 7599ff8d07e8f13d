"""Whether kernels make the posterior, where bits cannot tell: long chains against quadrature.

Short chains of other bits agree within what luck allows, which hides a temperature of 2. Here nothing is
stored: 24 seeds of a posterior of two coordinates see a mean that is a few hundredths of an sd off.
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flyrun.config.arm import Arm
from flyrun.config.bound import Map
from flyrun.config.brightness import Implicit
from flyrun.config.sampler.chain import Hmc, RandomWalk
from flyrun.prove import posteriors
from flyrun.prove.posteriors import Truth
from flyrun.prove.prove import CHAINS, answers, by_seeds
from flyrun.runner.environment import one_thread
from flyrun.samplers.method import prepare

LEVEL = 1e-4
"""Probability that any probe fails by luck alone."""
ITERATIONS = 100_000
_COMPARISONS = 15  # five moments for each probe


def probes() -> dict[str, Arm]:
    """A random walk on all data; it and HMC under Firefly Monte Carlo, bounds lower than they could be."""
    (full, *_) = posteriors.arms(RandomWalk(), ITERATIONS).values()
    firefly = replace(full, bound=Map(slack=1.0), brightness=Implicit(q=0.3))
    return {"random walk": full, "Firefly": firefly, "Firefly-HMC": replace(firefly, sampler=Hmc())}


def probe(say: Callable[[str], object]) -> int:
    """Run them; print what error each would have seen; how many fail."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix="flyrun-check-") as folder, one_thread():
        for name, arm in probes().items():
            passed, said = judged(prepare(arm, Path(folder)), Truth(arm, Path(folder)))
            bad += not passed
            say(f"{name}, {CHAINS} seeds of {ITERATIONS:,}: {'right' if passed else 'DIFFERS'}, {said}")
    return bad


def judged(method: Any, truth: Truth) -> tuple[bool, str]:
    """Whether a method's moments are those of quadrature, and the figures."""
    level = LEVEL / _COMPARISONS
    p, seen = by_seeds(answers(method)[0], truth, level)
    return p >= level, f"least p = {p:.1g} of {level:.0e}; a mean off by {seen:.2g} sd would show"
