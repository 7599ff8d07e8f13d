"""Whether a chain leaves a posterior as it is: a few iterations from each exact draw, paired differences."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.config.protocol import Protocol
from flyrun.experiments.samplers.chain.brightness.base import resample
from flyrun.experiments.samplers.chain.targets.firefly import Firefly, darken
from flyrun.experiments.samplers.chain.targets.target import start
from flyrun.experiments.samplers.chain.update import tune, update
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.numerics.compiled import copy_into, implements, inlined, jit
from flyrun.ground.numerics.generator_argument import uncounted
from flyrun.tables.options import Table
from tests.exactness.posteriors import Posterior

FEWEST = 30
"""Differences that are not 0, from where on their mean is taken for normal."""


@inlined
def forget(target):
    """As before the first look: none bright."""


implements(forget, object)(lambda target: None)


@implements(forget, Firefly)
def _all_dark(target):
    for i in range(target.memory.partition.n_bright[0] - 1, -1, -1):
        darken(target, i)


@jit
def _ends(rng, target, kernel, brightness, theta, burn_in, starts, steps, ends):
    start(target, rng, theta)
    for i in range(burn_in):
        acceptance = update(kernel, rng, target, theta)
        tune(kernel, acceptance, i, burn_in)
        resample(brightness, rng, target, theta)
    for m in range(starts.shape[0]):
        copy_into(theta, starts[m])
        forget(target)
        start(target, rng, theta)
        for _ in range(steps):
            update(kernel, rng, target, theta)
            resample(brightness, rng, target, theta)
        copy_into(ends[m], theta)


def method_of(posterior: Posterior, folder: Path, patch: pytest.MonkeyPatch, **groups: Any) -> Any:
    """The chain of these options on a posterior."""
    patch.setattr("flyrun.experiments.data.load", lambda config: posterior.dataset())
    arm = Arm(
        experiment="",
        name="arm",
        dataset=Table(path="-", target="y", standardize=False),
        model=posterior.model,
        prior=posterior.prior,
        protocol=Protocol(iterations=4000, burn_in=1000, init="map"),
        **groups,
    )
    return prepare(arm, folder)


def scores(
    posterior: Posterior,
    parts: tuple[Any, Any, Any],
    count: int,
    seed: int,
    burn_in: int = 1500,
    steps: int = 10,
) -> tuple[dict[str, float], float]:
    """z of each functional's paired change, by name, and which share of the draws moved.

    parts: target, brightness and kernel, fresh. The chain is tuned for burn_in iterations before, from an
    exact draw on. A functional that changes for too few draws has no z.
    """
    rng = np.random.default_rng(seed)
    starts = posterior.draws(count + 1, rng)
    target, brightness, kernel = parts
    ends = np.empty((count, 2))
    _ends(
        uncounted(rng), target, kernel, brightness, starts[count].copy(), burn_in, starts[:count], steps, ends
    )
    moved = float((starts[:count] != ends).any(axis=1).mean())
    changes = {name: what(ends) - what(starts[:count]) for name, what in _functionals(posterior).items()}
    return {
        name: float(change.mean() / change.std() * np.sqrt(count))
        for name, change in changes.items()
        if np.count_nonzero(change) >= FEWEST
    }, moved


def _functionals(posterior: Posterior) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Means, squares, product and five quantiles, in sds; what no draw should do is bounded."""
    mean, sd = posterior.scales
    drawn = (posterior.draws(5000, np.random.default_rng(1)) - mean) / sd
    found: dict[str, Callable] = {"product": lambda theta: _bounded((theta - mean) / sd).prod(axis=1)}
    for j in range(2):
        found[f"mean {j}"] = lambda theta, j=j: _bounded((theta - mean) / sd)[:, j]
        found[f"square {j}"] = lambda theta, j=j: _bounded((theta - mean) / sd)[:, j] ** 2
        for share in (0.01, 0.1, 0.5, 0.9, 0.99):
            level = np.quantile(drawn[:, j], share)
            found[f"{share:.0%} {j}"] = lambda theta, j=j, level=level: (
                ((theta - mean) / sd)[:, j] <= level
            ).astype(float)
    return found


def _bounded(z: np.ndarray) -> np.ndarray:
    return np.clip(z, -1e3, 1e3)
